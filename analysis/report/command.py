"""``report``: read the runs, draw, and write one page."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from ..curves import Curve, Curves, curves
from ..facts import Facts, facts
from ..load import files, load_file, not_over
from ..progress import bar
from ..samples import COLLECTIVES, Asked, Found, RefusedError, table
from . import lines, maps
from .data import MPI, Case, Place, Series, compared, is_ours, key, places, shown, sizes, split, winners
from .page import page
from .style import RC, Drawn, Look

Progress = Callable[[float, str], None]
GRID = 60  # points of a curve
OPEN = 3  # numbers of ranks up to which all their figures are open at first


@dataclass
class Section:
    """Figures under a heading. ``folded``: whether it is shut at first; None: it does not fold."""

    title: str
    text: str
    figures: list[Drawn] = field(default_factory=list)
    folded: bool | None = None


@dataclass
class Report:
    """All that the page shows."""

    found: list[Found]
    runs: list[Facts]
    cases: dict[Case, dict[int, Series]]
    places: dict[tuple[Case, int], Place]
    model: Curves | None
    why_no_model: str
    sections: list[Section]


def run(options: argparse.Namespace) -> int:
    """Write the page and, with --png, its figures."""
    _writable(options)
    not_over(options.output, options.runs)
    asked = Asked(options.size, options.collective, options.unit)
    names = files(options.runs)
    with bar() as show:
        found = []
        for i, name in enumerate(names):
            show(0.3 * i / len(names), "reading")
            found.append(load_file(name, asked))
        frame = table(found)
        model, why = _model(frame, table(found, "calibrations"), lambda part, _: show(0.3 + 0.2 * part, "fitting"))
        report = Report(found, facts(one.file for one in found), split(frame), places(frame), model, why, [])
        import matplotlib as mpl

        with mpl.rc_context(RC):
            _draw(report, show)
        show(0.9, "writing")
        text = page(report, options)
        _write(options.output, text)
        if options.png:
            for drawn in (drawn for section in report.sections for drawn in section.figures):
                drawn.png(os.path.join(options.png, f"{drawn.name}.png"))
    count = sum(len(section.figures) for section in report.sections)
    print(
        f"{options.output}: {count} figures of {len(frame)} rows from {len(names)} file{'s' if len(names) > 1 else ''}"
    )
    return 0


def _writable(options: argparse.Namespace) -> None:
    """Known before the files are read. RefusedError: it cannot be written, or something is missing."""
    for module in ("jinja2", "matplotlib"):
        if find_spec(module) is None:
            raise RefusedError("report", None, f"needs {module}: pip install -e '.[analysis]'")
    if Path(options.output).suffix not in (".html", ".htm"):
        raise RefusedError(options.output, None, "name a file that ends in .html")
    if not Path(options.output).absolute().parent.is_dir():
        raise RefusedError(options.output, None, "no such directory")
    if options.collective and options.collective not in COLLECTIVES:
        raise RefusedError("--collective", None, f"{options.collective}: one of {', '.join(COLLECTIVES)}")
    if options.launches is not None and options.launches < 1:
        raise RefusedError("--launches", None, f"{options.launches}: at least 1")
    if options.png:
        try:
            Path(options.png).mkdir(exist_ok=True)
        except OSError as error:
            raise RefusedError(options.png, None, error.strerror or str(error)) from None


def _write(path: str, text: str) -> None:
    """All of it or nothing: a page that is there stays until the new one is whole."""
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=Path(path).absolute().parent, delete=False) as file:
            file.write(text)
        os.chmod(file.name, 0o644)
        os.replace(file.name, path)
    except OSError as error:
        raise RefusedError(path, None, error.strerror or str(error)) from None


def _model(frame: pd.DataFrame, calibrations: pd.DataFrame, progress: Progress) -> tuple[Curves | None, str]:
    try:
        return curves(frame, calibrations, progress), ""
    except ValueError as error:
        return None, str(error)


def _draw(report: Report, show: Progress) -> None:
    """Fill the sections."""
    look = Look()
    for by_size in report.cases.values():
        for series in by_size.values():
            look.learn(shown(series, lines.MOST))
    everything = [(case, size) for case, by_size in report.cases.items() for size in by_size]
    for done, (case, by_size) in enumerate(report.cases.items()):
        show(0.5 + 0.4 * done / max(1, len(everything)), f"{case}"[:12])
        _one_case(report, case, by_size, look)
    if report.model is not None:
        text = "Jointly from all plans of ours in these runs, and how far cells are off it."
        own = report.model.fit.model is not None
        off = [maps.residuals(report.model.residuals)] if own else []
        text = text if own else "None of plans of ours: a library's calls are fitted to the textbook's forms."
        report.sections.append(Section("The model", text, off))


def _one_case(report: Report, case: Case, by_size: Mapping[int, Series], look: Look) -> None:
    measured = [size for size in by_size if size > 1]
    if any(len(compared(series)) > 1 for series in by_size.values()):
        overview = [maps.wins(case, by_size, look)]
        overview += [one for one in [_traffic(report, case, by_size)] if one]
        report.sections.append(Section(f"Which algorithm: {case}", _told(by_size), overview))
    for size in sorted(by_size, reverse=True):
        series = by_size[size]
        place = report.places[case, size]
        grid, predicted = _predicted(report.model, case, size, series, place)
        figures: list[Drawn | None] = [
            lines.time(case, size, series, look, predicted, grid, place.timed),
            lines.bandwidth(case, size, series, look, predicted, grid),
            lines.speedup(case, size, series, look),
        ]
        title = f"{case} on {size} ranks" if size else f"{case} (ranks unknown)"
        text = "" if figures[2] else "No speed-up: it needs plans of ours beside the library's call in one run."
        kept = [one for one in figures if one]
        report.sections.append(Section(title, text, kept, folded=None if size == max(by_size) else len(by_size) > OPEN))
    if measured and (report.model is not None or len(measured) > 1):
        at = [set(sizes(by_size[size].values())) for size in measured]
        often = Counter(nbytes for some in at for nbytes in some)
        all_sizes = sorted(nbytes for nbytes, times in often.items() if times == max(often.values()))
        chosen = dict.fromkeys((all_sizes[0], all_sizes[len(all_sizes) // 2], all_sizes[-1]))
        drawn = [lines.scaling(case, by_size, n, look, report.model, report.places) for n in chosen]
        text = (
            "The forecast supposes that more nodes are like those measured." if report.model is not None
            else f"No forecast: {report.why_no_model}."
        )  # fmt: skip
        # One number of ranks and no curve is no scaling.
        telling = [one for one in drawn if len({row[1] for row in one.rows}) > 1]
        if telling:
            report.sections.append(Section(f"Scaling: {case}", text, telling))


def _predicted(
    model: Curves | None, case: Case, size: int, series: Series, place: Place
) -> tuple[list[float], dict[str, Curve]]:
    """The model's curves of what a figure shows of ours, and the bytes that they are at."""
    known = sizes(series.values())
    grid = np.geomspace(known[0], known[-1], GRID).tolist() if len(known) > 1 else [float(known[0])]
    found: dict[str, Curve] = {}
    for name in shown(series, lines.MOST) if model is not None and size > 1 and not place.odd else ():
        try:
            found[name] = model.curve(case.collective, key(name), size, place.nodes, grid)  # type: ignore[union-attr]
        except ValueError:  # a name of an older version
            continue
    return grid, found


