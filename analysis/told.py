"""What cells can tell and what not: columns that go together, parameters that explain next to nothing."""

from __future__ import annotations

import numpy as np

from .model import COLUMNS

TELLING = 0.10  # a parameter that explains less than this of every cell is not determined by them
ALIKE = 1e-7  # what is left of a column of unit length, beside the others, below which it says nothing of its own
TAKEN = "cannot be told from"  # how it is said of a parameter whose part others have taken
CORRELATED = 0.98  # of the estimates over the draws
ROUNDING = 1e-9  # relative spread of draws that is none
# Where columns go together the earlier one stands for all.
FIRST = (
    *("beta", "alpha", "inner_beta", "inner_alpha", "long_beta", "long_alpha", "long_inner_beta", "long_inner_alpha"),
    *("gamma", "per_call", "per_round", "beyond", "local"),
)
ORDER = [COLUMNS.index(name) for name in FIRST]


def kept(scaled: np.ndarray) -> np.ndarray:
    """1 for each column that says something of its own, 0 for the others; rows are divided by their times."""
    return (_decompose(scaled)[0]).astype(float)


def _decompose(scaled: np.ndarray) -> tuple[np.ndarray, dict[int, list[int]]]:
    """Which columns stay, and for each that does not those that stand for it."""
    norms = np.linalg.norm(scaled, axis=0)
    stay = np.zeros(scaled.shape[1], bool)
    gone: dict[int, list[int]] = {}
    basis = np.empty((len(scaled), 0))
    for i in ORDER:
        if not norms[i]:
            continue
        column = scaled[:, i] / norms[i]
        rest = column - basis @ (basis.T @ column)
        rest -= basis @ (basis.T @ rest)
        left = np.linalg.norm(rest)
        if left > ALIKE:
            stay[i] = True
            basis = np.column_stack([basis, rest / left])
            continue
        have = np.flatnonzero(stay)
        part = np.linalg.lstsq(scaled[:, have] / norms[have], column, rcond=None)[0]
        gone[i] = have[np.abs(part) > 1e-6].tolist()
    return stay, gone


def untold(rows: np.ndarray, theta: np.ndarray, times: np.ndarray) -> dict[int, str]:
    """For each parameter that these cells do not determine, why."""
    scaled = rows / times[:, None]
    stay, gone = _decompose(scaled)
    said: dict[int, str] = {}
    for i, others in gone.items():
        names = " and ".join(COLUMNS[j] for j in others)
        stand = "stands" if len(others) == 1 else "stand"
        said[i] = f"{TAKEN} {names}, which {stand} for it: their counts go together in all cells"
    shares = scaled * theta
    for i in np.flatnonzero(stay).tolist():
        most = shares[:, i].max()
        if most < TELLING:
            said[i] = f"not determined by these sizes (it explains at most {most:.0%} of a time)"
    return said


def together(draws: np.ndarray, which: np.ndarray) -> list[str]:
    """Pairs whose estimates go together over the draws: known as a sum, not one by one."""
    found: list[str] = []
    if len(draws) < 2:
        return found
    spread = draws.std(axis=0)
    at = [int(i) for i in which if spread[i] > ROUNDING * np.abs(draws[:, i]).max()]
    if len(at) < 2:
        return []
    correlation = np.corrcoef(draws[:, at].T)
    for a in range(len(at)):
        for b in range(a):
            if abs(correlation[a, b]) > CORRELATED:
                found.append(
                    f"{COLUMNS[at[b]]} and {COLUMNS[at[a]]} are better known together than each "
                    f"(correlation {correlation[a, b]:.2f})"
                )
    return found
