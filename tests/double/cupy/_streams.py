"""Streams that run nothing until the host synchronises with them."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable

_numbers = itertools.count(1)
streams: dict[int, Stream] = {}
events: dict[int, Event] = {}
_here = threading.local()


class Stream:
    """A queue of work. ``null``: the default stream."""

    def __init__(self, null: bool = False, non_blocking: bool = False) -> None:
        self.ptr = 0 if null else next(_numbers)
        self.work: deque[tuple[int, Callable[[], None]]] = deque()
        self.launched = 0  # number of the last work
        streams[self.ptr] = self

    def launch(self, work: Callable[[], None]) -> None:
        self.launched += 1
        self.work.append((self.launched, work))

    def reach(self, number: int) -> None:
        """Run the work up to a number."""
        while self.work and self.work[0][0] <= number:
            self.work.popleft()[1]()

    def synchronize(self) -> None:
        self.reach(self.launched)

    def wait_event(self, event: Event) -> None:
        stream, number = event.stream, event.number
        self.launch(lambda: stream.reach(number))

    def __enter__(self) -> Stream:
        _stack().append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _stack().pop()


class Event:
    """A mark in a stream."""

    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        self.ptr = next(_numbers)
        self.stream, self.number, self.asked = null, 0, 0
        events[self.ptr] = self

    def record(self, stream: Stream | None = None) -> None:
        self.stream = stream or current()
        self.number, self.asked = self.stream.launched, 0

    def synchronize(self) -> None:
        self.stream.reach(self.number)

    @property
    def done(self) -> bool:
        """Not at first: then the device has had the time that it needs."""
        self.asked += 1
        if self.asked > 2:
            self.synchronize()
        return not self.stream.work or self.stream.work[0][0] > self.number


null = Stream(null=True)


def _stack() -> list[Stream]:
    if not hasattr(_here, "stack"):
        _here.stack = []
    return _here.stack


def current(device_id: int = -1) -> Stream:
    """The stream that kernels of this thread go to."""
    return _stack()[-1] if _stack() else null
