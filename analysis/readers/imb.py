"""Intel MPI Benchmarks, 3.x to 2021: sections, processes that wait, defects, error lines between rows."""

from __future__ import annotations

import re

from ..samples import DTYPES, Asked, Found, Row
from .text import Source, Table, in_order, number, once, unit_of, whole

_NAMES = {"allreduce": "allreduce", "reduce_scatter": "reduce_scatter", "reduce_scatter_block": "reduce_scatter"}
_NAMES |= {"allgather": "allgather", "reduce": "reduce", "bcast": "bcast"}
_BENCHMARK = re.compile(r"#[\s-]*Benchmarking\s+(\S+)")
_PROCESSES = re.compile(r"#[\s-]*#?processes\s*=\s*(\d{1,18})\b")
_ERROR = re.compile(r"Error\s+(\w+)\s*,\s*size\s*=\s*(\d{1,18})\b")
_SETTING = re.compile(r"#\s*(MPI_Datatype for reductions|MPI_Datatype|MPI_Op)\s*:\s*(\w+)")


def read(source: Source, asked: Asked) -> Found:
    """All sections of our collectives; a launch begins with a banner or when a section comes again."""
    found = Found(source.file, "imb", asked)
    tables: list[Table] = []
    facts: dict[str, object] = {}
    settings: dict[str, str] = {}
    launch, seen = 0, set[tuple[object, object]]()
    lines = source.lines()
    for at, line in enumerate(lines, 1):
        if benchmark := _BENCHMARK.search(line):
            facts = {"name": benchmark[1]}
        elif processes := _PROCESSES.search(line):
            facts["size"] = int(processes[1])
        elif setting := _SETTING.search(line):
            settings[setting[1]] = setting[2]
        elif "groups of" in line and "#" in line:
            facts["groups"] = True
        elif "MPI Benchmarks" in line and "part" in line:
            launch, seen = launch + bool(seen), set()
        elif "#bytes" in line and "#repetitions" in line:
            key = (facts.get("name"), facts.get("size"))
            if key in seen:
                launch, seen = launch + 1, set()
            seen.add(key)
            tables.append(Table(at, line.split(), facts={**facts, "launch": launch, "settings": dict(settings)}))
        elif tables and (error := _ERROR.search(line)):
            if error[1].lower() == str(tables[-1].facts.get("name", "")).lower():
                tables[-1].failed.add(int(error[2]))
        elif tables:
            tables[-1].feed(found, at, line)
    for table in tables:
        table.finish(found, source, len(lines))
        _rows(found, table)
    return found.whole()


def _rows(found: Found, table: Table) -> None:
    name = table.facts.get("name")
    collective = _NAMES.get(str(name).lower()) if name else found.asked.collective
    if name is None and collective is None:
        found.refuse(table.line, "a table without the line that names its benchmark: give --collective NAME")
    if collective is None or table.facts.get("groups"):
        for at, _ in table.rows:
            found.leave(at, f"{name}: " + ("several groups at once" if collective else "not a collective of ours"))
        return
    if len(set(table.columns)) < len(table.columns):
        found.refuse(table.line, "a column twice in the header")
    once(found, table, "#bytes")
    columns = {column.partition("[")[0]: column for column in table.columns}
    column = columns.get("t_max", columns.get("t", ""))
    scale = unit_of(column)
    if not scale:
        found.refuse(table.line, f"no t_max with a unit among the columns: {', '.join(table.columns)}")
    settings = table.facts["settings"]
    kind = "MPI_Datatype for reductions" if "reduce" in collective else "MPI_Datatype"
    dtype, itemsize = DTYPES.get(settings.get(kind, "").lower(), (None, 0))
    op = settings.get("MPI_Op", "").removeprefix("MPI_").lower() or None
    for at, row in table.rows:
        size, nbytes = found.size(at, table.facts.get("size")), int(row["#bytes"])
        defects = number(row.get("defects", ""))
        wrong = 1 if nbytes in table.failed or defects else None if defects is None else 0
        if collective == "allgather" or str(name).lower().endswith("_block"):  # bytes of one rank's part
            if size is None:
                found.refuse(at, "bytes a rank, and no number of ranks: give --size P")
            nbytes *= size
        keys = (column.partition("[")[0], "t_min", "t_avg")
        time, low, mean = (number(row.get(columns.get(key, ""), "")) for key in keys)
        if time is None:
            found.refuse(at, f"{row[column]} is no time")
        in_order(found, at, low, mean, time)
        found.take(
            Row(
                at, collective, nbytes, time * scale,
                library="mpi", algorithm="default", size=size, dtype=dtype,
                op=op if "reduce" in collective else None,
                count=nbytes // itemsize if itemsize else None,
                n_samples=whole(row["#repetitions"]),
                wrong=wrong, launch=table.facts["launch"], statistic="max", call="call",
            )
        )  # fmt: skip
