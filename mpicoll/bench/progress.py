"""A line on the terminal that says where a sweep is, and is gone when the row comes; nothing in a file."""

from __future__ import annotations

import sys
from typing import TextIO


class Progress:
    """Rank 0's line. mpirun hands ranks a pipe, so the terminal itself is asked for; without one nothing is written."""

    def __init__(self, speaks: bool, rows: int) -> None:
        self.rows, self.terminal = rows, _terminal() if speaks else None

    def show(self, row: int, what: str) -> None:
        """Say which row is under way."""
        self._write(f"\r\033[K{row + 1} of {self.rows}: {what} ...")

    def clear(self) -> None:
        """Make room for the row."""
        self._write("\r\033[K")

    def _write(self, text: str) -> None:
        if self.terminal is not None:
            self.terminal.write(text)
            self.terminal.flush()


def _terminal() -> TextIO | None:
    if sys.stderr.isatty():
        return sys.stderr
    try:
        return open("/dev/tty", "w", encoding="utf-8")
    except OSError:
        return None
