"""Dual root: two trees of half the ranks each, whose roots swap; up and down at once when in segments (Träff 2021)."""

from collections.abc import Sequence

from mpicoll.schedule import Schedule, algorithm, find


@algorithm("levels", ordered=True, pipelined=True, source="Träff, arXiv 2109.12626, 2021")
def dual_root(size: int, nodes: Sequence[int]) -> Schedule:
    """Reduce each half of the ranks to its root, swap between the roots, hand the sum down.

    Allreduce: 2 floor(log2 p/2) + 1 rounds of up to two messages; in m segments about 3 vectors travel through an inner
    rank for any m, where reduce then bcast on one tree takes 4. Rank order is kept. Nodes are not minded.
    """
    halves = tuple(rank >= size // 2 for rank in range(size))
    return find("allreduce", "hierarchical:binary_tree+recursive_doubling").schedule(size, nodes=halves)
