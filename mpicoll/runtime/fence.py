"""Where the host must wait for the device: the one place that decides it.

What runs on a device is only launched by the host. MPI reads and writes at once. So a send waits for what is still to
write its memory, a receive for what is still to read or write it, and the end for all that was launched. At the start
all memory of the caller counts as in use: the caller's own kernels may not be through.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from .steps import RECVBUF, SENDBUF, Enter, Slice, Start, Step, Sync, Wait, read, written


class _Launched(NamedTuple):
    """A step that the device may not be through with."""

    number: int
    reads: tuple[Slice, ...]
    writes: tuple[Slice, ...]


def fence(steps: Sequence[Step]) -> list[Step]:
    """The steps with Enter before them and a Sync wherever one is needed and nowhere else. Cost O(steps)."""
    caller = Slice(SENDBUF, 0, sys.maxsize), Slice(RECVBUF, 0, sys.maxsize)
    launched = [_Launched(0, (), caller)]
    out: list[Step] = [Enter()]
    moved: dict[int, int] = {}

    def wait_for(needed: list[int]) -> None:
        if needed:  # a stream runs in order: the last one stands for all
            out.append(Sync(max(needed)))
            launched[:] = [work for work in launched if work.number > max(needed)]

    for number, step in enumerate(steps):
        if isinstance(step, Start):
            wait_for(
                [
                    work.number
                    for work in launched
                    if any(step.at.meets(at) for at in work.writes)
                    or (not step.sends and any(step.at.meets(at) for at in work.reads))
                ]
            )
        moved[number] = len(out)
        out.append(Wait(moved[step.request]) if isinstance(step, Wait) else step)
        target = written(step)
        if target is not None:
            launched.append(_Launched(moved[number], read(step), (target,)))
    wait_for([work.number for work in launched])
    return out
