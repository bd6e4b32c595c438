"""Runs whose algorithm is not known: the textbook forms, which of them fits best, and where the library switched.

A form is T = c + A(p) alpha + B(p) n beta. A curve that is not one line is cut into pieces of sizes, each with its own
form; Bayes' criterion says into how many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log2
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from .cells import Cells
from .solve import FLOOR, solve

PIECES, SIZES = 4, 4  # at most, and sizes in each at least
GAIN = 10.0  # of Bayes' criterion, for a piece more
CLOSE = 10.0  # of the criterion, by numbers of ranks: forms that these runs cannot tell apart
ACROSS = " across nodes"
EXACT = 1e-4

Counts = Callable[[int], tuple[float, float]]  # ranks -> messages, vectors on the critical path


def _rounds(p: int) -> int:
    return ceil(log2(p))


# (A, B) of an allreduce; ALLGATHER those of an allgather or a reduce_scatter, BCAST of a bcast or a reduce.
ALLREDUCE: dict[str, Counts] = {
    "ring": lambda p: (2 * (p - 1), 2 * (p - 1) / p),
    "recursive doubling": lambda p: (_rounds(p), _rounds(p)),
    "halving and doubling": lambda p: (2 * _rounds(p), 2 * (p - 1) / p),
    "binomial tree": lambda p: (2 * _rounds(p), 2 * _rounds(p)),
    "direct": lambda p: (2, 2 * (p - 1) / p),
}
ALLGATHER: dict[str, Counts] = {
    "ring": lambda p: (p - 1, (p - 1) / p),
    "doubling": lambda p: (_rounds(p), (p - 1) / p),
    "direct": lambda p: (1, (p - 1) / p),
}
BCAST: dict[str, Counts] = {
    "binomial tree": lambda p: (_rounds(p), _rounds(p)),
    "chain of segments": lambda p: (p - 1, 1),
    "tree of segments": lambda p: (2 * _rounds(p), 1),
    "scatter and allgather": lambda p: (_rounds(p) + p - 1, 2 * (p - 1) / p),
}
# Where runs cannot tell forms apart: a library that picks well runs none that is slower than so many times the best of
# its rivals, under one alpha and beta; and one whose messages do not grow with p is the safer to extrapolate with.
WELL = 1.2
GROWING = ("ring", "chain of segments", "scatter and allgather")
RIVALS = ("recursive doubling", "halving and doubling", "ring", *("binomial tree", "scatter and allgather"), "doubling")
TABLES = {"allreduce": ALLREDUCE, "allgather": ALLGATHER, "reduce_scatter": ALLGATHER, "bcast": BCAST, "reduce": BCAST}


@dataclass(frozen=True)
class Piece:
    """Sizes from ``first`` to ``last``: the form, seconds (constant, a message, a byte), the forms that do as well."""

    first: float
    last: float
    form: str
    theta: np.ndarray
    draws: np.ndarray
    others: tuple[tuple[str, np.ndarray], ...] = ()


class Curve(NamedTuple):
    """What is predicted: seconds and an interval of what the parameters and the forms allow."""

    seconds: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class FormFit:
    """The fit of one library's algorithm in one collective.

    ``frame``: a row a cell with ``predicted`` and ``residual``; ``whole``: median error, without sign, of each form on
    the whole curve; ``notes``: what cannot be known; ``ratios``: measured / predicted, by launch.
    """

    collective: str
    pieces: tuple[Piece, ...]
    frame: pd.DataFrame
    whole: dict[str, float]
    notes: tuple[str, ...]
    ratios: np.ndarray

    def curve(self, size: int, nbytes: np.ndarray, nodes: int | None = None) -> Curve:
        """Seconds for vectors of ``nbytes`` on ``size`` ranks; on as many a node as the runs had, if not said."""
        where = _Where(self.collective, np.full(len(nbytes), size), self._nodes(size, nodes, len(nbytes)), nbytes)
        found = Curve(*(np.zeros(len(nbytes)) for _ in range(3)))
        for i, piece in enumerate(self.pieces):
            here = np.ones(len(nbytes), bool) if i == 0 else nbytes >= piece.first
            if not here.any():
                continue
            rows = where.rows(piece.form)[here]
            seconds = rows @ piece.theta
            bounds = [seconds]
            if len(piece.draws):
                bounds += list(np.percentile(rows @ piece.draws.T, [2.5, 97.5], axis=1))
            bounds += [where.rows(name)[here] @ theta for name, theta in piece.others]
            found.seconds[here], found.low[here], found.high[here] = seconds, np.min(bounds, 0), np.max(bounds, 0)
        return found

    def _nodes(self, size: int, nodes: int | None, count: int) -> np.ndarray | None:
        if self.frame["nodes"].isna().any():
            return None
        per_node = ceil((self.frame["size"] / self.frame["nodes"]).max())
        return np.full(count, nodes or -(-size // per_node))


class _Where(NamedTuple):
    """What cells differ in, and the forms' columns for them."""

    collective: str
    sizes: np.ndarray
    nodes: np.ndarray | None
    nbytes: np.ndarray

    def rows(self, form: str) -> np.ndarray:
        """(cells, 3): constant, messages, bytes."""
        name, across, _ = form.partition(ACROSS)
        ranks = self.nodes if across and self.nodes is not None else self.sizes
        each = {int(p): TABLES[self.collective][name](int(p)) if p > 1 else (0.0, 0.0) for p in np.unique(ranks)}
        both = np.array([each[int(p)] for p in ranks]).reshape(-1, 2)
        return np.column_stack([np.ones(len(ranks)), both[:, 0], both[:, 1] * self.nbytes])

    @property
    def forms(self) -> list[str]:
        """The forms, also across nodes where these are known and hold several ranks."""
        names = list(TABLES[self.collective])
        several = self.nodes is not None and bool((self.nodes < self.sizes).any() and (self.nodes > 1).all())
        return names + [name + ACROSS for name in names] * several


