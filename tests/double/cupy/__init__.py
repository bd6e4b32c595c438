"""See README.md beside this package."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _devices, _memory, _streams, cuda

__version__ = "0+double"
KNOWN = ["b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]


class ndarray:  # noqa: N801
    """An array in device memory; the host cannot look into it."""

    def __init__(self, shape: Any, dtype: Any = float, memptr: Any = None, order: str = "C") -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype, self.size = _known(dtype), int(np.prod(self.shape, dtype=int))
        if memptr is None:
            memptr = cuda.MemoryPointer(cuda.Memory(self.size * self.dtype.itemsize), 0)
        self.data = memptr
        self.strides = _strides(self.shape, self.dtype, order)
        self.nbytes, self.ndim, self.itemsize = self.size * self.dtype.itemsize, len(self.shape), self.dtype.itemsize

    @property
    def device(self) -> cuda.Device:
        return cuda.Device(self.data.device_id)

    @property
    def flags(self) -> Any:
        return np.lib.stride_tricks.as_strided(np.empty(1, self.dtype), self.shape, self.strides).flags

    @property
    def __cuda_array_interface__(self) -> dict:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.data.ptr if self.size else 0, False),
            "strides": None if self.flags.c_contiguous else self.strides,
            "version": 3,
            "stream": _streams.current().ptr or 1,
        }

    def _reach(self) -> np.ndarray:
        """The elements as a kernel reaches them; only for work that a stream runs."""
        whole = _memory.reach(self.data.ptr, self._extent())
        return np.lib.stride_tricks.as_strided(whole[: self.itemsize].view(self.dtype), self.shape, self.strides)

    def _extent(self) -> int:
        if not self.size:
            return self.itemsize
        return self.itemsize + sum((n - 1) * stride for n, stride in zip(self.shape, self.strides))

    def set(self, values: np.ndarray, stream: Any = None) -> None:
        """Copy from the host, when the stream comes to it."""
        if not isinstance(values, np.ndarray) or values.dtype != self.dtype:
            raise TypeError(f"{values!r} cannot be set to {self.dtype} array")
        if values.shape != self.shape or not (self.flags.c_contiguous or self.flags.f_contiguous):
            raise ValueError(f"Shape mismatch, or not contiguous: {self.shape} and {values.shape}")
        kept = values.copy()
        (stream or _streams.current()).launch(lambda: np.copyto(self._reach(), kept))

    def get(self, stream: Any = None) -> np.ndarray:
        """Copy to the host; the stream is waited for."""
        (stream or _streams.current()).synchronize()
        return self._reach().copy()

    def fill(self, value: Any) -> None:
        _streams.current().launch(lambda: self._reach().fill(value))

    def __getitem__(self, at: slice) -> ndarray:
        start, stop, step = at.indices(self.shape[0])
        length = len(range(start, stop, step))
        view = ndarray((length, *self.shape[1:]), self.dtype, cuda.MemoryPointer(self.data, start * self.strides[0]))
        view.data.mem = self.data.mem
        view.strides = (self.strides[0] * step, *self.strides[1:])
        return view

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")


def _known(dtype: Any) -> np.dtype:
    """What an array may be of: CuPy looks a dtype up in a dict first, and has structures, but not all of NumPy's."""
    hash(dtype)
    known = np.dtype(dtype)
    if known.byteorder == ">" or known.hasobject or not (known.kind == "V" or known.str[1:] in KNOWN):
        raise ValueError(f"Unsupported dtype {known}")
    return known


def _strides(shape: tuple[int, ...], dtype: np.dtype, order: str) -> tuple[int, ...]:
    inner = [shape[i + 1 :] if order == "C" else shape[:i] for i in range(len(shape))]
    return tuple(int(dtype.itemsize * np.prod(lengths, dtype=int)) for lengths in inner)


def empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    return ndarray(shape, dtype, order=order)


def asarray(values: Any, order: str | None = None) -> ndarray:
    if isinstance(values, ndarray):
        return values
    interface = getattr(values, "__cuda_array_interface__", None)
    if interface is not None:
        address = interface["data"][0]
        at = _memory.find(address)
        memory = cuda.UnownedMemory(address, 0, values, at.device if at else _devices.current())
        if interface.get("stream") is not None:
            _streams.stream_at(interface["stream"]).synchronize()
        array = ndarray(interface["shape"], interface["typestr"], cuda.MemoryPointer(memory, 0))
        array.strides = interface.get("strides") or array.strides
        return array
    host = np.asarray(values)
    array = ndarray(host.shape, host.dtype, order=order or ("C" if host.flags.c_contiguous else "F"))
    array.set(host)
    return array


def from_dlpack(tensor: Any) -> ndarray:
    """A view of another library's tensor, whose work the current stream waits for; no capsule here."""
    return asarray(tensor.__dlpack__(stream=_streams.current().ptr))


def _launch(kernel: Any, *arrays: Any) -> None:
    """A kernel on the current stream; its arrays must be in the current device's memory, of dtypes that CuPy knows."""
    for one in arrays:
        if isinstance(one, ndarray) and one.data.device_id != _devices.current():
            raise ValueError(f"the array is on device {one.data.device_id} and the current one is {_devices.current()}")
        if isinstance(one, ndarray) and not (one.dtype.isnative and one.dtype.str[1:] in KNOWN):
            raise TypeError(f"Wrong type ({one.dtype!r}) of arguments")
    _streams.current().launch(kernel)


def _ufunc(function: np.ufunc) -> Any:
    def call(*inputs: Any, out: ndarray, casting: str = "same_kind") -> ndarray:
        def run() -> None:
            with np.errstate(all="ignore"):
                seen = [one._reach() if isinstance(one, ndarray) else one for one in inputs]
                function(*seen, out=out._reach(), casting=casting)

        for one in inputs:
            if isinstance(one, ndarray) and one is not out and one.data.mem.ptr == out.data.mem.ptr:
                raise RuntimeError("another array on the memory of out: CuPy allocates, and copies it first")
        _launch(run, *inputs, out)
        return out

    return call


add, multiply, minimum, maximum = map(_ufunc, (np.add, np.multiply, np.minimum, np.maximum))
logical_and, logical_or, logical_xor = map(_ufunc, (np.logical_and, np.logical_or, np.logical_xor))
bitwise_and, bitwise_or, bitwise_xor = map(_ufunc, (np.bitwise_and, np.bitwise_or, np.bitwise_xor))
true_divide = _ufunc(np.true_divide)


class ElementwiseKernel:
    """Kernels on bfloat16's bits, known by the name of NumPy's function at the end of theirs."""

    def __init__(self, in_params: str, out_params: str, operation: str, name: str) -> None:
        self.function = getattr(np, name.removeprefix("mpicoll_bfloat16_"))

    def __call__(self, a: ndarray, b: Any, out: ndarray) -> ndarray:
        import ml_dtypes

        def run() -> None:
            x = a._reach().view(ml_dtypes.bfloat16)
            y = b._reach().view(ml_dtypes.bfloat16) if isinstance(b, ndarray) else b
            with np.errstate(all="ignore"):
                out._reach()[:] = self.function(x, y).astype(ml_dtypes.bfloat16).view(np.uint16)

        _launch(run, a, b, out)
        return out
