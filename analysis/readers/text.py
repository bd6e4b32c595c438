"""What printed tables have in common: prefixes, rows and their width, units, tables that just stop."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..samples import Found

# mpirun's and srun's labels before each line, perhaps with a time stamp: "Mon Oct 15 2018[1,0]<stdout>:", "0: ".
_LABEL = re.compile(r"^(?:.{0,60}?\[\d+,\d+\]<std(?:out|err)>:|\s*\d+:\s(?=\s*[#\d]))")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_UNITS = {"us": 1.0, "usec": 1.0, "usecs": 1.0, "microseconds": 1.0, "µs": 1.0, "ms": 1e3, "msec": 1e3}
_UNITS |= {"milliseconds": 1e3, "s": 1e6, "sec": 1e6, "secs": 1e6, "seconds": 1e6, "ns": 1e-3, "nsec": 1e-3}
SET = 3  # rows of one length whose figures have so many lengths are set in columns
_FIGURE = re.compile(r"[-+.]?\d|[-+]?(inf|nan)", re.IGNORECASE)  # how what should be a figure begins
WORDS = {"pass", "fail", "n/a", "-", "nan"}


@dataclass(frozen=True)
class Source:
    """A file as its bytes, without a mark of their order, and as text."""

    file: str
    raw: bytes

    @cached_property
    def text(self) -> str:
        """All of it; what is no UTF-8 is marked as such."""
        return self.raw.decode(errors="replace")

    def lines(self) -> list[str]:
        """Its lines without labels and line ends; a last empty one is none."""
        lines = [_LABEL.sub("", line.rstrip("\r")) for line in self.text.split("\n")]
        return lines[:-1] if lines and not lines[-1] else lines

    @property
    def ended(self) -> bool:
        """Its last line came to its end."""
        return self.text.endswith("\n")


def number(token: str) -> float | None:
    """A plain finite number, or nothing."""
    value = float(token) if _NUMBER.fullmatch(token) else None
    return value if value is not None and math.isfinite(value) else None


def whole(token: str) -> int | None:
    """A whole number that a benchmark can mean, or nothing."""
    return int(token) if token.isascii() and token.isdecimal() and len(token) <= 18 else None


def factor(unit: str) -> float | None:
    """Microseconds in a unit."""
    return _UNITS.get(unit.strip().lower())


def unit_of(column: str) -> float | None:
    """Microseconds in the unit that a column's name carries: ``t_max[usec]``, ``time (seconds)``, ``time_us``."""
    found = re.search(r"[(\[]([^)\]]+)[)\]]\s*$", column) or re.search(r"_([a-zµ]+)$", column)
    return factor(found[1]) if found else None


@dataclass
class Table:
    """A table that is being read: its columns by name, and the rows so far."""

    line: int
    columns: list[str]
    rows: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    short: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)

    def feed(self, found: Found, at: int, line: str) -> bool:
        """Take a line if it is a row: one that starts with a whole number. Text between rows is passed over."""
        tokens = line.split()
        if not tokens or not tokens[0].isdecimal():
            return False
        if whole(tokens[0]) is None or not all(number(t) is not None or t.lower() in WORDS for t in tokens):
            if len(tokens) >= max(2, len(self.columns)) and _FIGURE.match(tokens[1]):
                found.leave(at, "damaged row")
            return False
        if len(tokens) > len(self.columns):
            found.refuse(at, f"{len(tokens)} figures under {len(self.columns)} columns")
        if self.short is not None:  # a cut row is the last one of its table
            found.refuse(self.short, f"a row with fewer figures than its {len(self.columns)} columns")
        if len(tokens) < len(self.columns):
            self.short = at
            return False
        self.rows.append((at, dict(zip(self.columns, tokens))))
        self.lines.append(line.rstrip())
        return True

    def finish(self, found: Found, source: Source, last: int) -> None:
        """Leave what was cut, and refuse what shows that several programs wrote at once."""
        if self.short is not None:
            found.leave(self.short, "cut row")
        if self.rows and self._cut(self.rows[-1][0] == last and not source.ended):
            found.leave(self.rows.pop()[0], "cut row")
            self.lines.pop()
        if self.rows and (at := self._shifted()) is not None:
            found.refuse(at, "a row out of line with its columns: a figure lost a digit?")

    def _shifted(self) -> int | None:
        """The first row whose last column ends before that of all the others, in a table that is set in columns."""
        ends = Counter(map(len, self.lines))
        usual, often = ends.most_common(1)[0]
        figures = {sum(map(len, line.split())) for line in self.lines if len(line) == usual}
        if len(figures) < SET or often < 0.8 * len(self.lines):
            return None
        return next((at for (at, _), line in zip(self.rows, self.lines) if len(line) < usual), None)

    def _cut(self, open_end: bool) -> bool:
        if len(self.lines) < 2:
            return open_end
        before, line = self.lines[-2:]
        decimals = [len(one.split()[-1].partition(".")[2]) for one in (line, before)]
        return len(line) < len(before) and (open_end or decimals[0] < decimals[1])


def once(found: Found, table: Table, key: str) -> None:
    """Sizes stand once in a table; if not, several singleton programs wrote into one another."""
    seen: dict[str, int] = {}
    for at, row in table.rows:
        if row[key] in seen:
            reason = f"size {row[key]} a second time in one table (line {seen[row[key]]}): several runs in one another?"
            found.refuse(at, reason)
        seen[row[key]] = at


def in_order(found: Found, at: int, low: float | None, mean: float | None, high: float | None) -> None:
    """Least, mean and largest stand in that order; if not, two rows were glued or a figure was lost."""
    if low is None or mean is None or high is None:
        return
    slack = 0.02 + 1e-3 * abs(mean)  # they were rounded each for itself
    if not low - slack <= mean <= high + slack:
        found.refuse(at, f"least {low:g}, mean {mean:g} and largest {high:g} are not in order: a damaged row?")
