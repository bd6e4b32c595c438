"""Direct: everyone to everyone at once, chunk by chunk; as an allreduce also called two-shot."""

from collections.abc import Iterator

from mpicoll.schedule import Recv, Round, Send, algorithm


@algorithm("allgather", ordered=True)
def direct(rank: int, size: int) -> Iterator[Round]:
    """One round in which each rank sends its chunk to all others.

    Allgather: one round of p-1 messages, (p-1)/p of the vector sent by each rank; the allreduce takes two rounds and
    twice the bytes, and its owners add the pieces in rank order. Room for p-1 chunks. Made for fully wired nodes.
    """
    if size > 1:
        others = [(rank + step) % size for step in range(1, size)]
        yield Round([Send(peer, [rank]) for peer in others], [Recv(peer, [peer]) for peer in reversed(others)])
