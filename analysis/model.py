"""What a time is made of: from a cell to a row of the fit, under the parameters and breaks of the moment.

T = per_call + A alpha + B beta + G gamma + R per_round, with A and B of each level where ranks have nodes and of long
messages where the protocol switches, and ``beyond`` seconds more for each byte moved or reduced as far as the vector is
larger than a cache. The counts are those of the very schedule that ran; of asymmetric schedules they depend on the
parameters, and the fit comes back here until they no longer change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mpicoll.schedule import Network, Nodes

from .walk import BYTES, MESSAGES, REDUCED, ROUNDS, Costs, counts, look

PER_CALL, GAMMA, PER_ROUND, BEYOND, LOCAL = 0, 9, 10, 11, 12
COLUMNS = (
    "per_call",
    *("alpha", "beta", "long_alpha", "long_beta", "inner_alpha", "inner_beta", "long_inner_alpha", "long_inner_beta"),
    *("gamma", "per_round", "beyond", "local"),
)
UNITS = {"alpha": "s a message", "beta": "s a byte", "gamma": "s a byte reduced", "beyond": "s a byte more"} | {
    "per_call": "s a call",
    "per_round": "s a round",
    "local": "s a local call",
}
LEVEL = slice(1, 9)  # the columns of messages, in the order of a walk's counts
CALIBRATIONS = ("reduce", "exchange", "pingpong", "copy")


class Breaks(NamedTuple):
    """Where a line ends: bytes of a message from which on it is long, bytes of a vector that a cache holds."""

    switch: float = np.inf
    cache: float = np.inf

    def past(self, nbytes: np.ndarray) -> np.ndarray:
        """The part of a vector that a cache does not hold."""
        return np.maximum(0, 1 - self.cache / nbytes) if self.cache < np.inf else 0 * nbytes


UNBROKEN = Breaks()


class Series(NamedTuple):
    """Cells that differ in their bytes only. ``at``: their places among all cells; ``nodes``: the node of each rank.

    A calibration has the collective "calibration", its kind as the algorithm, and its level behind it ("exchange
    inside" for ranks of one node): a local reduction tells gamma from beta, which most algorithms cannot.
    """

    collective: str
    algorithm: str
    size: int
    nodes: Nodes | None
    nbytes: np.ndarray
    at: np.ndarray


@dataclass(frozen=True)
class Model:
    """Parameters in the order of COLUMNS, seconds; ``levels``: whether messages inside nodes have their own."""

    theta: np.ndarray
    breaks: Breaks = UNBROKEN
    levels: bool = False

    @cached_property
    def costs(self) -> Costs:
        """What a walk needs."""
        level = self.theta[LEVEL].reshape(4, 2).copy()
        if not self.levels:
            level[2:] = level[:2]
        if self.breaks.switch == np.inf:
            level[1::2] = level[::2]
        gamma, per_round = map(float, self.theta[[GAMMA, PER_ROUND]])
        alpha, beta = (tuple(map(float, level[:, i])) for i in (0, 1))
        return Costs(alpha, beta, gamma, per_round, self.breaks.switch)  # type: ignore[arg-type]

    @property
    def network(self) -> Network:
        """The parameters of short messages, to predict with where one line is enough."""
        costs = self.costs
        inner = (costs.alpha[2], costs.beta[2]) if self.levels else None
        return Network(costs.alpha[0], costs.beta[0], costs.gamma, costs.per_round, inner=inner)

    def rows(self, series: Series) -> np.ndarray:
        """(cells, COLUMNS): the counts of a series. ValueError: no such algorithm, or not on these ranks."""
        nbytes = np.asarray(series.nbytes, float)
        found = np.zeros((len(nbytes), len(COLUMNS)))
        past = self.breaks.past(nbytes)
        if series.collective == "calibration":
            _calibration(series, found, nbytes, past, self)
            return found
        looked = look(series.collective, series.algorithm, series.size, series.nodes, self.levels)
        made = counts(looked, nbytes, self.costs, past * self.theta[BEYOND])
        found[:, PER_CALL] = 1
        found[:, LEVEL] = made[:, :REDUCED]
        found[:, GAMMA], found[:, PER_ROUND] = made[:, REDUCED], made[:, ROUNDS]
        found[:, BEYOND] = past * (made[:, BYTES].sum(axis=1) + made[:, REDUCED])
        return found

    def matrix(self, all_series: Sequence[Series]) -> np.ndarray:
        """The rows of all cells, each in its place."""
        found = np.zeros((sum(len(series.at) for series in all_series), len(COLUMNS)))
        for series in all_series:
            found[series.at] = self.rows(series)
        return found


def _calibration(series: Series, found: np.ndarray, nbytes: np.ndarray, past: np.ndarray, model: Model) -> None:
    kind, _, level = series.algorithm.partition(" ")
    if kind not in CALIBRATIONS:
        raise ValueError(f"calibration {kind!r}: there are {', '.join(CALIBRATIONS)}")
    if kind in ("reduce", "copy"):
        found[:, LOCAL] = 1
        found[:, GAMMA] = nbytes  # a copy is compared with a reduction
    else:
        # A ping-pong's time is half of what there and back take, with the start of a call but once.
        found[:, PER_CALL] = 0.5 if kind == "pingpong" else 1.0
        long = nbytes > model.breaks.switch
        at = 1 + 4 * (level == "inside" and model.levels) + 2 * long
        cells = np.arange(len(nbytes))
        found[cells, at], found[cells, at + 1] = 1, nbytes
    found[:, BEYOND] = past * nbytes


def unit(name: str) -> str:
    """The unit of a parameter."""
    return UNITS[name.removeprefix("long_").removeprefix("inner_")]


__all__ = ["BYTES", "COLUMNS", "MESSAGES", "Breaks", "Model", "Series", "unit"]
