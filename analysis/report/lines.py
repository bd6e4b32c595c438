"""Time, bus bandwidth and speed-up against size, and time against the number of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..curves import Curve, Curves
from .data import MPI, Case, Place, Point, Series, compared, factor, is_ours, key, shown, sizes, speedups, winners
from .style import Drawn, Look, Mark, bytes_axis, human, legend, microseconds, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mpicoll.schedule import Nodes

MOST = 8  # series in one figure
FORECAST_TO = 1024  # ranks
Predict = Mapping[str, Curve]


def time(
    case: Case, size: int, series: Series, look: Look, predicted: Predict, grid: Sequence[float], timed: str
) -> Drawn:
    """Measured points (``timed``: what they are), the model's curve of ours, its band for those that win somewhere."""
    kept = shown(series, MOST)
    drawn = sheet()
    axes = drawn.add_subplot()
    marks = []
    wins = {winner.name for winner in winners(series).values()}
    for i, (name, points) in enumerate(kept.items()):
        style = look.style(name)
        curve = predicted.get(name)
        line = "none" if curve else style["linestyle"]
        _points(axes, points, {**style, "linestyle": line}, name if not curve else None)
        if curve:
            axes.plot(grid, curve.time_us, color=style["color"], lw=1.1, linestyle=style["linestyle"])
            if name in wins:
                axes.fill_between(grid, curve.low_us, curve.high_us, color=style["color"], alpha=0.12, lw=0)
            axes.plot([], [], **style, ms=4, lw=1.1, label=name)
        marks += [
            Mark(axes, p.nbytes, p.time_us, i, f"{name}, {human(p.nbytes)}: {microseconds(p.time_us)}{_span(p)}")
            for p in points
        ]
    _time_axis(axes)
    bytes_axis(axes, sizes(kept.values()))
    axes.grid(alpha=0.3)
    legend(drawn, axes)
    said = f"Points: median over launches of {timed}"
    known = any(p.high_us for points in kept.values() for p in points)
    said += ", with its 95 % interval (of launches: their range)." if known else "."
    if predicted:
        said += " Lines: the model, shaded for those that win somewhere."
    rows = [(name, p.nbytes, f"{p.time_us:.4g}", *_ends(p)) for name, points in series.items() for p in points]
    columns = ("series", "bytes", "time, µs", "from", "to")
    return Drawn(f"time-{_slug(case)}-p{size}", f"Time, {_on(case, size)}", said, drawn, columns, rows, marks)


def bandwidth(case: Case, size: int, series: Series, look: Look, predicted: Predict, grid: Sequence[float]) -> Drawn:
    """Bytes / time, times the factor of the collective: how near the wire is."""
    kept, by = shown(series, MOST), factor(case.collective, size)
    drawn = sheet()
    axes = drawn.add_subplot()
    marks, rows = [], []
    for i, (name, points) in enumerate(kept.items()):
        style = look.style(name)
        curve = predicted.get(name)
        rates = [Point(p.nbytes, by * p.nbytes / p.time_us / 1e3) for p in points]
        line = "none" if curve else style["linestyle"]
        _points(axes, rates, {**style, "linestyle": line}, None if curve else name)
        if curve:
            axes.plot(
                grid, by * np.asarray(grid) / curve.time_us / 1e3, color=style["color"], lw=1.1, ls=style["linestyle"]
            )
            axes.plot([], [], **style, ms=4, lw=1.1, label=name)
        marks += [Mark(axes, p.nbytes, p.time_us, i, f"{name}, {human(p.nbytes)}: {p.time_us:.3g} GB/s") for p in rates]
        rows += [(name, p.nbytes, f"{p.time_us:.4g}") for p in rates]
    bytes_axis(axes, sizes(kept.values()))
    axes.set_ylim(bottom=0)
    what = "bus bandwidth" if size else "bandwidth (ranks unknown)"
    axes.set_ylabel(f"{what}, GB/s")
    axes.grid(alpha=0.3)
    legend(drawn, axes)
    said = f"Bytes / time{f' x {by:.3g}, as nccl-tests has it' if size else ''}; 1 GB = 10⁹ bytes."
    title = f"{what[0].upper()}{what[1:]}, {_on(case, size)}"
    return Drawn(f"busbw-{_slug(case)}-p{size}", title, said, drawn, ("series", "bytes", "GB/s"), rows, marks)


