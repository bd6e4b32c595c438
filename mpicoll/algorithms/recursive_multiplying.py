"""Recursive multiplying: recursive doubling with groups of more than two (Ruefenacht, Bull and Booth 2017)."""

from collections.abc import Iterator

from mpicoll.schedule import Recv, Round, Send, algorithm, factorise, factors

SOURCE = "Ruefenacht, Bull and Booth, Parallel Computing 69, 2017"


@algorithm("allreduce", ordered=True, parameter=factors, source=SOURCE)
def recursive_multiplying(rank: int, size: int, factors: tuple[int, ...] = ()) -> Iterator[Round]:
    """Exchange the whole vector with the others of a group, the ranks next to each other first.

    A round for each factor k of p, of k-1 messages and vectors; by default the factors are 4 and primes. For small
    vectors where several messages travel side by side.
    """
    distance = 1
    for k in factorise(size, factors):
        place = rank // distance % k
        others = [rank + ((place + step) % k - place) * distance for step in range(1, k)]
        yield Round([Send(peer, [0]) for peer in others], [Recv(peer, [0], reduce=True) for peer in reversed(others)])
        distance *= k
