"""Time with an interval for any algorithm, number of ranks and bytes, also far beyond the runs."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
import pandas as pd

from mpicoll.schedule import Nodes

from .cells import blocks
from .fit import Fit
from .joint import interval
from .model import Series

FAR = 2.0  # past so many times the measured range a prediction is called extrapolated
LIBRARIES = ("mpi", "nccl")
FEWEST = 8  # residuals of an algorithm from which on they speak for it


class Prediction(NamedTuple):
    """Arrays over the bytes asked for: seconds, their 95 % interval, and what is past twice the measured range."""

    seconds: np.ndarray
    low: np.ndarray
    high: np.ndarray
    extrapolated: np.ndarray


def predict(
    fit: Fit, collective: str, algorithm: str, nodes_or_size: int | Nodes, nbytes: float | Sequence[float] | np.ndarray
) -> Prediction:
    """One look at the schedule for all sizes: cheap for a curve.

    ``algorithm``: one of ours ("ring", "torus:direct+ring"), or a library's as the runs name it ("mpi:default").
    ``nodes_or_size``: the number of ranks, all alike, or the node of each rank. The interval is that of a single cell:
    what the parameters are known to, and how far cells of this algorithm are off the model.
    ValueError: no such algorithm, or not on these ranks.
    """
    sizes = np.atleast_1d(np.asarray(nbytes, float))
    nodes = None if isinstance(nodes_or_size, int) else tuple(nodes_or_size)
    size = nodes_or_size if isinstance(nodes_or_size, int) else len(nodes_or_size)
    if size < 2:
        raise ValueError(f"{size} ranks: give 2 or more")
    if not (sizes > 0).all():
        raise ValueError("a vector without bytes takes no time: give 1 or more")
    if form := fit.forms.get((collective, algorithm)):
        curve = form.curve(size, sizes, None if nodes is None else len(set(nodes)))
        return _within(curve.seconds, curve.low, curve.high, _spread(form.ratios), _far(form.frame, size, sizes))
    if fit.model is None:
        raise ValueError(f"no row of a plan of ours: {algorithm} cannot be predicted{_known(fit)}")
    if ":" in algorithm and algorithm.partition(":")[0] in LIBRARIES:
        raise ValueError(f"{algorithm} of {collective} is not in the runs{_known(fit)}")
    if nodes is None and (per_node := most_a_node(fit.cells)):
        nodes = blocks(size, -(-size // per_node))
    series = Series(collective, algorithm, size, nodes, sizes, np.arange(len(sizes)))
    rows = fit.model.rows(series)
    seconds = rows @ fit.model.theta
    low, high = interval(fit.draws @ rows.T) if fit.draws.shape[1] else (seconds, seconds)
    timed = (fit.cells["collective"] != "calibration").to_numpy()
    own = timed & (fit.cells["algorithm"] == algorithm).to_numpy()
    spread = _spread(fit.ratios[own if own.sum() >= FEWEST else timed])
    return _within(seconds, low, high, spread, _far(fit.cells[timed], size, sizes))


def most_a_node(cells: pd.DataFrame) -> int | None:
    """The most ranks a node that the runs had; None where they were on one node, or it is not known."""
    nodes = cells["nodes"]
    if nodes.isna().any() or (nodes == 1).all():
        return None
    return ceil((cells["size"] / nodes).max())


def _within(
    seconds: np.ndarray, low: np.ndarray, high: np.ndarray, spread: tuple[float, float], far: np.ndarray
) -> Prediction:
    """What the parameters allow and how far cells are off the model: independent, so that the squares of both add."""
    below, above = spread
    down = np.hypot(np.log(np.maximum(seconds / np.maximum(low, 1e-300), 1)), np.log(below))
    up = np.hypot(np.log(np.maximum(high / seconds, 1)), np.log(above))
    return Prediction(seconds, seconds * np.exp(-down), seconds * np.exp(up), far)


def _spread(ratios: np.ndarray) -> tuple[float, float]:
    """How many times below and above the model cells of single launches are, 95 of 100."""
    low, high = np.nanpercentile(ratios, [2.5, 97.5])
    return max(1.0, 1 / low), max(1.0, high)


def _known(fit: Fit) -> str:
    names = ", ".join(f"{name} ({collective})" for collective, name in fit.forms)
    return f": there are {names}" if names else ""


def _far(cells: pd.DataFrame, size: int, sizes: np.ndarray) -> np.ndarray:
    ranks, nbytes = cells["size"].to_numpy(float), cells["nbytes"].to_numpy(float)
    far = size > FAR * ranks.max() or size < ranks.min() / FAR
    return far | (sizes > FAR * nbytes.max()) | (sizes < nbytes.min() / FAR)
