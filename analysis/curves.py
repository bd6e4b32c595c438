"""The fit as a report and an export want it: a curve of any series of the runs, or a reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from mpicoll.schedule import Nodes, find
from mpicoll.schedule.price import shape

from .cells import blocks
from .fit import Fit, fit_table
from .predict import most_a_node, predict

DRAWS = 200
# Messages of a schedule; more than so many are not looked at one by one. On 1,024 ranks one in each of 10 rounds and of
# 10 back are not too many; rings are, where some rank sends across nodes in every round.
DEAR = 32_000


class Curve(NamedTuple):
    """Microseconds over the bytes asked for, their 95 % interval, and whether each is extrapolated."""

    time_us: np.ndarray
    low_us: np.ndarray
    high_us: np.ndarray
    extrapolated: np.ndarray


class Curves:
    """A fit to draw from."""

    def __init__(self, fit: Fit) -> None:
        self.fit = fit

    @property
    def residuals(self) -> pd.DataFrame:
        """The cells of our plans (collective, algorithm, size, nbytes, residual = measured / predicted - 1)."""
        cells = self.fit.cells
        return cells[cells["collective"] != "calibration"] if len(cells) else cells

    def curve(self, collective: str, algorithm: str, size: int, nodes: Nodes | None, nbytes: Sequence[float]) -> Curve:
        """The time of an algorithm of ours, or of a library's as "mpi:default".

        ``nodes``: the node of each rank; None: as many ranks on each as the runs had.
        Of very many messages all count as leaving their node, so that ranks do alike and one speaks for all.
        ValueError: there is no such, not on these ranks, or too large to look at.
        """
        ours = (collective, algorithm) not in self.fit.forms and self.fit.model is not None
        if ours and nodes is None and (per_node := most_a_node(self.fit.cells)):
            nodes = blocks(size, -(-size // per_node))
        if ours and _messages(collective, algorithm, size, nodes) > DEAR:
            nodes = tuple(range(size))
        found = predict(self.fit, collective, algorithm, size if nodes is None else nodes, nbytes)
        return Curve(found.seconds * 1e6, found.low * 1e6, found.high * 1e6, found.extrapolated)


@lru_cache(maxsize=1024)
def _messages(collective: str, algorithm: str, size: int, nodes: Nodes | None) -> int:
    """About as many as there are. ValueError: too many, and ranks do not do alike."""
    known = find(collective, algorithm)
    schedule = known.schedule(size, nodes=nodes)
    ranks = (0, 1, size // 2, size - 1)
    looked = [schedule.program(rank) for rank in ranks]
    messages = size * sum(len(sends) for program in looked for sends, _ in program) // len(ranks)
    shapes = [[shape(rank, step, None) for step in program] for rank, program in zip(ranks, looked)]
    if messages > DEAR and (known.kind == "levels" or not all(one == shapes[0] for one in shapes)):
        raise ValueError(f"{algorithm} on {size} ranks: some {messages} messages, which differ from rank to rank")
    return messages


def curves(
    table: pd.DataFrame, calibrations: pd.DataFrame, progress: Callable[[float, str], None] | None = None
) -> Curves:
    """Fit a table. ValueError: there is nothing that can be fitted."""
    known = table[table["size"].notna()]
    if known.empty:
        raise ValueError("how many ranks is not in the files (--size P)")
    return Curves(fit_table(known, calibrations, draws=DRAWS, holding=False, progress=progress))
