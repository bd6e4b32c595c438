"""What a plan does, as data: slices of four memories, and the steps on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

SENDBUF, RECVBUF, WORK, SCRATCH = range(4)


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


Step = Start | Wait | Combine | Copy | Final


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
