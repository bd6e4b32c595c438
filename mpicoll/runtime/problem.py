"""The arguments of a call, checked and put into one form: what is reduced, from where to where, by which algorithm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from mpi4py import MPI

from mpicoll.schedule import REDUCING, Algorithm, Schedule, bounds

from .buffers import aside, flat, match, same_or_apart
from .derived import Packing, Use
from .memory import Flat, shown
from .ops import Operation, is_user, name_of, operation
from .select import Call, select
from .steps import RECVBUF, SENDBUF, WORK, Layout, Slice
from .tuning import default

Choose = Callable[[str, Call], tuple[Algorithm, str]]
EQUAL: Sequence[Any] = ("equal",)  # counts: the same for all ranks, or the call is refused


class _Keeping:
    """As sendbuf of a reduce_scatter: in place, and what lies behind the result in recvbuf stays as it was."""

    def __repr__(self) -> str:
        return "MPI.IN_PLACE"


KEEPING = _Keeping()


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
    before: tuple[Packing, ...] = ()  # to be packed
    after: tuple[Packing, ...] = ()  # to be unpacked

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

    @property
    def use(self) -> Use:
        """What becomes of a derived datatype."""
        if self.collective not in REDUCING:
            return Use.MOVED
        return Use.WHOLE if is_user(self.op) else Use.REDUCED

    def facts(self, task: Problem | None = None) -> dict[str, str]:
        """What must be the same on all ranks, for the digest, once the problem is known; never raises."""
        counts: Any = None if self.counts is EQUAL else self.counts
        data = None if task is None else task.recv or task.send
        if task is not None and data is not None and (counts is not None or data.counts is not None):
            counts = [b - a for a, b in pairwise(task.edges[: task.schedule.chunks + 1])]
        return {
            "collective": self.collective,
            "count": str(task and task.edges[task.schedule.chunks]),
            "dtype": str(task and task.dtype),
            "order": str(data and data.order),
            "op": name_of(self.op),
            "root": _plain(self.root),
            "algorithm": shown(self.algorithm),
            "counts": _plain(counts),
        }


def _plain(value: Any) -> str:
    """Numbers and sequences of numbers in words that do not tell NumPy's integers from Python's."""
    try:
        if isinstance(value, Iterable) and not isinstance(value, str):
            return f"[{', '.join(map(_plain, value))}]"
    except Exception:  # in the caller's own sequence: what is wrong with it is told elsewhere
        return shown(value)
    return str(int(value)) if isinstance(value, (int, np.integer)) else shown(value)


def _default(name: str, call: Call) -> tuple[Algorithm, str]:
    return select(name, call, default())


def problem(args: Arguments, rank: int, nodes: tuple[int, ...], choose: Choose = _default) -> Problem:
    """Check the arguments of one rank and select; ``nodes``: the node of each. TypeError, ValueError name the cure."""
    collective, size = args.collective, len(nodes)
    if not isinstance(args.root, (int, np.integer)) or not 0 <= args.root < size:
        raise ValueError(f"root {shown(args.root)} is not one of the ranks 0..{size - 1}")
    if not isinstance(args.algorithm, str):
        raise TypeError(f"algorithm is {shown(args.algorithm)}: pass its name, or 'auto'")
    root = int(args.root)
    send, recv, whole = _buffers(args, rank, size)
    data = recv or send
    assert data is not None
    op = operation(args.op, data.dtype, data.device is not None, data.datatype) if collective in REDUCING else None
    commutes = op is None or op.commutes
    total = whole.count if whole.counts is None else sum(whole.counts)
    call = Call(collective, nodes, total * data.dtype.itemsize, commutes)
    chosen, why = choose(args.algorithm, call)
    schedule = chosen.schedule(size, root, in_order=not commutes, nodes=nodes)
    edges = _edges(args, whole, schedule.chunks, size)
    for slot in range(schedule.slots):
        c = slot % schedule.chunks
        edges.append(edges[-1] + edges[c + 1] - edges[c])
    layout = _layout(schedule, rank, edges, in_place=send is None, displs=recv.displs if recv else None)
    gives = send or (recv if collective == "allgather" or (collective, rank) == ("bcast", root) else None)
    takes = None if (collective, rank) == ("bcast", root) else recv
    before, after = ((end.packing,) if end and end.packing else () for end in (gives, takes))
    return Problem(schedule, why, send, recv, data.dtype, op, edges, layout, before, after)


def _buffers(args: Arguments, rank: int, size: int) -> tuple[Flat | None, Flat | None, Flat]:
    """The two views (send None: in place), and the one that has the whole vector."""
    collective = args.collective
    look = partial(flat, use=args.use)
    if collective == "bcast":
        buffer = look(args.recvbuf, "buffer", writable=rank != args.root)
        return None, buffer, buffer
    if collective == "reduce" and rank != args.root:
        if args.sendbuf is MPI.IN_PLACE:
            raise ValueError("sendbuf is MPI.IN_PLACE: only the root of a reduce works in place")
        send = look(args.sendbuf, "sendbuf")
        return send, None, send
    ranks = size if collective == "allgather" and (args.counts is None or args.counts is EQUAL) else None
    recv = look(args.recvbuf, "recvbuf", writable=True, ranks=ranks)
    if args.sendbuf is MPI.IN_PLACE:
        return None, recv, recv
    if args.sendbuf is KEEPING:
        edges = _edges(args, recv, size, size)
        return recv, aside(recv.part(0, edges[rank + 1] - edges[rank])), recv
    send = look(args.sendbuf, "sendbuf")
    if collective == "allgather":
        match(send, recv, recv.count)
        return (None if _in_place(args, send, recv, rank, size) else send), recv, recv
    if collective == "reduce_scatter":
        edges = _edges(args, send, size, size)
        match(send, recv, edges[rank + 1] - edges[rank], f"rank {rank}'s share of sendbuf")
        same = same_or_apart(send, recv)
        return None if same else send, recv, send
    match(send, recv, send.count)
    return None if same_or_apart(send, recv) else send, recv, send


def _in_place(args: Arguments, send: Flat, recv: Flat, rank: int, size: int) -> bool:
    """Whether an allgather's own chunk lies in recvbuf already. ValueError: another count, or overlap in part."""
    edges = _edges(args, recv, size, size)
    own = edges[rank + 1] - edges[rank]
    if send.count != own:
        raise ValueError(f"sendbuf holds {send.count} elements and rank {rank}'s share of recvbuf is {own}")
    if recv.packing:
        return same_or_apart(send, recv)
    starts = recv.displs or edges[:-1]
    if same_or_apart(send, recv.part(starts[rank], own)):
        return True
    if recv.displs is None:
        return same_or_apart(send, recv)
    for c, start in enumerate(starts):  # what lies in a gap is apart
        if same_or_apart(send, recv.part(start, edges[c + 1] - edges[c])):
            raise ValueError(f"sendbuf is rank {c}'s share of recvbuf: pass separate memory, or MPI.IN_PLACE")
    return False


