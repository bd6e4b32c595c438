"""What stands behind the colon of a name: ``knomial_tree:4``, ``radix_k:2x3``. No comma, nothing a shell would eat."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

Arguments = dict[str, object]


def radix(text: str) -> Arguments:
    """A radix of at least 2. ValueError."""
    if not text.isdecimal() or int(text) < 2:
        raise ValueError(f"radix {text!r}: give a number of at least 2")
    return {"radix": int(text)}


def factors(text: str) -> Arguments:
    """Factors of the number of ranks, such as 2x3x4. ValueError."""
    parts = text.split("x")
    if not all(part.isdecimal() and int(part) >= 2 for part in parts):
        raise ValueError(f"factors {text!r}: give numbers of at least 2, such as 2x3x4")
    return {"factors": tuple(map(int, parts))}


def levels(text: str) -> Arguments:
    """The algorithms inside the nodes and across them, such as direct+ring. ValueError."""
    inside, plus, across = text.partition("+")
    if not (inside and plus and across):
        raise ValueError(f"levels {text!r}: give two algorithms, such as direct+ring")
    return {"inside": inside, "across": across}


def groups(nodes: Sequence[int]) -> list[list[int]]:
    """The ranks of each node, in the order of the nodes' first ranks."""
    members: dict[int, list[int]] = {}
    for rank, node in enumerate(nodes):
        members.setdefault(node, []).append(rank)
    return list(members.values())


def factorise(size: int, wanted: tuple[int, ...] = ()) -> tuple[int, ...]:
    """The factors that are wanted, or those of size: 4 as often as it goes, then primes. ValueError: another product.

    >>> factorise(24)
    (4, 2, 3)
    """
    if wanted:
        if prod(wanted) != size:
            raise ValueError(f"factors {'x'.join(map(str, wanted))} make {prod(wanted)}, and there are {size} ranks")
        return wanted
    found, rest = [], size
    for k in (4, 2, *range(3, size + 1, 2)):
        while rest % k == 0:
            found.append(k)
            rest //= k
        if rest == 1:
            break
    return tuple(found)
