"""The table for a person: a row a size, a column a way, the best one marked."""

from __future__ import annotations

from collections.abc import Sequence

from .cells import Cell
from .measure import Sample


def busbw_factor(collective: str, size: int) -> float:
    """nccl-tests' factor from algorithm bandwidth to bus bandwidth."""
    if collective == "allreduce":
        return 2 * (size - 1) / size
    if collective in ("reduce_scatter", "allgather"):
        return (size - 1) / size
    return float(size > 1)


def human(nbytes: int) -> str:
    """8, 4K, 1M: exact, in powers of 1024."""
    for unit in ("", "K", "M"):
        if nbytes < 1024 or nbytes % 1024:
            return f"{nbytes}{unit}"
        nbytes //= 1024
    return f"{nbytes}G"


def time(us: float) -> str:
    """Four digits of a time in microseconds."""
    return f"{us:.0f}" if us >= 999.5 else f"{us:.4g}" if us >= 1 else f"{us:.3f}"


def _rate(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}" if value >= 1 else f"{value:.4f}"


class Table:
    """Prints rows as they come; the columns are known at the start."""

    def __init__(self, cells: Sequence[Cell], collective: str, size: int) -> None:
        self.collective, self.size = collective, size
        self.columns = [_title(cell) for cell in cells]
        self.widths = [max(7, *(len(part) + 1 for part in title)) for title in self.columns]

    def head(self) -> list[str]:
        """The titles, over as many lines as the longest needs."""
        deepest = max(len(title) for title in self.columns)
        lines = []
        for i in range(deepest):
            parts = [title[i - deepest + len(title)] if i >= deepest - len(title) else "" for title in self.columns]
            middle = "".join(f"{part:>{width}} " for part, width in zip(parts, self.widths))
            last = i == deepest - 1
            ends = (f"{'bytes':>8} ", f"{'speed-up':>9} {'GB/s':>7} {'wrong':>5}") if last else (" " * 9, "")
            lines.append(f"#{ends[0]}{middle}{ends[1]}".rstrip())
        return lines

    def row(self, nbytes: int, samples: Sequence[Sample]) -> str:
        """One size: medians, the best marked with *, the best of ours against MPI's call, its bus bandwidth."""
        medians = [sample.median_us for sample in samples]
        timed = [m for m in medians if m is not None]
        best = min(timed, default=None)
        cells = ""
        for sample, median, width in zip(samples, medians, self.widths):
            text = "-" if median is None else time(median)
            mark = "!" if sample.wrong else "*" if median is not None and median == best else " "
            cells += f"{text:>{width}}{mark}"
        mpi = next((s.median_us for s in samples if s.cell.library == "mpi" and s.cell.call == "call"), None)
        own = min((s.median_us for s in samples if s.cell.library == "mpicoll" and s.median_us), default=None)
        ratio = f"{mpi / own:.2f}x" if mpi and own else "-"
        busbw = _rate(busbw_factor(self.collective, self.size) * nbytes / best / 1e3) if best else "-"
        checked = [s.wrong for s in samples if s.wrong is not None]
        wrong = str(sum(checked)) if checked else "?"
        return f" {human(nbytes):>8} {cells}{ratio:>9} {busbw:>7} {wrong:>5}"


def _title(cell: Cell) -> list[str]:
    if cell.library == "mpi":
        return ["MPI", "persist."] if cell.call == "persistent" else ["MPI", "call"]
    words = cell.algorithm.split("_") + (["call"] if cell.call == "call" else [])
    return [word if len(word) <= 12 else word[:12] for word in words]
