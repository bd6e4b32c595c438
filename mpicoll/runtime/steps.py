"""What a plan does, as data: slices of four memories (or of their mirrors on the host), and the steps on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

SENDBUF, RECVBUF, WORK, SCRATCH = range(4)
MIRRORS = 4  # memory m of a device has its mirror on the host at MIRRORS + m


class Slice(NamedTuple):
    """Elements start..stop of one of the four memories."""

    memory: int
    start: int
    stop: int

    def part(self, start: int, stop: int) -> Slice:
        """Elements start..stop of this slice."""
        return Slice(self.memory, self.start + start, self.start + stop)

    def meets(self, other: Slice) -> bool:
        """Whether the two have an element in common."""
        return self.memory == other.memory and self.start < other.stop and other.start < self.stop

    def touches(self, after: Slice) -> bool:
        """Whether ``after`` begins where this ends."""
        return self.memory == after.memory and self.stop == after.start

    def mirror(self) -> Slice:
        """The same elements on the host."""
        return Slice(MIRRORS + self.memory, self.start, self.stop)


class Start(NamedTuple):
    """Start a message; its request is the number of this step."""

    sends: bool
    peer: int
    at: Slice


class Wait(NamedTuple):
    """Wait for the message that step number ``request`` started."""

    request: int


class Combine(NamedTuple):
    """out = left ∘ right."""

    left: Slice
    right: Slice
    out: Slice


class Copy(NamedTuple):
    """target = source."""

    source: Slice
    target: Slice


class Final(NamedTuple):
    """What stands here has been reduced for the last time: an average divides it now."""

    at: Slice


class Enter(NamedTuple):
    """On a device: nothing that follows runs before what the caller has launched on it."""


class Sync(NamedTuple):
    """On a device: the host waits until step number ``step`` is through, and with it all that was launched before."""

    step: int


Step = Start | Wait | Combine | Copy | Final | Enter | Sync


def written(step: Step) -> Slice | None:
    """What a step writes at once, or when the device comes to it; None for messages and waits."""
    if isinstance(step, Combine):
        return step.out
    return step.target if isinstance(step, Copy) else step.at if isinstance(step, Final) else None


def read(step: Step) -> tuple[Slice, ...]:
    """What a step reads at once, or when the device comes to it."""
    if isinstance(step, Combine):
        return step.left, step.right
    return (step.source,) if isinstance(step, Copy) else (step.at,) if isinstance(step, Final) else ()


class Layout(NamedTuple):
    """Where the chunks of one rank lie; ``edges`` cut the vector, the functions take a chunk.

    ``begin``: where it is at the start (None: not here). ``home``: where it is written. ``end``: where it must be at
    the end (None: not wanted here).
    """

    edges: Sequence[int]
    begin: Callable[[int], Slice | None]
    home: Callable[[int], Slice]
    end: Callable[[int], Slice | None]


@dataclass
class Lowered:
    """The steps, how many elements of scratch memory they need, and the rounds in which this rank speaks."""

    steps: list[Step]
    scratch: int = 0
    rounds: int = 0
