"""OSU Micro-Benchmarks, 3.x to 7.5: titles, ``-f``, ``-c``, ``-z``, several tables in one log."""

from __future__ import annotations

import json
import re

from ..samples import DTYPES, Asked, Found, Row
from .text import Source, Table, in_order, number, once, unit_of, whole

_TITLE = re.compile(r"#\s*OSU MPI\S*\s+(.+?)\s+v\.?\d[\w.\-]*\s*$")
_NAMES = {"allreduce": "allreduce", "reduce_scatter": "reduce_scatter", "allgather": "allgather", "reduce": "reduce"}
_NAMES |= {"broadcast": "bcast", "bcast": "bcast"}
_DATATYPE = re.compile(r"#\s*Datatype:\s*(\w+)")
_FAILED = re.compile(r"VALIDATION ERROR.*message size (\d{1,18})\b", re.IGNORECASE)


def read(source: Source, asked: Asked) -> Found:
    """All tables of ours in a log; those of other benchmarks are left, and said."""
    found = Found(source.file, "osu", asked)
    tables: list[Table] = []
    name: str | None = None
    lines = source.lines()
    for at, line in enumerate(lines, 1):
        text = line.strip()
        if title := _TITLE.match(text):
            name, current = title[1], None
            tables.append(Table(at, [], facts={"name": name}))
            continue
        current = tables[-1] if tables else None
        if re.match(r"#?\s*(Size|Avg Latency)\b", text) and re.search(r"\(", text):
            columns = re.split(r"\s{2,}", text.lstrip("# ").strip())
            if current is None or current.columns:
                current = Table(at, [], facts=dict(current.facts) if current else {})
                tables.append(current)
            current.columns, current.line = columns, at
        elif current and (kind := _DATATYPE.match(text)):
            current.facts["dtype"] = DTYPES.get(kind[1].lower(), (None, 0))
        elif current and (failed := _FAILED.search(text)):
            current.failed.add(int(failed[1]))
        elif '"taskmap"' in text:
            _placed(found, tables, at, text)
        elif '"complete"' in text and (status := re.search(r'"status":\s*(\d{1,9})', text)) and int(status[1]):
            found.note(f"line {at}: the job ended with status {status[1]} after its table")
        elif current and current.columns:
            current.feed(found, at, line)
    launch = 0
    for table in tables:
        table.finish(found, source, len(lines))
        launch += _rows(found, table, launch)
    return found.whole()


def _placed(found: Found, tables: list[Table], at: int, text: str) -> None:
    """Flux's event log after a table says how many ranks and nodes there were."""
    try:
        blocks = json.loads(text)["context"]["taskmap"]["map"]
        if not all(isinstance(value, int) for block in blocks for value in block):
            raise TypeError("a task map of other than numbers")
        size = sum(nodes * ranks * times for _, nodes, ranks, times in blocks)
        nodes = max(first + many for first, many, _, _ in blocks)
    except (ValueError, KeyError, TypeError, RecursionError):
        found.note(f"line {at}: a task map that is not understood")
        return
    for table in tables:
        table.facts.setdefault("size", size)
        table.facts.setdefault("nodes", nodes)


def _rows(found: Found, table: Table, launch: int) -> int:
    """The rows of one table; 1 when it was a launch of a collective of ours."""
    name = table.facts.get("name")
    if not table.rows:
        return 0
    if name is None and found.asked.collective is None:
        found.refuse(table.line, "a table without a title: give --collective NAME")
    parts = re.fullmatch(r"(\w+) Latency(?: Test)?", name or "", re.IGNORECASE)
    collective = (_NAMES.get(parts[1].lower()) if parts else None) if name else found.asked.collective
    if collective is None:
        for at, _ in table.rows:
            found.leave(at, f"{name}: not a blocking collective of ours")
        return 0
    if "Size" not in table.columns:
        found.refuse(table.line, "a table without a column Size")
    if len(set(table.columns)) < len(table.columns):
        found.refuse(table.line, "a column twice in the header")
    once(found, table, "Size")
    column, statistic = _time(table)
    scale = unit_of(column) if column else None
    if not scale:
        found.refuse(table.line, f"no latency with a unit among the columns: {', '.join(table.columns)}")
    dtype, itemsize = table.facts.get("dtype", (None, 0))
    for at, row in table.rows:
        check = row.get("Validation", "").lower()
        size, nbytes = found.size(at, table.facts.get("size")), int(row["Size"])
        wrong = 1 if check == "fail" or nbytes in table.failed else 0 if check == "pass" else None
        if collective == "allgather":  # its Size is what one rank gives
            if size is None:
                found.refuse(at, "bytes a rank, and no number of ranks: give --size P")
            nbytes *= size
        times = [_us(row, column, scale) for column in (column, _named(table, "Min"), _named(table, "Max"))]
        if times[0] is None:
            found.refuse(at, f"{row[column]} is no time")
        in_order(found, at, times[1], _us(row, _named(table, "Avg"), scale), times[2])
        found.take(
            Row(
                at, collective, nbytes, times[0],
                library="mpi", algorithm="default", size=size, nodes=table.facts.get("nodes"),
                dtype=dtype, op="sum" if "reduce" in collective else None,
                count=nbytes // itemsize if itemsize else None, n_samples=whole(row.get("Iterations", "")),
                wrong=wrong, launch=launch, statistic=statistic, call="call",
            )
        )  # fmt: skip
    return 1


def _time(table: Table) -> tuple[str, str]:
    """The column to take: the median over calls, else the slowest rank, else the mean over ranks."""
    median = next((column for column in table.columns if re.match(r"P50\b.*Lat", column)), None)
    for column, statistic in ((median, "median"), (_named(table, "Max"), "max"), (_named(table, "Avg"), "mean")):
        if column:
            return column, statistic
    return next((column for column in table.columns if re.match(r"Latency\b", column)), ""), "mean"


def _named(table: Table, word: str) -> str:
    return next((column for column in table.columns if re.match(rf"{word} Lat", column)), "")


def _us(row: dict[str, str], column: str, scale: float) -> float | None:
    value = number(row.get(column, ""))
    return None if value is None else value * scale
