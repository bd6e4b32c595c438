"""One look for all figures: colours, markers, sizes; and a figure as SVG with points that can be read out."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from mpicoll.picture import figure

from .data import BEST, MPI

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours without the yellow, which white paper swallows; markers and dashes tell the rest.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
MARKERS = "osD^v<>Pp*hX"
DASHES: tuple[Any, ...] = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)))
WIDTH, HEIGHT = 4.4, 3.7  # inches: as wide as a phone shows it with readable letters
RC: Any = {
    "svg.fonttype": "none",
    "font.size": 9.5,
    "legend.fontsize": 8.5,
    "hatch.linewidth": 0.6,
}
LONG = 24  # letters of a label that fit half a figure
UNITS = ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))


class Mark(NamedTuple):
    """What can be pointed at: a place in data coordinates, half its extent there (0: a point), and what it says."""

    axes: Axes
    x: float
    y: float
    series: int
    text: str
    half: tuple[float, float] = (0.0, 0.0)


@dataclass
class Drawn:
    """A figure with its words and its numbers. ``name`` is that of the PNG."""

    name: str
    title: str
    caption: str
    figure: Figure
    columns: tuple[str, ...] = ()
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def svg(self) -> str:
        """The figure to be put into a page: letters as text, ids of its own, marks on top."""
        import matplotlib as mpl

        with mpl.rc_context({**RC, "svg.hashsalt": self.name}):
            self.figure.set_dpi(72)
            self.figure.draw_without_rendering()
            self.figure.set_layout_engine("none")  # it is laid out: not a second time
            places = [_place(mark, self.figure) for mark in self.marks]
            out = io.StringIO()
            self.figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        text = out.getvalue()
        text = text[text.index("<svg") :]
        text = _own_ids(text, self.name)
        text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
        text = text.replace("<svg ", '<svg role="img" aria-label="' + escape(self.title, quote=True) + '" ', 1)
        return text.replace("</svg>", "\n".join(places) + "\n</svg>")

    def png(self, path: str) -> None:
        """For papers."""
        import matplotlib as mpl

        with mpl.rc_context(RC):
            self.figure.savefig(path, dpi=250)


def _place(mark: Mark, drawn: Figure) -> str:
    high = drawn.bbox.height
    to = mark.axes.transData.transform
    (x, y), (a, b), (c, d) = to(
        [
            (mark.x, mark.y),
            (mark.x - mark.half[0], mark.y - mark.half[1]),
            (mark.x + mark.half[0], mark.y + mark.half[1]),
        ]
    )
    said = f'class="pt" data-s="{mark.series}" data-x="{x:.1f}" data-y="{high - y:.1f}"'
    title = f"<title>{escape(mark.text)}</title>"
    if mark.half == (0.0, 0.0):
        return f'<circle {said} cx="{x:.1f}" cy="{high - y:.1f}" r="6">{title}</circle>'
    left, top = min(a, c), high - max(b, d)
    return (
        f'<rect {said} x="{left:.1f}" y="{top:.1f}" width="{abs(c - a):.1f}" height="{abs(d - b):.1f}">{title}</rect>'
    )


def _own_ids(text: str, name: str) -> str:
    """Many figures share a page: ids that are referred to get the figure's name, the others go."""
    used = set(re.findall(r'(?:href="|url\()#([\w.-]+)[")]', text))

    def replaced(found: re.Match[str]) -> str:
        return f'id="{name}-{found[1]}"' if found[1] in used else ""

    text = re.sub(r'(?<=\s)id="([^"]+)"', replaced, text)
    for one in used:
        text = re.sub(rf'((?:href="|url\()#){re.escape(one)}(?=[")])', rf"\g<1>{name}-{one}", text)
    return text


class Look:
    """The same series looks the same in all figures of a page."""

    def __init__(self) -> None:
        self._order: dict[str, int] = {}

    def learn(self, names: Iterable[str]) -> None:
        """Names in the order in which they get colours."""
        for name in names:
            if name not in (MPI, BEST):
                self._order.setdefault(name, len(self._order))

    def style(self, name: str) -> dict[str, Any]:
        """Keywords for a line."""
        if name == MPI:
            return {"color": "black", "marker": "x", "linestyle": "-"}
        if name == BEST:
            return {"color": "black", "marker": "+", "linestyle": ":"}
        i = self.index(name)
        return {
            "color": COLOURS[i % len(COLOURS)],
            "marker": MARKERS[i % len(MARKERS)],
            "linestyle": DASHES[i // len(COLOURS) % len(DASHES)],
        }

    def index(self, name: str) -> int:
        """The place of a name."""
        self.learn([name])
        return self._order.get(name, -1)


def sheet(height: float = HEIGHT) -> Figure:
    """An empty figure of the page's width. ValueError says what to install."""
    import matplotlib as mpl

    with mpl.rc_context(RC):
        return figure(WIDTH, height)


def human(nbytes: float) -> str:
    """8, 64K, 1M."""
    for unit, letter in UNITS:
        if nbytes >= unit:
            return f"{nbytes / unit:.4g}{letter}"
    return f"{nbytes:.4g}"


def microseconds(time_us: float) -> str:
    """With the unit that suits."""
    for least, unit in ((1e6, "s"), (1e3, "ms")):
        if time_us >= least:
            return f"{time_us / least:.3g} {unit}"
    return f"{time_us:.3g} µs"


def bytes_axis(axes: Axes, sizes: Iterable[int]) -> None:
    """Logarithmic, with a few sizes as their names."""
    known = sorted({size for size in sizes if size > 0})
    axes.set_xscale("log", base=2)
    ticks = known[:: max(1, -(-len(known) // 7))]
    axes.set_xticks(ticks, [human(size) for size in ticks])
    axes.minorticks_off()
    axes.set_xlabel("bytes of the vector")


def legend(drawn: Figure, axes: Axes) -> None:
    """Below, where it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        drawn.legend(handles, labels, loc="outside lower center", ncols=columns(labels), frameon=False, handlelength=3)


def columns(labels: Iterable[str]) -> int:
    """Of a legend with such labels: two where they fit."""
    return 1 if max(map(len, labels)) > LONG else 2
