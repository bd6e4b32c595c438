"""A plan on a device: its stream, its memory, and the calls of its steps.

Kernels and copies go to one stream. That stream waits for what the caller has launched (``enter``); the host waits for
the stream only where ``fence`` put a Sync. Memory is allocated with the plan and never in between.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from mpi4py import MPI

from . import device_buffers, kernels
from .bind import Binder, Call
from .buffers import Flat
from .device_buffers import cupy
from .fence import fence
from .ops import Operation
from .private import Private
from .stage import stage
from .steps import MIRRORS, RECVBUF, SCRATCH, SENDBUF, WORK, Copy, Enter, Final, Slice, Start, Step, Sync
from .transport import Decision

ALIGNMENT = 512
NOT_READY = 600  # cudaErrorNotReady


class Lane:
    """A stream of a device, and how a call is made on it."""

    def __init__(self, device: int, stream: Any, callers: tuple[Callable[[], int], ...]) -> None:
        self.device, self.stream, self.callers = cupy().cuda.Device(device), stream, callers
        self.events = [self.event() for _ in callers]
        self.arriving: list[int] = []
        self.depth = 0

    def event(self) -> Any:
        """A new event; it can only be recorded on the device that it was made on."""
        with self.device:
            return cupy().cuda.Event(disable_timing=True)

    def run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Make a call with this lane's device and stream as the current ones."""
        if not self.depth:  # a plan that finds others started runs itself from in here, where no caller's stream shows
            self.arriving = [caller() for caller in self.callers]
        self.depth += 1
        try:
            with self.device:
                # ``with`` goes back to the stream that was entered last, not to one that the caller took by use().
                before = cupy().cuda.get_current_stream()
                self.stream.use()
                try:
                    return call(*args)
                finally:
                    before.use()
        finally:
            self.depth -= 1

    def enter(self) -> None:
        """Let the stream wait for all that the caller has launched."""
        for event, stream in zip(self.events, self.arriving):
            cupy().cuda.runtime.eventRecord(event.ptr, stream)
            cupy().cuda.runtime.streamWaitEvent(self.stream.ptr, event.ptr)


class DevicePlace:
    """GPU memory: the caller's, and working memory and scratch of ``sizes`` elements; mirrors in pinned host memory.

    ValueError: the transport that was asked for cannot be. MemoryError: not enough memory on the device or the host.
    """

    def __init__(
        self,
        state: Private,
        steps: Sequence[Step],
        send: Flat | None,
        recv: Flat | None,
        sizes: tuple[int, int],
        one_shot: bool,
    ) -> None:
        data = recv or send
        assert data is not None
        assert data.device is not None
        self.dtype, itemsize = data.dtype, data.dtype.itemsize
        self.transport = _transport(state, (send, recv))
        self.steps: Sequence[Step] = fence(stage(steps) if self.transport.name == "staged" else steps)
        rooms = _rooms(state, data.device) if one_shot else Rooms(data.device, state.forget)
        work, scratch = (_aligned(size * itemsize) for size in sizes)
        low = rooms.device(work + scratch)
        self.addresses = {WORK: low.ptr, SCRATCH: low.ptr + work} if low else {}
        self.addresses |= {memory: at.address for memory, at in ((SENDBUF, send), (RECVBUF, recv)) if at is not None}
        extents = {memory: _aligned(count * itemsize) for memory, count in _mirrored(self.steps).items()}
        high = rooms.pinned(sum(extents.values()))
        self.addresses |= dict(zip(extents, accumulate(extents.values(), initial=high.ptr if high else 0)))
        self.lane = Lane(data.device, rooms.stream, device_buffers.caller_streams((send, recv), data.device))
        self.keep = low, high

    def compile(self, operation: Operation) -> None:
        """Make sure of the kernels. RuntimeError: they cannot be compiled."""
        self.lane.run(kernels.compile, operation, self.dtype, self.lane.device.id)

    def binder(self, comm: MPI.Intracomm, operation: Operation | None, tag: int) -> Binder:
        """As bind.Place."""
        return _DeviceBinder(comm, operation, tag, self)

    def runners(self, operation: Operation | None) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """As bind.Place."""
        return self.lane.run, self.lane.run


def _transport(state: Private, flats: Sequence[Flat | None]) -> Decision:
    decided = state.config.transport
    if isinstance(decided, str):
        raise ValueError(decided)
    reason = device_buffers.unshareable(flats) if decided.name == "direct" else ""
    if not reason:
        return decided
    warnings.warn(f"mpicoll: {reason} cannot be shared by MPI: messages go through host memory", stacklevel=2)
    return Decision("staged", f"the buffer is {reason}")


