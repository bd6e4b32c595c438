"""``fit`` and ``recommend``: from run files to parameters and to a tuning file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from .cells import blocks, octave, one_kind
from .fit import FITTED, Fit, fit_table, ours
from .forms import FormFit
from .held import WAYS, figures
from .load import failed, files, load_files
from .model import UNBROKEN, Breaks
from .predict import predict
from .recommend import recommend, tuning
from .samples import Asked, Found, RefusedError, once, table
from .verdict import WRONG, judge


def asked(options: argparse.Namespace) -> Asked:
    """What the person says where the files do not."""
    return Asked(options.size, options.collective, options.unit, options.dtype)


def fitted(
    options: argparse.Namespace, *, holding: bool = False, breaks: Breaks | None = None, beside: Sequence[Found] = ()
) -> Fit:
    """The fit of the runs that were named.

    ``holding``: with its held-out errors; ``breaks``: None to look for them; ``beside``: runs that may not be in it.
    """
    from .progress import bar

    found = load_files(options.runs, asked(options))
    once([*found, *beside])
    rows, calibrations = on_nodes(table(found), options.per_node), table(found, "calibrations")
    with bar() as progress:
        fit = fit_table(rows, calibrations, holding=holding, breaks=breaks, progress=progress)
    return replace(fit, notes=(*fit.notes, *failed(found)))


def on_nodes(rows: pd.DataFrame, per_node: int | None) -> pd.DataFrame:
    """The number of nodes where the files do not say and the person does."""
    if per_node is None:
        return rows
    nodes = -(-rows["size"] // per_node)
    if (clash := rows["nodes"].notna() & (rows["nodes"] != nodes)).any():
        row = rows[clash].iloc[0]
        raise RefusedError(
            row["file"], int(row["line"]), f"--per-node {per_node}, but the file says {row['nodes']} nodes"
        )
    return rows.assign(nodes=nodes)


def run_fit(options: argparse.Namespace) -> int:
    """Print the parameters, their intervals, what the cells cannot tell, and how far the model is off."""
    found = fitted(options, holding=not options.json)
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
        "forms": [
            {
                "collective": collective,
                "algorithm": name,
                "pieces": [
                    {"first": piece.first, "last": piece.last, "form": piece.form, "seconds": piece.theta.tolist()}
                    for piece in form.pieces
                ],
                "notes": list(form.notes),
            }
            for (collective, name), form in found.forms.items()
        ],
    }


def told(found: Fit) -> list[str]:
    """The fit for a person."""
    return (_ours(found) if found.model else []) + [
        line for name, form in found.forms.items() for line in _form(name, form)
    ]


def _form(name: tuple[str, str], form: FormFit) -> list[str]:
    """What a library's algorithm looks like."""
    frame = form.frame
    ranks = ", ".join(map(str, sorted(frame["size"].unique())))
    lines = [f"{name[1]}, {name[0]}, {ranks} ranks: {_off(frame['residual'])}"]
    for piece in form.pieces:
        constant, alpha, beta = piece.theta
        terms = f"{constant:.3e} s + A {alpha:.3e} s + B n {beta:.3e} s"
        known = f"{piece.form}: {terms}" if len(frame["size"].unique()) > 1 else f"any form: {terms}"
        lines.append(f"  {piece.first:.0f} to {piece.last:.0f} bytes, {known}")
    if len(form.whole) > 1:
        best = sorted(form.whole, key=lambda one: form.whole[one])
        whole = ", ".join(f"{one} {form.whole[one]:.0%}" for one in best)
        lines.append(f"  one form for all sizes would be off by: {whole}")
    return lines + [f"  note: {text}" for text in form.notes]


def _ours(found: Fit) -> list[str]:
    cells = found.cells
    launches = int(cells["launches"].max())
    lines = [f"{len(cells)} cells, {launches} launch{'es' if launches > 1 else ''}; 95 % intervals by bootstrap"]
    for p in found.parameters:
        value, low, high = p.figures
        mark = "" if p.determined else " (not determined)"
        lines.append(f"{p.name:<16} {value:>10}  {low:>10} to {high:<10} {p.unit}{mark}")
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


