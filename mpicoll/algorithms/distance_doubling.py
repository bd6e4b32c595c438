"""Distance doubling: the textbook's allgather by recursive doubling; as an allreduce also called halving-doubling."""

from collections.abc import Iterator

from mpicoll.schedule import Recv, Round, Send, algorithm, power_of_two


@algorithm(
    "allgather",
    allreduce="halving_doubling",
    fits=power_of_two,
    source="Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005; Gloo",
)
def distance_doubling(rank: int, size: int) -> Iterator[Round]:
    """Swap all that is held with ranks 1, 2, 4, ... away: the large messages go the long ways.

    Allgather: log2 p rounds, (p-1)/p of the vector sent; chunk r starts on rank r. The reversal meets the farthest rank
    first, so that rank order is not kept. Other sizes fold.
    """
    distance = 1
    while distance < size:
        first = rank & -distance
        other = first ^ distance
        yield Round(
            [Send(rank ^ distance, range(first, first + distance))],
            [Recv(rank ^ distance, range(other, other + distance))],
        )
        distance *= 2