def speedup(case: Case, size: int, series: Series, look: Look) -> Drawn | None:
    """Against the library's call; None without one, or with nothing beside it."""
    ratios = speedups(series)
    kept = {name: ratios[name] for name in shown(series, MOST) if name in ratios}
    if not kept:
        return None
    drawn = sheet()
    axes = drawn.add_subplot()
    marks = []
    for i, (name, points) in enumerate(kept.items()):
        _points(axes, points, look.style(name), name)
        marks += [
            Mark(axes, p.nbytes, p.time_us, i, f"{name}, {human(p.nbytes)}: {p.time_us:.2f}x{_ratio(p)}")
            for p in points
        ]
    axes.axhline(1, color="black", lw=1)
    bytes_axis(axes, sizes(kept.values()))
    axes.set_yscale("log", base=2)
    low, high = axes.get_ylim()
    step = max(1, round(np.log2(high / low) / 8))  # powers of two, all or some; where there is room those between
    between = (3 / 4, 1.5, 3) if high < 16 * low else ()
    ticks = sorted(t for t in (*(2.0 ** (i * step) for i in range(-9, 10)), *between) if low <= t <= high)
    axes.set_yticks(ticks, [f"{t:.3g}x" for t in ticks])
    axes.set_ylabel("speed-up over the MPI call")
    axes.grid(alpha=0.3)
    legend(drawn, axes)
    rows = [(name, p.nbytes, f"{p.time_us:.3f}", *_ends(p)) for name, points in ratios.items() for p in points]
    said = f"Above the line: faster than the library's own {case.collective}. Of launches: each against its own."
    columns = ("series", "bytes", "speed-up", "from", "to")
    return Drawn(f"speedup-{_slug(case)}-p{size}", f"Speed-up, {_on(case, size)}", said, drawn, columns, rows, marks)


