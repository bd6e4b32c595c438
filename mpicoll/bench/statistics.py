"""What is said of a cell's iterations: the median with its interval, the tail, the drift. No sample is dropped."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, sqrt

import numpy as np

Z95 = 1.96
ENOUGH = 0.02  # half the width of the median's interval, as a part of it, at which a cell is known well enough


@dataclass(frozen=True)
class Summary:
    """Microseconds. ``low`` and ``high``: the 95 % interval of the median. ``drift``: last third / first third."""

    median: float
    low: float
    high: float
    p99: float
    minimum: float
    drift: float

    @property
    def known(self) -> bool:
        """Whether the interval is narrow enough to stop."""
        return self.high - self.low <= 2 * ENOUGH * self.median


def summarize(times_us: np.ndarray) -> Summary | None:
    """The summary of a cell's iterations; None without any."""
    n = len(times_us)
    if not n:
        return None
    ordered = np.sort(times_us)
    # Ranks of the order statistics around the median (normal approximation of the binomial); no assumption on the tail.
    half = Z95 * sqrt(n) / 2
    low, high = max(0, floor(n / 2 - half)), min(n - 1, floor(n / 2 + half))
    third = max(1, n // 3)
    return Summary(
        median=float(np.median(ordered)),
        low=float(ordered[low]),
        high=float(ordered[high]),
        p99=float(np.percentile(ordered, 99)),
        minimum=float(ordered[0]),
        drift=float(np.median(times_us[-third:]) / np.median(times_us[:third])),
    )


def apart(a: Summary, b: Summary) -> bool:
    """Whether two cells can be told apart: their intervals do not meet."""
    return a.high < b.low or b.high < a.low
