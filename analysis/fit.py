"""From the table of the runs to parameters with their intervals, residuals and what cannot be known: all as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd

from mpicoll.schedule import Network, find

from .cells import Cells, gather
from .joint import Progress, Solution, bootstrap, fit_cells
from .model import COLUMNS, Model, unit
from .told import together, untold

DRAWS = 200
FITTED = ("exchange", "reduce")  # calibrations that enter; ping-pong and copy are compared


class Parameter(NamedTuple):
    """A parameter, its 95 % interval, and whether these cells determine it (``why`` not)."""

    name: str
    value: float
    low: float
    high: float
    unit: str
    determined: bool = True
    why: str = ""


@dataclass(frozen=True)
class Fit:
    """All that came of the cells, as data.

    ``cells``: a row a cell (collective, library, algorithm, size, nodes, nbytes, seconds, launches, predicted,
    residual = seconds / predicted - 1), calibrations among them. ``draws``: the parameters of each bootstrap draw.
    ``held_out``: a row a cell and way (``how``: algorithm, size, octaves) with its ``error``. ``notes``: what these
    cells cannot tell. ``forms``: the fits of libraries' runs, by collective and "library:algorithm".
    """

    model: Model | None
    parameters: tuple[Parameter, ...] = ()
    draws: np.ndarray = field(default_factory=lambda: np.empty((0, len(COLUMNS))))
    cells: pd.DataFrame = field(default_factory=pd.DataFrame)
    held_out: pd.DataFrame = field(default_factory=pd.DataFrame)
    notes: tuple[str, ...] = ()
    forms: dict[tuple[str, str], object] = field(default_factory=dict)

    @property
    def network(self) -> Network:
        """The parameters, to predict with. ValueError: no run of ours was among the runs."""
        if self.model is None:
            raise ValueError("no row of a plan of ours: alpha, beta and gamma are not known")
        return self.model.network


def fit_table(
    table: pd.DataFrame,
    calibrations: pd.DataFrame | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 1,
    progress: Progress | None = None,
) -> Fit:
    """Fit all rows of our plans, with the calibrations of the same runs.

    ValueError: no row, or nothing that can be fitted.
    """
    notes: list[str] = []
    rows = ours(table)
    if rows.empty:
        raise ValueError("no row of a plan of ours")
    for name in rows["algorithm"].unique():
        for collective in rows.loc[rows["algorithm"] == name, "collective"].unique():
            find(collective, name)
    if calibrations is not None and len(calibrations):
        rows = pd.concat([rows, calibrations[calibrations["algorithm"].str.partition(" ")[0].isin(FITTED)]])
    cells = gather(rows)
    solution = fit_cells(cells.series, cells.seconds, cells.errors)
    drawn = bootstrap(solution, cells, draws, seed, progress)
    frame = cells.frame.assign(predicted=solution.rows @ solution.model.theta)
    frame["residual"] = frame["seconds"] / frame["predicted"] - 1
    parameters, said = _parameters(solution, cells, drawn)
    return Fit(solution.model, parameters, drawn, frame, notes=(*notes, *said))


def ours(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of our own plans. ValueError: how many ranks they had is not known."""
    rows = table[(table["library"] == "mpicoll") & (table["call"].fillna("plan") == "plan")]
    if rows["size"].isna().any():
        raise ValueError(f"{rows['file'].iloc[0]}: how many ranks is not in the file: give --size P")
    return rows


def _parameters(solution: Solution, cells: Cells, draws: np.ndarray) -> tuple[tuple[Parameter, ...], list[str]]:
    """The parameters that occur, and what is to be said of them."""
    theta = solution.model.theta
    why = untold(solution.rows, theta, cells.seconds)
    low, high = np.percentile(draws, [2.5, 97.5], axis=0) if len(draws) else (theta, theta)
    found, said = [], []
    occur = [i for i, name in enumerate(COLUMNS) if solution.rows[:, i].any()]
    for i in occur:
        name = COLUMNS[i]
        found.append(Parameter(name, theta[i], low[i], high[i], unit(name), i not in why, why.get(i, "")))
        if i in why:
            said.append(f"{name}: {why[i]}")
    known = np.array([i for i in occur if i not in why], int)
    return tuple(found), said + together(draws, known)
