"""Where a line ends: the message size from which on the library takes another protocol, and what a cache holds.

Powers of two are tried; Bayes' criterion decides, and a break needs cells on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .model import BEYOND, GAMMA, LEVEL, Breaks, Model, Series
from .solve import HUBER, solve
from .told import kept
from .walk import look

SWITCHES = tuple(float(1 << i) for i in range(7, 25))  # bytes of a message
CACHES = tuple(float(1 << i) for i in range(15, 29))  # bytes of a vector
SIDES = 4  # sizes on each side of a switch
PAST = 3  # sizes past a cache's end
LIKELY = 3  # of each kind, which are tried with all of the other
GAIN = 10.0  # of the criterion: very strong evidence (Kass and Raftery 1995)
ENOUGH = 800  # cells that a search looks at
EXACT = 1e-4  # relative error below which no break is looked for: what is left is rounding


def choose(series: Sequence[Series], times: np.ndarray, weights: np.ndarray, start: Model) -> Breaks:
    """The breaks that these cells show; none where one line does."""
    some = _some(series, start.levels)
    search = _Search(some, np.concatenate([one.at for one in some]), times, weights, start)
    best, score = Breaks(), search.score(Breaks())
    if search.exact:
        return best
    switches = sorted((search.score(one), one) for one in (Breaks(switch=s) for s in SWITCHES))
    caches = sorted((search.score(one), one) for one in (Breaks(cache=c) for c in CACHES))
    # Both at once: one can hide the other, so that not only the best of each is tried with all of the other kind.
    likely = {s.switch for _, s in switches[:LIKELY]}, {c.cache for _, c in caches[:LIKELY]}
    pairs = [Breaks(s, c) for s in SWITCHES for c in CACHES if s in likely[0] or c in likely[1]]
    both = [(search.score(one), one) for one in pairs]
    for brought, found in ((1, min(switches + caches)), (2, min(both))):
        if found[0] < score - GAIN * (brought - sum(np.isfinite(best))):
            score, best = found
    return best


def _some(series: Sequence[Series], levels: bool) -> list[Series]:
    """Those whose counts no parameter changes, if these will do; where there are many some of each kind."""
    calibrations = [one for one in series if one.collective == "calibration"]
    timed = [one for one in series if one.collective != "calibration"]
    flat = [one for one in timed if _flat(one, levels)]
    if len({one.algorithm for one in flat}) > 1:
        timed = flat
    every = max(1, sum(len(one.at) for one in timed) // ENOUGH)
    return calibrations + timed[::every]


def _flat(one: Series, levels: bool) -> bool:
    return look(one.collective, one.algorithm, one.size, one.nodes, levels).flat is not None


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
        self.flat = all(_flat(one, self.levels) for one in series if one.collective != "calibration")
        self.counted: dict[float, np.ndarray] = {}
        sent = [one.nbytes for one in self.series if one.collective != "calibration"]
        self.sizes = np.unique(np.concatenate(sent)) if sent else np.empty(0)
        self.splits = {switch: self._both_sides(switch) for switch in SWITCHES}
        self.exact = False

    def score(self, breaks: Breaks) -> float:
        """The criterion; infinite where a break has no cells on one side."""
        if breaks.switch < np.inf and not self.splits[breaks.switch]:
            return np.inf
        if breaks.cache < np.inf and len(self.sizes[self.sizes > breaks.cache]) < PAST:
            return np.inf
        rows = self._rows(self.theta, breaks)
        for turn in range(2):  # the paths of the start, then those of the parameters found
            theta = solve(rows * kept(rows / self.times[:, None]), self.times, self.weights, 1e-4).theta
            if turn == 0:
                again = self._rows(theta, breaks)
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

    def _rows(self, theta: np.ndarray, breaks: Breaks) -> np.ndarray:
        """The rows; where no parameter changes a path, each switch is counted once."""
        if not self.flat:
            return Model(theta, breaks, self.levels).matrix(self.series)
        if breaks.switch not in self.counted:
            self.counted[breaks.switch] = Model(theta, Breaks(switch=breaks.switch), self.levels).matrix(self.series)
        rows = self.counted[breaks.switch].copy()
        moved = rows[:, [2, 4, 6, 8, GAMMA]].sum(axis=1)
        rows[:, BEYOND] = breaks.past(self.nbytes) * moved
        return rows

    def _both_sides(self, switch: float) -> bool:
        """Whether there are sizes whose messages are all long, and sizes whose messages are all short."""
        messages = self._rows(self.theta, Breaks(switch=switch))[:, LEVEL]
        long, short = messages[:, [2, 6]].any(axis=1), messages[:, [0, 4]].any(axis=1)
        return min(len(np.unique(self.nbytes[side])) for side in (long & ~short, short & ~long)) >= SIDES
