"""``fit`` and ``recommend``: from the table of samples to parameters and to a tuning file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

import numpy as np
import pandas as pd

from mpicoll.schedule import Nodes, find

from .fit import Fit, bootstrap, fit
from .load import load
from .model import COLUMNS, Case
from .recommend import recommend, tuning
from .samples import Asked, RefusedError

DRAWS = 200
UNITS = ("s a message", "s a byte", "s a byte reduced", "s a round", "s a message", "s a byte")


def ours(runs: Sequence[str], size: int | None) -> pd.DataFrame:
    """The rows of our own plans. RefusedError: there are none, or how many ranks they had is not known."""
    table = load(runs, Asked(size))
    rows = table[(table["library"] == "mpicoll") & (table["call"].fillna("plan") == "plan")]
    if rows.empty:
        raise RefusedError(runs[0], None, "no row of a plan of ours: other libraries' runs cannot be fitted yet")
    if rows["size"].isna().any():
        raise RefusedError(runs[0], None, "how many ranks is not in the file: give --size P")
    return rows.assign(nodes=rows["nodes"].fillna(1))


def cases(rows: pd.DataFrame) -> tuple[list[Case], np.ndarray, np.ndarray, list[object]]:
    """Cells, seconds, relative standard errors, and the groups that a bootstrap draws."""
    found: list[Case] = []
    groups: list[object] = []
    for row in rows.itertuples():
        find(row.collective, row.algorithm)
        found.append(Case(row.collective, row.algorithm, int(row.size), float(row.nbytes), _nodes(row.size, row.nodes)))
        groups.append((row.algorithm, int(row.size), int(row.launch)))
    times = rows["time_us"].to_numpy(float) * 1e-6
    width = (rows["high_us"] - rows["low_us"]).to_numpy(float) * 1e-6
    errors = np.where(np.isfinite(width), width / (2 * 1.96) / times, 0.0)
    return found, times, errors, groups


def run_fit(options: argparse.Namespace) -> int:
    """Print the parameters, their intervals, what the cells cannot tell, and how far the model is off."""
    found, times, errors, groups = cases(ours(options.runs, options.size))
    fitted = fit(found, times, errors)
    low, high = bootstrap(found, times, groups, DRAWS)
    print(f"{len(times)} cells of {len(set(groups))} groups (algorithm, ranks, launch); 95 % intervals by bootstrap")
    for i, name in enumerate(COLUMNS if fitted.levels else COLUMNS[:4]):
        print(f"{name:<12} {fitted.theta[i]:>10.3e}  {low[i]:>10.3e} to {high[i]:<10.3e} {UNITS[i]}")
    for text in fitted.said:
        print(f"note: {text}")
    _residuals(fitted, found)
    return 0


def run_recommend(options: argparse.Namespace) -> int:
    """Print the advice and its regret; with --to write the tuning file."""
    rows = ours(options.runs, options.size)
    scored = ours(options.score, options.size) if options.score else None
    advice = recommend(rows, scored)
    for row in advice.measured:
        steps = ", ".join(f"from {nbytes} {name}" for nbytes, name in row["algorithms"])
        print(f"{row['collective']}, {row['size']} ranks, {row['ranks_per_node']} a node: {steps}")
    print(advice.summary + ("" if options.score else " (scored by the same runs: give --score for others)"))
    if options.to:
        found, times, errors, _ = cases(rows)
        network = fit(found, times, errors).network
        try:
            with open(options.to, "x", encoding="utf-8") as file:
                json.dump(tuning(advice, network, ", ".join(options.runs)), file, indent=1)
        except OSError as error:
            raise RefusedError(options.to, None, error.strerror or str(error)) from None
        print(f"{options.to} is written: MPICOLL_TUNING={options.to}", file=sys.stderr)
    return 0


def _residuals(fitted: Fit, found: Sequence[Case]) -> None:
    table = pd.DataFrame({"algorithm": [case.algorithm for case in found], "residual": fitted.residuals})
    off = table["residual"].abs()
    print(f"off by {off.median():.1%} in the median, {off.quantile(0.9):.1%} at the 90th percentile; by algorithm:")
    by_name = table.groupby("algorithm")["residual"]
    for name, median, absolute in zip(
        by_name.median().index, by_name.median(), off.groupby(table["algorithm"]).median()
    ):
        print(f"  {name:<28} {median:+.1%} (absolute {absolute:.1%})")


def _nodes(size: int, nodes: int) -> Nodes | None:
    """Ranks in blocks, as launchers place them; one level where nodes hold one rank or all."""
    size, nodes = int(size), int(nodes)
    if not 1 < nodes < size:
        return None
    return tuple(rank * nodes // size for rank in range(size))
