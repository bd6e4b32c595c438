"""Hash-consed expression trees over the leaves 0..n-1: equal trees are one integer."""

from __future__ import annotations


class Trees:
    """Leaf i is the integer i; ``join`` makes larger trees. Each knows its leaves without being walked."""

    def __init__(self, leaves: int) -> None:
        self.leaves = leaves
        self._joined: dict[tuple[int, int], int] = {}
        self._mask = [1 << i for i in range(leaves)]  # which leaves
        self._twice = [0] * leaves  # leaves that occur more than once
        self._span: list[tuple[int, int] | None] = [(i, i + 1) for i in range(leaves)]  # when consecutive and in order

    def join(self, left: int, right: int) -> int:
        """The tree (left, right); O(1) when it is known."""
        known = self._joined.get((left, right))
        if known is not None:
            return known
        a, b = self._span[left], self._span[right]
        self._span.append((a[0], b[1]) if a and b and a[1] == b[0] else None)
        ml, mr = self._mask[left], self._mask[right]
        self._mask.append(ml | mr)
        self._twice.append(self._twice[left] | self._twice[right] | (ml & mr))
        tree = self._joined[left, right] = len(self._mask) - 1
        return tree

    def in_order(self, tree: int) -> bool:
        """Whether the leaves are 0, 1, ..., n-1 from left to right."""
        return self._span[tree] == (0, self.leaves)

    def fault(self, tree: int) -> str:
        """Empty when every leaf occurs exactly once, else which do not."""
        if self._mask[tree] == (1 << self.leaves) - 1 and not self._twice[tree]:
            return ""
        missing = [i for i in range(self.leaves) if not self._mask[tree] >> i & 1]
        twice = [i for i in range(self.leaves) if self._twice[tree] >> i & 1]
        said = [f"lacks the part of rank {', '.join(map(str, missing))}"] if missing else []
        said += [f"has the part of rank {', '.join(map(str, twice))} more than once"] if twice else []
        return " and ".join(said)
