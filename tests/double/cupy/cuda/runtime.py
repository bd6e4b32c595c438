"""The calls of CUDA's runtime by numbers."""

from __future__ import annotations

from types import SimpleNamespace

from .. import _memory
from .._streams import events, streams

memcpyDefault = 4  # noqa: N816 (CuPy's names)
memoryTypeDevice, memoryTypeManaged = 2, 3  # noqa: N816


class CUDARuntimeError(RuntimeError):
    """As CuPy's."""


def getDeviceCount() -> int:  # noqa: N802
    return _memory.DEVICES


def deviceSynchronize() -> None:  # noqa: N802
    for stream in list(streams.values()):
        stream.synchronize()


def memcpyAsync(dst: int, src: int, size: int, kind: int, stream: int) -> None:  # noqa: N802
    def copy() -> None:
        _memory.reach(dst, size)[:] = _memory.reach(src, size)

    streams[stream].launch(copy)


def eventRecord(event: int, stream: int) -> None:  # noqa: N802
    events[event].record(streams[stream])


def streamWaitEvent(stream: int, event: int, flags: int = 0) -> None:  # noqa: N802
    streams[stream].wait_event(events[event])


def pointerGetAttributes(ptr: int) -> SimpleNamespace:  # noqa: N802
    at = _memory.find(ptr)
    if at is None:
        raise CUDARuntimeError("cudaErrorInvalidValue: invalid argument")
    managed = ptr - at.base >= _memory.MANAGED_FROM
    return SimpleNamespace(type=memoryTypeManaged if managed else memoryTypeDevice, device=at.device)


def memGetInfo() -> tuple[int, int]:  # noqa: N802
    from . import current_device

    used = sum(_memory.arena(current_device()).used.values())
    return _memory.SIZE - used, _memory.SIZE
