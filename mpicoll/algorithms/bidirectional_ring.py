"""Ring both ways at once: each chunk goes half round the ring in each direction."""

from collections.abc import Iterator

from mpicoll.schedule import Recv, Round, Send, algorithm


@algorithm("allgather", source="folklore; used on tori, where a rank has a link each way")
def bidirectional_ring(rank: int, size: int) -> Iterator[Round]:
    """Hand what came from one neighbour to the other, both ways in one round.

    Allgather: ceil((p-1)/2) rounds of two messages (one in the last round of even sizes), (p-1)/p of the vector sent.
    Half the rounds of the ring where a rank can send two messages at a time; otherwise the same.
    """
    after, before = (rank + 1) % size, (rank - 1) % size
    for step in range(size // 2):
        sends, recvs = [Send(after, [(rank - step) % size])], [Recv(before, [(before - step) % size])]
        if 2 * step + 2 < size:
            sends.append(Send(before, [(rank + step) % size]))
            recvs.append(Recv(after, [(after + step) % size]))
        yield Round(sends, recvs)