class Rooms:
    """A stream, device memory and pinned host memory; what is asked for again shares what there is.

    Memory comes from no pool: the caller may have set one whose memory MPI cannot share. ``forget`` gives up what holds
    memory that is too small.
    """

    def __init__(self, device: int, forget: Callable[[], None]) -> None:
        self.id, self.forget = device, forget
        self.held: dict[str, tuple[int, Any]] = {}
        with cupy().cuda.Device(device):
            self.stream = cupy().cuda.Stream(non_blocking=True)

    def device(self, nbytes: int) -> Any:
        """Device memory, None for no bytes; it only grows."""
        with cupy().cuda.Device(self.id):
            return self._room(f"on GPU {self.id}", nbytes, cupy().cuda.Memory)

    def pinned(self, nbytes: int) -> Any:
        """Pinned host memory, None for no bytes; it only grows."""
        return self._room("of pinned host memory", nbytes, cupy().cuda.PinnedMemory)

    def _room(self, where: str, nbytes: int, make: Callable[[int], Any]) -> Any:
        size, room = self.held.get(where, (0, None))  # to allocate either costs as much as many messages
        if size < nbytes:
            if self.held.pop(where, None):
                self.forget()
            del room  # the last that holds the old one
            room = _allocate(make, nbytes, where)
            self.held[where] = nbytes, room
        return room


def _rooms(state: Private, device: int) -> Rooms:
    """What one-shot plans share, since only one of them runs at a time."""
    if device not in state.devices:
        state.devices[device] = Rooms(device, state.forget)
    return state.devices[device]


def _allocate(make: Callable[[int], Any], nbytes: int, where: str) -> Any:
    try:
        return make(nbytes)
    except (MemoryError, RuntimeError) as error:
        raise MemoryError(f"{nbytes} bytes {where} cannot be had ({' '.join(str(error).split())[:120]})") from None


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _mirrored(steps: Sequence[Step]) -> dict[int, int]:
    """Elements of each mirror that the messages use."""
    extents: dict[int, int] = {}
    for step in steps:
        if isinstance(step, Start) and step.at.memory >= MIRRORS:
            extents[step.at.memory] = max(step.at.stop, extents.get(step.at.memory, 0))
    return extents


def _through(event: Any) -> bool:
    """Whether the device has come to an event. RuntimeError: it never will."""
    status = cupy().cuda.runtime.eventQuery(event.ptr)
    if status not in (0, NOT_READY):
        event.synchronize()  # which says what it is
    return bool(status == 0)


class _DeviceBinder(Binder):
    def __init__(self, comm: MPI.Intracomm, operation: Operation | None, tag: int, where: DevicePlace) -> None:
        super().__init__(comm, operation, tag)
        self.where, self.dtype, self.lane = where, where.dtype, where.lane
        self.awaited = {step.step: self.lane.event() for step in where.steps if isinstance(step, Sync)}
        self.views: dict[Slice, Any] = {}

    def other(self, step: Step, calls: list[Call], tests: dict[int, Callable[[], bool]]) -> None:
        if isinstance(step, Enter):
            calls.append(self.lane.enter)
        elif isinstance(step, Sync):
            event = self.awaited[step.step]
            tests[len(calls)] = partial(_through, event)
            calls.append(event.synchronize)

    def after(self, number: int, calls: list[Call]) -> None:
        if number in self.awaited:
            calls.append(partial(self.awaited[number].record, self.lane.stream))

    def array(self, at: Slice) -> Any:
        # One object for one place: an operand that is not ``out`` itself but shares its memory, CuPy copies first.
        if at not in self.views:
            count = at.stop - at.start
            self.views[at] = device_buffers.view(self._address(at), count, self.dtype, self.lane.device.id)
        return self.views[at]

    def data(self, at: Slice) -> Any:
        return MPI.memory.fromaddress(self._address(at), (at.stop - at.start) * self.dtype.itemsize)

    def copy(self, step: Copy) -> Call:
        runtime, nbytes = cupy().cuda.runtime, (step.source.stop - step.source.start) * self.dtype.itemsize
        target, source = self._address(step.target), self._address(step.source)
        return partial(runtime.memcpyAsync, target, source, nbytes, runtime.memcpyDefault, self.lane.stream.ptr)

    def divide(self, step: Final) -> Call:
        return kernels.divide(self.array(step.at), self.comm.size, self.dtype)

    def _address(self, at: Slice) -> int:
        return int(self.where.addresses[at.memory]) + at.start * self.dtype.itemsize
