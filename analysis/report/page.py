"""The page: one file with its own style and script, nothing from elsewhere."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..commands import told
from ..facts import Facts
from ..load import summary
from ..samples import Found

if TYPE_CHECKING:
    from .command import Report

HERE = Path(__file__).parent
MOST_COMMANDS = 12
KINDS = {"osu": "OSU", "imb": "IMB", "nccl": "nccl-tests", "nccl-json": "nccl-tests", "csv": "CSV"}


def page(report: Report, options: argparse.Namespace) -> str:
    """The HTML."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    surroundings = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    collectives = ", ".join(dict.fromkeys(case.collective for case in report.cases))
    return surroundings.get_template("page.html").render(
        title=f"{collectives}: {_machine(report.runs) or 'published runs'}",
        sentence=sentence(report.found, report.runs, [str(case) for case in report.cases]),
        warnings=warnings(report, options.launches),
        sections=report.sections,
        parameters=report.model.fit.parameters if report.model else (),
        notes=report.model.fit.notes if report.model else (),
        told="\n".join(told(report.model.fit)) if report.model else "",
        why_no_model=report.why_no_model,
        launches=launches(report.runs, options.launches),
        loaded=[(lines[0], lines[1:]) for lines in map(summary, report.found)],
        commands=commands(report.runs),
        again=_again(options),
        revisions=sorted({run.revision for run in report.runs if run.revision}),
        style=(HERE / "page.css").read_text(encoding="utf-8"),
        script=(HERE / "page.js").read_text(encoding="utf-8"),
    )


def _again(options: argparse.Namespace) -> str:
    """The command that made the page."""
    words = ["python", "-m", "analysis", "report", *options.runs, "-o", options.output]
    for flag in ("size", "collective", "unit", "launches"):
        value = getattr(options, flag)
        words += [] if value is None else [f"--{flag}", str(value)]
    return shlex.join(words)


def sentence(found: Sequence[Found], runs: Sequence[Facts], cases: Sequence[str]) -> str:
    """The runs and the machine in a sentence."""
    sizes = sorted(set[int]().union(*(one.columns["size"] for one in found)) - {None})
    ranks = f"on {_list([str(size) for size in sizes])} ranks" if sizes else "on an unknown number of ranks"
    what = f"{_list(cases)} {ranks}"
    if not runs:
        kinds = _list(sorted({KINDS.get(one.kind, one.kind) for one in found}))
        count = f"{len(found)} file{'s' if len(found) > 1 else ''}"
        return f"{what}, from {count} of {kinds}, which say nothing of the machine."
    begun = f"{len(runs)} launch{'es' if len(runs) > 1 else ''}"
    text = f"{begun} of {what} of {_machine(runs)}"
    days = sorted({run.time[:10] for run in runs if run.time})
    when = f", {days[0]}" + (f" to {days[-1]}" if len(days) > 1 else "") if days else ""
    libraries = _list(sorted({run.mpi_library for run in runs}))
    more = len(found) - len({run.file for run in runs})
    also = f", and {more} file{'s' if more > 1 else ''} of other benchmarks" if more else ""
    return f"{text}, {libraries}{when}{also}."


def _machine(runs: Sequence[Facts]) -> str:
    """How many nodes with what in them."""
    if not runs:
        return ""
    hosts = list(dict.fromkeys(host for run in runs for host in run.hosts))
    nodes = max(run.nodes for run in runs)
    named = _list(hosts) if len(hosts) <= 4 else f"{hosts[0]} to {hosts[-1]}"
    cpus = _list(sorted({cpu for run in runs for cpu in run.cpus}))
    largest = max(runs, key=lambda run: run.size)
    cores = f", {largest.cores} core{'s' if largest.cores > 1 else ''} in all" if largest.cores else ""
    return f"{nodes} node{'s' if nodes > 1 else ''} ({named}{f', {cpus}' if cpus else ''}{cores})"


def warnings(report: Report, expected: int | None) -> list[str]:
    """What a reader must know before the figures."""
    said = []
    for one in launches(report.runs, expected):
        if one["short"]:
            said.append(f"Launches on {one['size']} ranks: {one['text']}.")
    cut = [run.file for run in report.runs if not run.whole]
    if cut:
        said.append(f"Not run to the end: {_list(sorted(set(cut)))}; what there is of them is used.")
    shared = [run for run in report.runs if 0 < run.cores < run.size]
    if shared:
        worst = max(shared, key=lambda run: run.size / run.cores)
        said.append(
            f"{worst.size} ranks shared {worst.cores} cores: those times say more of the scheduler than of a network."
        )
    wrong = sum(len(lines) for one in report.found for why, lines in one.left.items() if why.startswith("failed"))
    if wrong:
        said.append(f"{wrong} rows failed their check and are left out.")
    return said


def launches(runs: Sequence[Facts], expected: int | None) -> list[dict[str, Any]]:
    """For each number of ranks the whole launches, counted against what was expected."""
    found = []
    for size in sorted({run.size for run in runs}):
        own = [run for run in runs if run.size == size]
        named = {run.launch for run in own if run.whole and run.launch is not None}
        count = len(named) + sum(run.whole and run.launch is None for run in own)
        begun = len({run.launch for run in own if run.launch is not None}) + sum(run.launch is None for run in own)
        wanted = begun if expected is None else expected
        counted = bool(named) and all(name.isdecimal() for name in named)  # others' names do not say which are missing
        missing = [str(i) for i in range(1, wanted + 1) if str(i) not in named] if count < wanted and counted else []
        text = f"{count} of {wanted} whole" + (f", missing {_list(missing)}" if missing else "")
        found.append({"size": size, "text": text, "short": count < wanted})
    return found


def commands(runs: Sequence[Facts]) -> list[str]:
    """What was run, each once."""
    said = dict.fromkeys(
        f"mpirun -n {run.size} python -m mpicoll.bench {shlex.join(run.argv)}".rstrip() for run in runs
    )
    return [
        *list(said)[:MOST_COMMANDS],
        *([f"# and {len(said) - MOST_COMMANDS} more"] if len(said) > MOST_COMMANDS else []),
    ]


def _list(words: Sequence[str]) -> str:
    """a, b and c."""
    return ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1] if words else ""
