"""The table for a person: a row a size, a column a way, the best one marked; at most 100 columns wide."""

from __future__ import annotations

from collections.abc import Sequence

from mpicoll.statistics import apart

from .cells import Cell
from .measure import Sample

WIDEST = 100
FORCED, OURS = 25, 27  # columns for a name and a time


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
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


Key = tuple[str, str, str]


def key(cell: Cell) -> Key:
    """What a column is known by from row to row."""
    return cell.library, cell.column, cell.call


class Table:
    """Prints rows as they come; the columns are those of the first row.

    Where they would be too wide, the fastest of ours and the fastest of the library's forced ones stand for all.
    """

    def __init__(self, cells: Sequence[Cell], collective: str, size: int, limit: bool, colour: bool = False) -> None:
        self.collective, self.size, self.limit, self.colour = collective, size, limit, colour
        self.forced = any(cell.forced for cell in cells)
        shown = [cell for cell in cells if not cell.forced]
        self.columns = {key(cell): _title(cell) for cell in shown}
        self.widths = {k: max(7, *(len(part) + 1 for part in title)) for k, title in self.columns.items()}
        ends = 21 + 6 * limit + (FORCED + 1) * self.forced
        self.compact = 8 + sum(width + 1 for width in self.widths.values()) + ends > WIDEST
        if self.compact:
            self.columns = {
                k: title for k, title in self.columns.items() if k[0] == "nccl" or k == ("mpi", "default", "call")
            }
            self.widths = {k: self.widths[k] for k in self.columns}

    def head(self) -> list[str]:
        """The titles, over as many lines as the longest needs."""
        titles = [*self.columns.values()] or [[""]]
        deepest = max(len(title) for title in titles)
        lines = []
        for i in range(deepest):
            middle = "".join(
                f"{title[i - deepest + len(title)] if i >= deepest - len(title) else '':>{self.widths[k]}} "
                for k, title in self.columns.items()
            )
            last = i == deepest - 1
            best = f"{'best MPI algorithm':>{FORCED}} " if self.forced and last else " " * (FORCED + 1) * self.forced
            own = f"{'fastest of ours':>{OURS}} " if self.compact and last else " " * (OURS + 1) * self.compact
            ends = f"{'speed-up':>8} {'GB/s':>6}{' limit' if self.limit else ''} {'wrong':>5}" if last else ""
            lines.append(f"#{'bytes' if last else '':>6} {middle}{best}{own}{ends}".rstrip())
        return lines

    def row(self, nbytes: int, samples: Sequence[Sample], bound: float | None = None) -> str:
        """One size: medians, the best marked with *, those that cannot be told from it with ≈.

        Then the best of ours against MPI's call, its bus bandwidth, and how much of the bound that is.
        """
        timed = {key(s.cell): (s, summary) for s in samples if (summary := s.summary)}
        right = {k: pair for k, pair in timed.items() if not pair[0].wrong}
        ours = min((pair for k, pair in right.items() if k[0] == "mpicoll"), key=_median, default=None)
        forced = min((pair for pair in right.values() if pair[0].cell.forced), key=_median, default=None)
        shown = [timed.get(k) for k in self.widths] + [forced] * self.forced + [ours] * self.compact
        best = min((pair for pair in shown if pair and not pair[0].wrong), key=_median, default=None)
        texts = [
            f"{'-' if pair is None else time(pair[1].median):>{width}}"
            for pair, width in zip(shown, self.widths.values())
        ]
        if self.forced:
            texts.append(f"{_named(forced, FORCED):>{FORCED}}")
        if self.compact:
            texts.append(f"{_named(ours, OURS):>{OURS}}")
        cells = "".join(self._painted(text, _mark(pair, best)) for text, pair in zip(texts, shown))
        mpi = timed.get(("mpi", "default", "call"))
        ratio = f"{mpi[1].median / ours[1].median:.2f}x" if mpi and ours and ours[1].median else "-"
        rated = ours or best
        busbw = _rate(busbw_factor(self.collective, self.size) * nbytes / rated[1].median / 1e3) if rated else "-"
        limit = ""
        if self.limit:
            limit = f" {bound / rated[1].median * 100:>4.0f}%" if bound and rated else f" {'-':>5}"
        checked = [s.wrong for s in samples if s.wrong is not None]
        wrong = str(sum(checked)) if checked else "?"
        return f" {human(nbytes):>6} {cells}{ratio:>8} {busbw:>6}{limit} {wrong:>5}"

    def _painted(self, text: str, mark: str) -> str:
        colours = {"*": "\033[1;32m", "!": "\033[1;31m"}
        return f"{colours[mark]}{text}{mark}\033[0m" if self.colour and mark in colours else text + mark


def _mark(pair: tuple | None, best: tuple | None) -> str:
    if pair is None:
        return " "
    if pair[0].wrong:
        return "!"
    if best is None:
        return " "
    return "*" if pair is best else " " if apart(pair[1], best[1]) else "≈"


def _median(pair: tuple) -> float:
    return pair[1].median


def _named(pair: tuple | None, width: int) -> str:
    """A name, cut where it must be, and its time."""
    if pair is None:
        return "-"
    name, us = f"{pair[0].cell.runs or pair[0].cell.algorithm} {pair[0].cell.label}".rstrip(), time(pair[1].median)
    room = width - len(us) - 1
    return f"{name if len(name) <= room else name[: room - 1] + '…'} {us}"


def _title(cell: Cell) -> list[str]:
    if cell.library == "mpi":
        return ["MPI", "persist."] if cell.call == "persistent" else ["MPI", "call"]
    if cell.library == "nccl":
        return ["NCCL"]
    words = cell.algorithm.replace("rabenseifner", "raben-_seifner").split("_")
    words += [cell.label] * bool(cell.label) + ["call"] * (cell.call == "call")
    return [word if len(word) <= 12 else word[:12] for word in words]
