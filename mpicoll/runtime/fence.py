"""Where the host must wait for the device: the one place that decides it.

What runs on a device is only launched by the host. MPI reads and writes at once. So a send waits for what is still to
write its memory, a receive for what is still to read or write it, and the end for all that was launched. At the start
all memory of the caller counts as in use: the caller's own kernels may not be through.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence

from .steps import RECVBUF, SENDBUF, Enter, Slice, Start, Step, Sync, Wait, read, written


class _Uses:
    """What the device may still read or write: by memory (number of the step, where, whether it writes)."""

    def __init__(self) -> None:
        self.of: dict[int, list[tuple[int, Slice, bool]]] = defaultdict(list)
        self.last = self.awaited = -1

    def add(self, number: int, at: Slice, writes: bool) -> None:
        self.of[at.memory].append((number, at, writes))
        self.last = number

    def conflict(self, at: Slice, writes: bool) -> int | None:
        """The last step not waited for that MPI must not run beside when it reads, or ``writes``, ``at``."""
        for number, other, written_there in reversed(self.of[at.memory]):
            if number <= self.awaited:
                return None
            if (writes or written_there) and other.meets(at):
                return number
        return None


def fence(steps: Sequence[Step]) -> list[Step]:
    """The steps with Enter before them and a Sync wherever one is needed and nowhere else. Cost about O(steps)."""
    uses = _Uses()
    out: list[Step] = [Enter()]
    for memory in (SENDBUF, RECVBUF):
        uses.add(0, Slice(memory, 0, sys.maxsize), True)
    moved: dict[int, int] = {}
    for number, step in enumerate(steps):
        if isinstance(step, Start) and (last := uses.conflict(step.at, not step.sends)) is not None:
            out.append(Sync(last))  # a stream runs in order: all before it are through too
            uses.awaited = last
        moved[number] = len(out)
        out.append(Wait(moved[step.request]) if isinstance(step, Wait) else step)
        for at in read(step):
            uses.add(moved[number], at, False)
        if (target := written(step)) is not None:
            uses.add(moved[number], target, True)
    if uses.last > uses.awaited:
        out.append(Sync(uses.last))
    return out
