"""Check the cells of a case, then time them, interleaved iteration by iteration in an order shuffled anew each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from mpi4py import MPI

from mpicoll.statistics import Summary, apart, summarize

from . import sync
from .case import Case
from .cells import Cell

FEWEST, MOST = 10, 4000  # iterations when the interval and the budget decide
BATCH = 20  # iterations between two looks at the intervals


@dataclass
class Sample:
    """One cell at one size: for each iteration the maximum over ranks, in microseconds, and the verdict."""

    cell: Cell
    times_us: np.ndarray = field(default_factory=lambda: np.empty(0))
    wrong: int | None = None  # elements; None: not checked
    late: int = 0  # iterations of this case that a rank heard of too late (start at a common time)
    sync_error_us: float | None = None  # how far the clocks may differ (start at a common time)
    slower: bool | None = None  # than the same staged, told apart; None: there is nothing to compare
    staged_us: float | None = None  # what the same takes staged

    @property
    def summary(self) -> Summary | None:
        """What is said of the iterations; None when it did not run."""
        return summarize(self.times_us)

    @property
    def median_us(self) -> float | None:
        """The median over iterations."""
        return float(np.median(self.times_us)) if len(self.times_us) else None


@dataclass(frozen=True)
class Effort:
    """How long a case is measured, and how. ``budget`` (seconds) ends it where ``iterations`` is None."""

    iterations: int | None = None
    warmup: int = 3
    check: bool = True
    budget: float = 1.0
    seed: int = 1
    start: str = "barrier"
    skew: Mapping[int, float] = field(default_factory=dict)


def measure(case: Case, cells: Sequence[Cell], effort: Effort) -> list[Sample]:
    """Samples of all cells. Collective. It ends when every median's interval is narrow, or the budget is spent."""
    samples = [Sample(cell) for cell in cells]
    digests = {}
    for sample in samples:
        if sample.cell.run is not None and effort.check:
            sample.wrong, digests[id(sample)] = _check(case, sample.cell)
        elif sample.cell.forced and sample.cell.run is not None:
            _tried(case, sample.cell)
    running = [sample for sample in samples if sample.cell.run is not None]
    for sample in running:
        assert sample.cell.run is not None
        sample.cell.run = case.memory.timed(sample.cell.run)
    start = sync.make(effort.start, case.comm, effort.skew)
    begun = perf_counter()
    if effort.warmup:
        _iterate(case, running, effort.warmup, None, start)
    shuffle = np.random.default_rng(effort.seed)
    times = np.empty((len(running), 0))
    spent = 0.0
    while more := _more(times, effort, spent):
        batch = _iterate(case, running, more, shuffle, start)
        case.comm.Allreduce(MPI.IN_PLACE, batch, MPI.MAX)
        times = np.concatenate([times, batch], axis=1)
        spent = case.comm.bcast(perf_counter() - begun)
    late = case.comm.allreduce(start.late, MPI.MAX)
    case.mend()  # who wrote to sendbuf while the clock ran cannot be told; each is checked again below
    for row, sample in zip(times, running):
        sample.times_us, sample.late, sample.sync_error_us = row * 1e6, late, start.error_us
        if effort.check:
            wrong, digest = _check(case, sample.cell)
            again = sample.cell.library != "mpicoll" or digest == digests[id(sample)]
            sample.wrong = max(sample.wrong or 0, wrong, case.comm.allreduce(0 if again else 1, MPI.MAX))
    compare(samples)
    return samples


def compare(samples: Sequence[Sample]) -> None:
    """Mark what is slower with device pointers than through the host."""
    staged = {(s.cell.algorithm, s.cell.call): s.summary for s in samples if s.cell.label == "staged"}
    for sample in samples:
        cell, mine = sample.cell, sample.summary
        theirs = staged.get((cell.algorithm, cell.call)) if cell.library == "mpicoll" and not cell.label else None
        if mine and theirs:
            sample.staged_us = theirs.median
            sample.slower = theirs.median < mine.median and apart(mine, theirs)


def _more(times: np.ndarray, effort: Effort, spent: float) -> int:
    """Iterations of the next batch, 0 when it is enough. The same on all ranks."""
    done = times.shape[1]
    if effort.iterations is not None:
        return effort.iterations - done
    if done < FEWEST:
        return FEWEST - done
    if done >= MOST or spent >= effort.budget:
        return 0
    if all(summary.known for row in times if (summary := summarize(row * 1e6))):
        return 0
    rate = spent / done
    return max(1, min(MOST - done, max(BATCH, done // 2), int(min(1e9, (effort.budget - spent) / rate))))


def _iterate(
    case: Case,
    running: Sequence[Sample],
    iterations: int,
    shuffle: np.random.Generator | None,
    start: sync.Barrier | sync.Window,
) -> np.ndarray:
    """Seconds of this rank, a row a cell. The order of cells is shuffled, in the same way on all ranks."""
    times = np.zeros((len(running), iterations))
    cells = [sample.cell for sample in running]
    order = np.arange(len(running))
    clock, restore, announce, go = sync.clock, case.restore, start.announce, start.go
    for i in range(iterations):
        if shuffle is not None:
            shuffle.shuffle(order)
        for k in order.tolist():
            cell = cells[k]
            run = cell.run
            assert run is not None
            restore()  # repeated sums in place overflow
            announce()
            if cell.before:
                cell.before()
            at = go()
            begin = clock() if at is None else at
            run()
            times[k, i] = clock() - begin
            if cell.after:
                cell.after()
    return times


def _check(case: Case, cell: Cell) -> tuple[int, int]:
    """Run once on poisoned memory; (wrong elements over all ranks, hash of this rank's result).

    A library's algorithm that refuses this call becomes a cell that says so.
    """
    assert cell.run is not None
    case.poison()
    case.restore()
    if not _tried(case, cell):
        return 0, 0
    digest = case.digest()
    alike = True
    if case.collective in ("allreduce", "allgather", "bcast"):
        alike = len(set(case.comm.allgather(digest))) == 1
    # Ranks that differ in bits are a fault of ours unless the algorithm says so, and allowed to a library: then each
    # rank checks all that it has.
    wrong = case.wrong(whole=not alike)
    if case.mend() or (not alike and cell.library == "mpicoll" and cell.identical):
        wrong = max(wrong, 1)
    return case.comm.allreduce(wrong), digest


def _tried(case: Case, cell: Cell) -> bool:
    """Run a cell; False when it is a forced algorithm that the library refuses."""
    assert cell.run is not None
    if not cell.forced:
        cell.run()
        return True
    case.restore()
    said = ""
    if cell.before:
        cell.before()
    try:
        cell.run()
    except MPI.Exception as error:
        said = str(error).strip().splitlines()[-1] or "refused"
    finally:
        if cell.after:
            cell.after()
    said = next((text for text in case.comm.allgather(said) if text), "")
    if said:
        cell.run, cell.why = None, f"the library refuses it here ({said})"
    return not said
