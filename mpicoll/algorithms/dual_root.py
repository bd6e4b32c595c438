"""Dual root: two trees of half the ranks each, whose roots swap; up and down at once when in segments (Träff 2021)."""

from collections.abc import Sequence

from mpicoll.schedule import Schedule, algorithm, find, parallel, relabel, reverse, then


@algorithm("levels", ordered=True, pipelined=True, source="Träff, arXiv 2109.12626, 2021")
def dual_root(size: int, nodes: Sequence[int]) -> Schedule:
    """Reduce each half of the ranks to its root, swap between the roots, hand the sum down.

    Allreduce: 2 floor(log2 p/2) + 1 rounds of up to two messages; in m segments about 3 vectors travel through an inner
    rank for any m, where reduce then bcast on one tree takes 4. Rank order is kept. Nodes are not minded.
    """
    halves = [range(size // 2), range(size // 2, size)] if size > 1 else [range(1)]
    down = parallel([find("bcast", "binary_tree").schedule(len(half)) for half in halves], halves, size)
    roots = [half[0] for half in halves]
    swap = relabel(find("allreduce", "recursive_doubling").schedule(len(roots)), size, roots)
    return then(reverse(down), then(swap, down, "allreduce"), "allreduce")
