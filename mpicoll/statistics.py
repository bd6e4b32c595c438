"""What is said of a cell's iterations: the median with its interval, the tail, the drift. No sample is dropped."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, inf, sqrt

import numpy as np

Z95 = 1.96
ENOUGH = 0.02  # half the width of the median's interval, as a part of it, at which a cell is known well enough


@dataclass(frozen=True)
class Summary:
    """Microseconds. ``drift``: last third / first third.

    ``low`` and ``high``: the 95 % interval of the median; 0 and infinite where there are too few samples for one.
    """

    median: float
    low: float
    high: float
    p99: float
    minimum: float
    drift: float

    @property
    def interval(self) -> tuple[float, float] | tuple[None, None]:
        """The interval where there is one."""
        return (self.low, self.high) if self.high < inf else (None, None)

    @property
    def known(self) -> bool:
        """Whether the interval is narrow enough to stop."""
        return self.high - self.low <= 2 * ENOUGH * self.median


def interval_ranks(n: int) -> tuple[int, int] | None:
    """Which two of n sorted samples enclose the median 19 times in 20; None below eight, where no two do.

    Order statistics (normal approximation of the binomial, rounded outwards): no assumption on the tail.
    """
    half = Z95 * sqrt(n) / 2
    low, high = floor(n / 2 - half) - 1, ceil(n / 2 + half)
    return (low, high) if low >= 0 and high < n else None


def rounded(value: float | None) -> float | None:
    """Six digits, for a file."""
    return None if value is None else float(f"{value:.6g}")


def summarize(times_us: np.ndarray) -> Summary | None:
    """The summary of a cell's iterations; None without any."""
    n = len(times_us)
    if not n:
        return None
    ordered = np.sort(times_us)
    ranks = interval_ranks(n)
    third = max(1, n // 3)
    return Summary(
        median=float(np.median(ordered)),
        low=float(ordered[ranks[0]]) if ranks else 0.0,
        high=float(ordered[ranks[1]]) if ranks else inf,
        p99=float(np.percentile(ordered, 99)),
        minimum=float(ordered[0]),
        drift=float(np.median(times_us[-third:]) / np.median(times_us[:third])),
    )


def apart(a: Summary, b: Summary) -> bool:
    """Whether two cells can be told apart: their intervals do not meet."""
    return a.high < b.low or b.high < a.low
