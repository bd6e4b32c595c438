"""From rows of the table to cells of a fit: what was timed alike, its median over launches, and what is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from mpicoll.schedule import Nodes

from .model import Series

KEY = (
    "collective",
    "library",
    "algorithm",
    "size",
    "nodes",
    "placement",
    "nbytes",
    "dtype",
    "op",
    "in_place",
    "device",
    "sync",
)
# What no model may pool, and how it is said.
ALIKE = {"device": "on", "mpi_library": "under", "sync": "started by"}
Z95 = 1.96
MATRIX = 50_000_000  # cells x launches that are kept side by side


@dataclass(frozen=True)
class Cells:
    """Cells, and the series that they lie in.

    ``frame``: a row a cell, with ``seconds`` (median over launches), ``error`` (relative standard error of it) and the
    number of ``launches``. ``by_launch``: (cells, launches) seconds, NaN where one has none; None where too many.
    """

    frame: pd.DataFrame
    series: tuple[Series, ...]
    by_launch: np.ndarray | None

    @property
    def seconds(self) -> np.ndarray:
        """The time of each cell."""
        return self.frame["seconds"].to_numpy(float)

    @property
    def errors(self) -> np.ndarray:
        """The relative standard error of each."""
        return self.frame["error"].to_numpy(float)

    def ratios(self, predicted: np.ndarray) -> np.ndarray:
        """(cells, launches): measured / predicted of each launch, NaN where one has none."""
        measured = self.seconds[:, None] if self.by_launch is None else self.by_launch
        return measured / predicted[:, None]

    def only(self, which: np.ndarray) -> Cells:
        """Some of the cells."""
        at = np.cumsum(which) - 1
        series = []
        for one in self.series:
            some = which[one.at]
            if some.any():
                series.append(one._replace(nbytes=one.nbytes[some], at=at[one.at[some]]))
        matrix = None if self.by_launch is None else self.by_launch[which]
        return Cells(self.frame[which].reset_index(drop=True), tuple(series), matrix)


def one_kind(table: pd.DataFrame) -> pd.DataFrame:
    """The table. ValueError: its rows are of several devices, of several MPIs, or started in several ways."""
    for name, how in ALIKE.items():
        known = sorted(table[name].dropna().unique()) if name in table else []
        plans = table.loc[table["library"] == "mpicoll", name].dropna().unique() if known else []
        # A library's call knows nothing of our two transports.
        if len({kind.partition(" ")[0] if name == "device" else kind for kind in known}) > 1 or len(plans) > 1:
            known = [str(kind) for kind in known]
            raise ValueError(
                f"runs {how} {' and '.join(known)}: another alpha and beta for each, so give one kind at a time"
            )
    return table


def gather(table: pd.DataFrame) -> Cells:
    """The cells of a table whose rows all have a size."""
    keys = [table[name] if name in table else pd.Series(pd.NA, index=table.index, name=name) for name in KEY]
    code = np.zeros(len(table), np.int64)
    for key in keys:
        codes, values = pd.factorize(key, use_na_sentinel=False)
        code = np.unique(code * (len(values) + 1) + codes, return_inverse=True)[1]
    launch = np.unique(table["launch"].to_numpy(), return_inverse=True)[1]
    count, launches = int(code.max()) + 1, int(launch.max()) + 1
    first = np.unique(code, return_index=True)[1]
    frame = pd.concat([key.iloc[first].reset_index(drop=True) for key in keys], axis=1)
    seconds = table["time_us"].to_numpy(float) * 1e-6
    width = (table["high_us"] - table["low_us"]).to_numpy(float) * 1e-6 / (2 * Z95) / seconds
    each, places = _medians(code * launches + launch, seconds)
    median, _ = _medians(places // launches, each)
    within, _ = _medians(code, np.nan_to_num(width))
    number = np.bincount(places // launches, minlength=count)
    scatter, _ = _medians(places // launches, np.abs(each / median[places // launches] - 1))
    frame["seconds"] = median
    frame["error"] = np.where(number > 1, 1.2533 * 1.4826 * scatter, within) / np.sqrt(number)
    frame["launches"] = number
    matrix = None
    if launches > 1 and count * launches <= MATRIX:
        matrix = np.full((count, launches), np.nan)
        matrix[places // launches, places % launches] = each
    return Cells(frame, tuple(series_of(frame)), matrix)


def series_of(frame: pd.DataFrame) -> list[Series]:
    """The rows of a frame in series."""
    names = ["collective", "algorithm", "size", "nodes", "placement"]
    found = []
    for key, places in frame.groupby(names, dropna=False, sort=False).indices.items():
        collective, algorithm, size, nodes, placement = key
        found.append(
            Series(
                str(collective), str(algorithm), int(size), placed(int(size), nodes, placement),
                frame["nbytes"].to_numpy(float)[places], np.asarray(places),
            )
        )  # fmt: skip
    return found


def placed(size: int, nodes: object, placement: object = None) -> Nodes | None:
    """The node of each rank: as recorded, or in blocks; None where the number of nodes is not known."""
    if isinstance(placement, str):
        return _listed(placement)
    if nodes is None or nodes is pd.NA or nodes != nodes:
        return None
    return blocks(size, int(nodes))  # type: ignore[call-overload]


@lru_cache(maxsize=1024)
def blocks(size: int, nodes: int) -> Nodes:
    """Ranks in blocks, as launchers place them."""
    return tuple(rank * nodes // size for rank in range(size))


@lru_cache(maxsize=1024)
def _listed(text: str) -> Nodes:
    return tuple(map(int, text.split(",")))


def _medians(group: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The median of each group, and the groups, in order."""
    order = np.lexsort((values, group))
    names, start, number = np.unique(group[order], return_index=True, return_counts=True)
    ordered = values[order]
    return (ordered[start + (number - 1) // 2] + ordered[start + number // 2]) / 2, names


def octave(nbytes: np.ndarray | Sequence[float]) -> np.ndarray:
    """The power of two that a size belongs to."""
    return np.floor(np.log2(np.maximum(1, np.asarray(nbytes, float)))).astype(int)
