"""Held-out error: what a fit says of cells that it has not seen, three ways."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from .cells import Cells, octave
from .joint import Progress, Solution, fit_cells
from .solve import FLOOR, solve
from .told import kept

TOP = 2  # octaves that are left out
MANY = 1000  # cells
LEFT = 3  # octaves that must be left to learn from
WAYS = {
    "algorithm": "an algorithm left out",
    "size": "the largest number of ranks left out",
    "octaves": f"the top {TOP} octaves left out",
}


def held_out(cells: Cells, whole: Solution, progress: Progress | None = None) -> pd.DataFrame:
    """A row a way and cell: ``how``, ``left_out``, ``cell`` (its place), ``error`` = measured / predicted - 1.

    Breaks and paths are looked for anew in each fold; past MANY cells, whose breaks and paths no fold changes, those of
    the ``whole`` stay. Calibrations, which are no algorithm's, stay in.
    """
    parts = [pd.DataFrame({"how": [], "left_out": [], "cell": [], "error": []})]
    folds = list(_folds(cells))
    for i, (how, name, out) in enumerate(folds):
        predicted = _predicted(cells, whole, out)
        with np.errstate(divide="ignore"):
            error = cells.seconds[out] / predicted - 1
        parts.append(pd.DataFrame({"how": how, "left_out": name, "cell": np.flatnonzero(out), "error": error}))
        if progress:
            progress((i + 1) / len(folds), "held out")
    return pd.concat([part for part in parts if len(part)] or parts, ignore_index=True)


def _predicted(cells: Cells, whole: Solution, out: np.ndarray) -> np.ndarray:
    """What a fit to the other cells says of those that are out."""
    if len(out) > MANY:
        rows, weights = whole.rows[~out], 1 / (FLOOR**2 + cells.errors[~out] ** 2)
        free = kept(rows / cells.seconds[~out, None])
        return whole.rows[out] @ solve(rows * free, cells.seconds[~out], weights, 1e-6).theta
    train, test = cells.only(~out), cells.only(out)
    found = fit_cells(train.series, train.seconds, train.errors)
    return found.model.matrix(test.series) @ found.model.theta


def _folds(cells: Cells) -> Iterator[tuple[str, str, np.ndarray]]:
    frame = cells.frame
    timed = (frame["collective"] != "calibration").to_numpy()
    names = frame["algorithm"].astype(str)
    algorithms = sorted(set(names[timed]))
    for name in algorithms if len(algorithms) > 1 else ():
        yield "algorithm", name, timed & (names == name).to_numpy()
    sizes = frame["size"].to_numpy(float)
    if len(set(sizes[timed])) > 1:
        largest = sizes[timed].max()
        yield "size", f"{largest:.0f} ranks", timed & (sizes == largest)
    of = octave(frame["nbytes"].to_numpy(float))
    octaves = sorted(set(of[timed]))
    if len(octaves) >= TOP + LEFT:
        yield "octaves", f"from {1 << octaves[-TOP]} bytes", timed & (of >= octaves[-TOP])


def figures(errors: pd.Series) -> tuple[float, float]:
    """Median and 90th percentile of the errors without their signs."""
    off = errors.abs()
    return float(off.median()), float(off.quantile(0.9))