def _edges(args: Arguments, whole: Flat, chunks: int, size: int) -> list[int]:
    """Edges of the chunks: balanced, or as the caller counts them, in elements as he spells them."""
    counts = None if args.counts is EQUAL else args.counts
    if args.counts is EQUAL and (whole.count % size if whole.counts is None else len({*whole.counts}) > 1):
        raise ValueError(f"{whole.count} elements cannot be cut in {size} equal chunks: give their count")
    if counts is None and whole.counts is not None:
        return [0, *accumulate(whole.counts)]
    per = whole.per if args.collective in ("allgather", "reduce_scatter") else 1
    total = whole.count // per
    if counts is None:
        return [per * edge for edge in bounds(total, chunks)]
    known = list(counts) if isinstance(counts, Iterable) else []
    if len(known) != size or any(not isinstance(c, (int, np.integer)) or c < 0 for c in known):
        raise ValueError(f"counts is {shown(counts)}: give {size} numbers of elements, one a rank")
    if sum(known) != total:
        raise ValueError(f"counts add up to {sum(known)}, and the vector has {total} elements")
    return [0, *accumulate(per * int(c) for c in known)]


def _layout(
    schedule: Schedule, rank: int, edges: Sequence[int], in_place: bool, displs: Sequence[int] | None = None
) -> Layout:
    """Where this rank's chunks begin, are written and must end; ``displs``: where they are in recvbuf, if not dense."""
    collective, outputs = schedule.collective, schedule.outputs(rank)
    inputs = schedule.inputs(rank)
    own = collective == "allgather" and not in_place  # its send buffer holds the own chunk alone
    away = collective == "reduce" and rank != schedule.root
    works = away or (collective == "reduce_scatter" and not in_place)

    def whole(memory: int, c: int) -> Slice:
        if displs is not None and memory == RECVBUF:
            return Slice(memory, displs[c], displs[c] + edges[c + 1] - edges[c])
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
