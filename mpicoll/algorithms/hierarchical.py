"""Leaders: reduce in each node, an allreduce among the first ranks, bcast in each node (MPICH smp, HAN, NCCL)."""

from collections.abc import Sequence

from mpicoll.schedule import Schedule, algorithm, find, groups, levels, parallel, relabel, renumber, reverse, then


@algorithm("levels", parameter=levels, pipelined=True, source="MPICH smp; Open MPI HAN")
def hierarchical(
    size: int, nodes: Sequence[int], inside: str = "binomial_tree", across: str = "rabenseifner"
) -> Schedule:
    """Reduce to the node's first rank, allreduce among these, bcast.

    One rank a node sends across, as much as a rank of the outer algorithm does. Any number of ranks on each node.
    """
    members = groups(nodes)
    top = find("allreduce", across).schedule(len(members))
    whole = range(top.chunks)
    within = [renumber(find("bcast", inside).schedule(len(ranks)), top.chunks, lambda c: whole) for ranks in members]
    down = parallel(within, members, size)
    over = relabel(top, size, [ranks[0] for ranks in members])
    return then(reverse(down), then(over, down, "allreduce"), "allreduce")
