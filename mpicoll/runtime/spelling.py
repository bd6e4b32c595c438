"""The ways in which mpi4py lets host memory be handed in, read into elements of one dtype.

An array, or ``[data, datatype]``, ``[data, count]``, ``[data, count, datatype]``, ``[data, (count, displ), datatype]``,
``[data, count, displ, datatype]`` (a tuple does as well). ``data`` is whatever has the buffer protocol or DLPack,
MPI.BOTTOM or None; ``datatype`` an MPI.Datatype or its code, such as "d". Counts and displacements are in elements
of the datatype. Where a chunk comes from each rank, ``[data, counts]`` and ``[data, (counts, displs)]`` have one
number a rank, or one for all: so many from each, so far apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate, pairwise
from operator import index
from typing import Any, NamedTuple

from mpi4py import MPI

from mpicoll.schedule import bounds

from .derived import Element, Use, element, pack, plain
from .memory import HOW, Flat, say, shown


class Spelling(NamedTuple):
    """The parts of a spelling; what was left out is None."""

    data: Any
    count: Any = None
    displ: Any = None
    datatype: Any = None


class _Blocks(NamedTuple):
    """Elements ``displs[i]`` .. ``displs[i] + counts[i]``."""

    counts: tuple[int, ...]
    displs: tuple[int, ...]

    def full(self) -> list[tuple[int, int]]:
        """(first, last + 1) of each that is not empty, in order."""
        return sorted((d, d + c) for d, c in zip(self.displs, self.counts) if c)


def parse(buffer: Any, name: str, *, ranks: bool = False) -> Spelling | None:
    """Take a spelling apart; ``ranks``: one with a chunk from each rank. None: memory as it is.

    TypeError, ValueError: not what mpi4py knows.
    """
    if isinstance(buffer, Spelling):
        return buffer
    if not isinstance(buffer, (list, tuple)):
        return None
    if not 2 <= len(buffer) <= 4:
        raise TypeError(f"{name} is a {type(buffer).__name__} of {len(buffer)}: {HOW}")
    data, *counts = buffer
    datatype = counts.pop() if len(buffer) > 2 or isinstance(buffer[1], (MPI.Datatype, str)) else None
    if len(counts) == 1 and isinstance(counts[0], tuple if ranks else (tuple, list)):
        if len(counts[0]) != 2:
            raise ValueError(f"{name} is spelled with {shown(counts[0])}: give (count, displacement)")
        counts = list(counts[0])
    count, displ = [*counts, None][:2] if counts else (None, None)
    return Spelling(data, count, displ, datatype)


def spell(told: Spelling, at: Flat, name: str, *, writable: bool, use: Use, ranks: int | None = None) -> Flat:
    """The elements that a spelling means, in memory ``at``; ``ranks``: how many chunks they are, if any.

    TypeError, ValueError name the value and the cure.
    """
    data, count, displ, _ = told
    datatype = _datatype(told.datatype, name)
    if datatype is None and (data is None or data is MPI.BOTTOM):
        raise TypeError(f"{name} is {say(data)}: {HOW}")
    kind = plain(at.dtype) if datatype is None else element(datatype, name)
    if kind.derived and at.device is not None:
        raise TypeError(f"{name} has a derived datatype in GPU memory: pack it first")
    blocks = _blocks(count, displ, divmod(at.nbytes, kind.extent) if kind.extent > 0 else (0, 0), ranks, name)
    _within(blocks, kind, data, at.nbytes, name)
    if writable:
        _apart(blocks, name)
    if kind.derived and use is Use.MOVED:
        packing = pack(None if data is MPI.BOTTOM else at.region, kind, *blocks)
        array, counts = packing.array, tuple(c * kind.per for c in blocks.counts) if ranks else None
        at = replace(at, address=array.ctypes.data, count=array.size, dtype=array.dtype, owner=(at.owner, array))
        return replace(at, per=kind.per, packing=packing, counts=counts)
    if kind.derived:
        kind = kind.reduced(use, name)
    first = 0 if ranks else blocks.displs[0]
    nbytes = (max((hi for _, hi in blocks.full()), default=first) - first) * kind.extent
    at = replace(at, address=at.address + first * kind.extent, count=nbytes // kind.dtype.itemsize, dtype=kind.dtype)
    at = replace(at, per=kind.per, datatype=kind.datatype)
    if not ranks:
        return at
    tight = blocks.displs == tuple(accumulate(blocks.counts[:-1], initial=0))
    return replace(at, counts=blocks.counts, displs=None if tight else blocks.displs)


def _datatype(told: Any, name: str) -> MPI.Datatype | None:
    """The datatype that a spelling names."""
    if told is None or isinstance(told, MPI.Datatype):
        if told is not None and told == MPI.DATATYPE_NULL:
            raise ValueError(f"{name} has datatype MPI.DATATYPE_NULL or one that was freed: give a live one")
        return told
    try:
        return MPI.Datatype.fromcode(told)
    except (KeyError, ValueError, TypeError):
        raise ValueError(f"{name} has datatype {shown(told)}: give an MPI.Datatype, or a code such as 'd'") from None


def _blocks(count: Any, displ: Any, held: tuple[int, int], ranks: int | None, name: str) -> _Blocks:
    """Counts and displacements, one a rank or one in all. ValueError: no such numbers, or none that follow."""

    def numbers(value: Any, what: str) -> list[int]:
        try:
            found = [index(n) for n in (value if isinstance(value, Iterable) else [value])]
        except TypeError:
            found = []
        if isinstance(value, Iterable) is (ranks is None) or not found or min(found) < 0 or len(found) != (ranks or 1):
            many = "a number" if ranks is None else f"{ranks} numbers"
            raise ValueError(f"{name} has {what} {shown(value)}: give {many}, not negative")
        return found

    apart = None
    if ranks is not None and displ is not None and not isinstance(displ, Iterable):
        apart = [numbers([displ] * ranks, "displacement")[0] * r for r in range(ranks)]
    elif displ is not None:
        apart = numbers(displ, "displacements" if ranks else "displacement")
    if count is None:
        room, left = held[0] - (apart[0] if apart and ranks is None else 0), held[1]
        if left or room < 0:
            raise ValueError(f"{name} is not a whole number of elements of its datatype: give their count")
        edges = bounds(room, ranks or 1)
        counts = [b - a for a, b in pairwise(edges)]
    else:
        single = ranks is not None and not isinstance(count, Iterable)
        counts = numbers([count] * (ranks or 1) if single else count, "counts" if ranks else "count")
    return _Blocks(tuple(counts), tuple(apart or accumulate(counts[:-1], initial=0)))


def _within(blocks: _Blocks, kind: Element, data: Any, nbytes: int, name: str) -> None:
    """ValueError: elements that are not in the memory."""
    full = blocks.full()
    if data is MPI.BOTTOM and full and (not kind.derived or full[0][0] or len(full) > 1):
        raise ValueError(f"{name} is MPI.BOTTOM: only a derived datatype, without displacements, has addresses")
    if data is MPI.BOTTOM or not full:
        return
    if data is None:
        raise ValueError(f"{name} is None and its spelling asks for {sum(blocks.counts)} elements: give their memory")
    first = full[0][0] * kind.extent + kind.begin
    last = max((hi - 1) * kind.extent + kind.end for _, hi in full)
    if first < 0 or last > nbytes:
        raise ValueError(f"{name} has {nbytes} bytes and its spelling asks for bytes {first} to {last}")


def _apart(blocks: _Blocks, name: str) -> None:
    full = blocks.full()
    for (_, end), (start, _) in pairwise(full):
        if start < end:
            raise ValueError(f"{name} has chunks that overlap at element {start}: give displacements that keep apart")
