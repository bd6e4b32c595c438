"""A second reading of what a round means, written apart from mpicoll's verifier: trees are nested tuples."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain

from mpicoll.schedule import REDUCING, Schedule


def evaluate(schedule: Schedule) -> list[dict[int, object]]:
    """Run all ranks round by round; what each chunk of each rank ends as: a leaf, or (left, right)."""
    reducing = schedule.collective in REDUCING
    state = [{c: rank if reducing else c for c in schedule.inputs(rank)} for rank in range(schedule.size)]
    k = schedule.chunks
    for rounds in zip(*schedule.programs(), strict=True):
        wire = defaultdict(list)
        for rank, (sends, _) in enumerate(rounds):
            for send in sends:
                wire[rank, send.peer].append([(c, state[rank][c]) for c in send.chunks])
        for rank, (_, recvs) in enumerate(rounds):
            pieces = defaultdict(list)
            for recv in recvs:
                message = wire[recv.peer, rank].pop(0)
                assert [c % k for c, _ in message] == [c % k for c in recv.chunks]
                for c, (_, tree) in zip(recv.chunks, message):
                    if recv.reduce:
                        stands_left = recv.peer <= rank if getattr(recv, "left", None) is None else recv.left
                        pieces[c].append((-1 if stands_left else 1, recv.peer, tree))
                    else:
                        state[rank][c] = tree
            for c, came in pieces.items():
                came = sorted([*came, (0, rank, state[rank][c])], key=lambda piece: piece[:2])
                tree = came[0][2]
                for _, _, right in came[1:]:
                    tree = (tree, right)
                state[rank][c] = tree
        assert not any(wire.values()), "a message that nobody receives"
    return state


def leaves(tree: object) -> list[object]:
    """The leaves of a tree from left to right."""
    return list(chain(*map(leaves, tree))) if isinstance(tree, tuple) else [tree]