def run_predict(options: argparse.Namespace) -> int:
    """Print a row an algorithm and size."""
    if (options.nodes or 1) > options.ranks:
        raise ValueError(f"--nodes {options.nodes}: there are {options.ranks} ranks to put on them")
    found = fitted(options)
    where = blocks(options.ranks, options.nodes) if options.nodes else options.ranks
    collective = options.collective or "allreduce"
    seen = found.cells[found.cells["collective"] == collective] if len(found.cells) else found.cells
    names = options.algorithms.split(",") if options.algorithms else []
    names = names or [*dict.fromkeys(seen["algorithm"] if len(seen) else ())]
    names = names or [name for of, name in found.forms if of == collective]
    if not names:
        known = {*(found.cells["collective"] if len(found.cells) else ()), *(of for of, _ in found.forms)}
        there = ", ".join(f"--collective {name}" for name in sorted(known - {"calibration"}))
        raise ValueError(f"no {collective} in these runs: {there}, or name --algorithms")
    rows = []
    for name in names:
        made = predict(found, collective, name, where, options.bytes)
        for nbytes, seconds, low, high, far in zip(options.bytes, *made):
            rows.append({"algorithm": name, "nbytes": nbytes, "seconds": float(seconds), "low": float(low)})
            rows[-1] |= {"high": float(high), "extrapolated": bool(far)}
    if options.json:
        print(json.dumps({"prediction": 1, "collective": collective, "ranks": options.ranks, "rows": rows}))
        return 0
    print(f"# {collective}, {options.ranks} ranks, microseconds, 95 % of single cells between low and high")
    print(f"{'algorithm':<28} {'bytes':>12} {'time':>12} {'low':>12} {'high':>12}")
    for row in rows:
        figures_ = " ".join(f"{1e6 * row[name]:>12.5g}" for name in ("seconds", "low", "high"))
        print(f"{row['algorithm']:<28} {row['nbytes']:>12} {figures_}{' extrapolated' * row['extrapolated']}")
    return 0


def run_verdict(options: argparse.Namespace) -> int:
    """Print what is slow and what is fast, and the verdict; its exit status."""
    files([*options.runs, *options.new])  # a run is not judged by itself
    new = load_files(options.new, asked(options))
    found = judge(fitted(options, beside=new), on_nodes(table(new), options.per_node))
    cells, words = found.cells, found.cells["verdict"].value_counts()
    for cell in cells.itertuples():
        if options.all or cell.verdict in ("slow", "fast"):
            figures_ = f"{1e6 * cell.seconds:>11.5g} us, {1e6 * cell.predicted:>11.5g} expected"
            name = f"{cell.collective} {cell.algorithm}, {cell.size} ranks"
            print(f"{cell.verdict:<7} {name:<48} {cell.nbytes:>11} bytes {figures_}, {cell.ratio:.2f}x")
    known = cells[cells["verdict"] != "unknown"]
    if len(known):
        off = (known["ratio"] - 1).abs()
        print(f"off the model by {off.median():.1%} in the median, {off.quantile(0.9):.1%} at the 90th percentile")
    counted = ", ".join(f"{count} {word}" for word, count in words.items())
    print(f"{found.word}: of {len(cells)} cells {counted or 'none'}")
    for text in (wrong := failed(new)):
        print(f"wrong: {text}")
    return WRONG if wrong else found.status


def run_recommend(options: argparse.Namespace) -> int:
    """Print the advice and its regret; with --to write the tuning file."""
    files([*options.runs, *(options.score or ())])  # nor scored by itself
    if options.to and Path(options.to).exists():
        raise RefusedError(options.to, None, "exists: name a new file")
    runs, score = (load_files(names or (), asked(options)) for names in (options.runs, options.score))
    once([*runs, *score])
    rows = _known(options, runs)
    scored = _known(options, score) if score else None
    advice = recommend(rows, scored)
    for row in advice.measured:
        steps = ", ".join(f"from {nbytes} {name}" for nbytes, name in row["algorithms"])
        print(f"{row['collective']}, {row['size']} ranks, {row['ranks_per_node']} a node: {steps}")
    print(advice.summary + ("" if options.score else " (scored by the same runs: give --score for others)"))
    if options.to:
        found = fitted(options, breaks=UNBROKEN)  # the file has one line for all sizes
        network = found.network
        if not all(p.determined for p in found.parameters if p.name == "beta"):
            raise RefusedError(
                options.to, None, "these runs tell no beta, and all bytes would be free: time 1M and more"
            )
        try:
            with open(options.to, "x", encoding="utf-8") as file:
                json.dump(tuning(advice, network, ", ".join(options.runs)), file, indent=1)
        except OSError as error:
            raise RefusedError(options.to, None, error.strerror or str(error)) from None
        print(f"{options.to} is written: MPICOLL_TUNING={options.to}", file=sys.stderr)
    return 0


def _known(options: argparse.Namespace, found: Sequence[Found]) -> pd.DataFrame:
    rows = ours(one_kind(on_nodes(table(found), options.per_node)))
    if rows.empty:
        raise RefusedError(found[0].file, None, "no row of a plan of ours")
    return rows.assign(nodes=rows["nodes"].fillna(1))
