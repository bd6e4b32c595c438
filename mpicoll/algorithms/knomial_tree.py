"""K-nomial tree: k-1 children a level, for networks on which messages are cheap to start and slow to arrive."""

from collections.abc import Iterator

from mpicoll.schedule import IDLE, Recv, Round, Send, algorithm, radix


@algorithm("bcast", ordered=True, parameter=radix, source="MPICH; Open MPI")
def knomial_tree(rank: int, size: int, root: int, radix: int = 4) -> Iterator[Round]:
    """Hand the vector to the next k-1 ranks that are a power of k away; the largest power first.

    Bcast: ceil(log_k p) rounds of up to k-1 messages. Rank order is kept.
    """
    place = (rank - root) % size
    distance = 1
    while distance < size:
        distance *= radix
    while distance := distance // radix:
        digit, rest = divmod(place % (radix * distance), distance)
        if rest == 0 and digit == 0:
            reached = [j * distance for j in range(1, radix) if place + j * distance < size]
            yield Round([Send((rank + step) % size, [0]) for step in reached])
        elif rest == 0:
            yield Round([], [Recv((rank - digit * distance) % size, [0])])
        else:
            yield IDLE
