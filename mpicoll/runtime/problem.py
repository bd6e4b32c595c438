"""The arguments of a call, checked and put into one form: what is reduced, from where to where, by which algorithm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from mpi4py import MPI

from mpicoll.schedule import REDUCING, Schedule, bounds

from .buffers import Flat, flat, match, same_or_apart
from .ops import Operation, name_of, operation
from .select import Call, select
from .steps import RECVBUF, SENDBUF, WORK, Layout, Slice
from .tuning import Tuning, default


@dataclass(frozen=True)
class Problem:
    """One collective call on one rank. ``edges`` cut the whole vector, in elements, for this schedule."""

    schedule: Schedule
    why: str
    send: Flat | None
    recv: Flat | None
    dtype: np.dtype
    operation: Operation | None
    edges: Sequence[int]
    layout: Layout

    @property
    def on_device(self) -> bool:
        """Whether the buffers are in GPU memory."""
        return (self.recv or self.send).device is not None  # type: ignore[union-attr]

    @property
    def nbytes(self) -> int:
        """Bytes of the whole vector (of an allgather's receive side, of a reduce_scatter's send side)."""
        return self.edges[self.schedule.chunks] * self.dtype.itemsize

    @property
    def work(self) -> int:
        """Elements of working memory: slots, and what may not be written in the caller's memory.

        That is so in a reduce away from the root and in a reduce_scatter.
        """
        homes = map(self.layout.home, range(len(self.edges) - 1))
        return max((home.stop for home in homes if home.memory == WORK), default=0)


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call as the caller wrote them. ``recvbuf`` is a bcast's buffer."""

    collective: str
    sendbuf: Any
    recvbuf: Any
    op: Any = None
    root: int = 0
    algorithm: str = "auto"
    counts: Sequence[int] | None = None

    def facts(self) -> dict[str, str]:
        """What must be the same on all ranks, for the digest; never raises."""
        whole = self.sendbuf if self.collective in ("reduce", "reduce_scatter") else self.recvbuf
        array = whole if hasattr(whole, "dtype") else self.recvbuf
        flags = getattr(array, "flags", None)
        return {
            "collective": self.collective,
            "count": str(getattr(array, "size", None)),
            "dtype": str(getattr(array, "dtype", None)),
            "order": "C" if getattr(flags, "c_contiguous", True) else "F",
            "op": name_of(self.op),
            "root": _plain(self.root),
            "algorithm": repr(self.algorithm),
            "counts": _plain(self.counts),
        }


