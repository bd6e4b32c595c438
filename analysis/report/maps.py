"""Maps: which algorithm wins where, where the model is off, and who sends how much to whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from mpicoll.schedule import Nodes, find
from mpicoll.schedule.draw import matrix

from ..cells import octave
from .data import MPI, Case, Series, winners
from .lines import _slug
from .style import Drawn, Look, Mark, columns, human, sheet

UNMEASURED = "#dddddd"
WINNERS = ("ranks", "bytes", "fastest", "second", "second / fastest", "told apart")
MATRIX_UP_TO = 64  # ranks
NUMBERED = 10  # ranks up to which cells of the matrix have their numbers


def wins(case: Case, by_size: Mapping[int, Series], look: Look) -> Drawn:
    """Size x ranks, coloured by the fastest, hatched where the second cannot be told from it."""
    from matplotlib.patches import Patch, Rectangle

    found = {size: winners(series) for size, series in by_size.items()}
    sizes = sorted({nbytes for row in found.values() for nbytes in row})
    names = list(dict.fromkeys(w.name for row in found.values() for w in row.values()))
    short = abbreviations(names)
    labels = [f"{short[name]}  {name}" for name in names] + ["cannot be told"]
    drawn = sheet(1.5 + 0.32 * len(found) + 0.18 * -(-len(labels) // columns(labels)))
    axes = drawn.add_subplot()
    axes.set_facecolor(UNMEASURED)
    marks, rows = [], []
    for y, (size, row) in enumerate(found.items()):
        for nbytes, winner in row.items():
            x = sizes.index(nbytes)
            colour = "white" if winner.name == MPI else look.style(winner.name)["color"]
            hatch = None if winner.sure else "////"
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fc=colour, ec="black", lw=0.4, hatch=hatch))
            box = {"fc": "white", "ec": "none", "pad": 0.8, "alpha": 0.9}
            if len(sizes) <= 24:
                axes.text(x, y, short[winner.name], ha="center", va="center", fontsize=6.5, bbox=box)
            said = f"{_ranks(size)}, {human(nbytes)}: {winner.name}"
            said += f", {winner.ratio:.2f}x before {winner.second}" if winner.second else ""
            said += "" if winner.sure else ", cannot be told from the second"
            marks.append(Mark(axes, x, y, y, said, (0.5, 0.5)))
            sure = "yes" if winner.sure else "no"
            rows.append((size or "unknown", nbytes, winner.name, winner.second or "", f"{winner.ratio:.3f}", sure))
    every = max(1, -(-len(sizes) // 8))
    axes.set_xticks(range(0, len(sizes), every), [human(nbytes) for nbytes in sizes[::every]])
    axes.set_yticks(range(len(found)), [str(size or "?") for size in found])
    axes.set(xlim=(-0.5, len(sizes) - 0.5), ylim=(-0.5, len(found) - 0.5), xlabel="bytes of the vector", ylabel="ranks")
    handles = [
        Patch(fc="white" if n == MPI else look.style(n)["color"], ec="black", label=f"{short[n]}  {n}") for n in names
    ]
    handles.append(Patch(fc="white", ec="black", hatch="////", label="cannot be told"))
    drawn.legend(handles=handles, loc="outside lower center", ncols=columns(labels), frameon=False)
    said = (
        "The fastest of our plans and the library's call. Hatched: another cannot be told from it; grey: not measured."
    )
    return Drawn(f"winners-{_slug(case)}", f"Which wins where, {case}", said, drawn, WINNERS, rows, marks)


def residuals(table: pd.DataFrame) -> Drawn:
    """Algorithm x octave: the signed median of measured / model - 1, over all numbers of ranks."""
    frame = table[table["collective"] != "calibration"]
    cells = frame.groupby(["algorithm", octave(frame["nbytes"])])["residual"].median()
    names = sorted({str(name) for name, _ in cells.index})
    octaves = sorted({int(o) for _, o in cells.index})
    image = np.full((len(names), len(octaves)), np.nan)
    for (name, o), value in cells.items():
        image[names.index(str(name)), octaves.index(int(o))] = value
    drawn = sheet(1.7 + 0.2 * len(names))
    axes = drawn.add_subplot()
    shown = axes.imshow(image, cmap="PuOr", vmin=-1, vmax=1, aspect="auto")
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_facecolor(UNMEASURED)
    every = max(1, -(-len(octaves) // 7))
    axes.set_xticks(range(0, len(octaves), every), [human(2.0**o) for o in octaves[::every]])
    axes.set_xlabel("bytes of the vector")
    bar = drawn.colorbar(shown, location="bottom", shrink=0.9, aspect=30, extend="max")
    bar.set_label("measured / model - 1")
    marks, rows = [], []
    for y, name in enumerate(names):
        for x, o in enumerate(octaves):
            if np.isfinite(image[y, x]):
                said = f"{name}, {human(2.0**o)}: {image[y, x]:+.0%} of the model"
                marks.append(Mark(axes, x, y, y, said, (0.5, 0.5)))
                rows.append((name, human(2.0**o), f"{image[y, x]:+.3f}"))
    said = "Signed medians over the ranks. Violet: slower than the model; white: as it says; grey: not measured."
    return Drawn("residuals", "Residuals of the model", said, drawn, ("algorithm", "bytes", "residual"), rows, marks)


def traffic(case: Case, size: int, nodes: Nodes | None, algorithm: str, nbytes: int) -> Drawn | None:
    """Vectors that each rank sends to each; None where there is no such schedule."""
    if not 1 < size <= MATRIX_UP_TO:
        return None
    try:
        table = np.array(matrix(find(case.collective, algorithm).schedule(size, nodes=nodes)), float)
    except ValueError:
        return None
    drawn = sheet(3.7)
    axes = drawn.add_subplot()
    image = axes.imshow(table, cmap="Blues", vmin=0)
    drawn.colorbar(image, label="vectors", shrink=0.75)
    ticks = range(0, size, max(1, size // 8))
    axes.set_xticks(ticks)
    axes.set_yticks(ticks)
    axes.set(xlabel="to rank", ylabel="from rank")
    marks, rows = [], []
    for i, j in zip(*np.nonzero(table)):
        sent = table[i, j]
        if size <= NUMBERED:
            colour = "white" if sent > table.max() / 2 else "black"
            axes.text(j, i, f"{sent:.3g}", ha="center", va="center", fontsize=7, color=colour)
        marks.append(Mark(axes, j, i, int(i), f"rank {i} to rank {j}: {sent:.3g} vectors", (0.5, 0.5)))
        rows.append((int(i), int(j), f"{sent:.4g}"))
    said = f"{algorithm} is the fastest of ours at {human(nbytes)} on {size} ranks. "
    said += f"In vectors: 1 is all {human(nbytes)} bytes once."
    title = f"Who sends to whom, {algorithm} on {size} ranks"
    return Drawn(f"traffic-{_slug(case)}-p{size}", title, said, drawn, ("from", "to", "vectors"), rows, marks)


def abbreviations(names: Sequence[str]) -> dict[str, str]:
    """Short and all different: the initials of several words, the first letters of one, with a number if need be."""
    found: dict[str, str] = {}
    for name in names:
        words = [word for word in name.replace(":", "_").replace("+", "_").replace(" ", "_").split("_") if word]
        text = "".join(word[0] for word in words[:3]).upper() if len(words) > 1 else name[:2].capitalize()
        tries = [text, *(f"{text}{i}" for i in range(2, len(names) + 2))]
        found[name] = next(one for one in tries if one not in found.values())
    return found


def _ranks(size: int) -> str:
    return f"{size} ranks" if size else "ranks unknown"
