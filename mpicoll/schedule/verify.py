"""Proof of a schedule, for one size, by expression trees.

Every chunk of every rank holds the tree of what was combined into it. Equal trees are one object (hash-consing), so
"the same bits on all ranks" is a comparison of integers and all ranks share the work. The run is asynchronous with
every send waiting for its receive (rendezvous): what passes here cannot deadlock under any buffering.

What is proved of a collective on p ranks:

complete    every output is a tree whose leaves are each rank exactly once (or, for copies, the right source)
identical   a chunk has the same tree on every rank that ends with it: the same bits everywhere
in_order    leaves stand in rank order: operations that do not commute are right
same_tree   all chunks have one tree: an element's bits do not depend on its position

and that messages match in round, order and chunks, that no chunk which a round sends is overwritten by a copy in it,
that nothing is sent before it is there, that local steps stand in rounds of their own, and that counts are not below
what is possible (Chan et al. 2007; Patarasuk and Yuan 2009), which would mean that the counting is wrong.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from operator import itemgetter

from .cost import Counts, count
from .garbage import unlooked
from .model import REDUCING, Program, Schedule
from .trees import Trees


@dataclass
class Report:
    """The verdict. ``ok``: no error, hence complete; the other three are properties, not faults."""

    schedule: Schedule
    errors: list[str] = field(default_factory=list)
    identical: bool = False
    in_order: bool = False
    same_tree: bool = False
    counts: Counts | None = None

    @property
    def ok(self) -> bool:
        """Whether the schedule computes what it must and ends."""
        return not self.errors

    def __str__(self) -> str:
        what = f"{self.schedule.collective} {self.schedule.algorithm} on {self.schedule.size} ranks"
        if self.errors:
            return f"{what}: {self.errors[0]}" + (f" (and {len(self.errors) - 1} more)" if self.errors[1:] else "")
        held = [name for name in ("identical", "in_order", "same_tree") if getattr(self, name)]
        return f"{what}: complete" + "".join(f", {name.replace('_', ' ')}" for name in held)


@unlooked()
def verify(schedule: Schedule) -> Report:
    """Prove a schedule; cost O(messages x chunks in them). Never raises for a wrong schedule: see ``errors``."""
    report = Report(schedule)
    programs = schedule.programs()
    lengths = sorted({len(program) for program in programs})
    if len(lengths) > 1:
        report.errors.append(f"programs differ in length: {lengths}")
        return report
    run = _Run(schedule, programs)
    report.errors += run.go()
    if report.errors:
        return report
    _judge(report, run)
    report.counts = count(schedule, programs)
    report.errors += report.counts.below_bounds()
    return report


class _Run:
    """One asynchronous run: every rank posts a round, and goes on when all messages of it have met their match."""

    def __init__(self, schedule: Schedule, programs: list[Program]) -> None:
        size, self.schedule, self.programs = schedule.size, schedule, programs
        self.trees = Trees(size if schedule.collective in REDUCING else schedule.chunks)
        reducing = schedule.collective in REDUCING
        self.state: list[dict[int, int]] = [
            {c: rank if reducing else c for c in schedule.inputs(rank)} for rank in range(size)
        ]
        self.last = schedule.chunks + schedule.slots - 1
        self.round = [-1] * size
        self.waiting = [0] * size  # messages of the current round that are not yet matched
        # Posted and not yet matched, per (from, to): positive side sends, the other receives.
        self.sent: dict[tuple[int, int], deque] = defaultdict(deque)
        self.expected: dict[tuple[int, int], deque] = defaultdict(deque)
        self.arrived: list[list[tuple[int, int, list[int]]]] = [[] for _ in range(size)]
        self.errors: list[str] = []

    def go(self) -> list[str]:
        ready = deque(range(len(self.programs)))
        while ready and not self.errors:
            rank = ready.popleft()
            if self.round[rank] >= 0:
                self._finish(rank)
            self.round[rank] += 1
            if self.round[rank] < len(self.programs[rank]):
                ready.extend(self._post(rank))
        stuck = [rank for rank, k in enumerate(self.round) if k < len(self.programs[rank])]
        if stuck and not self.errors:
            self.errors.append(self._deadlock(stuck))
        return self.errors

    def _post(self, rank: int) -> list[int]:
        """Post a round; returns the ranks whose rounds are now through."""
        k = self.round[rank]
        sends, recvs = self.programs[rank][k]
        state = self.state[rank]
        if (sends and sends[0].peer == rank) or (recvs and recvs[0].peer == rank):
            return self._local(rank, k)
        freed: list[int] = []
        if sends and (copied := {c for recv in recvs if not recv.reduce for c in recv.chunks}):
            for c in (c for send in sends for c in send.chunks if c in copied):
                self.errors.append(f"rank {rank}, round {k}: chunk {c} is sent and overwritten by a copy")
        for peer, chunks in sends:
            missing = [c for c in chunks if c not in state]
            if missing or not self._sane(rank, k, peer, chunks):
                self.errors += [f"rank {rank}, round {k}: sends chunk {c} before it is there" for c in missing]
                return []
            message = (k, rank, [state[c] for c in chunks], chunks)
            match = self.expected[rank, peer]
            if match:
                self._meet(message, match.popleft(), freed)
            else:
                self.sent[rank, peer].append(message)
                self.waiting[rank] += 1
        for i, (peer, chunks, _) in enumerate(recvs):
            if not self._sane(rank, k, peer, chunks):
                return []
            receive = (k, rank, i, chunks)
            match = self.sent[peer, rank]
            if match:
                self._meet(match.popleft(), receive, freed, sender_waits=True)
            else:
                self.expected[peer, rank].append(receive)
                self.waiting[rank] += 1
        return freed if self.waiting[rank] else [*freed, rank]

    def _local(self, rank: int, k: int) -> list[int]:
        """Local steps: what they read goes where a message would arrive."""
        sends, recvs = self.programs[rank][k]
        state, where = self.state[rank], f"rank {rank}, round {k}"
        read = {c for send in sends for c in send.chunks}
        peers = {send.peer for send in sends} | {recv.peer for recv in recvs}
        if peers != {rank} or len(sends) != len(recvs):
            self.errors.append(f"{where}: local steps and messages in one round, or one without its other end")
        elif read & {c for recv in recvs for c in recv.chunks}:
            self.errors.append(f"{where}: a local step reads what another one writes")
        elif missing := sorted(read - state.keys()):
            self.errors.append(f"{where}: a local step reads chunk {missing[0]} before it is there")
        for i, (send, recv) in enumerate(zip(sends, recvs)):
            if (
                self.errors
                or not self._sane(rank, k, rank, recv.chunks, True)
                or not self._same(send.chunks, recv.chunks)
            ):
                self.errors.append(f"{where}: local step from {list(send.chunks)} to {list(recv.chunks)}")
                return []
            self.arrived[rank].append((i, rank, [state[c] for c in send.chunks]))
        return [rank]

    def _same(self, sent, wanted) -> bool:
        """Whether two lists name the same chunks, in the vector or in slots."""
        k = self.schedule.chunks
        return sent == wanted or [c % k for c in sent] == [c % k for c in wanted]

    def _sane(self, rank: int, k: int, peer: int, chunks, local: bool = False) -> bool:
        if not 0 <= peer < self.schedule.size or (peer == rank) != local:
            self.errors.append(f"rank {rank}, round {k}: no message can go between it and rank {peer}")
        elif not chunks or min(chunks) < 0 or max(chunks) > self.last:
            self.errors.append(f"rank {rank}, round {k}: chunks {list(chunks)} are not of 0..{self.last}")
        return not self.errors

    def _meet(self, message, receive, freed: list[int], sender_waits: bool = False) -> None:
        k, source, values, sent = message
        k2, target, i, wanted = receive
        if k != k2:
            self.errors.append(f"{source} -> {target}: sent in round {k}, received in round {k2}")
        elif not self._same(sent, wanted):
            said = f"chunks {list(sent)} sent, {list(wanted)} received"
            self.errors.append(f"{source} -> {target}, round {k}: {said}")
        self.arrived[target].append((i, source, values))
        waiter = source if sender_waits else target
        self.waiting[waiter] -= 1
        if not self.waiting[waiter]:
            freed.append(waiter)

    def _finish(self, rank: int) -> None:
        """What came takes effect: copies replace, reductions fold in the order of the ranks they came from."""
        k = self.round[rank]
        recvs, state = self.programs[rank][k].recvs, self.state[rank]
        pieces: dict[int, list[tuple[int, int]]] = defaultdict(list)
        copied = set()
        for i, source, values in sorted(self.arrived[rank]):
            for c, value in zip(recvs[i].chunks, values):
                if not recvs[i].reduce:
                    if c in copied:
                        self.errors.append(f"rank {rank}, round {k}: chunk {c} comes twice")
                    copied.add(c)
                    state[c] = value
                else:
                    pieces[c].append((source, value))
        self.arrived[rank].clear()
        for c, came in pieces.items():
            if c in copied or c not in state:
                self.errors.append(f"rank {rank}, round {k}: chunk {c} is reduced with nothing of its own")
                return
            came.append((rank, state[c]))
            came.sort(key=_source)  # stable: what a local step brings stands before the own
            tree = came[0][1]
            for _, value in came[1:]:
                tree = self.trees.join(tree, value)
            state[c] = tree

    def _deadlock(self, stuck: list[int]) -> str:
        waits = [f"{a} waits to send to {b}" for (a, b), posted in self.sent.items() if posted]
        waits += [f"{b} waits for {a}" for (a, b), posted in self.expected.items() if posted]
        return f"deadlock in round {min(self.round[rank] for rank in stuck)}: " + "; ".join(sorted(waits)[:8])


_source = itemgetter(0)


def _judge(report: Report, run: _Run) -> None:
    schedule, trees = report.schedule, run.trees
    reducing = schedule.collective in REDUCING
    results: dict[int, set[int]] = defaultdict(set)
    for rank in range(schedule.size):
        for c in schedule.outputs(rank):
            tree = run.state[rank].get(c)
            fault = "is missing" if tree is None else trees.fault(tree) if reducing else ""
            if not reducing and tree is not None and tree != c:
                fault = f"holds chunk {tree}"
            if fault:
                report.errors.append(f"rank {rank}, chunk {c}: {fault}")
            elif tree is not None:
                results[c].add(tree)
    if not report.errors:
        report.identical = all(len(found) == 1 for found in results.values())
        every = set().union(*results.values()) if results else set()
        report.in_order = not reducing or all(trees.in_order(tree) for tree in every)
        report.same_tree = not reducing or len(every) <= 1
