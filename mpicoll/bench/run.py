"""One run: survey, refuse what cannot be, then row by row check, time, print, record."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterable
from functools import cache

from mpi4py import MPI

from mpicoll.runtime.api import outlook
from mpicoll.runtime.cut import SEGMENT_BYTES
from mpicoll.runtime.ops import operation
from mpicoll.runtime.private import private
from mpicoll.schedule import REDUCING, Report, Schedule, find, verify

from . import cells as ways
from .case import OPS, Case, dtype_of
from .cells import Cell
from .machine import Machine, available_bytes, singletons, survey, versions
from .measure import measure
from .options import counts
from .progress import Progress
from .record import Record
from .table import Table, human

PROVED_UP_TO = 128  # ranks; a proof takes seconds beyond


class RefusedError(Exception):
    """Options that cannot be run here: one line, on all ranks."""


def run(options: Namespace) -> int:
    """Run the bench; returns the exit status. Collective."""
    comm = MPI.COMM_WORLD
    if options.segment_bytes:
        os.environ["MPICOLL_SEGMENT_BYTES"] = str(options.segment_bytes)
    try:
        wrong = _run(comm, options)
    except RefusedError as error:
        if comm.rank == 0:
            print(f"mpicoll.bench: {error}", file=sys.stderr, flush=True)
        return 2
    return 1 if wrong else 0


def _run(comm: MPI.Intracomm, options: Namespace) -> int:
    reason = singletons(comm.size)
    if reason:
        raise RefusedError(reason)
    dtype = _checked(comm, options)
    machine = survey(comm)
    rows = counts(options, dtype.itemsize)
    _memory(comm, machine, max(rows) * dtype.itemsize)
    record = _all_agree(comm, lambda: Record(options.json if comm.rank == 0 else None, options, machine), OSError)
    config = private(comm).config
    budget = options.max_time / len(rows)
    progress = Progress(comm.rank == 0, len(rows))
    table, wrong, seen, auto = None, 0, set[str](), ""
    for row, count in enumerate(rows):
        progress.show(row, human(count * dtype.itemsize))
        case = Case(comm, options.collective, dtype, options.op, options.root, count, options.in_place, options.seed)
        cells = _cells(case, options, machine)
        if table is None:
            table = Table(cells, options.collective, comm.size)
            progress.clear()
            _say(comm, [*_header(options, machine, comm.size), *table.head()])
        samples = measure(
            case,
            cells,
            iterations=options.iterations,
            warmup=options.warmup,
            check=bool(options.check),
            budget=budget,
            seed=options.seed + row,
        )
        record.samples(case, samples, config.segment_bytes or SEGMENT_BYTES)
        notes = {f"# {cell.name}: {cell.why}" for cell in cells if cell.why} - seen
        seen |= notes
        picked = {cell.name: cell for cell in cells if cell.algorithm == "auto" and cell.runs}
        notes |= {f"# {name} runs {cell.runs} ({cell.reason})" for name, cell in picked.items() if cell.runs != auto}
        auto = next((cell.runs for cell in picked.values()), auto)
        progress.clear()
        _say(comm, [*sorted(notes), table.row(case.nbytes, samples)])
        wrong += sum(sample.wrong or 0 for sample in samples)
        for cell in cells:
            if cell.free:
                cell.free()
    record.end()
    if wrong:
        _say(comm, [f"# WRONG RESULTS: {wrong} elements; the columns are marked !"])
    return wrong


def _checked(comm: MPI.Intracomm, options: Namespace):
    """The dtype, and the refusals that need MPI or the number of ranks."""
    try:
        dtype = dtype_of(options.dtype)
        if options.collective in REDUCING:
            operation(OPS[options.op], dtype)
        if options.root >= comm.size:
            raise ValueError(f"-r {options.root}: the ranks are 0..{comm.size - 1}")
        root = options.root if options.collective in ("reduce", "bcast") else 0
        for name in options.algorithms if comm.size <= PROVED_UP_TO else ():
            if name != "auto":  # proved when it is known what that is
                _prove(find(options.collective, name).schedule(comm.size, root, nodes=private(comm).nodes))
    except (TypeError, ValueError, ImportError) as error:
        raise RefusedError(error) from None
    return dtype


@cache
def _prove(schedule: Schedule) -> Report:
    """Nothing is timed before it is proved. ValueError: it is wrong."""
    report = verify(schedule)
    if not report.ok:
        raise ValueError(str(report))
    return report


def _all_agree(comm: MPI.Intracomm, make, errors):
    """What ``make`` gives; where it fails on one rank, a refusal on all."""
    made, said = None, ""
    try:
        made = make()
    except errors as error:
        said = str(error)
    said = next((text for text in comm.allgather(said) if text), "")
    if said:
        raise RefusedError(said)
    return made


def _memory(comm: MPI.Intracomm, machine: Machine, nbytes: int) -> None:
    """Refuse vectors that do not fit: three a rank, and the references in higher precision."""
    ranks = machine.nodes.count(machine.nodes[comm.rank])
    needed = nbytes * 3 * ranks + nbytes * 4
    free = available_bytes()
    short = comm.allgather((needed > free, needed, free))
    for host, (lacks, needed, free) in zip(machine.hosts, short):
        if lacks:
            raise RefusedError(
                f"not enough memory on {host} for vectors of {human(nbytes)}: about {needed / 1e9:.1f} GB needed, "
                f"{free / 1e9:.1f} GB free; lower -e"
            )


def _cells(case: Case, options: Namespace, machine: Machine) -> list[Cell]:
    """The columns of a row. An algorithm whose scratch does not fit is left out, with the figure."""
    comm, cells = case.comm, []
    calls = {"default": ["call"], "all": ["call", "persistent"], "none": []}[options.baselines]
    cells += [ways.baseline(case, call) for call in calls]
    ranks = machine.nodes.count(machine.nodes[comm.rank])
    free = available_bytes() // ranks
    for name in options.algorithms:
        plan = outlook(case.collective, case.sendbuf, case.recv, OPS[case.op], case.root, name, comm)
        identical = comm.size > PROVED_UP_TO or _prove(plan.schedule).identical
        need = plan.scratch_bytes
        fits = comm.allreduce(need <= free, MPI.LAND)
        for call in ("plan", "call") if options.calls else ("plan",):
            if fits:
                cells.append(ways.ours(case, name, call))
                cells[-1].runs, cells[-1].reason = plan.schedule.algorithm, plan.why
                cells[-1].identical = identical
            else:
                need_gb, free_gb = comm.allreduce(need, MPI.MAX) / 1e9, comm.allreduce(free, MPI.MIN) / 1e9
                why = f"needs {need_gb:.1f} GB of scratch a rank at {human(case.nbytes)}, {free_gb:.1f} GB are free"
                cells.append(Cell("mpicoll", name, call, None, why))
    return cells


def _header(options: Namespace, machine: Machine, size: int) -> Iterable[str]:
    told = versions()
    hosts = list(dict.fromkeys(machine.hosts))
    nodes = f"{machine.node_count} node{'s' * (machine.node_count > 1)}"
    op = f" {options.op}" if options.collective in REDUCING else ""
    root = f", root {options.root}" if options.collective in ("reduce", "bcast") else ""
    shared = machine.shared_cores()
    yield f"# mpicoll {told['mpicoll']}, {machine.library}, " + ", ".join(
        f"{name} {told[key]}" for name, key in (("mpi4py", "mpi4py"), ("Python", "python"), ("NumPy", "numpy"))
    )
    yield f"# {options.collective} {options.dtype}{op}{root}, {'in' if options.in_place else 'out of'} place"
    yield f"# {size} rank{'s' * (size > 1)} on {nodes} ({', '.join(hosts[:4])}{', ...' * (len(hosts) > 4)})" + (
        f": {shared}" if shared else ""
    )
    if size == 1:
        yield "# one rank: nothing is sent, and busbw is 0"
    yield "# microseconds: median over iterations of the slowest rank; * fastest; ! wrong result"
    yield "# speed-up: MPI call / fastest of ours; GB/s: bus bandwidth of the fastest"


def _say(comm: MPI.Intracomm, lines: Iterable[str]) -> None:
    if comm.rank == 0:
        print("\n".join(lines), flush=True)
