"""nccl-tests and rccl-tests as printed, 1.x to 2.19: banners, devices, two halves a row, rows without a header."""

from __future__ import annotations

import re
from itertools import pairwise

from ..samples import DTYPES, Asked, Found
from .nccl_section import Half, Line, Section
from .text import Source, factor, number, whole

_NAME = re.compile(r"\b(\w+?)_perf\b")
_RANK = re.compile(r"#\s+Rank\s+(\d{1,9})\b.*?\bon\s+(\S+)\s+device\b")
_MORE = re.compile(r"#\s+\[\.\.\. (\d{1,9}) more rank lines")
_ITERATIONS = re.compile(r"(?<!warmup )(?<!agg )\biters: (\d{1,18})\b")
_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(\d{1,18})\b")
_TIMES = ("time", "cputime")
# Rows of grep's output: the layouts of one release after another. Their numbers prove which it is.
_HALF = ["time", "algbw", "busbw", "#wrong"]
BARE_ROW = re.compile(r"\s*\d+\s+\d+\s+[a-z]\w+\s+[a-z]+\s+(-?\d+\s+)?\S+\s+\d")
_BARE = {13: ["size", "count", "type", "redop", "root", *_HALF, *_HALF]}
_BARE[12] = ["size", "count", "type", "redop", *_HALF, *_HALF]


class _Reader:
    """The banner and the table that the next line belongs to."""

    def __init__(self, source: Source, asked: Asked) -> None:
        self.source, self.found = source, Found(source.file, "nccl", asked)
        self.sections: list[Section] = []
        self.section: Section | None = None
        self.columns: list[str] = []
        self.launch = 0
        self.length, self.short = 0, 0
        self.forget()

    def forget(self) -> None:
        """A new program begins."""
        self.name: str | None = None
        self.iterations: int | None = None
        self.devices = False
        self.ranks: dict[int, str] = {}
        self.more = 0
        self.section, self.columns, self.short = None, [], 0

    def line(self, at: int, line: str) -> None:
        """One line of the file."""
        text = line.strip()
        if "Using devices" in text:
            if self.devices and self.section is None:
                self.found.refuse(at, "devices listed again before any table: several programs of one rank each?")
            if self.section is not None:
                self.forget()
            self.devices = True
        elif rank := _RANK.match(text):
            if int(rank[1]) in self.ranks:
                self.found.refuse(at, f"rank {rank[1]} a second time: several programs of one rank each?")
            self.ranks[int(rank[1])] = rank[2]
        elif more := _MORE.match(text):
            self.more = int(more[1])
        elif re.search(r"\balgbw\b", text) and re.search(r"\bbusbw\b", text):
            self.header(at, text.lstrip("# ").split())
        elif self.section and not self.section.lines and re.search(r"\(GB/s\)", text):
            units = [factor(token.strip("()")) for token in text.split()]
            self.section.scale = next((unit for unit in units if unit), None)
        elif bounds := _BOUNDS.search(text):
            if self.sections:
                self.sections[-1].failed = int(bounds[1])
        elif self.row(at, text):
            pass
        else:
            if self.section and self.section.bare:
                self.section = None
            if "concluded" not in text and (name := _NAME.search(text)):
                if self.section:
                    self.forget()
                self.name = name[1]
            if "nThread" in text:
                if self.section:
                    self.forget()
                self.launch += 1
            if iterations := _ITERATIONS.search(text):
                self.iterations = int(iterations[1])

    def header(self, at: int, columns: list[str]) -> None:
        """A table begins."""
        columns = ["size" if name == "bytes" else "count" if name == "N" else name for name in columns]
        columns = ["redop" if name == "op" else name for name in columns]
        if not {"size", "type"} <= set(columns) or not any(name in columns for name in _TIMES):
            self.found.refuse(at, f"a header without size, type and time: {' '.join(columns)}")
        self.columns = columns
        size = max(self.ranks) + 1 + self.more if self.ranks else None
        if size is not None and size != len(self.ranks) + self.more:
            self.found.refuse(at, f"{len(self.ranks)} ranks listed, the last of them {max(self.ranks)}")
        nodes = len(set(self.ranks.values())) if self.ranks and not self.more else None
        self.section = Section(at, self.name, size, nodes, None, self.iterations, self.launch)
        self.sections.append(self.section)

    def row(self, at: int, text: str) -> bool:
        """A line of figures; text between them is none."""
        tokens = text.split()
        if len(tokens) < 2 or whole(tokens[0]) is None:
            return False
        if self.section is None:
            known = len(tokens) in _BARE and tokens[1].isdecimal() and tokens[2].lower() in DTYPES
            if not known:
                return False
            self.columns = _BARE[len(tokens)]
            self.launch += 1
            self.section = Section(at, self.name, None, None, None, self.iterations, self.launch, bare=True)
            self.sections.append(self.section)
        if not tokens[1].isdecimal() and len(tokens) != len(self.columns):
            return False
        columns = self.columns
        if columns[-1] == "timestamp" and len(tokens) == len(columns) + 1:  # a date and a time
            columns, tokens = columns[:-1], tokens[:-2]
        if self.short:
            self.found.refuse(self.short, f"a row with fewer figures than its {len(columns)} columns")
        if len(tokens) > len(columns):
            self.found.refuse(at, f"{len(tokens)} figures under {len(columns)} columns")
        last = at == self.count and not self.source.ended and len(text) < self.length
        if len(tokens) < len(columns) or last:
            self.short = at
            self.found.leave(at, "cut row")
            return True
        self.length = len(text)
        start = next(i for i, name in enumerate(columns) if name in _TIMES)
        front = dict(zip(columns[:start], tokens))
        halves = self.halves(at, columns[start:], tokens[start:])
        nbytes, dtype = int(front["size"]), front["type"]
        self.section.lines.append(Line(at, nbytes, dtype, front.get("redop"), front.get("root"), halves))
        return True

    def halves(self, at: int, columns: list[str], tokens: list[str]) -> list[Half]:
        """Out of place, then in place."""
        starts = [i for i, name in enumerate(columns) if name in _TIMES] + [len(columns)]
        if len(starts) > 3:
            self.found.refuse(at, "more than two times in a row")
        halves = []
        for which, (start, end) in enumerate(pairwise(starts)):
            figures = dict(zip(columns[start:end], tokens[start:end]))
            if "cputime" in figures:
                self.found.refuse(at, "cputime is not how long the collective took: run without -C")
            if any(number(figures.get(name, "")) is None for name in ("time", "algbw", "busbw")):
                self.found.refuse(at, "time, algbw and busbw are not all numbers")
            halves.append(Half(bool(which), figures["time"], figures["algbw"], figures["busbw"], _wrong(figures)))
        return halves

    def read(self) -> Found:
        """All lines, then all tables."""
        lines = self.source.lines()
        self.count = len(lines)
        for at, line in enumerate(lines, 1):
            self.line(at, line)
        for section in self.sections:
            section.take(self.found)
        return self.found.whole()


def _wrong(figures: dict[str, str]) -> int | None:
    """Wrong elements; an old table's largest error counts only where it is marked as too large."""
    if "#wrong" in figures:
        value = number(figures["#wrong"])
        return None if value is None else int(value)
    return 1 if any(figures.get(name, "").endswith("*") for name in ("error", "res")) else None


def read(source: Source, asked: Asked) -> Found:
    """All tables of a log."""
    return _Reader(source, asked).read()
