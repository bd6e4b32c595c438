"""Where a line ends: the message size from which on the library takes another protocol, and what a cache holds.

Powers of two are tried; Bayes' criterion decides, and a break needs cells on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .model import BEYOND, COLUMNS, LEVEL, Breaks, Model, Series
from .solve import HUBER, solve
from .told import kept

SWITCHES = tuple(float(1 << i) for i in range(7, 25))  # bytes of a message
CACHES = tuple(float(1 << i) for i in range(15, 29))  # bytes of a vector
SIDES = 4  # sizes on each side of a switch
PAST = 3  # sizes past a cache's end
GAIN = 10.0  # of the criterion: very strong evidence (Kass and Raftery 1995)
ENOUGH = 800  # cells that a search looks at
EXACT = 1e-4  # relative error below which no break is looked for: what is left is rounding
BREAKING = (3, 4, 7, 8, BEYOND)  # columns that a break brings


def choose(series: Sequence[Series], times: np.ndarray, weights: np.ndarray, start: Model) -> Breaks:
    """The breaks that these cells show; none where one line does."""
    some = _some(series)
    search = _Search(some, np.concatenate([one.at for one in some]), times, weights, start)
    best, score = Breaks(), search.score(Breaks())
    if search.exact:
        return best
    for brought, candidates in (
        (1, [Breaks(switch=s) for s in SWITCHES] + [Breaks(cache=c) for c in CACHES]),
        (2, [Breaks(s, c) for s in SWITCHES for c in CACHES]),
    ):
        found = min((search.score(one), one) for one in candidates)
        if found[0] < score - GAIN * (brought - sum(np.isfinite(best))):
            score, best = found
    return best


def _some(series: Sequence[Series]) -> list[Series]:
    """All, or where there are many some of each kind, the same each time."""
    cells = sum(len(one.at) for one in series)
    every = max(1, cells // ENOUGH)
    calibrations = [one for one in series if one.collective == "calibration"]
    return calibrations + [one for one in series if one.collective != "calibration"][::every]


class _Search:
    """Bayes' criterion of breaks on some cells, outliers bounded."""

    def __init__(
        self, series: Sequence[Series], at: np.ndarray, times: np.ndarray, weights: np.ndarray, start: Model
    ) -> None:
        places = np.full(len(times), -1)
        places[at] = np.arange(len(at))
        self.series = [one._replace(at=places[one.at]) for one in series]
        self.times, self.weights, self.theta, self.levels = times[at], weights[at], start.theta, start.levels
        self.nbytes = np.zeros(len(at))
        for one in self.series:
            self.nbytes[one.at] = one.nbytes
        self.exact = False

    def score(self, breaks: Breaks) -> float:
        """The criterion; infinite where a break has no cells on one side."""
        rows = Model(self.theta, breaks, self.levels).matrix(self.series)
        if not self._both_sides(rows, breaks):
            return np.inf
        for turn in range(2):  # the paths of the start, then those of the parameters found
            theta = solve(rows * kept(rows / self.times[:, None]), self.times, self.weights, 1e-4).theta
            if turn == 0:
                again = Model(theta, breaks, self.levels).matrix(self.series)
                if np.array_equal(again, rows):
                    break
                rows = again
        off = np.abs(self.times / np.maximum(rows @ theta, 1e-300) - 1)
        if breaks == Breaks():
            self.exact = float(np.max(off)) < EXACT
        bound = HUBER * max(1.4826 * float(np.median(off)), EXACT)
        total = float(np.where(off < bound, off**2, 2 * bound * off - bound**2).sum())
        n = len(self.times)
        return n * np.log(max(total, n * EXACT**2) / n) + np.count_nonzero(theta) * np.log(n)

    def _both_sides(self, rows: np.ndarray, breaks: Breaks) -> bool:
        """Whether there are sizes on both sides, and not in the local calibrations only."""
        messages = rows[:, LEVEL]
        if breaks.switch < np.inf:
            long, short = messages[:, [2, 6]].any(axis=1), messages[:, [0, 4]].any(axis=1)
            if min(len(np.unique(self.nbytes[side])) for side in (long & ~short, short & ~long)) < SIDES:
                return False
        past = self.nbytes[messages.any(axis=1) & (self.nbytes > breaks.cache)]
        return breaks.cache == np.inf or len(np.unique(past)) >= PAST


__all__ = ["COLUMNS", "choose"]
