"""``export``: from runs to a library's own tuning file, read back before it is written."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd

from ..cells import blocks, one_kind
from ..curves import curves
from ..facts import facts
from ..load import files, load_file
from ..progress import bar
from ..samples import Asked, RefusedError
from ..samples import table as tabled
from . import intel, mpich, nccl, openmpi, openmpi_json
from .advice import DEFAULT, Advice, Band, Calls, Rule, bands, measured, modelled
from .malformed import MalformedError
from .names import INTEL, MPICH, NCCL_ALGORITHMS, SAME, resolve
from .options import TARGETS, Target


def run(options: argparse.Namespace) -> int:
    """Write the file, say what it rests on and how to use it; with --recheck try it."""
    _consistent(options)
    target = TARGETS[options.target]
    found = [load_file(name, Asked(options.size, unit=options.unit)) for name in files(options.runs)]
    table = one_kind(tabled(found))
    if table["size"].isna().any():
        raise RefusedError(options.runs[0], None, "how many ranks is not in the file: give --size P")
    libraries = sorted({run.mpi_library for run in facts(one.file for one in found)})
    advice = advise(table, tabled(found, "calibrations"), options.target, libraries)
    text = written(advice, options)
    if options.output:
        try:
            with open(options.output, "x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise RefusedError(options.output, None, error.strerror or str(error)) from None
    else:
        print(text, end="")
    _say(advice, target, options.output or "FILE")
    if options.recheck:
        from .recheck import recheck  # it starts processes

        sizes = sorted({int(size) for size in table["size"]})
        nbytes = table["nbytes"].astype(int)
        return recheck(
            target, options.output, sizes, (nbytes.min(), nbytes.max()), options.launches, sorted(advice.calls)
        )
    return 0


def _consistent(options: argparse.Namespace) -> None:
    """What options ask of each other. RefusedError names the one that is missing."""
    if options.target == "nccl" and (options.channels is None or options.channels < 1):
        raise RefusedError("--for nccl", None, "give --channels N, at least 1: without a number NCCL takes one channel")
    if options.recheck and not options.output:
        raise RefusedError("--recheck", None, "give -o FILE, which the bench can run under")
    if options.recheck and options.target not in ("openmpi4", "openmpi5", "openmpi6", "mpich"):
        raise RefusedError("--recheck", None, f"the bench cannot run under a file for {TARGETS[options.target].title}")
    if options.launches < 1:
        raise RefusedError("--launches", None, f"{options.launches}: at least 1")
    if options.output and Path(options.output).exists():
        raise RefusedError(options.output, None, "exists: name a new file")


def advise(table: pd.DataFrame, calibrations: pd.DataFrame, target: str, libraries: list[str]) -> Advice:
    """From measured algorithms of the library where there are some, else from the model. RefusedError: from neither."""
    wanted = TARGETS[target].library.partition(" v")[0]
    rows = named(table, target)
    if not rows.empty and all(wanted in name for name in libraries):
        return _measured(rows, target, libraries)
    return _modelled(table, calibrations, target, libraries)


def named(table: pd.DataFrame, target: str) -> pd.DataFrame:
    """Rows of the library's own algorithms under the names of the target, with those of its default; perhaps empty."""
    found = table[(table["library"].fillna("mpi") != "mpicoll") & (table["call"].fillna("call") == "call")]
    found = found.assign(collective=_called(found))
    names = {
        (call, text): DEFAULT if text == DEFAULT else _name(target, call, text)
        for call, text in set(zip(found["collective"], found["algorithm"].fillna(DEFAULT)))
    }
    known = [names[pair] for pair in zip(found["collective"], found["algorithm"].fillna(DEFAULT))]
    found = found.assign(algorithm=pd.Series(known, index=found.index, dtype=object))
    found = found[found["algorithm"].notna()]
    with_some = found[found["algorithm"] != DEFAULT]["collective"].unique()
    return found[found["collective"].isin(with_some)]


def _called(rows: pd.DataFrame) -> pd.Series:
    """The call of MPI that was timed: our bench takes another where chunks are uneven, or even and not in place."""
    bench, uneven = rows["kind"] == "ours", (rows["count"] % rows["size"] != 0).fillna(False)
    block = bench & (rows["collective"] == "reduce_scatter") & ~uneven & ~rows["in_place"].fillna(False)
    ragged = bench & (rows["collective"] == "allgather") & uneven
    return rows["collective"].mask(block, "reduce_scatter_block").mask(ragged, "allgatherv")


def _name(target: str, call: str, text: str) -> str | None:
    """The target's name of an algorithm of a call; None: it is none that a rule can choose."""
    if target == "nccl":
        name = nccl.names(text)
        return name if call == "allreduce" and name.partition("/")[0] in NCCL_ALGORITHMS else None
    if target in ("mpich", "intel"):
        known = INTEL if target == "intel" else dict.fromkeys(MPICH, -1)
        return resolve(text, known) if call == "allreduce" else None
    tables = openmpi_json.known() if target == "openmpi6" else openmpi.known(int(target[-1]))
    return resolve(text, tables.get(call, {}))


