"""From the table of the runs to parameters with their intervals, residuals and what cannot be known: all as data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from mpicoll.schedule import Network, find

from .cells import Cells, gather, one_kind
from .forms import FormFit, fit_form, foreign
from .held import held_out
from .joint import Progress, Solution, bootstrap, fit_cells, interval
from .model import COLUMNS, Breaks, Model, unit
from .told import TAKEN, together, untold

DRAWS = 200
APART = 1.4  # times the median of all, from which on a launch contradicts the others
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

    @property
    def figures(self) -> tuple[str, str, str]:
        """Value and interval as text: none where others stand for it, since its 0 is no measurement."""
        if self.why.startswith(TAKEN):
            return "-", "-", "-"
        return f"{self.value:.3g}", f"{self.low:.3g}", f"{self.high:.3g}"


@dataclass(frozen=True)
class Fit:
    """All that came of the cells, as data.

    ``cells``: a row a cell (collective, library, algorithm, size, nodes, nbytes, seconds, launches, predicted,
    residual = seconds / predicted - 1), calibrations among them. ``draws``: (kinds, draws, parameters), bootstrapped.
    ``held_out``: a row a cell and way (``how``: algorithm, size, octaves) with its ``error``. ``notes``: what these
    cells cannot tell. ``forms``: the fits of libraries' runs, by collective and "library:algorithm".
    ``compared``: calibrations beside the model. ``ratios``: (cells, launches) measured / predicted, NaN where none.
    """

    model: Model | None
    parameters: tuple[Parameter, ...] = ()
    draws: np.ndarray = field(default_factory=lambda: np.empty((1, 0, len(COLUMNS))))
    cells: pd.DataFrame = field(default_factory=pd.DataFrame)
    held_out: pd.DataFrame = field(default_factory=pd.DataFrame)
    notes: tuple[str, ...] = ()
    forms: dict[tuple[str, str], FormFit] = field(default_factory=dict)
    compared: pd.DataFrame = field(default_factory=pd.DataFrame)
    ratios: np.ndarray = field(default_factory=lambda: np.empty((0, 1)))

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
    holding: bool = True,
    breaks: Breaks | None = None,
    progress: Progress | None = None,
) -> Fit:
    """Fit all rows of our plans, with the calibrations of the same runs; ``holding``: held-out errors too.

    ``breaks``: None to look for them.
    What the libraries ran is fitted beside them, each algorithm to the textbook's forms.
    ValueError: no row, or nothing that can be fitted.
    """
    rows = ours(one_kind(table))
    forms = {name: _form(some, draws, seed) for name, some in foreign(with_size(table))}
    if rows.empty and forms:
        return Fit(None, forms=forms)
    if rows.empty:
        raise ValueError("no row of a plan of ours, and none of a library's calls")
    notes: list[str] = []
    rows = _of_known(rows, notes)
    rows, machine = _of_one_kind(rows, calibrations, notes)
    cells = gather(pd.concat([rows, machine]) if len(machine) else rows)
    solution = fit_cells(cells.series, cells.seconds, cells.errors, breaks)
    drawn = bootstrap(solution, cells, draws, seed, progress)
    frame = cells.frame.assign(predicted=solution.rows @ solution.model.theta)
    frame["residual"] = frame["seconds"] / frame["predicted"] - 1
    parameters, said = _parameters(solution, cells, drawn)
    held = held_out(cells, solution, progress) if holding else pd.DataFrame()
    model = solution.model
    notes += _breaks(model) + said + _alone(cells, parameters) + _contradicting(cells)
    compared = _compared(model, calibrations)
    ratios = cells.ratios(frame["predicted"].to_numpy())
    return Fit(model, parameters, drawn, frame, held, tuple(notes), forms, compared, ratios)


def _form(rows: pd.DataFrame, draws: int, seed: int) -> FormFit:
    rows, said = _of_one_regime(rows)
    found = fit_form(gather(rows), draws, seed)
    return replace(found, notes=(*said, *found.notes))


def _of_one_regime(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The rows of ranks that have a core each, if there are some; and what is to be said of the others."""
    crowded = rows["crowded"].fillna(False).astype(bool) if "crowded" in rows else pd.Series(False, index=rows.index)
    if crowded.any() and not crowded.all():
        left = f"{int(crowded.sum())} rows of more ranks than cores are left out: that is another regime"
        return rows[~crowded], [left]
    said = "more ranks than cores: the parameters are the scheduler's as much as the network's"
    return rows, [said] if crowded.any() else []


