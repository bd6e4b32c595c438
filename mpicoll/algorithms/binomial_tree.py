"""Binomial tree: whole vectors down (and up) a tree of depth log2 p (MPICH and Open MPI's small bcast and reduce)."""

from collections.abc import Iterator

from mpicoll.schedule import IDLE, Recv, Round, Send, algorithm


@algorithm("bcast", ordered=True, source="folklore; Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005")
def binomial_tree(rank: int, size: int, root: int) -> Iterator[Round]:
    """Every rank that has the vector sends it half as far each round.

    Bcast: ceil(log2 p) rounds and vectors on the critical path; the allreduce (reduce to 0, then bcast) twice that.
    """
    place = (rank - root) % size
    distance = 1 << (size - 1).bit_length()
    while distance := distance // 2:
        step = place % (2 * distance)
        if step == 0 and place + distance < size:
            yield Round([Send((rank + distance) % size, [0])])
        elif step == distance:
            yield Round([], [Recv((rank - distance) % size, [0])])
        else:
            yield IDLE
