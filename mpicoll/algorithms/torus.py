"""Torus, or multi-rail: inside the nodes, across them in parallel lanes, inside again (Mikami et al. 2018)."""

from collections.abc import Sequence

from mpicoll.schedule import Schedule, absorb, algorithm, find, groups, levels, parallel, renumber, reverse, shift, then

SOURCE = "Mikami et al., arXiv 1811.05233; Cho et al., BlueConnect, 2019"


@algorithm("levels", parameter=levels, pipelined=True, source=SOURCE)
def torus(size: int, nodes: Sequence[int], inside: str = "direct", across: str = "ring") -> Schedule:
    """Reduce-scatter in each node, an allreduce across nodes in each lane, allgather in each node.

    Every rank sends 1/q of the vector across, q ranks a node. Nodes of several sizes: as many lanes as the smallest has
    ranks, and the surplus ranks of the others hand their vectors to lanes.
    """
    members = groups(nodes)
    lanes = min(map(len, members))
    top = find("allreduce", across).schedule(len(members))
    within = find("allgather", inside).schedule(lanes)
    k = top.chunks
    within = renumber(within, lanes * k, lambda c: range(c * k, c * k + k))
    down = parallel([within] * len(members), [ranks[:lanes] for ranks in members], size)
    rails = [shift(top, lanes * k, lane * k) for lane in range(lanes)]
    over = parallel(rails, [[ranks[lane] for ranks in members] for lane in range(lanes)], size)
    core = then(reverse(down), then(over, down, "allreduce"), "allreduce")
    return absorb(core, {rank: ranks[i % lanes] for ranks in members for i, rank in enumerate(ranks) if i >= lanes})