def _plain(value: Any) -> str:
    """Numbers and sequences of numbers in words that do not tell NumPy's integers from Python's."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        return f"[{', '.join(map(_plain, value))}]"
    return str(int(value)) if isinstance(value, (int, np.integer)) else repr(value)


def problem(
    args: Arguments, rank: int, nodes: tuple[int, ...], tuning: Tuning | None = None, segment_bytes: int | None = None
) -> Problem:
    """Check the arguments of one rank and select; ``nodes``: the node of each. TypeError, ValueError name the cure."""
    collective, size = args.collective, len(nodes)
    if not isinstance(args.root, (int, np.integer)) or not 0 <= args.root < size:
        raise ValueError(f"root {args.root!r} is not one of the ranks 0..{size - 1}")
    if not isinstance(args.algorithm, str):
        raise TypeError(f"algorithm is {args.algorithm!r}: pass its name, or 'auto'")
    root = int(args.root)
    send, recv, total = _buffers(args, rank, size)
    data = recv or send
    assert data is not None
    op = operation(args.op, data.dtype, data.device is not None) if collective in REDUCING else None
    commutes = op is None or op.commutes
    call = Call(collective, nodes, total * data.dtype.itemsize, commutes)
    chosen, why = select(args.algorithm, call, tuning or default(), segment_bytes)
    schedule = chosen.schedule(size, root, in_order=not commutes, nodes=nodes)
    edges = _edges(args.counts, total, schedule.chunks, size)
    for slot in range(schedule.slots):
        c = slot % schedule.chunks
        edges.append(edges[-1] + edges[c + 1] - edges[c])
    layout = _layout(schedule, rank, edges, in_place=send is None)
    return Problem(schedule, why, send, recv, data.dtype, op, edges, layout)


def _buffers(args: Arguments, rank: int, size: int) -> tuple[Flat | None, Flat | None, int]:
    """The two views (send None: in place) and the elements of the whole vector."""
    collective = args.collective
    if collective == "bcast":
        buffer = flat(args.recvbuf, "buffer", writable=rank != args.root)
        return None, buffer, buffer.count
    if collective == "reduce" and rank != args.root:
        if args.sendbuf is MPI.IN_PLACE:
            raise ValueError("sendbuf is MPI.IN_PLACE: only the root of a reduce works in place")
        send = flat(args.sendbuf, "sendbuf")
        return send, None, send.count
    recv = flat(args.recvbuf, "recvbuf", writable=True)
    if args.sendbuf is MPI.IN_PLACE:
        return None, recv, recv.count
    send = flat(args.sendbuf, "sendbuf")
    if collective == "allgather":
        edges = _edges(args.counts, recv.count, size, size)
        own = edges[rank + 1] - edges[rank]
        match(send, recv, recv.count)
        if send.count != own:
            raise ValueError(f"sendbuf holds {send.count} elements and rank {rank}'s share of recvbuf is {own}")
        slot = Flat(recv.address + edges[rank] * recv.dtype.itemsize, own, recv.dtype, recv.order, recv.owner)
        in_place = same_or_apart(send, slot) or same_or_apart(send, recv)
        return None if in_place else send, recv, recv.count
    if collective == "reduce_scatter":
        edges = _edges(args.counts, send.count, size, size)
        match(send, recv, edges[rank + 1] - edges[rank], f"rank {rank}'s share of sendbuf")
        same = same_or_apart(send, recv)
        return None if same else send, recv, send.count
    match(send, recv, send.count)
    return None if same_or_apart(send, recv) else send, recv, send.count


def _edges(counts: Sequence[int] | None, total: int, chunks: int, size: int) -> list[int]:
    """Edges of the chunks: balanced, or as the caller counts them."""
    if counts is None:
        return bounds(total, chunks)
    known = list(counts) if isinstance(counts, Iterable) else []
    if len(known) != size or any(not isinstance(c, (int, np.integer)) or c < 0 for c in known):
        raise ValueError(f"counts is {counts!r}: give {size} numbers of elements, one a rank")
    if sum(known) != total:
        raise ValueError(f"counts add up to {sum(known)}, and the vector has {total} elements")
    return [0, *accumulate(int(c) for c in known)]


def _layout(schedule: Schedule, rank: int, edges: Sequence[int], in_place: bool) -> Layout:
    """Where this rank's chunks begin, are written and must end."""
    collective, outputs = schedule.collective, schedule.outputs(rank)
    inputs = schedule.inputs(rank)
    own = collective == "allgather" and not in_place  # its send buffer holds the own chunk alone
    away = collective == "reduce" and rank != schedule.root
    works = away or (collective == "reduce_scatter" and not in_place)

    def whole(memory: int, c: int) -> Slice:
        return Slice(memory, edges[c], edges[c + 1])

    def first(memory: int, c: int) -> Slice:
        return Slice(memory, 0, edges[c + 1] - edges[c])

    def begin(c: int) -> Slice | None:
        if c not in inputs:
            return None
        if in_place or collective == "bcast":
            return whole(RECVBUF, c)
        return first(SENDBUF, c) if own else whole(SENDBUF, c)

    def home(c: int) -> Slice:
        if c >= schedule.chunks:
            return Slice(WORK, edges[c] - edges[schedule.chunks], edges[c + 1] - edges[schedule.chunks])
        return whole(WORK if works else RECVBUF, c)

    def end(c: int) -> Slice | None:
        if c not in outputs:
            return None
        return first(RECVBUF, c) if collective == "reduce_scatter" else whole(RECVBUF, c)

    return Layout(edges, begin, home, end)
