"""Least squares of relative errors, at least 0, outliers bounded (Huber): reweighted ``scipy.optimize.nnls``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

FLOOR = 0.03  # relative error that the model itself may have: very quiet cells do not decide alone
HUBER = 1.345
REWEIGHTS = 30  # turns at most
TINY = 1e-300


class Solved(NamedTuple):
    """Parameters, and the loss: what Huber makes of the relative errors, by the scale of the best fit of all."""

    theta: np.ndarray
    loss: float


def solve(
    rows: np.ndarray,
    times: np.ndarray,
    weights: np.ndarray,
    tolerance: float = 1e-10,
    around: np.ndarray | None = None,
) -> Solved:
    """Parameters of these rows, at least 0; O(rows) a turn. ``around``: predictions to start from, for fewer turns."""
    whole = np.zeros(rows.shape[1])
    scale = np.sqrt(np.einsum("ij,ij->j", rows / times[:, None], rows / times[:, None]))
    used = np.flatnonzero(scale)  # a column that nobody uses stays 0
    rows, scale = rows[:, used], scale[used]
    # By the measured time first, by the fitted one from there on: lucky fast samples would be favoured.
    huber, by = (np.ones(len(times)), times) if around is None else (_huber(times, around, weights), around)
    theta = np.zeros(len(used))
    for turn in range(REWEIGHTS):
        factor = np.sqrt(weights * huber) / by
        before = theta
        theta = _nnls(rows / scale * factor[:, None], times * factor) / scale
        by = rows @ theta
        if not (by > 0).all():
            break
        huber = _huber(times, by, weights)
        if turn and (np.abs(theta - before) <= tolerance * np.abs(theta)).all():
            break
    whole[used] = theta
    return Solved(whole, loss(rows @ theta, times, weights))


def _huber(times: np.ndarray, predicted: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """How much of each cell's weight counts."""
    scaled = (times / predicted - 1) * np.sqrt(weights) * FLOOR
    spread = max(1.4826 * _median(np.abs(scaled - _median(scaled))), 1e-12)
    return np.minimum(1, HUBER * spread / np.maximum(np.abs(scaled), TINY))


def _median(values: np.ndarray) -> float:
    """As numpy's, without its care for NaN, which takes longer than the median."""
    below, above = (len(values) - 1) // 2, len(values) // 2
    parted = np.partition(values, (below, above))
    return float(parted[below] + parted[above]) / 2


def loss(predicted: np.ndarray, times: np.ndarray, weights: np.ndarray) -> float:
    """The sum of squares of bounded relative errors."""
    return float(np.sum(weights * np.minimum(np.abs(times / np.maximum(predicted, TINY) - 1), 1) ** 2))


def _nnls(rows: np.ndarray, right: np.ndarray) -> np.ndarray:
    """By the small triangle of a QR where there are many rows: the same minimum, in a hundredth of the time."""
    if len(rows) > 4 * rows.shape[1]:
        q, rows = np.linalg.qr(rows)
        right = q.T @ right
    return nnls(rows, right)[0]
