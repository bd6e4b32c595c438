"""What rank 0 prints: the head that says what runs, the rows in the form that was asked for, the summary."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence

from mpi4py import MPI

from mpicoll.schedule import REDUCING

from . import views
from .case import Case
from .cells import Cell
from .machine import Machine, versions
from .measure import Sample
from .plot import Series
from .progress import Progress
from .table import Table, human, time


class Output:
    """The printed side of a run; silent on other ranks."""

    def __init__(
        self,
        comm: MPI.Intracomm,
        options: Namespace,
        machine: Machine,
        rows: int,
        limit: bool,
        more: Sequence[str] = (),
    ) -> None:
        self.comm, self.options, self.machine, self.limit, self.more = comm, options, machine, limit, more
        self.progress = Progress(comm.rank == 0, rows)
        self.table: Table | None = None
        self.digest = views.Digest()
        self.series: Series = {}
        self.seen: set[str] = set()
        self.auto = ""

    def say(self, lines: Iterable[str]) -> None:
        """Print lines on rank 0."""
        if self.comm.rank == 0:
            print("\n".join(lines), flush=True)

    def head(self, cells: Sequence[Cell], sync_error_us: float | None, timer_us: float) -> None:
        """What runs, and the titles of the columns."""
        self.progress.clear()
        form = self.options.format
        if form == "csv":
            self.say([views.csv_head()])
            return
        said = [*_header(self.options, self.machine, self.comm.size, sync_error_us, timer_us), *self.more]
        if form == "full":
            self.say([*said, *views.full_head()])
            return
        self.table = Table(cells, self.options.collective, self.comm.size, self.limit, _colour(self.options.color))
        said.append("# microseconds: median over iterations of the slowest rank; * fastest; ≈ not told apart; ! wrong")
        said.append("# speed-up: MPI call / fastest of ours; GB/s: bus bandwidth of the fastest of ours")
        if self.limit:
            said.append("# limit: the bound by calibrated rates / the fastest of ours")
        self.say([*said, *self.table.head()])

    def row(self, case: Case, samples: Sequence[Sample], inside: Sequence[Sample], bound: float | None) -> None:
        """One size."""
        self.progress.clear()
        if self.options.format == "csv":
            self.say(views.csv_rows(case, samples))
        else:
            lines = views.full_rows(case, samples, inside) if self.options.format == "full" else []
            if self.table is not None:
                lines = [self.table.row(case.nbytes, samples, bound)]
            self.say([*self._notes(samples), *lines])
        self.digest.take(case.nbytes, samples)
        for sample in samples:
            if summary := sample.summary:
                low, high = summary.interval
                point = (case.nbytes, summary.median, low or summary.median, high or summary.median)
                self.series.setdefault(sample.cell.name, []).append(point)

    def end(self, wrong: int) -> None:
        """The summary, and whether results were wrong."""
        if self.options.format != "csv":
            self.say(self.digest.lines())
        if wrong:
            print_to = sys.stderr if self.options.format == "csv" else sys.stdout
            if self.comm.rank == 0:
                print(f"# WRONG RESULTS: {wrong} elements; the columns are marked !", file=print_to, flush=True)

    def _notes(self, samples: Sequence[Sample]) -> Iterator[str]:
        """What cannot run and why, once; what auto runs, when that changes."""
        cells = [sample.cell for sample in samples]
        notes = {f"# {cell.name}: {cell.why}" for cell in cells if cell.why} - self.seen
        self.seen |= notes
        yield from sorted(notes)
        slow = [s for s in samples if s.slower]
        if slow:
            told = (
                f"{s.cell.runs or s.cell.algorithm} {time(s.median_us or 0)} against {time(s.staged_us or 0)}"
                for s in slow
            )
            yield f"# direct is slower than staged here, in us: {', '.join(told)}"
        picked = next((cell for cell in cells if cell.algorithm == "auto" and cell.runs), None)
        if picked and picked.runs != self.auto:
            self.auto = picked.runs
            yield f"# {picked.name} runs {picked.runs} ({picked.reason})"


def _colour(wanted: str) -> bool:
    """Whether to colour. Open MPI hands its ranks a terminal of its own: whether there is a real one cannot be told."""
    if wanted == "auto":
        return sys.stdout.isatty() and "NO_COLOR" not in os.environ and "OMPI_COMM_WORLD_RANK" not in os.environ
    return wanted == "always"


def _header(
    options: Namespace, machine: Machine, size: int, sync_error_us: float | None, timer_us: float
) -> Iterator[str]:
    told = versions()
    hosts = list(dict.fromkeys(machine.hosts))
    nodes = f"{machine.node_count} node{'s' * (machine.node_count > 1)}"
    op = f" {options.op}" if options.collective in REDUCING else ""
    root = f", root {options.root}" if options.collective in ("reduce", "bcast") else ""
    place = "" if options.format == "full" else f", {'in' if options.in_place else 'out of'} place"
    shared = machine.shared_cores()
    yield f"# mpicoll {told['mpicoll']}, {machine.library}, " + ", ".join(
        f"{name} {told[key]}" for name, key in (("mpi4py", "mpi4py"), ("Python", "python"), ("NumPy", "numpy"))
    )
    yield f"# {options.collective} {options.dtype}{op}{root}{place}"
    yield f"# {size} rank{'s' * (size > 1)} on {nodes} ({', '.join(hosts[:4])}{', ...' * (len(hosts) > 4)})" + (
        f": {shared}" if shared else ""
    )
    if size == 1:
        yield "# one rank: nothing is sent, and busbw is 0"
    if sync_error_us is not None:
        yield f"# iterations start at a common time; the clocks differ by at most {sync_error_us:.2f} us"
    if options.arrival_skew:
        late = ", ".join(f"rank {rank} {seconds * 1e6:g} us" for rank, seconds in options.arrival_skew.items())
        yield f"# late on purpose: {late}; each rank counts from its own arrival"
    if options.format == "full":
        yield f"# times: median over iterations of the slowest rank; the timer itself takes {timer_us:.2f} us"


def sizes(rows: Sequence[int], itemsize: int) -> str:
    """First to last size, for a title."""
    return f"{human(rows[0] * itemsize)} to {human(rows[-1] * itemsize)}"
