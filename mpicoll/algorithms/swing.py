"""Swing: partners 1, -1, 3, -5, 11, ... away, short ways on a torus (De Sensi et al., NSDI 2024)."""

from collections.abc import Iterator
from functools import lru_cache

from mpicoll.schedule import Recv, Round, Send, algorithm


def even(size: int) -> bool:
    """Whether even ranks can meet odd ones."""
    return size % 2 == 0 or size == 1


def partner(rank: int, step: int, size: int) -> int:
    """Whom a rank meets in a step: an involution for even sizes."""
    distance = (1 - (-2) ** (step + 1)) // 3
    return (rank + distance if rank % 2 == 0 else rank - distance) % size


@lru_cache(maxsize=65536)
def held(rank: int, steps: tuple[int, ...], size: int) -> frozenset[int]:
    """The ranks whose chunks have come to ``rank`` after these steps."""
    if not steps:
        return frozenset([rank])
    *before, step = steps
    return held(rank, tuple(before), size) | held(partner(rank, step, size), tuple(before), size)


@algorithm("allgather", fits=even, source="De Sensi, Bonato, Saam and Hoefler, NSDI 2024")
def swing(rank: int, size: int) -> Iterator[Round]:
    """Swap with the farthest partner first, sending what it does not have yet.

    Allgather: ceil(log2 p) rounds, (p-1)/p of the vector sent; even sizes, others fold. Not in order.
    Its latency form, whole vectors with the nearest partner first, is left out: what ranks hold then overlaps without
    being equal, and from 8 ranks on their sums differ in bits.
    """
    steps: tuple[int, ...] = ()
    for step in reversed(range((size - 1).bit_length())):
        peer = partner(rank, step, size)
        own, theirs = held(rank, steps, size), held(peer, steps, size)
        if own != theirs:
            yield Round([Send(peer, sorted(own - theirs))], [Recv(peer, sorted(theirs - own))])
        steps = (*steps, step)
