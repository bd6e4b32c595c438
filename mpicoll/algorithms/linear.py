"""Linear: everything to the root, one rank after the other, and back (Open MPI's basic_linear)."""

from collections.abc import Iterator

from mpicoll.schedule import IDLE, Recv, Round, Send, algorithm


@algorithm("bcast", ordered=True)
def linear(rank: int, size: int, root: int) -> Iterator[Round]:
    """The root sends the vector to each rank, the farthest first.

    Bcast: p-1 rounds, p-1 vectors sent by the root. The reversal adds 0, 1, 2, ... in that order with room for one
    vector. Good for two or three ranks.
    """
    place = (rank - root) % size
    for distance in range(size - 1, 0, -1):
        if place == 0:
            yield Round([Send((rank + distance) % size, [0])])
        elif place == distance:
            yield Round([], [Recv(root, [0])])
        else:
            yield IDLE
