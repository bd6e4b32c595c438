"""What a caller hands in -> one flat view of it, checked before any message leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from mpi4py import MPI

from .derived import Packing, Use, pack_bytes
from .dlpack import host_array, is_dlpack
from .memory import HOW, Flat, say
from .spelling import parse, spell

# Chunks are cut at elements, so that any dtype of fixed size would travel; these are the ones that can be reduced.
NUMERIC_KINDS = "biufc"
CHARACTERS = ("S1", "U1")  # as mpi4py has it, they travel


def is_bfloat16(dtype: np.dtype) -> bool:
    """Whether this is ml_dtypes' bfloat16, known by name so that ml_dtypes need not be there."""
    return dtype.name == "bfloat16"


def is_pair(dtype: np.dtype) -> bool:
    """Whether this is a (value, index) pair, as MINLOC and MAXLOC take it."""
    if not dtype.names or len(dtype.names) != 2:
        return False
    value, index = (dtype[name] for name in dtype.names)
    return value.kind in "iuf" and index.kind in "iu"


def flat(buffer: Any, name: str, *, writable: bool = False, use: Use = Use.MOVED, ranks: int | None = None) -> Flat:
    """The flat view of an array of any shape, C or Fortran contiguous, or of what ``spelling`` reads.

    ``use``: what becomes of a derived datatype; ``ranks``: how many chunks a spelling has, if any. TypeError: no
    memory, or a dtype that is not numeric. ValueError: not contiguous; read-only where written; not in the memory.
    """
    told = parse(buffer, name, ranks=ranks is not None)
    nowhere = told is not None and (told.data is None or told.data is MPI.BOTTOM)
    at = Flat(0, 0, np.dtype(np.uint8), "C", None) if nowhere else _look(told.data if told else buffer, name)
    if writable and not at.writable:
        raise ValueError(f"{name} is read-only: pass a writable array")
    if told is None or told.datatype is None:
        _travels(at.dtype, name)
    return at if told is None else spell(told, at, name, writable=writable, use=use, ranks=ranks)


def _look(data: Any, name: str) -> Flat:
    """Memory as it comes: on the host, or a GPU's."""
    from . import device_buffers  # imports this module

    if device_buffers.is_device(data):
        return device_buffers.device_flat(data, name)
    array = _on_host(data, name)
    if array.dtype.hasobject:
        raise TypeError(
            f"{name} has dtype {array.dtype}: its elements are addresses in this process; pass a numeric dtype, or "
            "pickle them as mpi4py's calls in lower case do"
        )
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError(
            f"{name} is not contiguous (shape {array.shape}, strides {array.strides}): "
            f"pass numpy.ascontiguousarray({name}) or a contiguous array"
        )
    order = "C" if array.flags.c_contiguous else "F"
    return Flat(array.ctypes.data, array.size, array.dtype, order, array, writable=array.flags.writeable)


def _on_host(data: Any, name: str) -> np.ndarray:
    """An array, or what an object exports: by the buffer protocol, as mpi4py has it, or by DLPack."""
    if isinstance(data, np.ndarray) and not isinstance(data, np.ma.MaskedArray):
        return data
    if data is None or data is MPI.IN_PLACE or data is MPI.BOTTOM or isinstance(data, np.ma.MaskedArray):
        raise TypeError(f"{name} is {say(data)}: {HOW}")
    try:
        view = memoryview(data)
    except (TypeError, BufferError, ValueError) as error:
        if not is_dlpack(data):
            raise TypeError(f"{name} is {say(data)}: {HOW}") from error
        try:
            return host_array(data)
        except Exception as caught:  # what a library says of a tensor that it will not hand out
            said = " ".join(str(caught).split())[:200]
            raise TypeError(f"{name} is {say(data)} that gives no memory: {said}") from caught
    try:
        return np.asarray(view)
    except (ValueError, TypeError, NotImplementedError):  # a format that NumPy does not read: of use with a datatype
        return np.frombuffer(view, np.dtype((np.void, view.itemsize)))


def _travels(dtype: np.dtype, name: str) -> None:
    known = dtype.kind in NUMERIC_KINDS or is_bfloat16(dtype) or is_pair(dtype) or dtype.str[1:] in CHARACTERS
    if not known:
        raise TypeError(
            f"{name} has dtype {dtype}: pass a numeric dtype, bool, bfloat16 or a (value, index) pair, or [{name}, "
            f"MPI.BYTE] to move it"
        )


def same_or_apart(send: Flat, recv: Flat) -> bool:
    """True: the very same memory, to be treated as in place; False: no byte in common. ValueError: partial overlap."""
    (begin, end), (start, stop) = send.region, recv.region
    if begin == end or start == stop:
        return False
    if (begin, end) == (start, stop) and not send.packing and not recv.packing:
        return True
    if begin < stop and start < end:
        raise ValueError(
            "sendbuf and recvbuf overlap in part: pass separate arrays, or MPI.IN_PLACE to work in one of them"
        )
    return False


def match(send: Flat, recv: Flat, needed: int, of: str = "") -> None:
    """Check memory, dtype, order and room of a pair of buffers. TypeError, ValueError."""
    if send.device != recv.device:
        raise ValueError(f"sendbuf is in {_where(send)} and recvbuf in {_where(recv)}: both must be in the same memory")
    if send.dtype != recv.dtype:
        spelled = send.datatype is not None and recv.datatype is not None
        kind = ValueError if spelled else TypeError  # as mpi4py has it
        raise kind(f"sendbuf has dtype {send.dtype} and recvbuf {recv.dtype}: both must be the same")
    if send.order != recv.order:
        raise ValueError("one of sendbuf and recvbuf is in C order and the other in Fortran order: use one order")
    if recv.count != needed:
        small = "too small: it holds" if recv.count < needed else "too large: it holds"
        raise ValueError(f"recvbuf is {small} {recv.count} elements and {of or 'sendbuf'} needs {needed}")


def aside(part: Flat) -> Flat:
    """Memory of our own that is written back to a part of the caller's when all is done. ValueError: a GPU's."""
    if part.device is not None:
        raise ValueError("sendbuf is MPI.IN_PLACE and recvbuf in GPU memory: pass separate memory")
    array = np.empty(part.count, part.dtype)
    packing = Packing(array, pack_bytes(*part.region), part.region)
    return replace(part, address=array.ctypes.data, owner=(part.owner, array), packing=packing)


def _where(at: Flat) -> str:
    return "host memory" if at.device is None else f"the memory of GPU {at.device}"
