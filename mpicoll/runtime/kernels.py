"""Reductions in GPU memory: CuPy's, and kernels of our own for bfloat16, which CuPy does not reckon with everywhere.

bfloat16 is the upper half of a float. A kernel widens, reckons, and rounds to nearest even, as ml_dtypes does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from .buffers import is_bfloat16
from .device_buffers import cupy, line, view
from .ops import Operation

KNOWN = "?bBhHiIlLqQefdFD"  # of NumPy's dtypes, those that CuPy has kernels for
NAN = "(x != x ? x : y != y ? y : {})"
EXPRESSIONS = {
    "add": "x + y",
    "multiply": "x * y",
    "minimum": NAN.format("x < y ? x : y"),
    "maximum": NAN.format("x > y ? x : y"),
    "true_divide": "x / y",
}
# Quiet NaN is kept apart: rounding up its bits would make it infinite.
ROUND = "out = z != z ? 0x7fc0 : (unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)"


def body(name: str, right: str = "__uint_as_float((unsigned int)b << 16)") -> str:
    """The kernel's statements: bfloat16 a and ``right`` (bfloat16 b, or a float) to bfloat16 out."""
    return (
        f"float x = __uint_as_float((unsigned int)a << 16), y = {right}; "
        f"float z = {EXPRESSIONS[name]}; unsigned int bits = __float_as_uint(z); {ROUND}"
    )


@cache
def bfloat16(name: str) -> Any:
    """The kernel of one operation on bfloat16."""
    if name == "true_divide":
        text = body(name, "b")
        return cupy().ElementwiseKernel("uint16 a, float32 b", "uint16 out", text, "mpicoll_bfloat16_true_divide")
    return cupy().ElementwiseKernel("uint16 a, uint16 b", "uint16 out", body(name), f"mpicoll_bfloat16_{name}")


def combine(name: str, dtype: np.dtype) -> Callable[[Any, Any, Any], Callable[[], Any]]:
    """A maker of calls that store a∘b in out, on CuPy's current stream; ``name`` is the NumPy function's.

    TypeError: a dtype without kernels.
    """
    if not is_bfloat16(dtype) and not (dtype.isnative and dtype.char in KNOWN):
        raise TypeError(f"dtype {dtype} cannot be reduced in GPU memory: copy to a NumPy array first")
    function = bfloat16(name) if is_bfloat16(dtype) else getattr(cupy(), name)
    if is_bfloat16(dtype):
        return lambda a, b, out: partial(function, a, b, out)
    return lambda a, b, out: partial(function, a, b, out=out)


def divide(array: Any, size: int, dtype: np.dtype) -> Callable[[], Any]:
    """A call that divides an array in its place."""
    if is_bfloat16(dtype):
        return partial(bfloat16("true_divide"), array, np.float32(size), array)
    return partial(cupy().true_divide, array, size, out=array, casting="unsafe")


_compiled: set[tuple[str, bool, np.dtype, int]] = set()


def compile(operation: Operation, dtype: np.dtype, device: int) -> None:
    """Run an operation once on memory of our own, so that what is missing is told before a message has left.

    CuPy compiles at the first call: seconds. RuntimeError: it cannot.
    """
    key = operation.name, operation.average, dtype, device
    if key in _compiled:
        return
    memory = cupy().cuda.Memory(2 * dtype.itemsize)
    a, b = (view(memory.ptr + i * dtype.itemsize, 1, dtype, device) for i in range(2))
    try:
        operation.combine(a, b, b)()
        if operation.average:
            divide(a, 2, dtype)()
        cupy().cuda.get_current_stream().synchronize()
    except Exception as error:  # the compiler's own, or a library that is missing
        raise RuntimeError(
            f"{operation.name} on {dtype} cannot be compiled for GPU {device} ({line(error)}): pip install "
            "'mpicoll[cuda13]' (or cuda12)"
        ) from error
    _compiled.add(key)
