"""Devices, memory and streams."""

from __future__ import annotations

import numpy as np

from .. import _devices, _memory
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


class Device:
    """A GPU; as a context, the current one."""

    def __init__(self, device: int | None = None) -> None:
        self.id = _devices.current() if device is None else int(device)
        if not 0 <= self.id < _memory.DEVICES:
            raise runtime.CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")

    def __enter__(self) -> Device:
        _devices.stack().append(self.id)
        return self

    def __exit__(self, *_: object) -> None:
        _devices.stack().pop()

    def use(self) -> None:
        _devices.use(self.id)

    def synchronize(self) -> None:
        runtime.deviceSynchronize()


class Memory(_memory.Block):
    """cudaMalloc."""

    def __init__(self, nbytes: int) -> None:
        super().__init__(nbytes, _devices.current())


class ManagedMemory(_memory.Block):
    """cudaMallocManaged."""

    def __init__(self, nbytes: int) -> None:
        super().__init__(nbytes, _devices.current(), managed=True)


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
