"""What a caller hands in -> one flat view of it, checked before any message leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI

# Chunks are cut at elements, so that any dtype of fixed size would travel; these are the ones that can be reduced.
NUMERIC_KINDS = "biufc"


@dataclass(frozen=True)
class Flat:
    """Contiguous memory seen as a vector: where, how many of what, and in which order a matrix lies in it."""

    address: int
    count: int
    dtype: np.dtype
    order: str
    owner: Any
    device: int | None = None  # the GPU whose memory it is; None: the host's

    @property
    def nbytes(self) -> int:
        """Bytes of the vector."""
        return self.count * self.dtype.itemsize

    def array(self, readonly: bool = False) -> np.ndarray:
        """Host memory as a one-dimensional array that does not keep the caller's object alive."""
        if not self.nbytes:
            return np.empty(0, self.dtype)
        raw = MPI.memory.fromaddress(self.address, self.nbytes, readonly)
        return np.asarray(raw, np.uint8).view(self.dtype)


def is_bfloat16(dtype: np.dtype) -> bool:
    """Whether this is ml_dtypes' bfloat16, known by name so that ml_dtypes need not be there."""
    return dtype.name == "bfloat16"


def is_pair(dtype: np.dtype) -> bool:
    """Whether this is a (value, index) pair, as MINLOC and MAXLOC take it."""
    if not dtype.names or len(dtype.names) != 2:
        return False
    value, index = (dtype[name] for name in dtype.names)
    return value.kind in "iuf" and index.kind in "iu"


def flat(buffer: Any, name: str, *, writable: bool = False) -> Flat:
    """The flat view of an array of any shape, C or Fortran contiguous: NumPy's, or one in GPU memory.

    TypeError: not an array, or a dtype that is not numeric. ValueError: not contiguous; read-only where written.
    """
    from . import device_buffers  # imports this module

    if device_buffers.is_device(buffer):
        seen = device_buffers.device_flat(buffer, name, writable=writable)
        _numeric(seen.dtype, name)
        return seen
    if not isinstance(buffer, np.ndarray) or isinstance(buffer, np.ma.MaskedArray):
        raise TypeError(f"{name} is {_say(buffer)}: pass a numpy.ndarray")
    dtype = buffer.dtype
    _numeric(dtype, name)
    if not (buffer.flags.c_contiguous or buffer.flags.f_contiguous):
        raise ValueError(
            f"{name} is not contiguous (shape {buffer.shape}, strides {buffer.strides}): "
            f"pass numpy.ascontiguousarray({name}) or a contiguous array"
        )
    if writable and not buffer.flags.writeable:
        raise ValueError(f"{name} is read-only: pass a writable array")
    order = "C" if buffer.flags.c_contiguous else "F"
    return Flat(buffer.ctypes.data, buffer.size, dtype, order, buffer)


def _numeric(dtype: np.dtype, name: str) -> None:
    if dtype.kind not in NUMERIC_KINDS and not is_bfloat16(dtype) and not is_pair(dtype):
        raise TypeError(f"{name} has dtype {dtype}: pass a numeric dtype, bool, bfloat16 or a (value, index) pair")


def same_or_apart(send: Flat, recv: Flat) -> bool:
    """True: the very same memory, to be treated as in place; False: no byte in common. ValueError: partial overlap."""
    if not send.nbytes or not recv.nbytes:
        return False
    if (send.address, send.nbytes) == (recv.address, recv.nbytes):
        return True
    if send.address < recv.address + recv.nbytes and recv.address < send.address + send.nbytes:
        raise ValueError(
            "sendbuf and recvbuf overlap in part: pass separate arrays, or MPI.IN_PLACE to work in one of them"
        )
    return False


def match(send: Flat, recv: Flat, needed: int, of: str = "") -> None:
    """Check memory, dtype, order and room of a pair of buffers. TypeError, ValueError."""
    if send.device != recv.device:
        raise ValueError(f"sendbuf is in {_where(send)} and recvbuf in {_where(recv)}: both must be in the same memory")
    if send.dtype != recv.dtype:
        raise TypeError(f"sendbuf has dtype {send.dtype} and recvbuf {recv.dtype}: both must be the same")
    if send.order != recv.order:
        raise ValueError("one of sendbuf and recvbuf is in C order and the other in Fortran order: use one order")
    if recv.count != needed:
        small = "too small: it holds" if recv.count < needed else "too large: it holds"
        raise ValueError(f"recvbuf is {small} {recv.count} elements and {of or 'sendbuf'} needs {needed}")


def _where(at: Flat) -> str:
    return "host memory" if at.device is None else f"the memory of GPU {at.device}"


def _say(buffer: Any) -> str:
    if buffer is MPI.IN_PLACE:
        return "MPI.IN_PLACE"
    return repr(buffer) if buffer is None else f"a {type(buffer).__name__}"
