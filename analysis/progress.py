"""A bar for long work, on a terminal only, and only once the work has taken a while."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

QUIET_S, EVERY_S, WIDTH = 1.0, 0.1, 30


@contextmanager
def bar() -> Iterator[Callable[[float, str], None]]:
    """A function that is told the part done (0 to 1) and of what; the bar goes when the work is done."""
    begun, last, shown = monotonic(), 0.0, False

    def show(part: float, what: str) -> None:
        nonlocal last, shown
        now = monotonic()
        if not sys.stderr.isatty() or now - begun < QUIET_S or now - last < EVERY_S:
            return
        last, shown = now, True
        filled = round(WIDTH * min(1.0, max(0.0, part)))
        print(f"\r{what:<12} [{'#' * filled:<{WIDTH}}] {part:4.0%}\033[K", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        if shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
