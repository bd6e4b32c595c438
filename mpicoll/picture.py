"""Pictures of a schedule for papers and screens: the rounds, and who sends how much to whom. Needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .schedule import REDUCING, Report, Schedule
from .schedule.draw import contents, matched, matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE, GAP, ACROSS = 2.0, 1.5, 7  # of a state and of the arrows behind it, and states side by side
COPY, REDUCE = "#0072B2", "#D55E00"  # blue and vermilion, which nearly everyone can tell apart
NUMBERED = 16  # ranks and chunks up to which cells have their numbers written in


def figure(width: float, height: float) -> Figure:
    """An empty figure in inches. ValueError says what to install."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError("pictures need matplotlib: pip install 'mpicoll[plot]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def rounds(schedule: Schedule, report: Report, summary: str) -> Figure:
    """Each rank's chunks at the start and after each round, and between them the messages."""
    states, programs = contents(schedule), list(zip(*schedule.programs()))
    across = min(ACROSS, len(states))
    rows = -(-len(states) // ACROSS)
    high = schedule.size + 1.6
    drawn = figure(max(6.0, across * 2.1), max(2.0, rows * high * 0.3 + 0.9))
    axes = drawn.add_subplot()
    for k, state in enumerate(states):
        x, y = (k % ACROSS) * (WIDE + GAP), (k // ACROSS) * high
        _state(axes, schedule, state, x, y, "start" if k == 0 else f"after round {k}")
        if k < len(programs):
            _messages(axes, programs[k], x + WIDE, y)
    axes.plot([], [], color=COPY, label="copied")
    if any(recv.reduce for step in programs for one in step for recv in one.recvs):
        axes.plot([], [], color=REDUCE, label="reduced")
    axes.legend(loc="upper left", bbox_to_anchor=(0, 0), ncols=2, frameon=False, fontsize=8)
    axes.set(xlim=(-0.9, across * (WIDE + GAP) + 0.1), ylim=(rows * high - 0.5, -1.4))
    axes.axis("off")
    axes.set_title(f"{summary}\n{report}", fontsize=9, loc="left")
    return drawn


def traffic(schedule: Schedule, report: Report, summary: str) -> Figure:
    """Vectors sent from each rank (row) to each rank (column)."""
    table = [[float(cell) for cell in row] for row in matrix(schedule)]
    side = max(3.5, min(12.0, schedule.size * 0.45))
    drawn = figure(side + 1.5, side + 0.7)
    axes = drawn.add_subplot()
    image = axes.imshow(table, cmap="Blues", vmin=0)
    drawn.colorbar(image, label="vectors", shrink=0.8)
    axes.set(xlabel="to rank", ylabel="from rank")
    if schedule.size <= NUMBERED:
        axes.set(xticks=range(schedule.size), yticks=range(schedule.size))
        most = max(map(max, table))
        for i, row in enumerate(table):
            for j, value in enumerate(row):
                if value:
                    colour = "white" if value > most / 2 else "black"
                    axes.text(j, i, f"{value:.3g}", ha="center", va="center", fontsize=8, color=colour)
    axes.set_title(f"{summary}\n{report}", fontsize=9, loc="left", wrap=True)
    return drawn


def _state(axes: Axes, schedule: Schedule, state: list, x: float, y: float, title: str) -> None:
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    shades, wide = colormaps["cividis_r"], WIDE / (schedule.chunks + schedule.slots)
    reducing = schedule.collective in REDUCING
    numbered = max(schedule.size, schedule.chunks) <= NUMBERED
    axes.text(x, y - 0.75, title, fontsize=8)
    for rank, row in enumerate(state):
        if x == 0:
            axes.text(x - 0.15, y + rank, f"rank {rank}", ha="right", va="center", fontsize=7)
        for c, held in enumerate(row):
            share = 0.0 if held is None else len(held) / schedule.size if reducing else 1.0
            colour = shades(share) if share else "white"
            axes.add_patch(Rectangle((x + c * wide, y + rank - 0.4), wide, 0.8, fc=colour, ec="grey", lw=0.4))
            if numbered and held is not None:
                dark = "white" if share > 0.55 else "black"
                text = str(len(held) if reducing else min(held))
                axes.text(x + (c + 0.5) * wide, y + rank, text, ha="center", va="center", fontsize=6, color=dark)


def _messages(axes: Axes, step: tuple, x: float, y: float) -> None:
    for rank, send, recv in matched(step):
        style = {"arrowstyle": "->", "color": REDUCE if recv.reduce else COPY, "lw": 0.8, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", xy=(x + GAP - 0.12, y + send.peer), xytext=(x + 0.12, y + rank), arrowprops=style)