def scaling(
    case: Case,
    by_size: Mapping[int, Series],
    nbytes: int,
    look: Look,
    model: Curves | None,
    places: Mapping[tuple[Case, int], Place],
) -> Drawn:
    """Time against ranks at one size, with the forecast to FORECAST_TO: measured ranks where they are."""
    names = list(dict.fromkeys(n for series in by_size.values() for n in _best(series, nbytes)))[:5]
    drawn = sheet()
    axes = drawn.add_subplot()
    marks, rows = [], []
    ranks = [p for p in by_size if p > 1]
    grid = sorted({*ranks, *(1 << i for i in range(1, 11) if min(ranks) < 1 << i <= FORECAST_TO)})
    where = {p: places[case, p].nodes for p in ranks}
    for i, name in enumerate(names):
        style = look.style(name)
        points = [(p, q) for p in ranks for q in by_size[p].get(name, ()) if q.nbytes == nbytes]
        # How a library's call grows with the ranks is not known from one number of them.
        fitted = sum(not places[case, p].odd for p, _ in points)
        known = model if is_ours(name) or fitted > 1 else None
        curve = _curve(known, case, name, grid, nbytes, where) if known else {}
        line = "none" if curve else style["linestyle"]
        axes.plot([p for p, _ in points], [q.time_us for _, q in points], **{**style, "linestyle": line}, ms=4, lw=1.1)
        axes.plot([], [], **style, ms=4, lw=1.1, label=name)
        for far in (False, True):
            # The first extrapolated point goes on from the last that is not.
            part = [p for p in curve if curve[p][3] == far or (far and p == max(q for q in curve if not curve[q][3]))]
            if not any(curve[p][3] == far for p in part):
                continue
            values = [curve[p] for p in part]
            axes.plot(part, [v[0] for v in values], color=style["color"], lw=1.1, ls=":" if far else style["linestyle"])
            if i < 2:
                low, high = [v[1] for v in values], [v[2] for v in values]
                axes.fill_between(part, low, high, color=style["color"], alpha=0.12, lw=0)
        marks += [
            Mark(axes, p, q.time_us, i, f"{name}, {p} ranks: {microseconds(q.time_us)}, measured") for p, q in points
        ]
        marks += [
            Mark(axes, p, v[0], i, f"{name}, {p} ranks: {microseconds(v[0])}, {'extrapolated' if v[3] else 'model'}")
            for p, v in curve.items()
            if p not in dict(points)
        ]
        rows += [(name, p, f"{q.time_us:.4g}", "measured") for p, q in points]
        rows += [(name, p, f"{v[0]:.4g}", "extrapolated" if v[3] else "model") for p, v in curve.items()]
    edge = 2 * max(ranks)
    axes.set_xscale("log", base=2)
    _time_axis(axes)
    if model and edge < FORECAST_TO:
        axes.axvspan(edge, FORECAST_TO, color="black", alpha=0.06, lw=0)
        axes.text(0.98, 0.02, "extrapolated", ha="right", va="bottom", fontsize=8, transform=axes.transAxes)
    ticks = grid[:: max(1, -(-len(grid) // 7))]
    axes.set_xticks(ticks, [str(p) for p in ticks])
    axes.minorticks_off()
    axes.set_xlabel("ranks")
    axes.grid(alpha=0.3)
    legend(drawn, axes)
    said = "Points: measured. Lines: the model with as many ranks a node as these runs had"
    said += f", dotted and shaded past twice the {max(ranks)} ranks that were measured." if model else " (none here)."
    title = f"Scaling at {human(nbytes)} bytes, {case}"
    columns = ("series", "ranks", "time, µs", "")
    return Drawn(f"scaling-{_slug(case)}-{human(nbytes)}", title, said, drawn, columns, rows, marks)


def _best(series: Series, nbytes: int) -> list[str]:
    """The library's call and the three fastest of ours at a size."""
    cells = {name: p.time_us for name, points in compared(series).items() for p in points if p.nbytes == nbytes}
    names = sorted((name for name in cells if name != MPI), key=lambda name: cells[name])[:3]
    return [*([MPI] if MPI in cells else []), *names]


def _curve(
    model: Curves, case: Case, name: str, grid: Sequence[int], nbytes: int, where: Mapping[int, Nodes | None]
) -> dict[int, tuple[float, float, float, bool]]:
    found = {}
    for p in grid:
        try:
            one = model.curve(case.collective, key(name), p, where.get(p), [nbytes])
        except ValueError:  # not on so many ranks
            continue
        found[p] = float(one.time_us[0]), float(one.low_us[0]), float(one.high_us[0]), bool(one.extrapolated[0])
    return found


def _time_axis(axes: Axes) -> None:
    """Logarithmic, with the units that suit."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high < 2 * low:
        low, high = axes.set_ylim(low / 1.5, high * 1.5)
    if high < 100 * low:  # powers of ten alone would leave the axis without a figure
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda time_us, _: microseconds(time_us)))
    axes.set_ylabel("time")


def _points(axes: Axes, points: Sequence[Point], style: dict[str, Any], label: str | None) -> None:
    at, values = [p.nbytes for p in points], [p.time_us for p in points]
    bars = [[p.time_us - p.low_us if p.high_us else 0 for p in points], [max(0, p.high_us - p.time_us) for p in points]]
    axes.errorbar(at, values, yerr=np.clip(bars, 0, None), elinewidth=0.6, ms=4, lw=1.1, label=label, **style)


def _ends(p: Point) -> tuple[str, str]:
    return (f"{p.low_us:.4g}", f"{p.high_us:.4g}") if p.high_us else ("", "")


def _span(p: Point) -> str:
    return f" ({microseconds(p.low_us)} to {microseconds(p.high_us)})" if p.high_us else ""


def _ratio(p: Point) -> str:
    return f" ({p.low_us:.2f} to {p.high_us:.2f})" if p.high_us else ""


def _slug(case: Case) -> str:
    return "-".join(str(case).replace("_", "-").split())


def _on(case: Case, size: int) -> str:
    return f"{case} on {size} ranks" if size else str(case)
