"""Tables of runs whose times the model itself made."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.cells import series_of
from analysis.model import COLUMNS, UNBROKEN, Breaks, Model
from mpicoll.schedule import algorithms

TRUE = {"alpha": 3e-6, "beta": 2e-10, "gamma": 8e-11, "per_round": 7e-7}
TWO = {"alpha": 2e-5, "beta": 1e-9, "gamma": 8e-11, "per_round": 7e-7, "inner_alpha": 2e-6, "inner_beta": 5e-11}
SIZES = [8 << (3 * i) for i in range(9)]


def model(theta: dict[str, float], breaks: Breaks = UNBROKEN) -> Model:
    """A model with these parameters."""
    return Model(np.array([theta.get(name, 0.0) for name in COLUMNS]), breaks, "inner_alpha" in theta)


def made(
    theta: dict[str, float],
    names: Sequence[str] | None = None,
    ranks: Sequence[int] = (3, 4, 7, 8),
    *,
    sizes: Sequence[int] = SIZES,
    per_node: int | None = None,
    collective: str = "allreduce",
    calibrated: bool = False,
    breaks: Breaks = UNBROKEN,
    noise: float = 0.0,
    seed: int = 0,
    launches: int = 1,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The table and that of the calibrations, with noise on each cell of each launch."""
    cells = [
        (collective, "mpicoll", name, p, -(-p // per_node) if per_node else 1, n)
        for name in (algorithms(collective) if names is None else names)
        for p in ranks
        for n in sizes
    ]
    kinds = ("reduce alone", "exchange inside", "exchange across") if per_node else ("reduce alone", "exchange inside")
    more = [("calibration", "machine", kind, max(ranks), 1, n) for kind in kinds for n in sizes] if calibrated else []
    truth = model(theta, breaks)
    return tuple(_timed(rows, truth, noise, seed + i, launches) for i, rows in enumerate((cells, more)))


def _timed(rows: list[tuple], truth: Model, noise: float, seed: int, launches: int) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["collective", "library", "algorithm", "size", "nodes", "nbytes"])
    frame["placement"] = None
    random = np.random.default_rng(seed)
    seconds = truth.matrix(series_of(frame)) @ truth.theta if rows else np.empty(0)
    frames = [
        frame.assign(time_us=1e6 * seconds * np.exp(random.normal(0, noise, len(frame))), launch=i)
        for i in range(launches)
    ]
    return pd.concat(frames, ignore_index=True).assign(call="plan", low_us=np.nan, high_us=np.nan, file="made")
