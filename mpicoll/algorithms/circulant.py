"""Circulant: the fewest rounds and the fewest bytes at once, for any size (Träff 2024)."""

from collections.abc import Iterator

from mpicoll.schedule import Recv, Round, Send, algorithm, cyclic


@algorithm("allgather", source="Träff, Optimal non-pipelined reduce-scatter and allreduce, TU Wien, 2024")
def circulant(rank: int, size: int) -> Iterator[Round]:
    """Halve the size, rounding up, and hand what is held that far back; the last distance first.

    Allgather: ceil(log2 p) rounds and (p-1)/p of the vector sent, for every p; the allreduce twice that. Not in order.
    """
    skips = [size]
    while skips[-1] > 1:
        skips.append((skips[-1] + 1) // 2)
    for wide, skip in zip(skips[-2::-1], skips[:0:-1]):
        count = wide - skip
        yield Round(
            [Send((rank - skip) % size, cyclic(rank, count, size))],
            [Recv((rank + skip) % size, cyclic(rank + skip, count, size))],
        )
