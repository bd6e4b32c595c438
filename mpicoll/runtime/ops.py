"""MPI.Op -> how to reduce two arrays, and for which dtypes.

The table follows the MPI standard: arithmetic on numbers, logic on integers and bool, bits on integers. Integers wrap
as NumPy's and MPI's do. NaN propagates through MAX and MIN (as numpy.maximum does), and through MAXLOC and MINLOC,
where the first NaN wins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from mpi4py import MPI

from .buffers import is_bfloat16, is_pair
from .memory import shown


class _Average:
    """Sum divided by the number of ranks; the division is done once, by whoever makes the chunk final."""

    def __repr__(self) -> str:
        return "mpicoll.AVG"


AVG = _Average()
Call = Callable[[], Any]

_UFUNCS: tuple[tuple[str, np.ufunc, str], ...] = (
    ("SUM", np.add, "iufc"),
    ("PROD", np.multiply, "iufc"),
    ("MIN", np.minimum, "iuf"),
    ("MAX", np.maximum, "iuf"),
    ("LAND", np.logical_and, "biu"),
    ("LOR", np.logical_or, "biu"),
    ("LXOR", np.logical_xor, "biu"),
    ("BAND", np.bitwise_and, "iu"),
    ("BOR", np.bitwise_or, "iu"),
    ("BXOR", np.bitwise_xor, "iu"),
)
_BY_HANDLE = {getattr(MPI, name).handle: (name, ufunc, kinds) for name, ufunc, kinds in _UFUNCS}
_LOCATE = {MPI.MINLOC.handle: ("MINLOC", np.less), MPI.MAXLOC.handle: ("MAXLOC", np.greater)}
_NOT_REDUCING = ("OP_NULL", "REPLACE", "NO_OP")
_WORDS = {"b": "bool", "i": "integer", "u": "unsigned", "f": "floating", "c": "complex"}


@dataclass(frozen=True)
class Operation:
    """An operation on one dtype. ``combine(a, b, out)`` makes the call that stores a∘b in out; out may be a or b."""

    name: str
    commutes: bool
    combine: Callable[[np.ndarray, np.ndarray, np.ndarray], Call]
    average: bool = False
    quiet: bool = False  # floating-point flags are to be ignored: a library must not warn, or raise, in mid-message
    user: MPI.Op | None = None  # the user's own, who may free it

    def live(self) -> None:
        """RuntimeError: its user has freed it, which must be known before the first message of a plan."""
        if self.user == MPI.OP_NULL:
            raise RuntimeError("the user operation of this plan was freed: free it after its plans")


def operation(op: Any, dtype: np.dtype, on_device: bool = False, datatype: MPI.Datatype | None = None) -> Operation:
    """How to reduce ``dtype`` with ``op`` (None: SUM); ``datatype``: what a user's operation is told, if not dtype's.

    TypeError: no such operation, or not for these.
    """
    kind = "f" if is_bfloat16(dtype) else dtype.kind
    inexact = kind in "fc"
    if op is AVG:
        _need(inexact, "AVG", dtype, "floating and complex dtypes: for integers use MPI.SUM and divide")
        return Operation("AVG", True, _ufunc(np.add, dtype, on_device), average=True, quiet=True)
    op = MPI.SUM if op is None else op
    if not isinstance(op, MPI.Op):
        raise TypeError(f"op is {shown(op)}: pass an mpi4py.MPI.Op such as MPI.SUM, or mpicoll.AVG")
    if op.handle in _BY_HANDLE:
        name, ufunc, kinds = _BY_HANDLE[op.handle]
        _need(kind in kinds, name, dtype, ", ".join(_WORDS[k] for k in kinds) + " dtypes")
        return Operation(name, True, _ufunc(ufunc, dtype, on_device), quiet=inexact)
    if on_device and (op.handle in _LOCATE or not op.is_predefined):
        raise TypeError(f"{name_of(op)} does not run in GPU memory: copy to a NumPy array first")
    if op.handle in _LOCATE:
        name, better = _LOCATE[op.handle]
        _need(is_pair(dtype), name, dtype, "(value, index) pairs, such as [('value', 'f8'), ('index', 'i4')]")
        return Operation(name, True, partial(_locate, better))
    if not is_user(op):
        raise TypeError(f"op {name_of(op)} cannot reduce: pass MPI.SUM, MPI.MAX, ... or mpicoll.AVG")
    if datatype is not None:
        return Operation("user", op.Is_commutative(), partial(_user, op, datatype), user=op)
    known = dtype.kind in "biufc" and dtype.isnative
    _need(known, "a user operation", dtype, "dtypes that MPI knows, in this machine's byte order")
    try:
        datatype = MPI.Datatype.fromcode(dtype.char)
    except ValueError:
        raise TypeError(f"a user operation cannot take dtype {dtype}: this MPI has no type for it") from None
    return Operation("user", op.Is_commutative(), partial(_user, op, datatype), user=op)


def is_user(op: Any) -> bool:
    """Whether this is an operation made with MPI.Op.Create."""
    return isinstance(op, MPI.Op) and op != MPI.OP_NULL and not op.is_predefined


def name_of(op: Any) -> str:
    """What an operation is called in messages."""
    if op is None:
        return "SUM"
    if not isinstance(op, MPI.Op):
        return shown(op)
    known = _BY_HANDLE.get(op.handle) or _LOCATE.get(op.handle)
    if known:
        return known[0]
    for name in _NOT_REDUCING:
        if op == getattr(MPI, name):
            return f"MPI.{name}"
    return "a user operation" if op.Is_commutative() else "a user operation that does not commute"


def _need(condition: bool, name: str, dtype: np.dtype, what: str) -> None:
    if not condition:
        raise TypeError(f"{name} cannot take dtype {dtype}; it takes {what}")


def _ufunc(ufunc: np.ufunc, dtype: np.dtype, on_device: bool) -> Callable[..., Call]:
    if on_device:
        from . import kernels  # needs CuPy

        return kernels.combine(ufunc.__name__, dtype)

    def combine(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Call:
        return partial(ufunc, a, b, out=out)  # by keyword: NumPy deprecates the other way for minimum and maximum

    return combine


def _locate(better: np.ufunc, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Call:
    value, index = a.dtype.names  # type: ignore[misc]

    def run() -> None:
        va, vb, ia, ib = a[value], b[value], a[index], b[index]
        nan_a, nan_b = va != va, vb != vb
        take = np.where(nan_a | nan_b, nan_b & (~nan_a | (ib < ia)), better(vb, va) | ((va == vb) & (ib < ia)))
        np.copyto(out, np.where(take, b, a))

    return run


def _user(op: MPI.Op, datatype: MPI.Datatype, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Call:
    """MPI reduces into its second operand; where that is not ``out``, a copy makes it so."""
    left, right = [a, len(a), datatype], [b, len(b), datatype]
    if _same(b, out):
        return partial(op.Reduce_local, left, right)

    def run() -> None:
        kept = b.copy()
        op.Reduce_local(left, [kept, len(kept), datatype])
        np.copyto(out, kept)

    return run


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.ctypes.data == b.ctypes.data
