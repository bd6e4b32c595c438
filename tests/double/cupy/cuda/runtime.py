"""The calls of CUDA's runtime by numbers."""

from __future__ import annotations

from types import SimpleNamespace

from .. import _devices, _memory
from .._streams import events, every, stream_at

memcpyDefault = 4  # noqa: N816 (CuPy's names)
memoryTypeDevice, memoryTypeManaged = 2, 3  # noqa: N816


class CUDARuntimeError(RuntimeError):
    """As CuPy's."""


def getDeviceCount() -> int:
    return _memory.DEVICES


def deviceSynchronize() -> None:
    for stream in every():
        stream.synchronize()


def memcpyAsync(dst: int, src: int, size: int, kind: int, stream: int) -> None:
    def copy() -> None:
        _memory.reach(dst, size)[:] = _memory.reach(src, size)

    stream_at(stream).launch(copy)


def eventRecord(event: int, stream: int) -> None:
    events[event].record(stream_at(stream))


def eventQuery(event: int) -> int:
    """0, cudaErrorNotReady, or what has gone wrong, which is handed on and not raised."""
    return 0 if events[event].done else 600


def streamWaitEvent(stream: int, event: int, flags: int = 0) -> None:
    stream_at(stream).wait_event(events[event])


def pointerGetAttributes(ptr: int) -> SimpleNamespace:
    at = _memory.find(ptr)
    if at is None:
        raise CUDARuntimeError("cudaErrorInvalidValue: invalid argument")
    managed = ptr - at.base >= _memory.MANAGED_FROM
    return SimpleNamespace(type=memoryTypeManaged if managed else memoryTypeDevice, device=at.device)


def memGetInfo() -> tuple[int, int]:
    used = sum(_memory.arena(_devices.current()).used.values())
    return _memory.SIZE - used, _memory.SIZE
