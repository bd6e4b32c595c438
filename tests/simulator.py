"""Runs the steps of all ranks with no MPI, under the worst that MPI allows, and says what is wrong with them.

Every send waits for its receive. Messages are read as late as may be: at the first wait for either side. Memory that a
receive may still fill is poison, and whoever reads or writes it is told; so is whoever writes what a send may still
read. Steps that pass are therefore free of races, and since messages of a pair meet in order and nobody waits for
"any" message, one run stands for all orders in which ranks may advance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from mpicoll.runtime.steps import Combine, Copy, Final, Lowered, Slice, Start, Step, Wait

POISON = -1
NAMES = (
    "sendbuf",
    "recvbuf",
    "work",
    "scratch",
    *(f"mirror of {name}" for name in ["sendbuf", "recvbuf", "work", "scratch"]),
)


class BrokenError(AssertionError):
    """The steps do what MPI or the caller forbids."""


@dataclass
class Message:
    """One started request; the other side is None until they meet."""

    rank: int
    start: Start
    other: Message | None = None
    moved: bool = False


@dataclass
class Rank:
    """Memories of one rank: row 0 the values, row 1 how often each was made final."""

    memories: list[np.ndarray]
    steps: Sequence[Step]
    at: int = 0
    active: dict[int, Message] = field(default_factory=dict)


class Simulator:
    """``combine(left, right)`` reduces arrays of values; values are not negative."""

    def __init__(self, combine: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
        self.combine = combine
        self.ranks: list[Rank] = []
        self.posted: dict[tuple[int, int, bool], deque[Message]] = {}

    def add(self, lowered: Lowered, send: np.ndarray | None, recv: np.ndarray | None, work: int) -> None:
        """The next rank; its recvbuf is read back with ``recvbuf``."""
        memories = [
            np.array([values, np.zeros_like(values)])
            for values in (
                np.empty(0, np.int64) if send is None else send,
                np.empty(0, np.int64) if recv is None else recv,
                np.full(work, POISON),
                np.full(lowered.scratch, POISON),
            )
        ]
        self.ranks.append(Rank(memories, lowered.steps))

    def recvbuf(self, rank: int) -> np.ndarray:
        return self.ranks[rank].memories[1]

    def run(self) -> None:
        """Until all are through. BrokenError: a race, a mismatch, a deadlock, something left over."""
        waiting = deque(range(len(self.ranks)))
        idle = 0
        while waiting:
            r = waiting.popleft()
            before = self.ranks[r].at
            if not self._advance(r):
                idle = 0 if self.ranks[r].at > before else idle + 1
                waiting.append(r)
                if idle > len(waiting):
                    where = ", ".join(f"{r} at {self.ranks[r].steps[self.ranks[r].at]}" for r in waiting)
                    raise BrokenError(f"deadlock: {where}")
            else:
                idle = 0
        for r, rank in enumerate(self.ranks):
            if rank.active:
                raise BrokenError(
                    f"rank {r} ends with messages not waited for: {[m.start for m in rank.active.values()]}"
                )
        if any(self.posted.values()):
            raise BrokenError("messages without their match are left over")

    def _advance(self, r: int) -> bool:
        rank = self.ranks[r]
        while rank.at < len(rank.steps):
            step = rank.steps[rank.at]
            if isinstance(step, Start):
                self._start(r, step)
            elif isinstance(step, Wait):
                message = rank.active.get(step.request)
                if message is None:
                    raise BrokenError(f"rank {r} waits for {rank.steps[step.request]}, which is not under way")
                if message.other is None:
                    return False
                self._move(message)
                del rank.active[step.request]
            else:
                self._launch(r, step)
            rank.at += 1
        return True

    def _launch(self, r: int, step: Step) -> None:
        """On the host a step is through at once; Enter and Sync are nothing then."""
        self._compute(r, step)

    def _compute(self, r: int, step: Step) -> None:
        if isinstance(step, Combine):
            left, right = self._read(r, step.left), self._read(r, step.right)
            if left[1].any() or right[1].any():
                raise BrokenError(f"rank {r} reduces what was made final: {step}")
            self._write(r, step.out)[:] = [self.combine(left[0], right[0]), left[1]]
        elif isinstance(step, Copy):
            self._write(r, step.target)[:] = self._read(r, step.source)
        elif isinstance(step, Final):
            values = self._read(r, step.at).copy()
            values[1] += 1
            self._write(r, step.at)[:] = values

    def _start(self, r: int, step: Start) -> None:
        rank = self.ranks[r]
        view = self._read(r, step.at) if step.sends else self._write(r, step.at)
        if not step.sends:
            view[:] = POISON
        message = rank.active[rank.at] = Message(r, step)
        pair = (r, step.peer) if step.sends else (step.peer, r)
        others = self.posted.setdefault((*pair, not step.sends), deque())
        if not others:
            self.posted.setdefault((*pair, step.sends), deque()).append(message)
            return
        other = others.popleft()
        message.other, other.other = other, message
        length, expected = step.at.stop - step.at.start, other.start.at.stop - other.start.at.start
        if length != expected:
            raise BrokenError(f"a message between {pair} has {length} elements at one end and {expected} at the other")

    def _move(self, message: Message) -> None:
        other = message.other
        if message.moved or other is None:
            return
        source, target = (message, other) if message.start.sends else (other, message)
        self._view(target.rank, target.start.at)[:] = self._view(source.rank, source.start.at)
        message.moved = other.moved = True

    def _view(self, r: int, at: Slice) -> np.ndarray:
        memory = self.ranks[r].memories[at.memory]
        if not 0 <= at.start < at.stop <= memory.shape[1]:
            raise BrokenError(f"rank {r}: {at} is empty or outside {NAMES[at.memory]} of {memory.shape[1]} elements")
        return memory[:, at.start : at.stop]

    def _read(self, r: int, at: Slice) -> np.ndarray:
        memory, start, stop = at  # Slice.meets, written out: it is asked ten million times
        for message in self.ranks[r].active.values():
            m, a, b = message.start.at
            if m == memory and a < stop and start < b and not message.start.sends:
                raise BrokenError(f"rank {r} reads {at}, which {message.start} may still fill")
        view = self._view(r, at)
        if (view[0] == POISON).any():
            raise BrokenError(f"rank {r} reads {at}, where nothing was written yet")
        return view

    def _write(self, r: int, at: Slice) -> np.ndarray:
        if NAMES[at.memory] == "sendbuf":
            raise BrokenError(f"rank {r} writes the caller's sendbuf: {at}")
        memory, start, stop = at
        for message in self.ranks[r].active.values():
            m, a, b = message.start.at
            if m == memory and a < stop and start < b:
                raise BrokenError(f"rank {r} writes {at}, which {message.start} still uses")
        return self._view(r, at)
