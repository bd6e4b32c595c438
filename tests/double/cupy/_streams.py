"""Streams that run nothing until the host synchronises with them."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable

from . import _devices

_numbers = itertools.count(3)  # 1 and 2 are names of the default stream
streams: dict[int, Stream] = {}
events: dict[int, Event] = {}
_nulls: dict[int, Stream] = {}
_here = threading.local()


class Stream:
    """A queue of work of the device that is current when it is made. ``null``: its default stream."""

    def __init__(self, null: bool = False, non_blocking: bool = False) -> None:
        self.ptr, self.device_id = 0 if null else next(_numbers), _devices.current()
        self.work: deque[tuple[int, Callable[[], None]]] = deque()
        self.launched = 0  # number of the last work
        if not null:
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
        self.use()
        _stack().append(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Back to the stream that was entered before, not to one that was taken by ``use`` since: as CuPy has it."""
        device = _stack().pop().device_id
        _taken()[device] = next((one for one in reversed(_stack()) if one.device_id == device), None)

    def use(self) -> Stream:
        here = _devices.current()
        if self.device_id != here:
            raise RuntimeError(f"the stream is of device {self.device_id} and the current one is {here}")
        _taken()[here] = self
        return self


class Event:
    """A mark in a stream of the device that is current when the event is made."""

    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        self.ptr, self.device_id = next(_numbers), _devices.current()
        self.stream, self.number, self.asked = stream_at(0), 0, 0
        events[self.ptr] = self

    def record(self, stream: Stream | None = None) -> None:
        self.stream = stream or current()
        if self.stream.device_id != self.device_id:
            raise RuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle")
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


def stream_at(ptr: int) -> Stream:
    """The stream of a pointer; 0, 1 and 2 are the default one of the current device."""
    if ptr > 2:
        return streams[ptr]
    here = _devices.current()
    if here not in _nulls:
        _nulls[here] = Stream(null=True)
    return _nulls[here]


def every() -> list[Stream]:
    return [*streams.values(), *_nulls.values()]


def _stack() -> list[Stream]:
    if not hasattr(_here, "stack"):
        _here.stack = []
    return _here.stack


def _taken() -> dict[int, Stream | None]:
    """The current stream of each device; None is its default one."""
    if not hasattr(_here, "taken"):
        _here.taken = {}
    return _here.taken


def current(device_id: int = -1) -> Stream:
    """The stream that kernels of this thread go to, on the current device or another."""
    device = _devices.current() if device_id < 0 else device_id
    found = _taken().get(device)
    if found is not None:
        return found
    _devices.stack().append(device)
    try:
        return stream_at(0)
    finally:
        _devices.stack().pop()
