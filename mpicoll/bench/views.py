"""Other forms of the same rows: nccl-tests' long form, CSV, and the summary below a table."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import exp, log

from mpicoll.statistics import Summary, rounded

from .case import Case
from .measure import Sample
from .table import busbw_factor, human

NAME = 26  # characters of the longest name of an algorithm, about
FIELDS = (
    *("collective", "library", "algorithm", "asked", "call", "size", "dtype", "op", "root", "count", "nbytes"),
    *("in_place", "iterations", "median_us", "low_us", "high_us", "p99_us", "min_us", "drift", "algbw_GBps"),
    *("busbw_GBps", "wrong", "why", "device", "transport"),
)


def figures(case: Case, sample: Sample) -> dict[str, float | None]:
    """The figures of a cell, by the names that files give them; None where it did not run."""
    summary = sample.summary
    names = ("median_us", "low_us", "high_us", "p99_us", "min_us", "drift", "algbw_GBps", "busbw_GBps")
    if summary is None:
        return dict.fromkeys(names)
    values = (summary.median, *summary.interval, summary.p99, summary.minimum, summary.drift, *_rates(case, summary))
    return dict(zip(names, map(rounded, values)))


def _rates(case: Case, summary: Summary) -> tuple[float, float]:
    """Algorithm and bus bandwidth in GB/s."""
    rate = case.nbytes / summary.median / 1e3 if summary.median else 0.0
    return rate, rate * busbw_factor(case.collective, case.comm.size)


def csv_head() -> str:
    """The names of the columns."""
    return ",".join(FIELDS)


def csv_rows(case: Case, samples: Sequence[Sample]) -> Iterator[str]:
    """A line a cell; one that did not run has its reason in the last column."""
    for sample in samples:
        cell = sample.cell
        row = {
            **{"collective": case.collective, "library": cell.library, "algorithm": cell.runs or cell.algorithm},
            **{"asked": cell.algorithm, "call": cell.call, "size": case.comm.size, "dtype": case.dtype.name},
            **{"op": case.op, "root": case.root, "count": case.count, "nbytes": case.nbytes},
            **{"in_place": int(case.in_place), "iterations": len(sample.times_us), "wrong": sample.wrong},
            **{"why": cell.why, "device": case.memory.device, "transport": cell.transport},
        }
        row |= figures(case, sample)
        line = io.StringIO()
        csv.DictWriter(line, FIELDS, lineterminator="").writerow({name: row.get(name) for name in FIELDS})
        yield line.getvalue()


def full_head() -> list[str]:
    """nccl-tests' columns, and which way each line is of."""
    ways = f"#{'':>{46 + NAME}} {'out-of-place':>40} {'in-place':>40}"
    names = f"{'time':>9} {'algbw':>10} {'busbw':>10} {'#wrong':>8}"
    units = f"{'(us)':>9} {'(GB/s)':>10} {'(GB/s)':>10} {'':>8}"
    return [
        ways,
        f"#{'size':>11} {'count':>11} {'type':>10} {'redop':>6} {'root':>4}  {'algorithm':<{NAME}} {names} {names}",
        f"#{'(B)':>11} {'(elements)':>11} {'':>10} {'':>6} {'':>4}  {'':<{NAME}} {units} {units}",
    ]


def full_rows(case: Case, out: Sequence[Sample], inside: Sequence[Sample]) -> Iterator[str]:
    """A line a way, out of place and in place; one that did not run has dashes."""
    by_name = {sample.cell.name: sample for sample in inside}
    redop = case.op if case.collective in ("allreduce", "reduce", "reduce_scatter") else "none"
    root = case.root if case.collective in ("reduce", "bcast") else -1
    for sample in out:
        start = f" {case.nbytes:>11} {case.count:>11} {case.dtype.name:>10} {redop:>6} {root:>4}  "
        both = " ".join(_half(case, one) for one in (sample, by_name.get(sample.cell.name)))
        yield f"{start}{sample.cell.name:<{NAME}} {both}"


def _half(case: Case, sample: Sample | None) -> str:
    summary = sample.summary if sample else None
    if sample is None or summary is None:
        return f"{'-':>9} {'-':>10} {'-':>10} {'-':>8}"
    rate, bus = _rates(case, summary)
    wrong = "N/A" if sample.wrong is None else str(sample.wrong)
    return f"{summary.median:>9.2f} {rate:>10.4f} {bus:>10.4f} {wrong:>8}"


class Digest:
    """What a run comes to: the best of each size, where it changes, the speed-ups in the mean."""

    def __init__(self) -> None:
        self.best: list[tuple[int, str]] = []
        self.ratios: dict[str, list[float]] = defaultdict(list)

    def take(self, nbytes: int, samples: Sequence[Sample]) -> None:
        """A row."""
        timed = [(s.median_us, s) for s in samples if s.median_us and not s.wrong]
        ours = min(((t, s) for t, s in timed if s.cell.library == "mpicoll"), key=_first, default=None)
        if ours is None:
            return
        cell = ours[1].cell
        self.best.append((nbytes, f"{cell.runs or cell.algorithm} {cell.label}".rstrip()))
        default = [t for t, s in timed if (s.cell.library, s.cell.algorithm, s.cell.call) == ("mpi", "default", "call")]
        nccl = [t for t, s in timed if s.cell.library == "nccl"]
        forced = [t for t, s in timed if s.cell.forced]
        for name, times in (("MPI's call", default), ("the best of MPI's algorithms", forced), ("NCCL", nccl)):
            if times:
                self.ratios[name].append(min(times) / ours[0])

    def lines(self) -> Iterator[str]:
        """The summary."""
        parts: list[str] = []
        for nbytes, name in self.best:
            if not parts or not parts[-1].endswith(f" {name}"):
                parts.append(f"from {human(nbytes)} {name}")
        if parts:
            yield f"# fastest of ours: {', '.join(parts)}"
        for name, ratios in self.ratios.items():
            mean = exp(sum(map(log, ratios)) / len(ratios))
            yield (
                f"# the fastest of ours against {name}, {len(ratios)} sizes: geometric mean {mean:.2f}x, "
                f"{min(ratios):.2f}x to {max(ratios):.2f}x"
            )


def _first(pair: tuple) -> float:
    return pair[0]
