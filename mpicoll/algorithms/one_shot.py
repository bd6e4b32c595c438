"""One-shot: everyone sends the whole vector to everyone and adds in rank order."""

from collections.abc import Iterator

from mpicoll.schedule import Recv, Round, Send, algorithm


@algorithm("allreduce", ordered=True)
def one_shot(rank: int, size: int) -> Iterator[Round]:
    """One round of p-1 messages; each rank folds what came, in rank order.

    p-1 vectors sent and p-1 reductions on each rank, room for p-1 vectors: for a few bytes where messages go side by
    side.
    """
    if size > 1:
        others = [(rank + step) % size for step in range(1, size)]
        yield Round([Send(peer, [0]) for peer in others], [Recv(peer, [0], reduce=True) for peer in reversed(others)])
