"""One run: survey, refuse what cannot be, calibrate, then row by row check, time, print, record."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from itertools import pairwise

from mpi4py import MPI

from mpicoll.launcher import singletons
from mpicoll.runtime import mpilib
from mpicoll.runtime.api import outlook
from mpicoll.schedule import find

from . import cells as ways
from . import interrupt, sync
from .calibrate import Calibration, bound_us, calibrate
from .case import OPS, Case
from .cells import Cell
from .checks import PROVED_UP_TO, RefusedError, all_agree, checked, prove, room, spare
from .machine import Machine, survey
from .measure import Effort, Sample, measure
from .memory import DeviceMemory, Memory
from .nccl import Nccl
from .options import counts, suit
from .plot import draw, may_draw
from .record import Record
from .report import Output, sizes
from .table import human
from .transports import Transports, place, prepare

CALIBRATED_UP_TO = 16 << 20  # bytes of a vector; rates no longer change there


def run(options: Namespace, memory: Memory, trouble: str = "") -> int:
    """Run the bench; returns the exit status. Collective."""
    comm = MPI.COMM_WORLD
    if options.segment_bytes:
        os.environ["MPICOLL_SEGMENT_BYTES"] = str(options.segment_bytes)
    try:
        reason = singletons(comm.size, mpilib.vendor())
        if reason:
            raise RefusedError(reason)
        if options.self_test:
            from .selftest import self_test

            return self_test(comm)
        wrong = _run(comm, options, memory, trouble)
    except RefusedError as error:
        if comm.rank == 0:
            print(f"mpicoll.bench: {error}", file=sys.stderr, flush=True)
        return 2
    return 1 if wrong else 0


def _run(comm: MPI.Intracomm, options: Namespace, memory: Memory, trouble: str) -> int:
    transports = prepare(comm, options, trouble)
    place(comm, memory)
    if options.by_default:
        options.algorithms = suit(options.algorithms, comm.size)
    dtype = checked(comm, options)
    machine = survey(comm, memory)
    rows = counts(options, dtype.itemsize)
    room(comm, machine, max(rows) * dtype.itemsize, memory)
    nccl = None
    if isinstance(memory, DeviceMemory) and options.baselines != "none":
        nccl = Nccl(comm, memory, machine.hosts)
    if options.plot:
        all_agree(comm, lambda: may_draw(options.plot), Exception)
    timer_us = _timer_us()
    record = all_agree(comm, lambda: Record(options, machine, timer_us, comm.rank == 0), OSError)
    interrupt.watch(comm.rank, record)
    found: list[Calibration] = []
    budget = options.max_time / len(rows)
    if (options.calibrate or options.json) and options.device == "cpu":
        # A few bytes always: the bound of small vectors stands on them.
        sizes_of = {n * dtype.itemsize for n in rows if 0 < n * dtype.itemsize <= CALIBRATED_UP_TO} | {8}
        found = calibrate(comm, sorted(sizes_of), dtype)
        record.calibrations(found)
    output = Output(comm, options, machine, len(rows), bool(found), [*_about(comm, memory, transports)])
    wrong = 0
    for row, count in enumerate(rows):
        output.progress.show(row, human(count * dtype.itemsize))
        both = (False, True) if options.format == "full" else (options.in_place,)
        done: list[list[Sample]] = []
        for in_place in both:
            case = Case(
                comm, options.collective, dtype, options.op, options.root, count, in_place, options.seed, memory
            )
            cells = _cells(case, options, machine, transports, nccl)
            if row == 0 and not done:
                error = sync.make(options.sync, comm, {}).error_us
                output.head(cells, error, timer_us)
            done.append(measure(case, cells, _effort(options, row, budget / len(both))))
            record.samples(case, done[-1])
            for cell in cells:
                if cell.free:
                    cell.free()
        output.row(case, done[0], done[-1], bound_us(found, options.collective, machine.nodes, case.nbytes))
        wrong += sum(sample.wrong or 0 for samples in done for sample in samples)
    output.end(wrong)
    record.end(True)
    if options.plot and comm.rank == 0:
        _plot(options, machine, output, f"{comm.size} ranks", sizes(rows, dtype.itemsize))
    return wrong


def _effort(options: Namespace, row: int, budget: float) -> Effort:
    return Effort(
        iterations=options.iterations,
        warmup=options.warmup,
        check=bool(options.check),
        budget=budget,
        seed=options.seed + row,
        start=options.sync,
        skew=options.arrival_skew,
    )


def _about(comm: MPI.Intracomm, memory: Memory, transports: Transports) -> Iterator[str]:
    """What the head says of device memory. Collective."""
    if not isinstance(memory, DeviceMemory):
        return
    indexes = comm.gather(memory.index) or []
    told = ", ".join(map(str, indexes[:16])) + ", ..." * (len(indexes) > 16)
    yield f"# device memory{f' of {memory.name}' if memory.name else ''}; GPUs of ranks 0, 1, ...: {told}"
    both = " (staged columns say so)" if len(transports.comms) > 1 else ""
    yield f"# transport {' and '.join(transports.comms)}{both}: {transports.why}"


def _cells(case: Case, options: Namespace, machine: Machine, transports: Transports, nccl: Nccl | None) -> list[Cell]:
    """The columns of a row. An algorithm whose scratch does not fit is left out, with the figure."""
    calls = {"default": ["call"], "all": ["call", "persistent"], "none": []}[options.baselines]
    if transports.mpi:
        cells = [Cell("mpi", "default", call, None, transports.mpi) for call in calls]
    else:
        cells = [ways.baseline(case, call) for call in calls]
        if options.baselines == "all":
            cells += ways.library_algorithms(case)
    if nccl:
        cells.append(nccl.cell(case))
    free = spare(case.comm, machine, case.memory)
    for name in options.algorithms:
        for transport, label, comm in transports.labelled():
            cells += _ours(case, options, name, comm, free)
            for cell in cells[-(1 + options.calls) :]:
                cell.transport, cell.label = transport, label
    return cells


def _ours(case: Case, options: Namespace, name: str, comm: MPI.Intracomm, free: int) -> Iterator[Cell]:
    plan = outlook(case.collective, case.sendbuf, case.recv, OPS[case.op], case.root, name, comm)
    report = prove(plan.schedule) if comm.size <= PROVED_UP_TO else None
    identical = report.identical if report else name == "auto" or find(case.collective, name).identical
    need = plan.scratch_bytes
    fits = comm.allreduce(need <= free, MPI.LAND)
    for call in ("plan", "call") if options.calls else ("plan",):
        if not fits:
            need_gb, free_gb = comm.allreduce(need, MPI.MAX) / 1e9, comm.allreduce(free, MPI.MIN) / 1e9
            why = f"needs {need_gb:.1f} GB of scratch a rank at {human(case.nbytes)}, {free_gb:.1f} GB are free"
            yield Cell("mpicoll", name, call, None, why)
            continue
        cell = ways.ours(case, name, call, comm)
        cell.runs, cell.reason, cell.identical = plan.schedule.algorithm, plan.why, identical
        cell.rounds = report.counts.rounds if report and report.counts else None
        cell.segment_bytes = plan.segment_bytes
        yield cell


def _timer_us() -> float:
    """What two looks at the clock take: the least of many."""
    looks = [sync.clock() for _ in range(1000)]
    return min(b - a for a, b in pairwise(looks)) * 1e6


def _plot(options: Namespace, machine: Machine, output: Output, ranks: str, span: str) -> None:
    title = f"{options.collective} {options.dtype}, {ranks} on {machine.node_count} node(s), {span}, {machine.library}"
    try:
        draw(options.plot, output.series, title)
    except OSError as error:  # the run itself is done, and its exit status is its own
        print(f"mpicoll.bench: --plot {options.plot}: {error.strerror}", file=sys.stderr, flush=True)
