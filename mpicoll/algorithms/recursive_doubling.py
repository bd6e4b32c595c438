"""Recursive doubling: whole vectors, fewest rounds (hypercube exchange; Thakur, Rabenseifner and Gropp 2005)."""

from collections.abc import Iterator

from mpicoll.schedule import Recv, Round, Send, algorithm, power_of_two


@algorithm("allreduce", ordered=True, fits=power_of_two, source="Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005")
def recursive_doubling(rank: int, size: int) -> Iterator[Round]:
    """Exchange the whole vector with ranks 1, 2, 4, ... away.

    log2 p rounds and as many vectors sent by each rank; two rounds and one vector more where p is no power of two.
    """
    distance = 1
    while distance < size:
        peer = rank ^ distance
        yield Round([Send(peer, [0])], [Recv(peer, [0], reduce=True)])
        distance *= 2
