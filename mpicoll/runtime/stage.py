"""Messages of a device through pinned host memory, for an MPI that cannot read the device's.

Each memory of the device has a mirror on the host. A send first copies down what the mirror does not hold yet: what
arrived and is only passed on does not come back from the device. What arrives is copied up while the next message
travels. Messages that leave together are copied down in a row, so that one leaves while the next is copied.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from .steps import Copy, Slice, Start, Step, Wait, written


class _Mirror:
    """What the host holds of each memory, in slices that have no element in common."""

    def __init__(self) -> None:
        self.held: dict[int, list[Slice]] = defaultdict(list)

    def missing(self, at: Slice) -> list[Slice]:
        """The parts of a slice that are not held, in order."""
        parts = [at]
        for known in self.held[at.memory]:
            parts = [rest for part in parts for rest in _without(part, known)]
        return parts

    def take(self, at: Slice) -> None:
        """The host holds this now."""
        self.drop(at)
        self.held[at.memory].append(at)

    def drop(self, at: Slice) -> None:
        """The host holds this no longer."""
        known = self.held[at.memory]
        self.held[at.memory] = [rest for part in known for rest in _without(part, at)]


def stage(steps: Sequence[Step]) -> list[Step]:
    """The steps with every message between mirrors, and the copies that this needs. Cost O(steps x pieces held)."""
    mirror = _Mirror()
    out: list[Step] = []
    moved: dict[int, int] = {}
    coming: dict[int, Slice] = {}
    for number, step in enumerate(steps):
        if isinstance(step, Start):
            if step.sends:
                _down(steps, number, mirror, out)
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


def _down(steps: Sequence[Step], number: int, mirror: _Mirror, out: list[Step]) -> None:
    """Copy to the host what this send and those right after it need."""
    while number < len(steps) and isinstance(step := steps[number], Start) and step.sends:
        out += [Copy(part, part.mirror()) for part in mirror.missing(step.at)]
        mirror.take(step.at)
        number += 1


def _without(part: Slice, gone: Slice) -> list[Slice]:
    """What is left of a slice."""
    if not part.meets(gone):
        return [part]
    ends = (part.start, min(part.stop, gone.start)), (max(part.start, gone.stop), part.stop)
    return [Slice(part.memory, start, stop) for start, stop in ends if start < stop]
