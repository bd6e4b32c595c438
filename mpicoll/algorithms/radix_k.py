"""Radix-k: recursive halving with groups of more than two; between direct (one group) and Rabenseifner's."""

from collections.abc import Iterator

from mpicoll.schedule import Recv, Round, Send, algorithm, factorise, factors


def reversed_digits(rank: int, size: int, factors: tuple[int, ...] = ()) -> int:
    """The chunk that a rank owns: the digits of its number in the mixed radix, read backwards."""
    chunk = 0
    for k in factorise(size, factors):
        rank, digit = divmod(rank, k)
        chunk = chunk * k + digit
    return chunk


@algorithm("allgather", ordered=True, home=reversed_digits, parameter=factors, source="MPICH")
def radix_k(rank: int, size: int, factors: tuple[int, ...] = ()) -> Iterator[Round]:
    """Swap all that is held with the others of a group, the farthest ranks first.

    Allgather: a round for each factor k of p, of k-1 messages, (p-1)/p of the vector sent; by default the factors are 4
    and primes. Rank order is kept.
    """
    first, width, distance = reversed_digits(rank, size, factors), 1, size
    for k in reversed(factorise(size, factors)):
        distance //= k
        place = rank // distance % k
        away = [(place + step) % k - place for step in range(1, k)]  # each turn pairs everyone with someone else
        yield Round(
            [Send(rank + j * distance, range(first, first + width)) for j in away],
            [Recv(rank + j * distance, range(first + j * width, first + j * width + width)) for j in reversed(away)],
        )
        first, width = first - place * width, width * k
