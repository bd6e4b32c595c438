"""One arena stands for all device memory, mapped twice: where kernels reach it, and at its device addresses."""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np

SIZE = int(os.environ.get("DOUBLE_BYTES", str(1 << 28)))  # of each device
DEVICES = int(os.environ.get("DOUBLE_DEVICES", "2"))
READABLE = os.environ.get("DOUBLE_READABLE", "0") == "1"
POISON = 0xA5
MANAGED_FROM = SIZE // 4 * 3  # what is allocated as managed memory lies here

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]


class Arena:
    """First fit in order; neighbours that are free are merged."""

    def __init__(self, device: int) -> None:
        self.device = device
        file = os.memfd_create("device")
        os.ftruncate(file, SIZE)
        self.backing = np.frombuffer(mmap.mmap(file, SIZE), np.uint8)
        access = mmap.PROT_READ | mmap.PROT_WRITE if READABLE else 0
        self.base = _libc.mmap(None, SIZE, access, mmap.MAP_SHARED, file, 0)
        if self.base in (None, ctypes.c_void_p(-1).value):
            raise MemoryError("no room for the device's memory")
        os.close(file)
        self.used: dict[int, int] = {}

    def allocate(self, nbytes: int, managed: bool = False) -> int:
        nbytes = max(nbytes, 1)
        start, end = (MANAGED_FROM, SIZE) if managed else (0, MANAGED_FROM)
        at = start
        for offset in sorted(self.used):
            if offset < start or offset >= end:
                continue
            if offset - at >= nbytes:
                break
            at = offset + -(-self.used[offset] // 512) * 512
        if at + nbytes > end:
            raise MemoryError(f"out of memory allocating {nbytes:,} bytes")
        self.used[at] = nbytes
        self.backing[at : at + nbytes] = POISON
        return self.base + at

    def free(self, address: int) -> None:
        at = address - self.base
        self.backing[at : at + self.used.pop(at)] = POISON


_arenas: dict[int, Arena] = {}


def arena(device: int) -> Arena:
    if device not in _arenas:
        _arenas[device] = Arena(device)
    return _arenas[device]


def find(address: int) -> Arena | None:
    """The device whose memory an address is in."""
    return next((a for a in _arenas.values() if a.base <= address < a.base + SIZE), None)


def reach(address: int, nbytes: int) -> np.ndarray:
    """Bytes at an address of a device or of the host, as a device reaches them."""
    at = find(address)
    if at is not None:
        return at.backing[address - at.base : address - at.base + nbytes]
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address)) if nbytes else np.empty(0, np.uint8)


class Block:
    """Device memory that is freed with this object."""

    def __init__(self, nbytes: int, device: int, managed: bool = False) -> None:
        self.size, self.device_id, self.managed = nbytes, device, managed
        self.ptr = arena(device).allocate(nbytes, managed)

    def __del__(self) -> None:
        if hasattr(self, "ptr"):
            arena(self.device_id).free(self.ptr)
