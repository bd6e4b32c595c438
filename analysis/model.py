"""From a schedule to a row of the fit: what its critical path is made of, under the parameters of the moment.

T = A alpha + B beta + G gamma + R per_round, with A and B of each level where ranks have nodes. The counts are those of
the very schedule that ran (``mpicoll.schedule.price``); of asymmetric schedules they depend on the parameters, and the
fit comes back here until they no longer change.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mpicoll.schedule import Network, Nodes, Schedule, find, price
from mpicoll.schedule.model import Program

COLUMNS = ("alpha", "beta", "gamma", "per_round", "inner_alpha", "inner_beta")
KEPT_UP_TO = 64  # ranks: the programs of more are made anew each time, and take no memory
CALIBRATIONS = ("reduce", "exchange", "pingpong")


class Case(NamedTuple):
    """What was timed: ``nodes`` is the node of each rank, or None where one level is enough.

    A calibration row has the collective "calibration", its kind as the algorithm ("exchange inside" for ranks of one
    node) and the ranks that took part: a local reduction tells gamma from beta, which most algorithms cannot.
    """

    collective: str
    algorithm: str
    size: int
    nbytes: float
    nodes: Nodes | None = None


def row(case: Case, network: Network) -> np.ndarray:
    """Counts on the critical path, in the order of COLUMNS: bytes for beta and gamma. ValueError: no such algorithm."""
    if case.collective == "calibration":
        return _calibration(case)
    schedule, programs = _programs(case.collective, case.algorithm, case.size, case.nodes)
    found = price(schedule, network, case.nbytes, case.nodes, programs)
    (outer, inner), (sent, sent_inside) = found.messages, found.sent
    return np.array([outer, sent, found.reduced, found.rounds, inner, sent_inside], float)


def _calibration(case: Case) -> np.ndarray:
    kind, _, level = case.algorithm.partition(" ")
    if kind not in CALIBRATIONS:
        raise ValueError(f"calibration {kind!r}: there are {', '.join(CALIBRATIONS)}")
    if kind == "reduce":
        return np.array([0, 0, case.nbytes, 0, 0, 0], float)
    inside = level == "inside" and case.nodes is not None
    message = [0, 0, 0, 0, 1, case.nbytes] if inside else [1, case.nbytes, 0, 0, 0, 0]
    return np.array(message, float)


def network(theta: np.ndarray, levels: bool) -> Network:
    """Parameters in the order of COLUMNS as a network."""
    alpha, beta, gamma, per_round, inner_alpha, inner_beta = map(float, theta)
    return Network(alpha, beta, gamma, per_round, inner=(inner_alpha, inner_beta) if levels else None)


@lru_cache(maxsize=256)
def _programs(
    collective: str, algorithm: str, size: int, nodes: Nodes | None
) -> tuple[Schedule, tuple[Program, ...] | None]:
    schedule = find(collective, algorithm).schedule(size, nodes=nodes)
    return schedule, tuple(schedule.programs()) if size <= KEPT_UP_TO else None
