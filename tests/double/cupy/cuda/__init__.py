"""Devices, memory and streams."""

from __future__ import annotations

import threading

import numpy as np

from .. import _memory
from .._streams import Event, Stream
from .._streams import current as get_current_stream
from . import runtime

__all__ = [
    "Device",
    "Event",
    "Memory",
    "MemoryPointer",
    "PinnedMemory",
    "Stream",
    "UnownedMemory",
    "get_current_stream",
    "runtime",
]
_here = threading.local()


class Device:
    """A GPU; as a context, the current one."""

    def __init__(self, device: int | None = None) -> None:
        self.id = current_device() if device is None else int(device)
        if not 0 <= self.id < _memory.DEVICES:
            raise runtime.CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")

    def __enter__(self) -> Device:
        _stack().append(self.id)
        return self

    def __exit__(self, *_: object) -> None:
        _stack().pop()

    def use(self) -> None:
        _here.used = self.id

    def synchronize(self) -> None:
        runtime.deviceSynchronize()


def _stack() -> list[int]:
    if not hasattr(_here, "stack"):
        _here.stack = []
    return _here.stack


def current_device() -> int:
    return _stack()[-1] if _stack() else getattr(_here, "used", 0)


class Memory(_memory.Block):
    """cudaMalloc."""

    def __init__(self, nbytes: int) -> None:
        super().__init__(nbytes, current_device())


class ManagedMemory(_memory.Block):
    """cudaMallocManaged."""

    def __init__(self, nbytes: int) -> None:
        super().__init__(nbytes, current_device(), managed=True)


class PinnedMemory:
    """cudaHostAlloc."""

    def __init__(self, nbytes: int) -> None:
        self.held = np.full(nbytes, _memory.POISON, np.uint8)
        self.ptr, self.size = self.held.ctypes.data, nbytes


class UnownedMemory:
    """Device memory that somebody else owns."""

    def __init__(self, ptr: int, size: int, owner: object, device_id: int = -1) -> None:
        self.ptr, self.size, self.owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer:
    """A place in device memory."""

    def __init__(self, mem: object, offset: int) -> None:
        self.mem, self.ptr, self.device_id = mem, mem.ptr + offset, mem.device_id