def fit_form(cells: Cells, draws: int, seed: int) -> FormFit:
    """Fit cells of one collective and one algorithm; only their sizes and numbers of ranks differ."""
    frame = cells.frame
    collective = str(frame["collective"].iloc[0])
    sizes, nbytes = frame["size"].to_numpy(int), frame["nbytes"].to_numpy(float)
    times = cells.seconds
    weights = 1 / (FLOOR**2 + cells.errors**2)
    known = np.unique(nbytes)
    nodes = None if frame["nodes"].isna().any() else frame["nodes"].to_numpy(int)
    where = _Where(collective, sizes, nodes, nbytes)
    matrices = {name: where.rows(name) for name in where.forms}
    one = len(np.unique(sizes)) == 1
    if one:  # all forms are the same line then
        matrices = {name: rows * [0, 1, 1] for name, rows in list(matrices.items())[:1]}
    cuts = _cut(known, nbytes, times, matrices)
    pieces = []
    for first, last in cuts:
        at = (nbytes >= first) & (nbytes <= last)
        pieces.append(_piece(first, last, at, times, weights, matrices, len(np.unique(sizes)), draws, seed))
    notes = _notes(pieces, one)
    fitted = FormFit(collective, tuple(pieces), frame, {}, tuple(notes), np.empty((0, 1)))
    predicted = np.zeros(len(frame))
    for size in np.unique(sizes):
        here = sizes == size
        predicted[here] = fitted.curve(int(size), nbytes[here], None if nodes is None else int(nodes[here][0])).seconds
    whole = {}
    for name, rows in matrices.items():
        whole[name] = float(np.median(np.abs(times / (rows @ solve(rows, times, weights, 1e-6).theta) - 1)))
    frame = frame.assign(predicted=predicted, residual=times / predicted - 1)
    return FormFit(collective, tuple(pieces), frame, whole, tuple(notes), cells.ratios(predicted))


def _cut(
    known: np.ndarray, nbytes: np.ndarray, times: np.ndarray, matrices: dict[str, np.ndarray]
) -> list[tuple[float, float]]:
    """The pieces: (smallest, largest size) of each, by dynamic programming over all cuts."""
    m, n = len(known), len(times)
    loss = np.full((m, m + 1), np.inf)  # of sizes i up to j, excluded
    for i in range(m):
        for j in range(i + min(SIZES, m), m + 1):
            at = (nbytes >= known[i]) & (nbytes <= known[j - 1])
            loss[i, j] = min(_quick(rows[at], times[at]) for rows in matrices.values())
    best = [loss[0]]
    back: list[np.ndarray] = []
    for _ in range(1, PIECES):
        through = best[-1][:, None][:m] + loss  # the piece before ends at i, this one goes from i to j
        back.append(np.argmin(through, axis=0))
        best.append(np.min(through, axis=0))
    scores = [n * np.log(max(table[m] / n, EXACT**2)) + 4 * k * np.log(n) + k * GAIN for k, table in enumerate(best)]
    ends, j = [m], m
    for k in range(int(np.argmin(scores)), 0, -1):
        j = int(back[k - 1][j])
        ends.append(j)
    edges = [0, *reversed(ends)]
    return [(known[a], known[b - 1]) for a, b in pairwise(edges)]


