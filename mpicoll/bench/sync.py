"""How an iteration starts on all ranks: behind a barrier, or at a common time on synchronised clocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
from mpi4py import MPI

EXCHANGES = 30  # of which the fastest tells the offset of two clocks
LEAST_LEAD_S, MOST_LEAD_S = 100e-6, 20e-3  # from the announcement of a start to the start
clock = time.perf_counter  # seconds; each rank has its own zero


class Barrier:
    """Start when the barrier lets go; the time between its leaving on different ranks is charged to the call."""

    error_us: float | None = None
    late = 0

    def __init__(self, comm: MPI.Intracomm, skew: Mapping[int, float] = {}) -> None:
        self.comm = comm
        self.delay = skew.get(comm.rank, 0.0)
        # Waits; gives the time from which this rank counts, None: now. Nothing of ours between barrier and call.
        self.go: Callable[[], float | None] = self._late if self.delay else comm.Barrier

    def announce(self) -> None:
        """Agree on the next start."""

    def _late(self) -> float:
        self.comm.Barrier()
        return arrive(clock(), self.delay)


class Window:
    """Start at a time that rank 0 announces, on clocks whose offsets are measured anew for each size.

    How far ahead that is follows from how late the announcements were heard; who hears of a start after it counts it.
    """

    def __init__(self, comm: MPI.Intracomm, skew: Mapping[int, float] = {}) -> None:
        self.comm, self.delay = comm, skew.get(comm.rank, 0.0)
        self.offset, error = _offset(comm)  # own clock - rank 0's
        self.error_us = comm.allreduce(error, MPI.MAX) * 1e6
        self.lead, self.late = LEAST_LEAD_S, 0
        self.at, self.heard = np.zeros(2), np.zeros(1)

    def announce(self) -> None:
        """Rank 0 names a time far enough away for all to hear of it."""
        self.comm.Allreduce(MPI.IN_PLACE, self.heard, MPI.MAX)
        self.lead = min(MOST_LEAD_S, max(LEAST_LEAD_S, 0.9 * self.lead, 3 * float(self.heard[0])))
        if self.comm.rank == 0:
            self.at[:] = clock(), self.lead
        self.comm.Bcast(self.at)
        self.heard[0] = clock() - self.offset - self.at[0]
        self.late += bool(self.heard[0] > self.at[1])

    def go(self) -> float:
        """Wait until then."""
        begin = float(self.at[0] + self.at[1]) + self.offset
        while clock() < begin:
            pass
        return arrive(begin, self.delay)


def make(kind: str, comm: MPI.Intracomm, skew: Mapping[int, float]) -> Barrier | Window:
    """The start of an iteration. Collective."""
    return Window(comm, skew) if kind == "window" else Barrier(comm, skew)


def arrive(begin: float, delay: float) -> float:
    """Come late on purpose: the time of the own arrival."""
    if not delay:
        return begin
    while (now := clock()) < begin + delay:
        pass
    return now


def _offset(comm: MPI.Intracomm) -> tuple[float, float]:
    """(own clock minus rank 0's, how far that may be from the truth) in seconds. Collective."""
    told = np.zeros(1)
    offset, error = 0.0, 0.0
    for rank in range(1, comm.size):
        for _ in range(EXCHANGES):
            if comm.rank == 0:
                comm.Recv(told, rank, 0)
                told[0] = clock()
                comm.Send(told, rank, 0)
            elif comm.rank == rank:
                begin = clock()
                comm.Send(told, 0, 0)
                comm.Recv(told, 0, 0)
                end = clock()
                if not error or end - begin < 2 * error:
                    offset, error = (begin + end) / 2 - float(told[0]), (end - begin) / 2
        comm.Barrier()
    return offset, error
