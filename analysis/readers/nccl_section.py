"""One table of nccl-tests, from text or JSON: what its own numbers prove about ranks, collective and unit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ..samples import COLLECTIVES, DTYPES, Found, Row
from .text import number

_NAMES = {"all_reduce": "allreduce", "all_gather": "allgather", "reduce_scatter": "reduce_scatter"}
_NAMES |= {"broadcast": "bcast", "reduce": "reduce"}
BARE = {name.replace("_", ""): ours for name, ours in _NAMES.items()}
SCALES = (1.0, 1e3, 1e6)  # microseconds, milliseconds, seconds


@dataclass
class Half:
    """Out of place or in place: the figures as they were printed, for their precision tells what they prove."""

    in_place: bool
    time: str
    alg: str
    bus: str
    wrong: int | None
    median_us: float | None = None
    n_samples: int | None = None


@dataclass
class Line:
    """One size of a table."""

    at: int
    nbytes: int
    dtype: str
    op: str | None
    root: str | None
    halves: list[Half]


@dataclass
class Section:
    """One table with what its banner says."""

    at: int
    name: str | None = None
    size: int | None = None
    nodes: int | None = None
    scale: float | None = None
    iterations: int | None = None
    launch: int = 0
    failed: int = 0
    bare: bool = False  # no header: the layout must be proved by the numbers
    lines: list[Line] = field(default_factory=list)

    def take(self, found: Found) -> None:
        """Give the rows, after the numbers were held against one another."""
        if not self.lines:
            return
        scale = self._scale(found)
        low, high = self._ratio(found, scale)
        collective = self._collective(found, low, high)
        if collective is None:
            for line in self.lines:
                found.leave(line.at, f"{self.name}: not a collective of ours")
            return
        size = self._size(found, collective, low, high)
        unmarked = self.failed and not any(half.wrong for line in self.lines for half in line.halves)
        seen: dict[tuple[object, ...], int] = {}
        for line in self.lines:
            key = (line.nbytes, line.dtype, line.op, line.root)
            if key in seen:
                reason = f"{line.nbytes} bytes a second time in one table (line {seen[key]}): several runs in one?"
                found.refuse(line.at, reason)
            seen[key] = line.at
            dtype, itemsize = DTYPES.get(line.dtype.lower(), (line.dtype, 0))
            for half in line.halves:
                time = half.median_us if half.median_us is not None else (number(half.time) or 0.0) * scale
                found.take(
                    Row(
                        line.at, collective, line.nbytes, time,
                        library="nccl", algorithm="default", size=size, nodes=self.nodes, dtype=dtype,
                        op=line.op if "reduce" in collective else None,
                        count=line.nbytes // itemsize if itemsize else None, in_place=half.in_place,
                        n_samples=half.n_samples or self.iterations,
                        wrong=1 if unmarked else half.wrong, launch=self.launch,
                        statistic="mean" if half.median_us is None else "median", call="call",
                    )
                )  # fmt: skip

    def _scale(self, found: Found) -> float:
        """Microseconds in the unit of the times: as the header says, or as size and algbw prove."""
        wanted = (self.scale,) if self.scale else SCALES
        fit = [scale for scale in wanted if not any(self._off(line, scale) for line in self.lines)]
        if len(fit) == 1:
            return fit[0]
        if self.scale:
            at = next(line.at for line in self.lines if self._off(line, self.scale))
            found.refuse(at, "size, time and algbw do not agree")
        reason = "the times have no unit that fits size and algbw" if not fit else "the times have no unit"
        found.refuse(self.lines[0].at, ("rows without a header, and " if self.bare else "") + reason)

    @staticmethod
    def _off(line: Line, scale: float) -> bool:
        for half in line.halves:
            low, high = _bandwidth(line.nbytes, half, scale)
            value, slack = float(half.alg), _ulp(half.alg)
            if low > value + slack or high < value - slack:
                return True
        return False

    def _ratio(self, found: Found, scale: float) -> tuple[float, float]:
        """Between which bounds busbw/algbw lies on all rows; the more figures, the closer."""
        bounds = (0.0, math.inf)
        for line in self.lines:
            for half in line.halves:
                low, high = _bandwidth(line.nbytes, half, scale)
                bus, slack = float(half.bus), 0.51 * _ulp(half.bus)
                rows = (max(bus - slack, 0.0) / high if high else 0.0, (bus + slack) / low if low else math.inf)
                bounds = (max(bounds[0], rows[0]), min(bounds[1], rows[1]))
                if bounds[0] > bounds[1] * (1 + 1e-9):
                    found.refuse(line.at, "busbw/algbw is not the same as on the rows before: several runs in one?")
        return bounds

    def _collective(self, found: Found, low: float, high: float) -> str | None:
        """By name, or the one whose factor above 1 only an allreduce has; none where it is not ours."""
        if high < 0.4:
            found.refuse(self.lines[0].at, "busbw is 0 beside algbw: one rank alone (singletons), nothing was sent")
        if self.name is not None:
            return _NAMES.get(self.name, self.name if self.name in COLLECTIVES else None)
        if found.asked.collective:
            return found.asked.collective
        first = self.lines[0]
        reduces = first.op not in (None, "none")
        if reduces and (low > 1.001 or (low > 0.6 and first.root == "-1")):
            return "allreduce"
        found.refuse(first.at, "which collective is neither in the file nor clear from busbw/algbw: --collective NAME")

    def _size(self, found: Found, collective: str, low: float, high: float) -> int | None:
        """Ranks as listed, as asked, or as busbw/algbw leaves but one; all three must agree."""
        at = self.lines[0].at
        first, last = _ranks(collective, low, high)
        told = self.size if self.size is not None else int(first) if first == last else None
        size = found.size(at, told)
        if size is not None and not first <= size <= last:
            span = f"{first:.0f}" if first == last else f"{first:.0f} to {last:.0f}"
            found.refuse(at, f"{size} ranks, but busbw/algbw says {span}")
        return size


def _ranks(collective: str, low: float, high: float) -> tuple[float, float]:
    """The whole numbers of ranks whose factor lies between two bounds."""
    top = {"allreduce": 2.0, "allgather": 1.0, "reduce_scatter": 1.0}.get(collective)
    if top is None:  # factor 1 whatever the ranks
        return 1, math.inf
    # factor = top·(p-1)/p, so p = top/(top - factor)
    first = top / (top - low) if low < top else math.inf
    last = top / (top - high) if high < top else math.inf
    whole = math.ceil(first - 1e-6) if math.isfinite(first) else first
    return max(whole, 1), math.floor(last + 1e-6) if math.isfinite(last) else last


def _ulp(token: str) -> float:
    """The last digit of a printed number."""
    digits, _, exponent = token.lower().partition("e")
    return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))


def _bandwidth(nbytes: int, half: Half, scale: float) -> tuple[float, float]:
    """Bounds of algbw in GB/s from size and time, as far as the time was printed."""
    time, slack = float(half.time), 0.51 * _ulp(half.time)
    low = nbytes / ((time + slack) * scale * 1e3) if time + slack > 0 else math.inf
    high = nbytes / ((time - slack) * scale * 1e3) if time > slack else math.inf
    return low, high
