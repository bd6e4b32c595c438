"""A new run against the model: normal, slow or fast, cell by cell, and in all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binom

from .cells import gather, one_kind, placed
from .fit import Fit, with_size
from .predict import predict

OUTSIDE = 0.025  # of all cells, on each side of a 95 % interval, if nothing has changed
SURE = 0.99
WRONG = 4  # exit status, whatever the times: a row failed its check
STATUS = {"normal": 0, "slow": 1, "fast": 3, "unknown": 2}


class Verdict(NamedTuple):
    """``cells``: a row a cell with ``predicted``, ``low``, ``high`` (seconds), ``ratio`` and its ``verdict``.

    ``word``: slow when more cells are slow than chance explains, fast likewise, else normal; unknown when the model
    can say nothing of any cell.
    """

    cells: pd.DataFrame
    word: str

    @property
    def status(self) -> int:
        """The exit status of a health check."""
        return STATUS[self.word]


def judge(fit: Fit, table: pd.DataFrame) -> Verdict:
    """Judge the rows of a new run. ValueError: how many ranks it had is not known."""
    known = [fit.cells, *(form.frame for form in fit.forms.values())]
    one_kind(
        pd.concat([part.reindex(columns=["library", "device", "sync"]) for part in (*known, table) if "device" in part])
    )
    call = table["call"].fillna("")
    rows = with_size(table[np.where(table["library"] == "mpicoll", call.isin(["", "plan"]), call.isin(["", "call"]))])
    frame = gather(rows).frame if len(rows) else pd.DataFrame()
    parts = []
    names = ["collective", "library", "algorithm", "size", "nodes", "placement"]
    for key, some in frame.groupby(names, dropna=False, sort=False) if len(frame) else ():
        collective, library, algorithm, size, nodes, placement = key
        name = algorithm if library == "mpicoll" else f"{library}:{algorithm}"
        where = placed(int(size), nodes, placement) or int(size)
        try:
            found = predict(fit, collective, name, where, some["nbytes"].to_numpy(float))
        except ValueError:
            parts.append(some.assign(algorithm=name, predicted=np.nan, low=np.nan, high=np.nan, verdict="unknown"))
            continue
        seconds = some["seconds"].to_numpy(float)
        word = np.select([seconds > found.high, seconds < found.low], ["slow", "fast"], "normal")
        parts.append(some.assign(algorithm=name, predicted=found.seconds, low=found.low, high=found.high, verdict=word))
    cells = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"verdict": []})
    if len(cells):
        cells["ratio"] = cells["seconds"] / cells["predicted"]
    return Verdict(cells, _in_all(cells["verdict"]))


def _in_all(words: pd.Series) -> str:
    """More slow cells than chance explains make a run slow; what is both is slow."""
    judged = int((words != "unknown").sum())
    if not judged:
        return "unknown"
    allowed = int(binom.ppf(SURE, judged, OUTSIDE))
    return next((word for word in ("slow", "fast") if int((words == word).sum()) > allowed), "normal")
