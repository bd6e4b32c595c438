"""The options of ``report``; light, since every command line imports it."""

from __future__ import annotations

from collections.abc import Callable


def add(put: Callable[..., object]) -> None:
    """The options of the command."""
    put(
        "-o",
        "--output",
        default="report.html",
        metavar="FILE",
        help="the page (default report.html; replaced if there)",
    )
    put("--png", metavar="DIR", help="the same figures as PNG files in this directory")
    put("--launches", type=int, metavar="N", help="whole launches that were asked for at each number of ranks")
    put("--unit", choices=("us", "ms", "s"), help="of times in CSV without a unit in the header")
    put("--collective", metavar="NAME", help="where the files do not say")
