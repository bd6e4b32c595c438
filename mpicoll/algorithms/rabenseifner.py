"""Recursive halving and doubling, whose product is Rabenseifner's allreduce (ICCS 2004), in rank order."""

from collections.abc import Iterator

from mpicoll.schedule import Recv, Round, Send, algorithm, power_of_two


def bitreverse(rank: int, size: int) -> int:
    """The chunk that a rank owns: the log2(size) bits of its number, read backwards."""
    bits = size.bit_length() - 1
    return int(f"{rank:0{bits}b}"[::-1], 2) if bits else 0


@algorithm(
    "allgather",
    allreduce="rabenseifner",
    ordered=True,
    fits=power_of_two,
    home=bitreverse,
    source="Rabenseifner, ICCS 2004; Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005",
)
def recursive_halving(rank: int, size: int) -> Iterator[Round]:
    """Swap all that is held with a partner half as far each round, the far one first.

    Allgather: log2 p rounds, (p-1)/p of the vector sent by each rank. Chunk bitreverse(r) starts on rank r, so that
    what a rank holds is always one range; the reversal then meets the nearest rank first and keeps rank order: the
    allreduce has the very tree of recursive doubling. Other sizes fold: two rounds and one vector more.
    """
    first, width, distance = bitreverse(rank, size), 1, size // 2
    while distance:
        other = first ^ width
        yield Round(
            [Send(rank ^ distance, range(first, first + width))],
            [Recv(rank ^ distance, range(other, other + width))],
        )
        first, width, distance = min(first, other), width * 2, distance // 2