def _traffic(report: Report, case: Case, by_size: Mapping[int, Series]) -> Drawn | None:
    """Of our fastest plan at the largest size, on the most ranks that a matrix can show."""
    for size in sorted((size for size in by_size if 1 < size <= maps.MATRIX_UP_TO), reverse=True):
        for nbytes in reversed(sizes(by_size[size].values())):
            ours = [(p.time_us, n) for n, ps in by_size[size].items() if is_ours(n) for p in ps if p.nbytes == nbytes]
            if ours:
                return maps.traffic(case, size, report.places[case, size].nodes, key(min(ours)[1]), nbytes)
    return None


def _told(by_size: Mapping[int, Series]) -> str:
    """Who wins in a sentence a number of ranks."""
    said = []
    for size, series in by_size.items():
        row = winners(series)
        best = {point.nbytes: point.time_us for point in series.get(MPI, ())}
        gains = [
            best[nbytes] / min(p.time_us for n, ps in series.items() if is_ours(n) for p in ps if p.nbytes == nbytes)
            for nbytes in row
            if nbytes in best and any(is_ours(n) and any(p.nbytes == nbytes for p in ps) for n, ps in series.items())
        ]
        ranks = f"On {size} ranks" if size else "On an unknown number of ranks"
        sure = sum(winner.sure for winner in row.values())
        text = f"{ranks} the fastest is told apart at {sure} of {len(row)} sizes"
        if gains:
            mean = float(np.exp(np.mean(np.log(gains))))
            text += f"; ours against the MPI call: {min(gains):.2f}x to {max(gains):.2f}x, geometric mean {mean:.2f}x"
        said.append(text + ".")
    return " ".join(said)
