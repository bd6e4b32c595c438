"""A program and a layout of memory -> the flat list of steps that a plan runs. Needs neither MPI nor arrays.

Receives start before sends, so that little arrives unexpected; small sends leave first. A send is waited for only when
its memory is about to be written, or at the end. A reduction whose own operand still lies in the send buffer lets the
first part land where the result belongs: out of place costs no extra pass over memory. Long messages travel in
segments, and a segment is reduced while the next one arrives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mpicoll.schedule.model import Program, Recv, Send

from .cut import Cutter, Range
from .places import Places
from .steps import SCRATCH, SENDBUF, Combine, Copy, Final, Layout, Lowered, Slice, Start, Step, Wait

DEPTH = 2  # segments of a message that are under way, the one being reduced included


@dataclass
class _Arrival:
    """A message to come, where it lands, and the step that started it."""

    peer: int
    at: Slice
    request: int = -1
    through: bool = False


class _Unit(NamedTuple):
    """Elements lo..hi of the vector, folded at once from what several peers sent: (peer, where it is, messages)."""

    lo: int
    hi: int
    parts: list[tuple[int, Slice, list[_Arrival]]]


def lower(program: Program, layout: Layout, rank: int, cutter: Cutter) -> Lowered:
    """Lower one rank's program to steps; cost O(steps)."""
    return _Lowering(layout, rank, cutter).run(program)


