"""Host memory behind DLPack -> a NumPy array; bfloat16 and long double too, which numpy.from_dlpack does not take."""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import numpy as np

HOST = (1, 3, 11)  # kDLCPU, and the pinned memory of CUDA and ROCm
_BFLOAT = 4
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c"}
_READ_ONLY = 1


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _Memory:
    """What NumPy asks for; it keeps the capsule, and so the memory, alive."""

    def __init__(self, capsule: Any, interface: dict[str, Any]) -> None:
        self.capsule, self.__array_interface__ = capsule, interface


def is_dlpack(data: Any) -> bool:
    """Whether this hands out its memory by DLPack."""
    return hasattr(data, "__dlpack__") and hasattr(data, "__dlpack_device__")


def host_array(data: Any) -> np.ndarray:
    """The memory of a DLPack object on the host as an array.

    TypeError: it is elsewhere, or there is no dtype for it; and what the object itself raises.
    """
    kind = int(data.__dlpack_device__()[0])
    if kind not in HOST:
        raise TypeError(f"it is on a device of DLPack's kind {kind}")
    try:
        capsule = data.__dlpack__(max_version=(1, 0))
    except TypeError:  # from before there were versions
        capsule = data.__dlpack__()
    read_only = False
    if _is_valid(capsule, b"dltensor_versioned"):
        outer = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        tensor, read_only = outer.tensor, bool(outer.flags & _READ_ONLY)
    else:
        tensor = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    dtype = _dtype(tensor.code, tensor.bits, tensor.lanes)
    shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
    strides = (
        tuple(s * dtype.itemsize for s in tensor.strides[: tensor.ndim]) if tensor.ndim and tensor.strides else None
    )
    if not prod(shape):
        return np.empty(shape, dtype)
    raw = np.dtype((np.void, dtype.itemsize))  # bfloat16 has no spelling of its own there
    interface = {
        "version": 3,
        "shape": shape,
        "strides": strides,
        "typestr": raw.str,
        "data": ((tensor.data or 0) + tensor.byte_offset, read_only),
    }
    return np.asarray(_Memory(capsule, interface)).view(dtype)


def _dtype(code: int, bits: int, lanes: int) -> np.dtype:
    if (code, lanes) == (2, 2):  # as mpi4py reads a long complex number, whose bits DLPack cannot count
        code, bits, lanes = 5, 2 * bits, 1
    if lanes == 1 and bits % 8 == 0:
        if code in _KINDS:
            try:
                return np.dtype(f"{_KINDS[code]}{bits // 8}")
            except TypeError:
                pass
        if (code, bits) == (6, 8):
            return np.dtype(bool)
        if (code, bits) == (_BFLOAT, 16):
            try:
                from ml_dtypes import bfloat16
            except ImportError:
                raise TypeError("it holds bfloat16: pip install 'mpicoll[bfloat16]'") from None
            return np.dtype(bfloat16)
    raise TypeError(f"DLPack's type (code {code}, {bits} bits, {lanes} lanes) has no dtype in NumPy")
