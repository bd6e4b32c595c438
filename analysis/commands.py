"""``fit`` and ``recommend``: from run files to parameters and to a tuning file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

import pandas as pd

from .cells import octave
from .fit import FITTED, Fit, fit_table, ours
from .held import WAYS, figures
from .load import load, load_all
from .recommend import recommend, tuning
from .samples import Asked, RefusedError


def fitted(options: argparse.Namespace) -> Fit:
    """The fit of the runs that were named."""
    from .progress import bar

    table, calibrations = load_all(options.runs, Asked(options.size))
    with bar() as progress:
        return fit_table(table, calibrations, progress=progress)


def run_fit(options: argparse.Namespace) -> int:
    """Print the parameters, their intervals, what the cells cannot tell, and how far the model is off."""
    found = fitted(options)
    print(json.dumps(document(found), indent=1) if options.json else "\n".join(told(found)))
    return 0


def document(found: Fit) -> dict[str, Any]:
    """The fit as plain data, for a program that reads it."""
    model = found.model
    breaks = {} if model is None else {name: value for name, value in model.breaks._asdict().items() if value < 1e300}
    return {
        "fit": 1,
        "parameters": {
            p.name: {"value": p.value, "low": p.low, "high": p.high, "unit": p.unit, "determined": p.determined}
            for p in found.parameters
        },
        "breaks": breaks,
        "levels": bool(model and model.levels),
        "notes": list(found.notes),
    }


def told(found: Fit) -> list[str]:
    """The fit for a person."""
    cells = found.cells
    launches = int(cells["launches"].max())
    lines = [f"{len(cells)} cells, {launches} launch{'es' if launches > 1 else ''}; 95 % intervals by bootstrap"]
    for p in found.parameters:
        lines.append(f"{p.name:<16} {p.value:>10.3e}  {p.low:>10.3e} to {p.high:<10.3e} {p.unit}")
    lines += [f"note: {text}" for text in found.notes]
    lines += _residuals(cells[cells["collective"] != "calibration"])
    for how, errors in found.held_out.groupby("how")["error"] if len(found.held_out) else ():
        lines.append(f"held out, {WAYS[how]}: {_off(errors)}")
    if len(found.held_out):
        lines.append(f"held out, all: {_off(found.held_out['error'])}")
    for kind, rows in found.compared.groupby("algorithm") if len(found.compared) else ():
        ratio = rows["seconds"] / rows["predicted"]
        enters = "in the fit" if kind.partition(" ")[0] in FITTED else "compared"
        lines.append(f"calibration, {kind} ({enters}): {ratio.min():.2f} to {ratio.max():.2f} times the model")
    return lines


def _residuals(cells: pd.DataFrame) -> list[str]:
    lines = [f"residuals, measured / model - 1: {_off(cells['residual'])}"]
    for title, by in (
        ("algorithm", cells["algorithm"]),
        ("ranks", cells["size"]),
        ("octave", pd.Series(2 ** octave(cells["nbytes"]), index=cells.index)),
    ):
        lines.append(f"by {title}, median (without signs):")
        for name, residual in cells["residual"].groupby(by):
            lines.append(f"  {name!s:<28} {residual.median():+.1%} ({residual.abs().median():.1%})")
    return lines


def _off(errors: pd.Series) -> str:
    median, high = figures(errors)
    return f"{median:.1%} in the median, {high:.1%} at the 90th percentile"


def run_recommend(options: argparse.Namespace) -> int:
    """Print the advice and its regret; with --to write the tuning file."""
    rows = _known(load(options.runs, Asked(options.size)), options.runs)
    scored = _known(load(options.score, Asked(options.size)), options.score) if options.score else None
    advice = recommend(rows, scored)
    for row in advice.measured:
        steps = ", ".join(f"from {nbytes} {name}" for nbytes, name in row["algorithms"])
        print(f"{row['collective']}, {row['size']} ranks, {row['ranks_per_node']} a node: {steps}")
    print(advice.summary + ("" if options.score else " (scored by the same runs: give --score for others)"))
    if options.to:
        network = fitted(options).network
        try:
            with open(options.to, "x", encoding="utf-8") as file:
                json.dump(tuning(advice, network, ", ".join(options.runs)), file, indent=1)
        except OSError as error:
            raise RefusedError(options.to, None, error.strerror or str(error)) from None
        print(f"{options.to} is written: MPICOLL_TUNING={options.to}", file=sys.stderr)
    return 0


def _known(table: pd.DataFrame, runs: Sequence[str]) -> pd.DataFrame:
    rows = ours(table)
    if rows.empty:
        raise RefusedError(runs[0], None, "no row of a plan of ours")
    return rows.assign(nodes=rows["nodes"].fillna(1))
