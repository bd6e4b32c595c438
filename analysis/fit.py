"""alpha, beta, gamma and the software's cost per round, jointly from all algorithms, sizes and numbers of ranks.

Relative errors, nothing negative, outliers bounded (Huber): iteratively reweighted non-negative least squares around
``scipy.optimize.nnls``, and around that the critical paths, until they no longer change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.optimize import nnls

from mpicoll.schedule import Network

from .model import COLUMNS, Case, network, row

FLOOR = 0.03  # relative error that the model itself may have: very quiet cells do not decide alone
HUBER = 1.345
PATHS, REWEIGHTS = 12, 30  # turns at most
TELLING = 0.10  # a parameter that explains less than this of every cell is not determined by them
ALIKE = 1e-8  # smallest singular value over the largest, of columns of unit length, below which some say the same
START = Network(1e-6, 1e-9, 1e-10, 1e-7)


@dataclass(frozen=True)
class Fit:
    """``theta`` in the order of COLUMNS, seconds; ``said``: what these cells cannot tell; relative ``residuals``."""

    theta: np.ndarray
    rows: np.ndarray
    times: np.ndarray
    said: tuple[str, ...]
    levels: bool

    @property
    def network(self) -> Network:
        """The parameters, to predict with."""
        return network(self.theta, self.levels)

    @property
    def predicted(self) -> np.ndarray:
        """Seconds of each cell by the model."""
        return self.rows @ self.theta

    @property
    def residuals(self) -> np.ndarray:
        """(measured - predicted) / predicted."""
        return self.times / self.predicted - 1


def fit(cases: Sequence[Case], times: np.ndarray, errors: np.ndarray | None = None) -> Fit:
    """Fit to times in seconds, one a case; ``errors``: the relative standard error of each (default: none known).

    ValueError: no cells, a time that is not above 0, only one rank.
    """
    times = np.asarray(times, float)
    if not len(cases) or len(cases) != len(times):
        raise ValueError(f"{len(cases)} cells and {len(times)} times: there must be as many, and at least one")
    if not (times > 0).all():
        raise ValueError("a time is not above 0 s")
    if max(case.size for case in cases) < 2:
        raise ValueError("all cells have one rank: nothing was sent, and there is nothing to fit")
    levels = any(case.nodes is not None and 1 < len(set(case.nodes)) < case.size for case in cases)
    cases = [case if levels else case._replace(nodes=None) for case in cases]
    weights = 1 / (FLOOR**2 + (np.zeros(len(times)) if errors is None else np.asarray(errors, float)) ** 2)
    net = Network(START.alpha, START.beta, START.gamma, START.per_round, inner=(1e-7, 1e-10) if levels else None)
    best: tuple[float, np.ndarray, np.ndarray] | None = None
    rows = np.array([row(case, net) for case in cases])
    for _ in range(PATHS):
        theta, loss = _solve(rows, times, weights)
        if best is None or loss < best[0]:
            best = loss, theta, rows
        again = np.array([row(case, network(theta, levels)) for case in cases])
        if np.allclose(again, rows, rtol=1e-12):
            break
        rows = again
    assert best is not None
    _, theta, rows = best
    return Fit(theta, rows, times, tuple(_untold(rows, theta, times)), levels)


def bootstrap(
    cases: Sequence[Case], times: np.ndarray, groups: Sequence[object], draws: int = 200, seed: int = 1
) -> np.ndarray:
    """95 % intervals of theta: (2, parameters). Whole ``groups`` (launches, or algorithm and p) are drawn, seeded.

    The critical paths are those of the fit to all cells.
    """
    whole = fit(cases, times)
    weights = np.full(len(times), 1 / FLOOR**2)
    random = np.random.default_rng(seed)
    members: dict[object, list[int]] = {}
    for i, group in enumerate(groups):
        members.setdefault(group, []).append(i)
    names = list(members)
    found = []
    for _ in range(draws):
        chosen = [i for k in random.integers(len(names), size=len(names)) for i in members[names[k]]]
        found.append(_solve(whole.rows[chosen], whole.times[chosen], weights[chosen])[0])
    return np.percentile(found, [2.5, 97.5], axis=0)


def _solve(rows: np.ndarray, times: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Parameters and the loss of these rows."""
    scale = np.linalg.norm(rows / times[:, None], axis=0)
    scale[scale == 0] = np.inf  # a column that nobody uses stays 0
    huber, by = np.ones(len(times)), times
    theta = np.zeros(rows.shape[1])
    for turn in range(REWEIGHTS):
        factor = np.sqrt(weights * huber) / by
        before = theta
        theta = nnls(rows / scale * factor[:, None], times * factor)[0] / scale
        predicted = rows @ theta
        if not (predicted > 0).all():
            break
        scaled = (times / predicted - 1) * np.sqrt(weights) * FLOOR
        spread = max(1.4826 * float(np.median(np.abs(scaled - np.median(scaled)))), 1e-12)
        huber = np.minimum(1, HUBER * spread / np.maximum(np.abs(scaled), 1e-300))
        # By the measured time first, by the fitted one from there on: lucky fast samples would be favoured.
        by = predicted
        if turn and np.allclose(theta, before, rtol=1e-10, atol=0):
            break
    loss = float(np.sum(weights * np.minimum(np.abs(times / np.maximum(rows @ theta, 1e-300) - 1), 1) ** 2))
    return theta, loss


def _untold(rows: np.ndarray, theta: np.ndarray, times: np.ndarray) -> list[str]:
    """What these cells cannot tell."""
    used = [i for i in range(rows.shape[1]) if rows[:, i].any()]
    scaled = rows[:, used] / times[:, None]
    scaled = scaled / np.linalg.norm(scaled, axis=0)
    said, doubtful = [], set()
    for (a, i), (b, j) in combinations(enumerate(used), 2):
        if scaled[:, a] @ scaled[:, b] > 1 - ALIKE:
            doubtful |= {i, j}
            said.append(f"{COLUMNS[i]} and {COLUMNS[j]} cannot be told apart: their counts go together in all cells")
    values = np.linalg.svd(scaled, compute_uv=False)
    if not said and (len(rows) < len(used) or values[-1] < ALIKE * values[0]):
        said.append(f"{', '.join(COLUMNS[i] for i in used)} cannot all be told from these cells: give more algorithms")
    shares = rows * theta / times[:, None]
    for i in used:
        most = shares[:, i].max()
        if most < TELLING and i not in doubtful:
            said.append(f"{COLUMNS[i]}: not determined by these sizes (it explains at most {most:.0%} of a time)")
    return said