def _measured(rows: pd.DataFrame, target: str, libraries: list[str]) -> Advice:
    calls: Calls = {}
    for call, part in rows.groupby("collective"):
        by_size: dict[int, tuple[Rule, ...]] = {}
        for size, cells in part.groupby("size"):
            if len(set(cells["nodes"].dropna())) > 1:
                nodes = sorted({int(n) for n in cells["nodes"].dropna()})
                raise RefusedError(
                    str(cells["file"].iloc[0]),
                    None,
                    f"p {size} was measured on {nodes} nodes: give runs of one placement",
                )
            if target == "nccl":
                cells = cells[cells["algorithm"] != DEFAULT]  # it cannot be left to NCCL
            by_size[int(size)] = measured(cells)
        calls[str(call)] = bands(by_size)
    on = ", ".join(libraries) or "a library that the files do not name"
    launches = rows["launch"].nunique()
    source = f"measured: {len(rows)} cells of {launches} launch{'es' if launches > 1 else ''} on {on}"
    return Advice(calls, source, True)


def _modelled(table: pd.DataFrame, calibrations: pd.DataFrame, target: str, libraries: list[str]) -> Advice:
    """Predict the algorithms of ours that are the same as the library's, at the sizes and ranks of the runs."""
    ours = table[(table["library"] == "mpicoll") & (table["call"].fillna("plan") == "plan")]
    same = SAME[TARGETS[target].same]
    if ours.empty or not set(ours["collective"]) & set(same):
        raise RefusedError(
            str(table["file"].iloc[0]),
            None,
            f"neither algorithms of {TARGETS[target].title}, forced (bench --baselines all), nor plans of ours to fit",
        )
    with bar() as show:
        model = curves(ours, calibrations, show)
    calls: Calls = {}
    for call, part in ours.groupby("collective"):
        if call not in same:
            continue
        by_size = {}
        for size, cells in part.groupby("size"):
            known = cells["nodes"].dropna()
            nodes = blocks(int(size), int(known.max())) if len(known) else None
            sizes = sorted({int(nbytes) for nbytes in cells["nbytes"]})
            seconds = {
                theirs: dict(zip(sizes, model.curve(str(call), name, int(size), nodes, sizes).time_us.tolist()))
                for theirs, name in same[str(call)].items()
            }
            by_size[int(size)] = modelled(seconds)
        calls[str(call)] = bands(by_size)
    residuals = model.residuals["residual"]
    source = f"from the model, not measured: fitted to {len(residuals)} cells of our plans on {', '.join(libraries)}"
    source += f", off by {residuals.abs().median():.0%} in the median; try it with --recheck"
    return Advice(calls, source, False)


def written(advice: Advice, options: argparse.Namespace) -> str:
    """The file's text, read back by our reader. RefusedError: it cannot be written for this target."""
    target, title = options.target, TARGETS[options.target].title
    calls = advice.calls
    use = TARGETS[target].use.format(file=options.output or "FILE")
    comment = f"{title}: {', '.join(calls)}; {advice.source}\nuse: {use}"
    try:
        if target in ("openmpi4", "openmpi5"):
            text = openmpi.write(calls, comment, int(target[-1]))
            back = openmpi.read(text, int(target[-1]))
        elif target == "openmpi6":
            text = openmpi_json.write(calls)
            back = openmpi_json.read(text)
        elif target == "mpich":
            text = mpich.write(calls, _base(options.base))
            back = mpich.read(text)
        elif target == "intel":
            text = intel.write(calls, comment)
            back = intel.read(text)
        else:
            text = nccl.write(calls, comment, options.channels)
            back = nccl.read(text)
            calls = {c: tuple(band._replace(last=band.first) for band in found) for c, found in calls.items()}
    except (ValueError, MalformedError, OSError) as error:
        raise RefusedError(f"--for {target}", None, str(error)) from None
    if normal(back) != normal(calls):
        raise RefusedError(f"--for {target}", None, f"the file would say {back}, not {calls}: please report this")
    return text


def _base(path: str | None) -> mpich.Tree:
    path = path or mpich.own_library()
    if path is None:
        raise ValueError(
            "a file for MPICH replaces its whole table, so its own is needed, and the mpirun on PATH is of no MPICH "
            "that has it: give --base libmpi.so.12, or generic.json of its source"
        )
    return mpich.base_table(path)


def normal(calls: Calls) -> Calls:
    """What the libraries do under it: neighbours that say the same are one, what is all DEFAULT is not said."""
    found: Calls = {}
    for call, all_bands in calls.items():
        kept: list[Band] = []
        for band in all_bands:
            rules: list[Rule] = []
            for rule in band.rules:
                if rule.nbytes <= mpich.INT_MAX and (not rules or rule.algorithm != rules[-1].algorithm):
                    rules.append(rule)
            if [rule.algorithm for rule in rules] == [DEFAULT]:
                continue
            if kept and kept[-1].rules == tuple(rules) and kept[-1].last == band.first - 1:
                kept[-1] = kept[-1]._replace(last=band.last)
            else:
                kept.append(Band(band.first, band.last, tuple(rules)))
        if kept:
            found[call] = tuple(kept)
    return found


def _say(advice: Advice, target: Target, file: str) -> None:
    out = sys.stderr
    print(advice.source, file=out)
    for call, found in advice.calls.items():
        for band in found:
            ranks = f"{band.first} ranks" if band.last == band.first else f"{band.first} to {band.last} ranks"
            steps = ", ".join(f"from {rule.nbytes} {rule.algorithm}" for rule in band.rules)
            print(f"{call}, {ranks}: {steps}", file=out)
    if not normal(advice.calls):
        print("nothing is surely faster than the library's own choice: the file changes nothing", file=out)
    print(f"use: {target.use.format(file=file)}", file=out)
