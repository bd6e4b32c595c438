"""Allgather and reduce: everyone's vector to everyone by Bruck's doubling, then added up in rank order."""

from collections.abc import Iterator

from mpicoll.schedule import Recv, Round, Send, algorithm


@algorithm("allreduce", ordered=True, slots=lambda size: size, source="Open MPI 6; Bruck et al., IEEE TPDS 8(11), 1997")
def allgather_reduce(rank: int, size: int) -> Iterator[Round]:
    """Hand the first 1, 2, 4, ... vectors that are held as many ranks back, and add when all are there.

    ceil(log2 p) rounds for every p, p-1 vectors sent and p-1 reductions on each rank, room for p vectors: for a few
    bytes on a number of ranks that is no power of two. Rank order is kept.
    """
    if size == 1:
        return
    yield Round([Send(rank, [0])], [Recv(rank, [1 + rank])])
    held = 1
    while held < size:
        count = min(held, size - held)
        yield Round(
            [Send((rank - held) % size, [1 + (rank + i) % size for i in range(count)])],
            [Recv((rank + held) % size, [1 + (rank + held + i) % size for i in range(count)])],
        )
        held *= 2
    yield Round([Send(rank, [size])], [Recv(rank, [0])])
    for earlier in reversed(range(1, size)):
        yield Round([Send(rank, [earlier])], [Recv(rank, [0], reduce=True)])
