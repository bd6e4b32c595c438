"""Bruck's allgather: doubling what is held, any size (Bruck et al., TPDS 8(11), 1997)."""

from collections.abc import Iterator

from mpicoll.schedule import Recv, Round, Send, algorithm, cyclic


@algorithm("allgather", source="Bruck, Ho, Kipnis, Upfal and Weathersby, IEEE TPDS 8(11), 1997")
def bruck(rank: int, size: int) -> Iterator[Round]:
    """Hand the first 1, 2, 4, ... chunks that are held as many ranks back.

    Allgather: ceil(log2 p) rounds and (p-1)/p of the vector sent, for every p. Chunks keep their place here, so that
    the rotation of the original at its end falls away. Not in order.
    """
    held = 1
    while held < size:
        count = min(held, size - held)
        yield Round(
            [Send((rank - held) % size, cyclic(rank, count, size))],
            [Recv((rank + held) % size, cyclic(rank + held, count, size))],
        )
        held *= 2
