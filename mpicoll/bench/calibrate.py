"""What the machine can do, beside the algorithms: ping-pong, exchange, local reduction and copy over the same sizes.

A fit tells beta from gamma by them, and a reader sees how far an algorithm is from the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, log2
from time import perf_counter

import numpy as np
from mpi4py import MPI

from mpicoll.runtime.private import private
from mpicoll.schedule import groups

BUDGET_S, FEWEST, MOST = 0.03, 5, 200  # of one size of one kind
TAG = 1


@dataclass
class Calibration:
    """One kind at one size. ``level``: ranks of one node, of two, or one rank alone. Slowest rank of each iteration."""

    kind: str
    level: str
    nbytes: int
    times_us: np.ndarray

    @property
    def median_us(self) -> float:
        """The median over iterations."""
        return float(np.median(self.times_us))


def calibrate(comm: MPI.Intracomm, sizes: Sequence[int], dtype: np.dtype) -> list[Calibration]:
    """Measure all kinds at all sizes (above 0). Collective. Buffers of twice the largest size a rank."""
    state = private(comm)
    found = []
    for level, after, before, pair in _partners(state.nodes, comm.rank):
        for nbytes in sizes:
            for kind, make, ends in (("pingpong", _pingpong, pair), ("exchange", _exchange, (after, before))):
                run, requests = make(state.comm, nbytes, *ends)
                times = _time(comm, run)
                found.append(Calibration(kind, level, nbytes, times * (0.5e6 if kind == "pingpong" else 1e6)))
                for request in requests:
                    request.Free()
    for nbytes in sizes:
        a, b = np.ones(max(1, nbytes // dtype.itemsize), dtype), np.ones(max(1, nbytes // dtype.itemsize), dtype)
        found.append(Calibration("reduce", "alone", nbytes, _time(comm, _reduction(a, b)) * 1e6))
        found.append(Calibration("copy", "alone", nbytes, _time(comm, partial(np.copyto, a, b)) * 1e6))
    return found


def bound_us(found: Sequence[Calibration], collective: str, nodes: Sequence[int], nbytes: int) -> float | None:
    """An estimate of what messages allow, by what was measured; None where nothing was.

    The latest of, on each level: ceil(log2 ranks) of the smallest exchange; the bytes that must leave a rank at the
    rate of the exchange of that size, and the reductions one after the other with them.
    """
    p, n = len(nodes), max(nodes) + 1
    if p == 1:
        return None
    q = p / n
    halves, reduces = {"allreduce": (2, 1), "reduce_scatter": (1, 1), "allgather": (1, 0)}.get(collective, (0, 0))
    share = {"inside": (q - 1) / q, "across": (n - 1) / n / q} if halves else {"inside": q > 1, "across": (n > 1) / q}
    gamma = _rate(found, "reduce", "alone", nbytes) * (p - 1) / p if reduces else 0.0
    bounds = []
    for level, part in share.items():
        smallest = min((c for c in found if (c.kind, c.level) == ("exchange", level)), key=_bytes, default=None)
        if smallest is None or not part:
            continue
        ranks = q if level == "inside" else n
        bounds.append(ceil(log2(ranks)) * smallest.median_us)
        bounds.append((halves or 1) * float(part) * nbytes * _rate(found, "exchange", level, nbytes) + nbytes * gamma)
    return max(bounds, default=None)


def _bytes(calibration: Calibration) -> int:
    return calibration.nbytes


def _rate(found: Sequence[Calibration], kind: str, level: str, nbytes: int) -> float:
    """Microseconds a byte at this size, or at the next larger one that was measured."""
    known = sorted((c for c in found if (c.kind, c.level) == (kind, level) and c.nbytes), key=_bytes)
    if not known:
        return 0.0
    nearest = next((c for c in known if c.nbytes >= nbytes), known[-1])
    return nearest.median_us / nearest.nbytes


def _partners(nodes: Sequence[int], rank: int) -> list[tuple[str, int, int, tuple[int, int]]]:
    """(level, next, previous, the two of the ping-pong) for each level that there is.

    Round the ranks of a node, and round the nodes in lanes. A rank without a partner has itself: it waits.
    """
    members = groups(nodes)
    own = next(group for group in members if rank in group)
    lane = own.index(rank)
    levels = []
    shared = next((group for group in members if len(group) > 1), None)
    if shared:
        levels.append(("inside", own[(lane + 1) % len(own)], own[lane - 1], (shared[0], shared[1])))
    if len(members) > 1:
        line = [group[lane] for group in members if lane < len(group)]
        at = line.index(rank)
        levels.append(("across", line[(at + 1) % len(line)], line[at - 1], (members[0][0], members[1][0])))
    return levels


def _exchange(
    comm: MPI.Intracomm, nbytes: int, after: int, before: int
) -> tuple[Callable[[], None], list[MPI.Prequest]]:
    """Everyone to the next and from the previous one, at once."""
    if after == comm.rank:
        return lambda: None, []
    send, recv = _messages(comm, np.zeros(nbytes, np.uint8), np.zeros(nbytes, np.uint8), after, before)

    def run() -> None:
        recv.Start()
        send.Start()
        recv.Wait()
        send.Wait()

    return run, [send, recv]


def _pingpong(comm: MPI.Intracomm, nbytes: int, one: int, other: int) -> tuple[Callable[[], None], list[MPI.Prequest]]:
    """Two ranks, there and back; the others wait."""
    if comm.rank not in (one, other):
        return lambda: None, []
    peer = other if comm.rank == one else one
    data = np.zeros(nbytes, np.uint8)
    send, recv = _messages(comm, data, data, peer, peer)
    first, second = (send, recv) if comm.rank == one else (recv, send)

    def run() -> None:
        first.Start()
        first.Wait()
        second.Start()
        second.Wait()

    return run, [send, recv]


def _messages(
    comm: MPI.Intracomm, out: np.ndarray, into: np.ndarray, after: int, before: int
) -> tuple[MPI.Prequest, MPI.Prequest]:
    return comm.Send_init([out, MPI.BYTE], after, TAG), comm.Recv_init([into, MPI.BYTE], before, TAG)


def _reduction(a: np.ndarray, b: np.ndarray) -> Callable[[], object]:
    add = np.logical_or if a.dtype.kind == "b" else np.add
    b[:] = 0  # no overflow, which some types warn of
    return lambda: add(a, b, out=a)


def _time(comm: MPI.Intracomm, run: Callable[[], object]) -> np.ndarray:
    """Seconds, the slowest rank of each iteration."""
    barrier, clock = comm.Barrier, perf_counter
    begun = clock()
    for _ in range(2):
        barrier()
        run()
    each = (clock() - begun) / 2
    iterations = comm.bcast(max(FEWEST, min(MOST, int(BUDGET_S / max(each, 1e-7)))))
    times = np.zeros(iterations)
    for i in range(iterations):
        barrier()
        begin = clock()
        run()
        times[i] = clock() - begin
    comm.Allreduce(MPI.IN_PLACE, times, MPI.MAX)
    return times