def _quick(rows: np.ndarray, times: np.ndarray) -> float:
    """Loss of a fit without reweighting: the sum of squares of relative errors, each bounded."""
    scale = np.maximum(np.linalg.norm(rows / times[:, None], axis=0), 1e-300)
    theta = nnls(rows / scale / times[:, None], np.ones(len(times)))[0] / scale
    return float(np.sum(np.minimum(np.abs(1 - rows @ theta / times), 1) ** 2))


def _piece(
    first: float,
    last: float,
    at: np.ndarray,
    times: np.ndarray,
    weights: np.ndarray,
    matrices: dict[str, np.ndarray],
    ranks: int,
    draws: int,
    seed: int,
) -> Piece:
    """The best form of a piece. What tells forms apart is how many numbers of ranks there are, not how many sizes."""
    n = int(at.sum())
    found = {}
    for name, rows in matrices.items():
        theta = solve(rows[at], times[at], weights[at], 1e-6).theta
        loss = float(np.sum(np.minimum(np.abs(times[at] / np.maximum(rows[at] @ theta, 1e-300) - 1), 1) ** 2))
        found[name] = ranks * np.log(max(loss / n, EXACT**2)), theta
    least = min(score for score, _ in found.values())
    close = {name: score for name, (score, _) in found.items() if score < least + CLOSE}
    chosen = {name: score for name, score in close.items() if _picked(name, found[name][1], at, matrices)} or close
    form = min(chosen, key=lambda name: (name.removesuffix(ACROSS) in GROWING, chosen[name]))
    theta = found[form][1]
    others = tuple((name, found[name][1]) for name in close if name != form)
    random = np.random.default_rng(seed)
    places = np.flatnonzero(at)
    drawn = []
    around = matrices[form] @ theta
    for _ in range(draws):
        some = places[random.integers(n, size=n)]
        drawn.append(solve(matrices[form][some], times[some], weights[some], 1e-4, around[some]).theta)
    return Piece(first, last, form, theta, np.array(drawn).reshape(-1, 3), others)


def _picked(form: str, theta: np.ndarray, at: np.ndarray, matrices: dict[str, np.ndarray]) -> bool:
    """Whether a library would pick this form under these parameters, by the cells of the piece."""
    across = form.endswith(ACROSS)
    rivals = [
        rows[at] @ theta
        for name, rows in matrices.items()
        if name.endswith(ACROSS) == across and name.removesuffix(ACROSS) in RIVALS
    ]
    return not rivals or float(np.median(matrices[form][at] @ theta / np.min(rivals, axis=0))) <= WELL


def _notes(pieces: list[Piece], one: bool) -> list[str]:
    said = []
    if one:
        said.append("one number of ranks: all forms draw the same line, and only A alpha and B beta are known")
    for before, piece in pairwise(pieces):
        said.append(f"not one line: the library switches between {before.last:.0f} and {piece.first:.0f} bytes")
    for piece in pieces if not one else ():
        if piece.others:
            names = ", ".join(name for name, _ in piece.others[:3]) + (", …" if len(piece.others) > 3 else "")
            said.append(f"from {piece.first:.0f} to {piece.last:.0f} bytes {piece.form} cannot be told from {names}")
    return said


def foreign(table: pd.DataFrame) -> Iterator[tuple[tuple[str, str], pd.DataFrame]]:
    """The rows of each library's algorithm: ((collective, "library:algorithm"), rows). Calls only."""
    rows = table[(table["library"] != "mpicoll") & (table["call"].fillna("call") == "call")]
    names = rows["library"].astype(str) + ":" + rows["algorithm"].astype(str)
    for (collective, name), some in rows.groupby([rows["collective"], names]):
        yield (str(collective), str(name)), some
