"""Messages of a device through pinned host memory, for an MPI that cannot read the device's.

Each memory of the device has a mirror on the host. A send first copies down what the mirror does not hold yet: what
arrived and is only passed on does not come back from the device. What arrives is copied up while the next message
travels. Messages that leave together are copied down in a row, so that one leaves while the next is copied.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence

from .steps import Copy, Slice, Start, Step, Wait, written


class _Held:
    """Which elements of one memory the host holds: ends of intervals in order, neighbours merged."""

    def __init__(self) -> None:
        self.ends: list[int] = []  # start, stop, start, stop, ...: at an odd place we are inside

    def set(self, start: int, stop: int, held: bool) -> None:
        """From now on these are held, or are not."""
        lo, hi = bisect_left(self.ends, start), bisect_right(self.ends, stop)
        self.ends[lo:hi] = [start] * (lo % 2 != held) + [stop] * (hi % 2 != held)

    def missing(self, start: int, stop: int) -> list[tuple[int, int]]:
        """What of these is not held, in order."""
        lo, hi = bisect_right(self.ends, start), bisect_left(self.ends, stop)
        edges = [start] * (lo % 2 == 0) + self.ends[lo:hi] + [stop] * (hi % 2 == 0)
        return list(zip(edges[::2], edges[1::2]))


class _Mirror:
    """What the host holds of each memory."""

    def __init__(self) -> None:
        self.memories: dict[int, _Held] = defaultdict(_Held)

    def missing(self, at: Slice) -> list[Slice]:
        """The parts of a slice that are not held, in order."""
        return [Slice(at.memory, *ends) for ends in self.memories[at.memory].missing(at.start, at.stop)]

    def take(self, at: Slice) -> None:
        """The host holds this now."""
        self.memories[at.memory].set(at.start, at.stop, True)

    def drop(self, at: Slice) -> None:
        """The host holds this no longer."""
        self.memories[at.memory].set(at.start, at.stop, False)


def stage(steps: Sequence[Step]) -> list[Step]:
    """The steps with every message between mirrors, and the copies that this needs. Cost about O(steps)."""
    mirror = _Mirror()
    out: list[Step] = []
    moved: dict[int, int] = {}
    coming: dict[int, Slice] = {}
    prepared = 0  # sends before this step are copied down
    for number, step in enumerate(steps):
        if isinstance(step, Start):
            if step.sends:
                if number >= prepared:
                    prepared = _down(steps, number, mirror, out)
            else:
                mirror.drop(step.at)
                coming[number] = step.at
            moved[number] = len(out)
            out.append(step._replace(at=step.at.mirror()))
        elif isinstance(step, Wait):
            out.append(Wait(moved[step.request]))
            if (at := coming.pop(step.request, None)) is not None:
                out.append(Copy(at.mirror(), at))
                mirror.take(at)
        else:
            out.append(step)
            target = written(step)
            if target is not None:
                mirror.drop(target)
    return out


def _down(steps: Sequence[Step], number: int, mirror: _Mirror, out: list[Step]) -> int:
    """Copy to the host what this send and those right after it need; the number of the first step after them."""
    while number < len(steps) and isinstance(step := steps[number], Start) and step.sends:
        out += [Copy(part, part.mirror()) for part in mirror.missing(step.at)]
        mirror.take(step.at)
        number += 1
    return number
