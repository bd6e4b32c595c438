"""Ring: neighbours only, optimal bytes, any size (Patarasuk and Yuan, JPDC 69(2), 2009)."""

from collections.abc import Iterator

from mpicoll.schedule import Recv, Round, Send, algorithm


@algorithm("allgather", pipelined=True, source="Patarasuk and Yuan, JPDC 69(2), 2009")
def ring(rank: int, size: int) -> Iterator[Round]:
    """Each chunk travels once round the ring, one hop a round.

    Allgather: p-1 rounds, (p-1)/p of the vector sent by each rank; the allreduce takes twice that. Chunk c is summed
    in the order c+1, c+2, ..., c (cyclic), so an element's bits depend on its position.
    """
    after, before = (rank + 1) % size, (rank - 1) % size
    for step in range(size - 1):
        yield Round(
            [Send(after, [(rank - step) % size])],
            [Recv(before, [(before - step) % size])],
        )
