"""MPI datatypes -> what their elements are to a collective.

Predefined ones have a dtype. A derived one that only moves is packed into memory of the call's own before it travels
and unpacked after, piece by piece, so that gaps stay untouched: one pass more over memory on either side. One that is
reduced must be dense: a user's operation sees its elements whole, MPI.SUM and the like the basic ones they consist of.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI
from mpi4py.util import dtlib

from . import cut

_QUAD = [t.handle for t in (MPI.REAL16, MPI.COMPLEX32) if t != MPI.DATATYPE_NULL]  # not NumPy's long double
_dtypes: dict[int, np.dtype] = {}


class Use(Enum):
    """What becomes of a derived datatype: packed and moved, reduced by MPI's operations, or by the user's own."""

    MOVED = 1
    REDUCED = 2
    WHOLE = 3


class Piece(NamedTuple):
    """Bytes ``lo``..``hi`` of packed memory, and the message, as mpi4py spells it, that they are in the caller's."""

    message: list
    lo: int
    hi: int


class Packing(NamedTuple):
    """Packed memory and what belongs where in it; the caller's memory lies between two addresses."""

    array: np.ndarray
    pieces: tuple[Piece, ...]
    region: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Element:
    """One element: ``per`` of ``dtype``, and the next one ``extent`` bytes behind. ``begin``, ``end``: its bytes."""

    dtype: np.dtype
    extent: int
    begin: int
    end: int
    per: int = 1
    datatype: MPI.Datatype | None = None
    derived: bool = False

    def reduced(self, use: Use, name: str) -> Element:
        """The same, to be reduced where it lies. TypeError: not dense."""
        datatype = self.datatype
        assert datatype is not None
        if not _dense(datatype):
            raise TypeError(
                f"{name} has a datatype of size {datatype.size} and extent {datatype.extent} whose bytes are not in a "
                f"row: reduce one without gaps, or pack it first"
            )
        if use is Use.REDUCED:
            return Element(self.dtype, self.extent, self.begin, self.end, self.per)
        opaque = np.dtype((np.void, self.extent))
        return Element(opaque, self.extent, self.begin, self.end, 1, _kept(datatype))


def plain(dtype: np.dtype) -> Element:
    """The element of an array."""
    return Element(dtype, dtype.itemsize, 0, dtype.itemsize)


def element(datatype: MPI.Datatype, name: str) -> Element:
    """The element of a datatype. TypeError: derived, and one of its elements does not lie behind the other."""
    if datatype.is_predefined:
        dtype = _predefined(datatype)
        return Element(dtype, dtype.itemsize, 0, dtype.itemsize, 1, datatype)
    size, extent, (lb, length) = datatype.size, datatype.extent, datatype.Get_true_extent()
    if size and extent <= 0:
        raise TypeError(f"{name} has a datatype of extent {extent}: give one whose elements follow each other")
    basics = _basics(datatype)
    dtype = basics.pop() if len(basics) == 1 else np.dtype((np.void, size))
    return Element(dtype, extent, lb, lb + length, size // (dtype.itemsize or 1), datatype, True)


def pack(memory: tuple[int, int] | None, kind: Element, counts: Sequence[int], displs: Sequence[int]) -> Packing:
    """Packed memory for blocks of elements; ``memory``: from where to where it is (None: MPI.BOTTOM)."""
    assert kind.datatype is not None
    array = np.empty(sum(counts) * kind.per, kind.dtype)
    datatype, size, done = _kept(kind.datatype), kind.per * kind.dtype.itemsize, 0
    pieces, ends = [], []
    for count, displ in _short(counts, displs, size):
        at: Any = MPI.BOTTOM
        if memory is not None:
            address = memory[0] + displ * kind.extent
            at = MPI.memory.fromaddress(address, max(1, memory[1] - address))
            ends += [address + kind.begin, address + (count - 1) * kind.extent + kind.end]
        pieces.append(Piece([at, count, datatype], done, done + count * size))
        done += count * size
    return Packing(array, tuple(pieces), (min(ends, default=0), max(ends, default=0)))


def pack_bytes(begin: int, end: int) -> tuple[Piece, ...]:
    """The pieces of packed memory that is just a copy of what is at addresses begin..end."""
    blocks = _short([end - begin], [0], 1)
    return tuple(
        Piece([MPI.memory.fromaddress(begin + at, count), count, MPI.BYTE], at, at + count) for count, at in blocks
    )


def _short(counts: Sequence[int], displs: Sequence[int], size: int) -> Iterator[tuple[int, int]]:
    """Blocks that are messages: not empty, and not longer than a message may be."""
    step = max(1, cut.LIMIT_BYTES // (size or 1))
    for count, displ in zip(counts, displs):
        for done in range(0, count if size else 0, step):
            yield min(step, count - done), displ + done


def calls(packing: Packing, comm: MPI.Intracomm, tag: int, *, back: bool) -> list:
    """The calls that pack, or with ``back`` unpack: messages to oneself, for MPI alone knows where the bytes are."""
    made = []
    for message, lo, hi in packing.pieces:
        packed = [packing.array.view(np.uint8)[lo:hi], MPI.PACKED]
        source, target = (packed, message) if back else (message, packed)
        made.append(_Message(comm.Sendrecv, source, comm.rank, tag, target))
    return made


class _Message(NamedTuple):
    """A call of Sendrecv with oneself."""

    sendrecv: Any
    source: list
    rank: int
    tag: int
    target: list

    def __call__(self) -> None:
        self.sendrecv(self.source, self.rank, self.tag, self.target, self.rank, self.tag)


def _predefined(datatype: MPI.Datatype) -> np.dtype:
    """The dtype of a predefined datatype; bytes that only travel where NumPy has none."""
    known = _dtypes.get(datatype.handle)
    if known is None:
        known = np.dtype((np.void, datatype.extent))
        try:
            if datatype.handle not in _QUAD:
                pair = datatype.typestr.startswith("V")
                known = dtlib.to_numpy_dtype(datatype) if pair else np.dtype(datatype.typestr)
        except (TypeError, ValueError):
            pass
        _dtypes[datatype.handle] = known
    return known


def _basics(datatype: MPI.Datatype) -> set[np.dtype]:
    """The dtypes of the predefined datatypes that a datatype is made of."""
    if datatype.is_predefined:
        return {_predefined(datatype)}
    base, _, told = datatype.decode()
    parts = told.get("datatypes") or [base]
    try:
        return set().union(*map(_basics, parts))
    finally:
        for part in parts:
            if not part.is_predefined:
                part.Free()


def _dense(datatype: MPI.Datatype) -> bool:
    """Whether the bytes of an element are in a row, in the order in which they travel, and the next element behind."""
    size = datatype.size
    if (datatype.lb, datatype.extent) != (0, size) or datatype.Get_true_extent() != (0, size):
        return False
    for digit in range(3):  # of a place's number, in base 256: packing must leave it where it is
        places = (np.arange(size) >> 8 * digit).astype(np.uint8)
        packed = np.empty_like(places)
        datatype.Pack(places, packed, 0, MPI.COMM_SELF)
        if (places != packed).any():
            return False
    return True


def _kept(datatype: MPI.Datatype) -> MPI.Datatype:
    """A duplicate that is freed when nobody holds it: the caller may free his at any time."""
    duplicate = datatype.Dup().Commit()
    weakref.finalize(duplicate, _free, duplicate.handle).atexit = False
    return duplicate


def _free(handle: int) -> None:
    if not MPI.Is_finalized():
        MPI.Datatype.fromhandle(handle).Free()
