"""alpha, beta, gamma and the software's costs, jointly from all algorithms, sizes and numbers of ranks.

Relative errors, nothing negative, outliers bounded, and around that the critical paths, until they no longer change,
and the breaks: where the protocol switches and where a cache ends, if the cells say so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .breaks import choose
from .cells import Cells
from .model import COLUMNS, Breaks, Model, Series
from .solve import FLOOR, solve
from .told import kept

PATHS = 12  # turns at most
STEADY = 1e-9
START = dict(per_call=0, alpha=1e-6, beta=1e-9, gamma=1e-10, per_round=1e-7, inner_alpha=1e-7, inner_beta=1e-10)
Progress = Callable[[float, str], None]  # the part that is done, and of what


class Solution(NamedTuple):
    """A model, the rows it came from, and its loss."""

    model: Model
    rows: np.ndarray
    loss: float


def fit_cells(
    series: Sequence[Series], times: np.ndarray, errors: np.ndarray, breaks: Breaks | None = None
) -> Solution:
    """Fit to times in seconds; ``errors``: the relative standard error of each; ``breaks``: None to look for them.

    ValueError: no cells, a time that is not above 0, only one rank.
    """
    if not len(times):
        raise ValueError("0 cells: there is nothing to fit")
    if not (times > 0).all():
        raise ValueError("a time is not above 0 s")
    if max(one.size for one in series) < 2:
        raise ValueError("all cells have one rank (p = 1): nothing was sent, and there is nothing to fit")
    levels = two_levels(series)
    weights = 1 / (FLOOR**2 + errors**2)
    start = Model(np.array([START.get(name, 0.0) for name in COLUMNS]), Breaks(), levels)
    if breaks is None:
        breaks = choose(series, times, weights, start)
    model = Model(start.theta, breaks, levels)
    rows = model.matrix(series)
    best: Solution | None = None
    for _ in range(PATHS):
        free = kept(rows / times[:, None])
        theta, loss = solve(rows * free, times, weights)
        model = Model(theta, breaks, levels)
        if best is None or loss < best.loss:
            best = Solution(model, rows, loss)
        again = model.matrix(series)
        if np.allclose(again, rows, rtol=STEADY):
            break
        rows = again
    assert best is not None
    return best


def two_levels(series: Sequence[Series]) -> bool:
    """Whether there are messages inside nodes and across: the nodes of some ranks, and no series without."""
    series = [one for one in series if one.collective != "calibration"]
    known = [one.nodes for one in series if one.nodes is not None]
    across = any(len(set(nodes)) > 1 for nodes in known)
    inside = any(len(set(nodes)) < len(nodes) for nodes in known)
    return across and inside and len(known) == len(series)


def bootstrap(solution: Solution, cells: Cells, draws: int, seed: int, progress: Progress | None = None) -> np.ndarray:
    """The parameters of draws of series and, where there are several, of launches: (kinds, draws, COLUMNS).

    Whole series (an algorithm on some ranks) are drawn, since what the model does not know of one is in all its sizes;
    calibrations size by size, since each kind is the only one to tell what it tells. Launches are drawn by themselves:
    both at once would count the noise of a cell twice. Paths and breaks stay.
    """
    random = np.random.default_rng(seed)
    whole = [one.at for one in cells.series if one.collective != "calibration"]
    if len(whole) == 1:  # drawn whole it is always the same, which would look like certainty
        whole = list(whole[0][:, None])
    single = np.concatenate([*(one.at for one in cells.series if one.collective == "calibration"), np.empty(0, int)])
    kinds = 1 if cells.by_launch is None else 2
    found = np.zeros((kinds, draws, len(COLUMNS)))
    weights = 1 / (FLOOR**2 + cells.errors**2)
    rows, around = solution.rows * kept(solution.rows / cells.seconds[:, None]), solution.rows @ solution.model.theta
    for i in range(draws):
        drawn = [whole[k] for k in random.integers(len(whole), size=len(whole))]
        at = np.concatenate([*drawn, single[random.integers(max(1, len(single)), size=len(single))]])
        found[0, i] = solve(rows[at], cells.seconds[at], weights[at], 1e-4, around[at]).theta
        if kinds == 2:
            times = _drawn_launches(cells, random)
            at = np.flatnonzero(np.isfinite(times))
            found[1, i] = solve(rows[at], times[at], weights[at], 1e-4, around[at]).theta
        if progress:
            progress((i + 1) / draws, "intervals")
    return found


def interval(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 95 % interval of values (kinds, draws, ...): the wider side of each kind."""
    low, high = np.percentile(draws, [2.5, 97.5], axis=1)
    return low.min(axis=0), high.max(axis=0)


def _drawn_launches(cells: Cells, random: np.random.Generator) -> np.ndarray:
    """The cells' times in launches that are drawn."""
    assert cells.by_launch is not None
    launches = cells.by_launch.shape[1]
    chosen = cells.by_launch[:, random.integers(launches, size=launches)]
    chosen = np.sort(chosen, axis=1)  # NaN last
    number = np.isfinite(chosen).sum(axis=1)
    at, cell = np.maximum(number - 1, 0), np.arange(len(chosen))
    return (chosen[cell, at // 2] + chosen[cell, (at + 1) // 2]) / 2
