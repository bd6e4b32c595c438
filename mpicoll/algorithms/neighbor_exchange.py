"""Neighbor exchange: two neighbours in turn, two chunks at a time (Chen et al., CLUSTER 2005)."""

from collections.abc import Iterator

from mpicoll.schedule import Recv, Round, Send, algorithm


def even(size: int) -> bool:
    """Whether ranks pair up."""
    return size % 2 == 0 or size == 1


@algorithm("allgather", fits=even, source="Chen, Zhang, Zhang and Yuan, CLUSTER 2005")
def neighbor_exchange(rank: int, size: int) -> Iterator[Round]:
    """Exchange chunks with one neighbour, then what came last with the other, in turn.

    Allgather: p/2 rounds, (p-1)/p of the vector sent; even sizes, others fold. Not in order.
    """
    if size == 1:
        return
    side = 1 if rank % 2 == 0 else -1  # the partner in the own pair
    yield Round([Send(rank + side, [rank])], [Recv(rank + side, [rank + side])])
    pairs, pair = size // 2, rank // 2
    sent = pair
    for step in range(1, pairs):
        away = step % 2 == 1  # towards the neighbour outside the pair
        got = (pair + (-side if away else side) * ((step + 1) // 2)) % pairs
        peer = (rank - side if away else rank + side) % size
        yield Round([Send(peer, [2 * sent, 2 * sent + 1])], [Recv(peer, [2 * got, 2 * got + 1])])
        sent = got
