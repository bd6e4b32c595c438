"""Memory that is spelled in every way: (what is handed in, an array that sees the same elements)."""

from __future__ import annotations

import array
import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI

from mpicoll.runtime.dlpack import _Tensor

Spelled = tuple[Any, np.ndarray]


class Exporter:
    """An object that shows its memory by DLPack alone, as a tensor on the host does."""

    def __init__(self, values: np.ndarray, device: int = 1) -> None:
        self.values, self.device = values, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __dlpack__(self, **more: Any) -> Any:
        if self.values.dtype.name != "bfloat16":
            return self.values.__dlpack__(**more)
        if more:
            raise TypeError("from before there were versions")
        self.shape = (ctypes.c_int64 * self.values.ndim)(*self.values.shape)
        self.tensor = _Tensor(self.values.ctypes.data, 1, 0, self.values.ndim, 4, 16, 1, self.shape, None, 0)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


def _within(values: np.ndarray, spell: Callable[[np.ndarray, int], Any]) -> Spelled:
    around = np.full(len(values) + 5, -7.0)
    around[2:-3] = values
    return spell(around, len(values)), around[2:-3]


def _exported(values: np.ndarray, make: Callable[[np.ndarray], Any], see: Callable[[Any], Any] = memoryview) -> Spelled:
    made = make(values)
    return made, np.frombuffer(see(made), "f8")


def _of(values: np.ndarray, spell: Callable[[np.ndarray], Any]) -> Spelled:
    return spell(values), values


def _raw(values: np.ndarray) -> Spelled:
    memory = bytearray(values.tobytes())
    return [memory, MPI.DOUBLE], np.frombuffer(memory, "f8")


SPELLINGS: dict[str, Callable[[np.ndarray], Spelled]] = {
    "[data, type]": lambda x: _of(x, lambda x: [x, MPI.DOUBLE]),
    "(data, code)": lambda x: _of(x, lambda x: (x, "d")),
    "[data, None, type]": lambda x: _of(x, lambda x: [x, None, MPI.DOUBLE]),
    "[data, count]": lambda x: _of(x, lambda x: [x, len(x)]),
    "[data, (count, displ)]": lambda x: _within(x, lambda y, n: [y, (n, 2)]),
    "[data, count, type]": lambda x: _of(x, lambda x: [x, np.int64(len(x)), MPI.DOUBLE]),
    "[data, (count, displ), type]": lambda x: _within(x, lambda y, n: [y, (n, 2), MPI.DOUBLE]),
    "[data, count, displ, type]": lambda x: _within(x, lambda y, n: (y, n, 2, "f8")),
    "bytearray": _raw,
    "memoryview": lambda x: _of(x, memoryview),
    "array.array": lambda x: _exported(x, lambda x: array.array("d", x)),
    "ctypes": lambda x: _exported(x, lambda x: (ctypes.c_double * len(x))(*x)),
    "MPI.memory": lambda x: _of(x, lambda x: [MPI.memory(x), MPI.DOUBLE]),
    "DLPack": lambda x: _of(x, Exporter),
    "[DLPack, type]": lambda x: _of(x, lambda x: [Exporter(x), MPI.DOUBLE]),
    "a type that was made": lambda x: _of(x, lambda x: [x, MPI.Datatype.Create_f90_real(15, 300)]),
}
