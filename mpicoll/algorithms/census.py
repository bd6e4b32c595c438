"""Census: the fewest rounds for any number of ranks, and other bits on each of them (Bar-Noy et al. 1993)."""

from collections.abc import Iterator

from mpicoll.schedule import Recv, Round, Send, algorithm

SOURCE = "Bar-Noy, Kipnis and Schieber, Parallel Processing Letters 3(1), 1993"
OWN, BEFORE, CAME = 0, 1, 2  # the ranks up to the own, the ranks before the own, what a message brought


@algorithm("allreduce", slots=lambda size: 2, identical=False, source=SOURCE)
def census(rank: int, size: int) -> Iterator[Round]:
    """Double the number of ranks before the own that are summed up, as the bits of p-1 say.

    ceil(log2 p) rounds and vectors sent, for every p. Each rank sums in its own cyclic order, so that the bits of the
    results differ between ranks: for integers, MIN and MAX; never chosen by itself.
    """
    width = 0  # ranks before the own in BEFORE
    for bit in bin(size - 1)[2:] if size > 1 else "":
        distance, sent = (width, BEFORE) if bit == "0" else (width + 1, OWN)
        yield Round([Send((rank + distance) % size, [sent])], [Recv((rank - distance) % size, [CAME])])
        came = Send(rank, [CAME])
        yield Round([came, came], [Recv(rank, [BEFORE], reduce=width > 0), Recv(rank, [OWN], reduce=True)])
        width += distance
