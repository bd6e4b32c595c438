"""``--self-test``: the bench tested by itself, on the ranks at hand. Each line a claim, and whether it held."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
from mpi4py import MPI

import mpicoll
from mpicoll.runtime import bind
from mpicoll.schedule import algorithms, find, verify

from . import sync
from .case import OPS, Case, dtype_of
from .cells import Cell
from .measure import Effort, Sample, _iterate, measure
from .options import DTYPES

COUNTS = (1, 7, 1000, 10007)
DELAY_S = 1e-3
MOVED_S = 1000.0


def self_test(comm: MPI.Intracomm) -> int:
    """Run all; the exit status. Collective."""
    failed = 0
    for claim, test in (
        ("the bytes that are moved are those that the schedules count", _bytes),
        ("a wrong algorithm is caught at every size and dtype", _wrong),
        ("a rank that is 1 ms late shows as at least 1 ms in the maximum", _late),
        ("a clock moved by 1000 s on one rank changes nothing", _moved),
    ):
        faults = [fault for told in comm.allgather(list(test(comm))) for fault in told]
        failed += bool(faults)
        if comm.rank == 0:
            print(f"{'FAILED' if faults else 'ok':<7}{claim}", *faults[:5], sep="\n       ", flush=True)
    least = comm.allreduce(_overhead(comm), MPI.MAX)
    if comm.rank == 0:
        print(f"       the harness and its timer add {least:.2f} us to a call", flush=True)
    return 1 if failed else 0


def _bytes(comm: MPI.Intracomm) -> Iterator[str]:
    """Counted as messages start, against the schedule's counts, which the bus bandwidth stands on."""
    count = 40 * comm.size
    made: list[int] = []
    message = bind.Binder._message

    def counted(self, step):
        return _Counted(message(self, step), self.data(step.at).nbytes if step.sends else 0, made)

    x, y = np.ones(count, "f4"), np.empty(count, "f4")
    bind.Binder._message = counted  # type: ignore[method-assign]
    try:
        for name in algorithms("allreduce"):
            made.clear()
            plan = mpicoll.allreduce_init(x, y, MPI.SUM, comm, algorithm=name)
            plan()
            plan.free()
            total = comm.allreduce(sum(made))
            counts = verify(find("allreduce", name).schedule(comm.size)).counts
            if counts is None or total != counts.sent_total * x.nbytes:
                yield f"{name}: {total} bytes, {counts and float(counts.sent_total) * x.nbytes} expected"
    finally:
        bind.Binder._message = message  # type: ignore[method-assign]


class _Counted:
    """A request that notes what it sends each time it starts."""

    def __init__(self, request: MPI.Prequest, nbytes: int, moved: list[int]) -> None:
        self.request, self.nbytes, self.moved = request, nbytes, moved
        self.Wait, self.Test = request.Wait, request.Test

    def Start(self) -> None:
        self.moved.append(self.nbytes)
        self.request.Start()


def _wrong(comm: MPI.Intracomm) -> Iterator[str]:
    """The result of one rank is off by the least that shows, in its last element."""
    for name in DTYPES:
        try:
            dtype = dtype_of(name)
        except ImportError:
            continue
        for count in COUNTS:
            case = Case(comm, "allreduce", dtype, "lor" if dtype.kind == "b" else "sum", 0, count, False, 1)
            right = Cell("mpicoll", "right", "plan", _called(case, lambda: None))
            wrong = Cell("mpicoll", "wrong", "plan", _called(case, _spoil(case, comm)))
            good, bad = measure(case, [right, wrong], Effort(iterations=1, warmup=0))
            if good.wrong or not bad.wrong:
                yield f"{name}, {count} elements: {good.wrong} wrong in a right one, {bad.wrong} in a wrong one"


def _called(case: Case, then: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        mpicoll.allreduce(case.sendbuf, case.recv, OPS[case.op], case.comm, algorithm="linear")
        then()

    return run


def _spoil(case: Case, comm: MPI.Intracomm) -> Callable[[], None]:
    def spoil() -> None:
        if comm.rank == comm.size - 1 and case.recv is not None:
            case.recv.view(np.uint8)[-1] ^= 1 if case.dtype.kind == "b" else 64

    return spoil


def _late(comm: MPI.Intracomm) -> Iterator[str]:
    case = _small(comm)
    mine = comm.rank == comm.size - 1

    def run() -> None:
        if mine:
            time.sleep(DELAY_S)
        comm.Barrier()

    for start in ("barrier", "window"):
        (sample,) = measure(case, [_cell(run)], Effort(iterations=10, warmup=1, check=False, start=start))
        if sample.times_us.min() < DELAY_S * 1e6:
            yield f"{start}: {sample.times_us.min():.0f} us"


def _moved(comm: MPI.Intracomm) -> Iterator[str]:
    case, clock = _small(comm), sync.clock
    for start in ("barrier", "window"):
        try:
            if comm.rank == comm.size - 1:
                sync.clock = lambda: clock() + MOVED_S
            (sample,) = measure(case, [_cell(comm.Barrier)], Effort(iterations=10, warmup=1, check=False, start=start))
        finally:
            sync.clock = clock
        if not 0 < sample.times_us.min() <= sample.times_us.max() < MOVED_S * 1e5:
            yield f"{start}: {sample.times_us.min():.3g} to {sample.times_us.max():.3g} us"


def _overhead(comm: MPI.Intracomm) -> float:
    """Microseconds that the loop measures of a call that does nothing: the least of many. Stated, not judged."""
    return float(_iterate(_small(comm), [Sample(_cell(_nothing))], 300, None, sync.Barrier(comm)).min()) * 1e6


def _nothing() -> None:
    pass


def _small(comm: MPI.Intracomm) -> Case:
    return Case(comm, "allreduce", np.dtype("f4"), "sum", 0, 2, False, 1)


def _cell(run: Callable[[], None]) -> Cell:
    return Cell("mpicoll", "nothing", "plan", run)
