"""One collective at one size: its buffers, its inputs, and what must come out.

Inputs depend on rank and index by a formula, so that every rank knows all of them without a message. Each rank checks
its share of the vector against a reference in higher precision, and a hash compares the ranks.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mpi4py import MPI

from mpicoll.runtime.ops import AVG
from mpicoll.schedule import bounds

from .memory import HostMemory, Memory

WIDER = {"float16": "f8", "bfloat16": "f8", "float32": "f8", "float64": "g", "complex64": "c16", "complex128": "G"}
OPS = {
    name: getattr(MPI, name.upper())
    for name in ["sum", "prod", "min", "max", "land", "lor", "lxor", "band", "bor", "bxor"]
} | {"avg": AVG}
FOLDS = {
    **{"sum": np.add, "avg": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum},
    **{"land": np.logical_and, "lor": np.logical_or, "lxor": np.logical_xor},
    **{"band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor},
}


def dtype_of(name: str) -> np.dtype:
    """The dtype of a name; ImportError says what to install for bfloat16."""
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise ImportError("bfloat16 needs ml_dtypes: pip install 'mpicoll[bfloat16]'") from None
    return np.dtype(ml_dtypes.bfloat16)


def inputs(dtype: np.dtype, op: str, rank: int, size: int, lo: int, hi: int, seed: int) -> np.ndarray:
    """Elements lo..hi of what ``rank`` contributes: scattered values of both signs, near 1 for products."""
    bits = np.arange(lo, hi, dtype=np.uint32)
    bits *= np.uint32(2654435761)
    bits += np.uint32((rank * 40503 + seed * 69069 + 1) * 2246822519 % (1 << 32))
    bits ^= bits >> np.uint32(15)
    if dtype.kind == "b":
        return (bits & 3).astype(bool)
    if dtype.kind in "iu":
        return _integers(bits, dtype, op, rank, size, lo)
    if dtype.kind == "c":
        return (_unit(bits, op) + 1j * _unit(bits * np.uint32(48271), op)).astype(dtype)
    return _unit(bits, op).astype(dtype)


def _integers(bits: np.ndarray, dtype: np.dtype, op: str, rank: int, size: int, lo: int) -> np.ndarray:
    """Whole numbers whose sum or product fits the dtype: what comes of an overflow is the library's own affair.

    Ours wrap, as NumPy's do; Open MPI 5.0's vector code saturates sums of 8 bits.
    """
    wide = bits.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    if op == "prod":  # one factor of 2 in each element, and signs
        two = 1 + ((np.arange(lo, lo + len(bits)) % size) == rank)
        return (two * np.where(wide >> np.uint64(63), 1, -1 if dtype.kind == "i" else 1)).astype(dtype)
    if op != "sum":
        return wide.astype(dtype)
    most = max(1, int(np.iinfo(dtype).max) // size)
    shift = most if dtype.kind == "i" else 0
    return (wide % np.uint64(most + shift + 1) - np.uint64(shift)).astype(dtype)


def _unit(bits: np.ndarray, op: str) -> np.ndarray:
    unit = bits.astype(np.float64) / 2**31 - 1
    return 1 + unit / 8 if op == "prod" else unit


@dataclass
class Case:
    """Buffers and reference of one row."""

    comm: MPI.Intracomm
    collective: str
    dtype: np.dtype
    op: str
    root: int
    count: int
    in_place: bool
    seed: int
    memory: Memory = field(default_factory=HostMemory)
    send: Any = field(init=False)  # buffers of the memory, or None
    recv: Any = field(init=False)

    def __post_init__(self) -> None:
        rank, size = self.comm.rank, self.comm.size
        self.edges = bounds(self.count, size)
        self.own = slice(self.edges[rank], self.edges[rank + 1])
        at_root = rank == self.root
        start, place = self._start(), self.memory.place
        self.send = self.original = self.recv = None
        self.sum_before = 0
        if self.collective == "bcast":
            self.original = place(start) if at_root else None
            self.recv = place(np.empty(self.count, self.dtype))
        elif self.in_place and (self.collective != "reduce" or at_root):
            self.original, self.recv = place(start), place(np.empty(self.count, self.dtype))
        else:
            start.flags.writeable = False
            self.sum_before, self.send = _hash(start), place(start)
            out = self.own.stop - self.own.start if self.collective == "reduce_scatter" else self.count
            self.recv = place(np.empty(out, self.dtype)) if self.collective != "reduce" or at_root else None
        self._range = (-1, -1)
        self._reference = np.empty(0), np.empty(0)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole vector."""
        return self.count * self.dtype.itemsize

    @property
    def sendbuf(self) -> object:
        """What to hand to a call as sendbuf."""
        return MPI.IN_PLACE if self.send is None else self.send

    def restore(self) -> None:
        """Put the inputs back where a call in place has overwritten them."""
        if self.original is not None and self.recv is not None:
            self.memory.copy(self.recv, self.original)

    def poison(self) -> None:
        """Make what recvbuf held before recognisable."""
        if self.recv is not None:
            self.memory.poison(self.recv)

    # -- what must come out ------------------------------------------------------------------------------------------

    def result(self) -> np.ndarray | None:
        """What this rank has as its result."""
        if self.recv is None:
            return None
        found = self.memory.read(self.recv)
        return found[: self.own.stop - self.own.start] if self.collective == "reduce_scatter" else found

    def wrong(self, whole: bool = False) -> int:
        """Elements of this rank's share of the result (or of all of it) that are not right, after the last call."""
        mine = self.result()
        if mine is None:
            return 0
        if self.collective == "reduce_scatter":
            lo, hi, got = self.own.start, self.own.stop, mine
        elif whole or self.collective == "reduce":
            lo, hi, got = 0, self.count, mine
        else:
            lo, hi, got = self.own.start, self.own.stop, mine[self.own]
        expected, margin = self._expected(lo, hi)
        if self.dtype.kind in "biu" or not len(margin):
            return int(np.count_nonzero(got != expected.astype(self.dtype)))
        with np.errstate(invalid="ignore"):  # poison and wrong results hold whatever they like
            wide = got.astype(expected.dtype)
            return int(np.count_nonzero(~(np.abs(wide - expected) <= margin)))

    def digest(self) -> int:
        """A hash of the result's bits."""
        mine = self.result()
        return 0 if mine is None else _hash(mine)

    def mend(self) -> bool:
        """Whether sendbuf had been written; it is then what it was again, so that no other call is blamed."""
        if self.send is None or _hash(self.memory.read(self.send)) == self.sum_before:
            return False
        self.memory.write(self.send, self._start())
        return True

    def _start(self) -> np.ndarray:
        start = inputs(self.dtype, self.op, self.comm.rank, self.comm.size, 0, self.count, self.seed)
        return start[self.own].copy() if self.collective == "allgather" and not self.in_place else start

    def _expected(self, lo: int, hi: int) -> tuple[np.ndarray, np.ndarray]:
        """The reference in higher precision and how far from it a result may be (empty: not at all)."""
        if (lo, hi) == self._range:
            return self._reference
        size = self.comm.size
        exact = np.empty(0)
        if self.collective == "bcast":
            found = inputs(self.dtype, self.op, self.root, size, lo, hi, self.seed), exact
        elif self.collective == "allgather":
            parts = [
                inputs(self.dtype, self.op, r, size, max(lo, self.edges[r]), min(hi, self.edges[r + 1]), self.seed)
                for r in range(size)
                if max(lo, self.edges[r]) < min(hi, self.edges[r + 1])
            ]
            found = np.concatenate(parts) if parts else np.empty(0, self.dtype), exact
        else:
            found = self._reduced(lo, hi, size)
        self._range, self._reference = (lo, hi), found
        return found

    def _reduced(self, lo: int, hi: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        wide = np.dtype(WIDER.get(self.dtype.name, self.dtype))
        rounds = self.dtype.name in WIDER and self.op in ("sum", "avg", "prod")
        total, magnitude = None, np.empty(0)
        for rank in range(size):
            part = inputs(self.dtype, self.op, rank, size, lo, hi, self.seed).astype(wide)
            if rounds:
                size_of = np.abs(part)
                magnitude = size_of if total is None else FOLDS[self.op](magnitude, size_of)
            # The same wrap of integers as in the calls: the reference is folded in the dtype itself.
            total = part if total is None else FOLDS[self.op](total, part).astype(wide)
        assert total is not None
        if not rounds:
            return total, np.empty(0)
        if self.op == "avg":
            total, magnitude = total / size, magnitude / size
        # Each of the p - 1 operations, and the division, errs by half an eps of a partial result, which is at most the
        # sum of magnitudes; complex products err a few times that.
        factor = (4 if self.dtype.kind == "c" and self.op == "prod" else 1) * size
        eps, least = _precision(self.dtype)
        return total, factor * (eps * magnitude + least)


def _precision(dtype: np.dtype) -> tuple[float, float]:
    """The epsilon of a type and its smallest number above zero."""
    if dtype.name == "bfloat16":
        return 2.0**-7, 2.0**-133
    info = np.finfo(dtype)
    return float(info.eps), float(info.smallest_subnormal)


def _hash(array: np.ndarray) -> int:
    return zlib.crc32(array.view(np.uint8).data)
