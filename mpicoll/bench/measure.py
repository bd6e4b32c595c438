"""Check the cells of a case, then time them, interleaved iteration by iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from mpi4py import MPI

from .case import Case
from .cells import Cell

FEWEST, MOST = 10, 1000  # iterations when the time budget decides


@dataclass
class Sample:
    """One cell at one size: for each iteration the maximum over ranks, in microseconds, and the verdict."""

    cell: Cell
    times_us: np.ndarray = field(default_factory=lambda: np.empty(0))
    wrong: int | None = None  # elements; None: not checked

    @property
    def median_us(self) -> float | None:
        """The median over iterations."""
        return float(np.median(self.times_us)) if len(self.times_us) else None

    @property
    def p99_us(self) -> float | None:
        """The 99th percentile over iterations."""
        return float(np.percentile(self.times_us, 99)) if len(self.times_us) else None


def measure(
    case: Case, cells: Sequence[Cell], *, iterations: int | None, warmup: int, check: bool, budget: float, seed: int
) -> list[Sample]:
    """Samples of all cells. Collective. ``budget`` (seconds) sets the iterations where these are None."""
    samples = [Sample(cell) for cell in cells]
    running = [sample for sample in samples if sample.cell.run is not None]
    digests = {}
    if check:
        for sample in running:
            sample.wrong, digests[id(sample)] = _check(case, sample.cell)
    started = perf_counter()
    _iterate(case, running, warmup or (iterations is None), None)
    spent = (perf_counter() - started) / max(1, warmup or (iterations is None))
    if iterations is None:
        iterations = case.comm.bcast(max(FEWEST, min(MOST, int(budget / max(spent, 1e-6)))))
    times = _iterate(case, running, iterations, np.random.default_rng(seed))
    case.comm.Allreduce(MPI.IN_PLACE, times, MPI.MAX)
    case.mend()  # who wrote to sendbuf while the clock ran cannot be told; each is checked again below
    for row, sample in zip(times, running):
        sample.times_us = row * 1e6
        if check:
            wrong, digest = _check(case, sample.cell)
            again = sample.cell.library == "mpi" or digest == digests[id(sample)]
            sample.wrong = max(sample.wrong or 0, wrong, case.comm.allreduce(0 if again else 1, MPI.MAX))
    return samples


def _iterate(case: Case, running: Sequence[Sample], iterations: int, shuffle: np.random.Generator | None) -> np.ndarray:
    """Seconds of this rank, a row a cell. The order of cells is shuffled, in the same way on all ranks."""
    times = np.zeros((len(running), iterations))
    runs = [sample.cell.run for sample in running]
    order = np.arange(len(running))
    barrier = case.comm.Barrier
    for i in range(iterations):
        if shuffle is not None:
            shuffle.shuffle(order)
        for k in order.tolist():
            run = runs[k]
            assert run is not None
            case.restore()  # repeated sums in place overflow
            barrier()
            begin = perf_counter()
            run()
            times[k, i] = perf_counter() - begin
    return times


def _check(case: Case, cell: Cell) -> tuple[int, int]:
    """Run once on poisoned memory; (wrong elements over all ranks, hash of this rank's result)."""
    assert cell.run is not None
    case.poison()
    case.restore()
    cell.run()
    digest = case.digest()
    alike = True
    if case.collective in ("allreduce", "allgather", "bcast"):
        alike = len(set(case.comm.allgather(digest))) == 1
    # Ranks that differ in bits are a fault of ours unless the algorithm says so, and allowed to a library: then each
    # rank checks all that it has.
    wrong = case.wrong(whole=not alike)
    if case.mend() or (not alike and cell.identical):
        wrong = max(wrong, 1)
    return case.comm.allreduce(wrong), digest
