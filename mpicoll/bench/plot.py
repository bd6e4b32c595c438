"""``--plot FILE``: time against size, and the speed-up over MPI's call. Needs matplotlib."""

from __future__ import annotations

import os
from typing import Any

from mpicoll.picture import figure

from .table import human

# Okabe and Ito's colours, which nearly everyone can tell apart; markers tell the rest.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
MARKERS = "osD^v<>Pp*hX"
BASE = "MPI"
Series = dict[str, list[tuple[int, float, float, float]]]  # name -> (bytes, median, low, high)


def may_draw(path: str) -> None:
    """Whether a picture can be drawn into a file, before a long run. ValueError: no; OSError: not there."""
    figure(1, 1)
    folder = os.path.dirname(path) or "."
    if not os.access(folder, os.W_OK):
        raise OSError(f"--plot {path}: {folder} cannot be written")


def draw(path: str, series: Series, title: str) -> None:
    """Draw a run into a file. OSError, ValueError (no matplotlib, or a kind of file that it does not know)."""
    drawn = figure(8.0, 8.0)
    above, below = drawn.subplots(2, 1, sharex=True)
    base = {nbytes: median for nbytes, median, _, _ in series.get(BASE, [])}
    for i, (name, points) in enumerate(series.items()):
        points = [point for point in points if point[0] > 0]
        if not points:
            continue
        sizes, medians, lows, highs = zip(*points)
        style: dict[str, Any] = {"color": "black", "lw": 2} if name == BASE else {"color": COLOURS[i % len(COLOURS)]}
        style |= {"marker": MARKERS[i % len(MARKERS)], "ms": 4, "label": name}
        above.plot(sizes, medians, **style)
        above.fill_between(sizes, lows, highs, color=style["color"], alpha=0.15, lw=0)
        ratios = [(nbytes, base[nbytes] / median) for nbytes, median in zip(sizes, medians) if nbytes in base]
        if ratios and name != BASE:
            below.plot(*zip(*ratios), **style)
    above.set(yscale="log", ylabel="time, us (median, 95 % interval)")
    above.set_title(title, fontsize=9)
    below.axhline(1, color="black", lw=1)
    below.set(xscale="log", xlabel="bytes of the vector", ylabel="speed-up over MPI's call")
    below.set_xscale("log", base=2)
    ticks = sorted({nbytes for points in series.values() for nbytes, *_ in points if nbytes > 0})
    ticks = ticks[:: max(1, len(ticks) // 10)]
    below.set_xticks(ticks, [human(nbytes) for nbytes in ticks])
    for axes in (above, below):
        axes.grid(alpha=0.3)
    above.legend(fontsize=7, ncols=3)
    drawn.savefig(path, dpi=150)
