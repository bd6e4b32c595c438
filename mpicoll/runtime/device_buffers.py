"""Arrays in GPU memory: which objects are some, and CuPy's view of them. CuPy is imported when there is one.

CuPy's own arrays, and those of other libraries by DLPack or ``__cuda_array_interface__`` (PyTorch, JAX, Numba).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from types import ModuleType
from typing import Any

import numpy as np

from .buffers import Flat, is_bfloat16

CUDA, CUDA_MANAGED = 2, 13  # DLPack's numbers
IPC_CAPABLE = 10  # CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE


def is_device(buffer: Any) -> bool:
    """Whether this is an array in GPU memory. TypeError: it is one that its library does not hand out."""
    if isinstance(buffer, (np.ndarray, bytes, bytearray, memoryview, list, tuple)) or buffer is None:
        return False
    try:
        # DLPack first: the interface of others has no name for bfloat16, and raises whatever comes of that.
        if hasattr(buffer, "__dlpack_device__"):
            return buffer.__dlpack_device__()[0] in (CUDA, CUDA_MANAGED)
        return hasattr(buffer, "__cuda_array_interface__")
    except Exception as error:  # what a library says of a tensor that it will not hand out
        raise TypeError(f"a {type(buffer).__name__} cannot be used as a buffer: {line(error)}") from None


@cache
def cupy() -> ModuleType:
    """CuPy. TypeError with the cure where it is missing: it is the caller's buffer that asks for it."""
    try:
        import cupy as module
    except ImportError as error:
        raise TypeError(
            f"a buffer in GPU memory needs CuPy, which does not import ({line(error)}): "
            "pip install 'mpicoll[cuda13]' (or cuda12)"
        ) from None
    return module


def device_flat(buffer: Any, name: str) -> Flat:
    """An array in GPU memory as a vector. TypeError: CuPy cannot view it. ValueError: not contiguous."""
    array = _array(buffer, name)
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError(
            f"{name} is not contiguous (shape {array.shape}, strides {array.strides}): "
            f"pass cupy.ascontiguousarray({name}) or a contiguous array"
        )
    order = "C" if array.flags.c_contiguous else "F"
    owners, device = (buffer, array), int(array.device.id)
    return Flat(array.data.ptr, array.size, array.dtype, order, owners, device, writable=not _read_only(buffer))


def _array(buffer: Any, name: str) -> Any:
    if isinstance(buffer, cupy().ndarray):
        return buffer
    try:
        # DLPack first: it knows bfloat16, and makes CuPy's stream wait for the producer's.
        return cupy().from_dlpack(buffer) if hasattr(buffer, "__dlpack__") else cupy().asarray(buffer)
    except Exception as error:
        raise TypeError(f"{name} is a {type(buffer).__name__} that CuPy cannot view: {line(error)}") from None


def _read_only(buffer: Any) -> bool:
    if isinstance(buffer, cupy().ndarray):
        return False
    try:
        return bool(buffer.__cuda_array_interface__["data"][1])
    except Exception:  # it has none, or none for this dtype
        return False


def view(address: int, count: int, dtype: np.dtype, device: int) -> Any:
    """GPU memory as a CuPy vector that does not keep its owner alive; bfloat16 as the bits it is made of."""
    seen = np.dtype(np.uint16) if is_bfloat16(dtype) else dtype
    memory = cupy().cuda.UnownedMemory(address, count * seen.itemsize, None, device)
    return cupy().ndarray((count,), seen, memptr=cupy().cuda.MemoryPointer(memory, 0))


def key(buffer: Any) -> Any:
    """What makes a one-shot plan fit a buffer; TypeError for what is looked at anew each time."""
    module = sys.modules.get("cupy")
    if module is None or type(buffer) is not module.ndarray:
        raise TypeError
    flags = buffer.flags
    return buffer.data.ptr, buffer.size, buffer.dtype, flags.c_contiguous, flags.f_contiguous, buffer.device.id


def unshareable(flats: Sequence[Flat | None]) -> str:
    """Why an MPI that takes device pointers must not be given these, or nothing.

    It shares memory between processes by CUDA's IPC, which managed memory and stream-ordered pools do not have.
    """
    for at in flats:
        if at is None or not at.nbytes:
            continue
        if cupy().cuda.runtime.pointerGetAttributes(at.address).type == cupy().cuda.runtime.memoryTypeManaged:
            return "managed memory"
        if not _ipc_capable(at.address):
            return "memory of a stream-ordered or virtual pool (cudaMallocAsync, expandable segments)"
    return ""


def _ipc_capable(address: int) -> bool:
    driver = _driver()
    told = ctypes.c_int(1)
    if driver is None or driver.cuPointerGetAttribute(ctypes.byref(told), IPC_CAPABLE, ctypes.c_uint64(address)):
        return True  # it cannot be told: as the transport was decided
    return bool(told.value)


@cache
def _driver() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def caller_streams(flats: Sequence[Flat | None], device: int) -> tuple[Callable[[], int], ...]:
    """Functions that tell the streams on which the libraries of the caller's buffers work at the moment."""
    owners = [at.owner[0] for at in flats if at is not None]
    found: list[Callable[[], int]] = [lambda: int(cupy().cuda.get_current_stream(device).ptr)]
    foreign = [owner for owner in owners if not isinstance(owner, cupy().ndarray)]
    if any(map(_is_tensor, foreign)):
        torch = sys.modules["torch"]
        found.append(lambda: int(torch.cuda.current_stream(device).cuda_stream))
    found += [partial(_stream, owner) for owner in foreign if not _is_tensor(owner)]
    return tuple(found)


def _is_tensor(owner: Any) -> bool:
    """Whether this is PyTorch's, or a subclass of it."""
    return any(base.__module__.partition(".")[0] == "torch" for base in type(owner).__mro__)


def _stream(owner: Any) -> int:
    """The stream that an array names; the default one where it names none."""
    try:
        return int(owner.__cuda_array_interface__.get("stream") or 0)
    except Exception:  # it has no interface, or none for this dtype
        return 0


def line(error: Exception) -> str:
    """What an error says, in one line."""
    return " ".join(str(error).split())[:200]
