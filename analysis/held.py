"""Held-out error: what a fit says of cells that it has not seen, three ways."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from .cells import Cells, octave
from .joint import Progress, fit_cells

TOP = 2  # octaves that are left out
LEFT = 3  # octaves that must be left to learn from
WAYS = {
    "algorithm": "an algorithm left out",
    "size": "the largest number of ranks left out",
    "octaves": f"the top {TOP} octaves left out",
}


def held_out(cells: Cells, progress: Progress | None = None) -> pd.DataFrame:
    """A row a way and cell: ``how``, ``left_out``, ``cell`` (its place), ``error`` = measured / predicted - 1.

    Breaks are looked for anew in each fold; calibrations, which are no algorithm's, stay in.
    """
    parts = [pd.DataFrame({"how": [], "left_out": [], "cell": [], "error": []})]
    folds = list(_folds(cells))
    for i, (how, name, out) in enumerate(folds):
        train = cells.only(~out)
        found = fit_cells(train.series, train.seconds, train.errors)
        test = cells.only(out)
        predicted = found.model.matrix(test.series) @ found.model.theta
        with np.errstate(divide="ignore"):
            error = test.seconds / predicted - 1
        parts.append(pd.DataFrame({"how": how, "left_out": name, "cell": np.flatnonzero(out), "error": error}))
        if progress:
            progress((i + 1) / len(folds), "held out")
    return pd.concat([part for part in parts if len(part)] or parts, ignore_index=True)


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