def _of_known(rows: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """The rows of algorithms that there are, on ranks that they take. ValueError: there is no other."""
    keys = ["collective", "algorithm", "size"]
    keep, why = np.ones(len(rows), bool), ""
    for (collective, name, size), places in rows.groupby(keys, dropna=False).indices.items():
        try:
            find(str(collective), str(name)).schedule(int(size))
        except ValueError as error:
            keep[places], why = False, why or str(error)
    if not keep.any():
        raise ValueError(why)
    if why:
        notes.append(f"{int((~keep).sum())} rows are left out: {why.partition(';')[0]}")
    return rows[keep]


def _of_one_kind(
    rows: pd.DataFrame, calibrations: pd.DataFrame | None, notes: list[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows that one model can hold, and the calibrations that enter: never ranks that share cores and others."""
    machine = pd.DataFrame() if calibrations is None else calibrations
    of, (rows, said) = len(rows), _of_one_regime(rows)
    notes += said
    if len(machine):
        if len(rows) < of:
            machine = machine[~machine["crowded"].fillna(False).astype(bool)]
        machine = machine[machine["algorithm"].str.partition(" ")[0].isin(FITTED)]
    for name in ("dtype", "op"):
        if name in rows and rows[name].nunique() > 1:
            notes.append(f"{name}s {', '.join(map(str, sorted(rows[name].dropna().unique())))} share one gamma")
    if rows["nodes"].isna().any() and rows["nodes"].notna().any():
        notes.append("the nodes of some runs are not known: one level for all")
    return rows, machine


def _breaks(model: Model) -> list[str]:
    """What the breaks mean."""
    said = []
    if np.isfinite(model.breaks.switch):
        said.append(
            f"messages of more than {model.breaks.switch:.0f} bytes have an alpha and a beta of their own (long_)"
        )
    if np.isfinite(model.breaks.cache):
        said.append(f"bytes past a vector of {model.breaks.cache:.0f} take longer (beyond): a cache ends there")
    return said


def _alone(cells: Cells, parameters: tuple[Parameter, ...]) -> list[str]:
    """Where there is too little to hold the parameters against."""
    timed = cells.frame[cells.frame["collective"] != "calibration"]
    said = []
    if timed["algorithm"].nunique() == 1 and timed["size"].nunique() == 1:
        name = timed["algorithm"].iloc[0]
        said.append(f"one algorithm only ({name}) on one number of ranks: what is not its own cannot be told")
    if timed["nbytes"].nunique() == 1:
        said.append(f"one size only ({timed['nbytes'].iloc[0]} bytes): messages and bytes are told by algorithms alone")
    free = sum(p.value > 0 for p in parameters)
    if len(cells.frame) <= free:
        said.append(f"{len(cells.frame)} cells for {free} parameters: nothing is left to see how far they are off by")
    return said


def _contradicting(cells: Cells) -> list[str]:
    """Launches that are not of one machine: far from the median of all, cell by cell."""
    said = []
    for i, ratios in enumerate(cells.ratios(cells.seconds).T if cells.by_launch is not None else ()):
        both = ratios[np.isfinite(ratios) & (cells.frame["launches"] > 1).to_numpy()]
        off = float(np.median(both)) if len(both) else 1.0
        if not 1 / APART < off < APART:
            said.append(f"launch {i + 1} takes {off:.2f} times the median of all launches: they contradict each other")
    return said


def _compared(model: Model, calibrations: pd.DataFrame | None) -> pd.DataFrame:
    """Calibrations of all kinds beside the model: a row a kind and size, with ``seconds`` and ``predicted``."""
    if calibrations is None or calibrations.empty:
        return pd.DataFrame()
    cells = gather(calibrations)
    frame = cells.frame.assign(predicted=model.matrix(cells.series) @ model.theta)
    return frame[["algorithm", "nbytes", "seconds", "predicted"]]


def ours(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of our own plans. ValueError: how many ranks they had is not known."""
    return with_size(table[(table["library"] == "mpicoll") & (table["call"].fillna("plan") == "plan")])


def with_size(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows. ValueError: how many ranks there were is not known of all."""
    if rows["size"].isna().any():
        file = rows.loc[rows["size"].isna(), "file"].iloc[0]
        raise ValueError(f"{file}: how many ranks is not in the file: give --size P, or name it {file}@P")
    return rows


def _parameters(solution: Solution, cells: Cells, draws: np.ndarray) -> tuple[tuple[Parameter, ...], list[str]]:
    """The parameters that occur, and what is to be said of them."""
    theta = solution.model.theta
    why = untold(solution.rows, theta, cells.seconds)
    low, high = interval(draws) if draws.shape[1] else (theta, theta)
    found, said = [], []
    occur = [i for i, name in enumerate(COLUMNS) if solution.rows[:, i].any()]
    for i in occur:
        name = COLUMNS[i]
        found.append(Parameter(name, theta[i], low[i], high[i], unit(name), i not in why, why.get(i, "")))
        if i in why:
            said.append(f"{name}: {why[i]}")
    known = np.array([i for i in occur if i not in why], int)
    return tuple(found), said + together(draws.reshape(-1, len(COLUMNS)), known)