class _Lowering(Places):
    def __init__(self, layout: Layout, rank: int, cutter: Cutter) -> None:
        super().__init__(layout)
        self.rank, self.cutter = rank, cutter
        self.pending: list[tuple[int, Slice]] = []  # sends started and not waited for
        self.settled = False
        self.out = Lowered([])

    def run(self, program: Program) -> Lowered:
        self.foresee(program)
        for self.round, (sends, recvs) in enumerate(program):
            if sends and sends[0].peer == self.rank:
                self._local(sends, recvs)
            elif sends or recvs:
                self._round(sends, recvs)
                self.out.rounds += 1
        for request, _ in self.pending:
            self._step(Wait(request))
        self.pending.clear()
        self._settle()
        return self.out

    def _round(self, sends: Sequence[Send], recvs: Sequence[Recv]) -> None:
        self.top = 0  # of the scratch memory in use in this round
        sources = [(peer, at) for peer, chunks in sends for at in self._sources(chunks)]
        reducing = [recv for recv in recvs if recv.reduce]
        # A lone group of equal messages streams: its segments land in turns. Else all that comes is expected at once.
        alike = len({tuple(recv.chunks) for recv in reducing}) == 1
        streams = alike and len({recv.peer for recv in recvs}) == len(recvs)
        units, copies, arrivals = self._receives(recvs, alike, streams)
        if streams:
            arrivals = [a for unit in units[:DEPTH] for _, _, came in unit.parts for a in came]
            arrivals += [arrival for arrival, _ in copies]
        early = sum(at.stop - at.start for _, at in sources) <= self.cutter.eager
        if early:
            self._send(sources)
        for arrival in arrivals:
            self._expect(arrival)
        if not early:
            self._send(sources)
        if not self.settled:
            self._settle(while_waiting=True)
            self.settled = True
        for i, unit in enumerate(units):
            self._fold(unit)
            for _, _, came in units[i + DEPTH].parts if streams and i + DEPTH < len(units) else ():
                for arrival in came:
                    self._expect(arrival)
        for arrival, moves in copies:
            self._await(arrival)
            for source, target in moves:
                self._copy(source, target)
        for recv in recvs:
            self.place.update((c, self.target(c) if recv.reduce else self.layout.home(c)) for c in recv.chunks)

    def _local(self, sends: Sequence[Send], recvs: Sequence[Recv]) -> None:
        """Steps in memory: nothing that one of them reads is written by another of the same round."""
        for send, (_, chunks, reduces) in zip(sends, recvs):
            for source, c in zip(send.chunks, chunks):
                at, target = self.place[source], self.target(c) if reduces else self.layout.home(c)
                if at.start < at.stop and not reduces:
                    self._copy(at, target)
                elif at.start < at.stop:
                    self._free(target)
                    self._step(Combine(at, self.place[c], target))
                    if self.final(c):
                        self._step(Final(target))
                self.place[c] = target

    # -- what a round sends ------------------------------------------------------------------------------------------

    def _sources(self, chunks: Sequence[int]) -> Iterator[Slice]:
        """Where each message of a send lies; chunks that lie apart are brought together first."""
        for ranges in self.cutter.messages(chunks):
            spans = self.spans(ranges, self.place.__getitem__)
            if len(ranges) == 1 and len(spans) > 1:  # partly in the send buffer
                for c in self.chunks(*ranges[0]):
                    if self.place[c] != self.layout.home(c):
                        self._copy(self.place[c], self.layout.home(c))
                        self.place[c] = self.layout.home(c)
                spans = self.spans(ranges, self.place.__getitem__)
            if len(spans) == 1:
                yield spans[0][2]
                continue
            packed = self._scratch(sum(hi - lo for lo, hi, *_ in spans))
            offset = 0
            for lo, hi, at in spans:
                self._copy(at, packed.part(offset, offset + hi - lo))
                offset += hi - lo
            yield packed

    # -- what a round receives ---------------------------------------------------------------------------------------

    def _receives(self, recvs: Sequence[Recv], alike: bool, streams: bool) -> _Receives:
        """What comes in a round, and where it lands."""
        out = _Receives([], [], [])
        first: dict[tuple[int, ...], int] = {}  # of equal messages the lowest peer: its part is folded first
        for peer, chunks, reduces in recvs:
            if reduces:
                key = tuple(chunks)
                first[key] = min(peer, first.get(key, peer))
        crossed = not alike and len({c for key in first for c in key}) < sum(map(len, first))
        units: dict[object, _Unit] = {}
        for recv in recvs:
            if not recv.reduce:
                self._copies(recv, out)
            elif crossed:
                self._crossed(recv, out, units)
            else:
                may_land = recv.peer == first[tuple(recv.chunks)]
                self._parts(recv, out, units, may_land, DEPTH if streams else None)
        out.units.extend(units.values())
        return out

    def _copies(self, recv: Recv, out: _Receives) -> None:
        for ranges in self.cutter.messages(recv.chunks):
            spans = self.spans(ranges, self.layout.home)
            moves: list[tuple[Slice, Slice]] = []
            if len(spans) == 1:
                arrival = _Arrival(recv.peer, spans[0][2])
            else:
                arrival, offset = _Arrival(recv.peer, self._scratch(_length(ranges))), 0
                for lo, hi, home in spans:
                    moves.append((arrival.at.part(offset, offset + hi - lo), home))
                    offset += hi - lo
            out.arrivals.append(arrival)
            out.copies.append((arrival, moves))

    def _parts(self, recv: Recv, out: _Receives, units: dict, may_land: bool, slots: int | None) -> None:
        """Parts to fold range by range; with ``slots`` the messages take turns in so many places."""
        messages = self.cutter.messages(recv.chunks)
        room = max((_length(ranges) for ranges in messages), default=0)
        turns: dict[int, Slice] = {}
        for i, ranges in enumerate(messages):
            size = _length(ranges)
            at = self._landing(ranges) if may_land else None
            if at is None and slots is not None:
                if i % slots not in turns:
                    turns[i % slots] = self._scratch(room)
                at = turns[i % slots].part(0, size)
            arrival = _Arrival(recv.peer, at or self._scratch(size))
            out.arrivals.append(arrival)
            offset = 0
            for lo, hi in ranges:
                unit = units.setdefault((tuple(recv.chunks), lo), _Unit(lo, hi, []))
                unit.parts.append((recv.peer, arrival.at.part(offset, offset + hi - lo), [arrival]))
                offset += hi - lo

    def _crossed(self, recv: Recv, out: _Receives, units: dict) -> None:
        """Parts to fold chunk by chunk, for messages that share some chunks and not others."""
        messages = self.cutter.messages(recv.chunks)
        base = self._scratch(sum(map(_length, messages)))
        came, offset = [], 0
        for ranges in messages:
            came.append(_Arrival(recv.peer, base.part(offset, offset + _length(ranges))))
            offset += _length(ranges)
        out.arrivals.extend(came)
        offset = 0
        for c in recv.chunks:
            lo, hi = self.edges[c], self.edges[c + 1]
            if lo < hi:
                units.setdefault(c, _Unit(lo, hi, [])).parts.append(
                    (recv.peer, base.part(offset, offset + hi - lo), came)
                )
                offset += hi - lo

    def _landing(self, ranges: Sequence[Range]) -> Slice | None:
        """Where the result belongs, when nothing of it is there yet: the own part still lies in the send buffer."""
        spans = self.spans(ranges, self.place.__getitem__, self.target)
        return spans[0][3] if len(spans) == 1 and spans[0][2].memory == SENDBUF else None

    def _fold(self, unit: _Unit) -> None:
        """Left ∘ ... ∘ own ∘ ... ∘ right, in the order of the ranks that the parts came from."""
        for _, _, messages in unit.parts:
            for arrival in messages:
                self._await(arrival)
        parts = sorted(unit.parts, key=lambda part: part[0])
        for lo, hi, own, target in self.spans([(unit.lo, unit.hi)], self.place.__getitem__, self.target):
            left = [at.part(lo - unit.lo, hi - unit.lo) for peer, at, _ in parts if peer < self.rank]
            right = [at.part(lo - unit.lo, hi - unit.lo) for peer, at, _ in parts if peer > self.rank]
            self._free(target)
            acc = own
            if left:
                for at in left[1:]:
                    self._step(Combine(left[0], at, left[0]))
                self._step(Combine(left[0], own, target))
                acc = target
            for at in right:
                self._step(Combine(acc, at, target))
                acc = target
            for c in self.chunks(lo, hi):
                if self.final(c):
                    a, b = max(lo, self.edges[c]), min(hi, self.edges[c + 1])
                    self._step(Final(target.part(a - lo, b - lo)))

    # -- steps -------------------------------------------------------------------------------------------------------

    def _step(self, step: Step) -> int:
        self.out.steps.append(step)
        return len(self.out.steps) - 1

    def _send(self, sources: Sequence[tuple[int, Slice]]) -> None:
        for peer, at in sources:
            self.pending.append((self._step(Start(True, peer, at)), at))

    def _expect(self, arrival: _Arrival) -> None:
        if arrival.request < 0:
            self._free(arrival.at)
            arrival.request = self._step(Start(False, arrival.peer, arrival.at))

    def _await(self, arrival: _Arrival) -> None:
        if not arrival.through:
            self._step(Wait(arrival.request))
            arrival.through = True

    def _copy(self, source: Slice, target: Slice) -> None:
        self._free(target)
        self._step(Copy(source, target))

    def _free(self, target: Slice) -> None:
        """Wait for the sends that still read what is about to be written."""
        busy = [(r, at) for r, at in self.pending if at[0] == target[0] and at[1] < target[2] and target[1] < at[2]]
        for one in busy:  # those that meet it, written out: a plan of many messages asks a million times
            self._step(Wait(one[0]))
            self.pending.remove(one)

    def _settle(self, while_waiting: bool = False) -> None:
        """Copy to its end what no message brings there; while the first ones travel, only what the program leaves."""
        for c, at in list(self.place.items()):
            end = self.layout.end(c)
            if end is None or end == at or at.start == at.stop:
                continue
            if while_waiting and (c in self.last or end.memory == at.memory):
                continue
            self._copy(at, end)
            self.place[c] = end

    def _scratch(self, size: int) -> Slice:
        at = Slice(SCRATCH, self.top, self.top + size)
        self.top += size
        self.out.scratch = max(self.out.scratch, self.top)
        return at


class _Receives(NamedTuple):
    """Units to fold, copies with what to unpack from them, and all arrivals in the schedule's order."""

    units: list[_Unit]
    copies: list[tuple[_Arrival, list[tuple[Slice, Slice]]]]
    arrivals: list[_Arrival]


def _length(ranges: Sequence[Range]) -> int:
    return sum(hi - lo for lo, hi in ranges)
