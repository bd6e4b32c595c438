"""CSV by column names: long (a row a cell or a call) and wide (a column a number of ranks, or an algorithm)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

from ..samples import COLLECTIVES, DTYPES, Asked, Found, Row, device_of, median_interval
from .text import Source, factor, number, unit_of, whole

_ALIASES = {
    "nbytes": "nbytes bytes size_bytes msg_bytes message_bytes size(bytes) size(b) size[bytes] size[b] #bytes",
    "count": "count send_count sendcount elements n_elements nelem",
    "size": "p np nprocs nranks ranks processes n_ranks n_procs comm_size",
    "nodes": "nodes nnodes n_nodes",
    "library": "library lib",
    "algorithm": "algorithm algorithm_name algo alg",
    "collective": "collective coll operation",
    "dtype": "dtype type datatype data_type",
    "op": "op redop",
    "in_place": "in_place inplace",
    "call": "call",
    "sync": "sync",
    "segment_bytes": "segment_bytes",
    "device": "device",
    "transport": "transport",
    "placement": "placement",
    "crowded": "crowded",
    "mpi_library": "mpi_library",
    "launch": "launch run repeat trial",
    "n_samples": "n_samples iterations iteratons repetitions #repetitions iters",
    "wrong": "wrong #wrong defects nwrong errors",
    "right": "is_correct correct valid validation",
    "low": "low",
    "high": "high",
    "least": "min_time t_min min min_latency",
    "largest": "max_time t_max max max_latency",
    "statistic": "statistic",
    "why": "why skipped",
}
_KNOWN = {alias: name for name, aliases in _ALIASES.items() for alias in aliases.split()}
_TIMES = (
    ("median", "median p50 median_time median_latency"),
    ("max", "max_time t_max max max_latency time_max"),
    ("mean", "avg_time t_avg avg mean mean_time avg_latency latency time_avg"),
    ("call", "time t elapsed duration"),
)
_REPEATS = {"iteration", "iter", "rep", "index", "file", "kind", "line", "timestamp", "date", "why", "asked"}


def _plain(column: str) -> str:
    return re.sub(r"\s+", "", column.strip().lower())


def _base(column: str) -> str:
    """A column's name without its unit."""
    bare = re.sub(r"[(\[][^)\]]*[)\]]\s*$", "", column.strip().lower()).strip()
    if unit_of(bare):
        bare = bare.rpartition("_")[0]
    return bare.replace(" ", "_")


def read(source: Source, asked: Asked) -> Found:
    """A file of one table under one header."""
    found = Found(source.file, "csv", asked)
    rows = _rows(found, source)
    at, header = next(rows, (1, []))
    names = [name.strip() for name in header]
    if len(set(names)) < len(names):
        found.refuse(at, "a column twice in the header")
    known = _known(names)
    body = list(rows)
    if asked.collective is None and "collective" not in known:
        found.note("the collective is not in the file: allreduce is taken (--collective NAME)")
    if any(name in known for name in ("time", "size", "algorithm", "count")):
        _long(found, at, names, known, body)
    elif names and _plain(names[0]) in ("size", *_ALIASES["nbytes"].split()) and len(names) > 1:
        _wide(found, at, names, body)
    else:
        found.refuse(at, f"columns that say neither bytes nor time: {', '.join(names)[:80]}")
    return found.whole()


def _rows(found: Found, source: Source) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and cells; a cut last row is left, another width refused."""
    lines = [line.rstrip("\r") for line in source.text.split("\n")]
    first = next((line for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    cut = max(",;\t", key=first.count)
    width = 0
    reader = csv.reader(io.StringIO("\n".join(lines)), delimiter=cut)
    last = max((at for at, line in enumerate(lines, 1) if line.strip()), default=0)
    try:
        for cells in reader:
            at = reader.line_num
            if not any(cell.strip() for cell in cells) or (not width and cells[0].lstrip().startswith("#")):
                continue
            if width and at == last and (not source.ended or len(cells) < width):
                found.leave(at, "cut row (no end of line)")
                continue
            if width and len(cells) != width:
                found.refuse(at, f"{len(cells)} cells under {width} columns")
            width = width or len(cells)
            yield at, cells
    except csv.Error as error:
        found.refuse(reader.line_num, f"no CSV: {error}")


def _known(names: list[str]) -> dict[str, int]:
    """Where each thing that is understood stands; ``size`` is bytes unless bytes stand elsewhere."""
    known: dict[str, int] = {}
    for i, name in enumerate(names):
        meaning = _KNOWN.get(_plain(name)) or _KNOWN.get(_base(name))
        if meaning:
            known.setdefault(meaning, i)
    for i, name in enumerate(names):
        if _plain(name) == "size":
            known.setdefault("size" if "nbytes" in known or "count" in known else "nbytes", i)
    for statistic, aliases in _TIMES:
        column = next((i for i, name in enumerate(names) if _base(name) in aliases.split()), None)
        if column is not None:
            known["time"] = column
            known["is_" + statistic] = column
            break
    return known


def _unit(found: Found, at: int, column: str) -> float:
    """Microseconds in the unit of a column: from its name or from the person."""
    told, asked = unit_of(column), factor(found.asked.unit) if found.asked.unit else None
    if told and asked and told != asked:
        found.refuse(at, f"--unit {found.asked.unit}, but the column is called {column!r}")
    if not (told or asked):
        found.refuse(at, f"no unit in the name of column {column!r}: give --unit us, ms or s")
    return told or asked or 1.0


def _whole(found: Found, at: int, cell: str, what: str) -> int:
    if not re.fullmatch(r"\s*[0-9]{1,18}\s*", cell):
        found.refuse(at, f"{cell!r} is no {what}")
    return int(cell)


def _wide(found: Found, at: int, names: list[str], body: list[tuple[int, list[str]]]) -> None:
    """A row a number of bytes; the columns are numbers of ranks or names of algorithms."""
    ranks = all(whole(name) is not None for name in names[1:])
    scales = [_unit(found, at, name) for name in names[1:]]
    if _plain(names[0]) == "size":
        found.note("size is taken as bytes")
    seen: dict[int, int] = {}
    for line, cells in body:
        nbytes = _whole(found, line, cells[0], "number of bytes")
        if nbytes in seen:
            found.refuse(line, f"{nbytes} bytes a second time (line {seen[nbytes]})")
        seen[nbytes] = line
        for name, scale, cell in zip(names[1:], scales, cells[1:]):
            if not cell.strip():
                continue
            time = number(cell.strip())
            if time is None:
                found.refuse(line, f"{cell!r} is no time")
            algorithm = "default" if ranks else re.sub(r"\s*[(\[][^)\]]*[)\]]\s*$", "", name)
            size = int(name) if ranks else None
            collective = found.asked.collective or "allreduce"
            found.take(
                Row(
                    line, collective, nbytes, time * scale, library="mpi", algorithm=algorithm, size=size,
                    statistic="mean", call="call",
                )
            )  # fmt: skip


def _long(found: Found, at: int, names: list[str], known: dict[str, int], body: list[tuple[int, list[str]]]) -> None:
    """A row a cell or a call; calls of one cell are put together by their median."""
    if "time" not in known:
        found.refuse(at, f"no column of times: {', '.join(names)[:80]}")
    scale = _unit(found, at, names[known["time"]])
    groups: dict[tuple[object, ...], list[tuple[int, Row, list[str]]]] = {}
    for line, cells in body:
        row = _row(found, line, {name: cells[i].strip() for name, i in known.items()}, scale, known)
        if row is None:
            continue
        key = row._replace(line=0, time_us=0.0, low_us=None, high_us=None, n_samples=None)
        groups.setdefault(key, []).append((line, row, cells))
    strange = [i for i, name in enumerate(names) if i not in known.values() and _base(name) not in _REPEATS]
    for members in groups.values():
        line, row, first = members[0]
        if len(members) == 1:
            found.take(row)
            continue
        for i in strange:  # a setting that is not understood would be averaged over
            for other, _, cells in members:
                if cells[i] != first[i] and not re.search(r"\d[.e]", cells[i] + first[i]):
                    found.refuse(other, f"column {names[i]!r} differs within one cell and is not understood")
        middle, low, high = median_interval([member.time_us for _, member, _ in members])
        found.take(row._replace(time_us=middle, low_us=low, high_us=high, n_samples=len(members), statistic="median"))


def _row(found: Found, line: int, cell: dict[str, str], scale: float, known: dict[str, int]) -> Row | None:
    """One line of a long table."""

    def text(name: str) -> str | None:
        return cell.get(name) or None

    def integer(name: str) -> int | None:
        return _whole(found, line, cell[name].removesuffix(".0"), f"whole number ({name})") if cell.get(name) else None

    def real(name: str) -> float | None:
        value = number(cell.get(name, ""))
        return None if value is None else value * scale

    if cell.get("why") and not cell["time"]:
        found.leave(line, "skipped by the bench")
        return None
    collective = text("collective") or found.asked.collective or "allreduce"
    if collective not in COLLECTIVES:
        found.leave(line, f"{collective}: not a collective of ours")
        return None
    dtype = text("dtype") or found.asked.dtype
    dtype, itemsize = DTYPES.get((dtype or "").lower(), (dtype, 0))
    nbytes, count = integer("nbytes"), integer("count")
    if nbytes is None and (count is None or not itemsize):
        found.refuse(line, "a count of elements without their type: give --dtype NAME" if count else "no bytes")
    time = real("time")
    if time is None:
        found.refuse(line, f"{cell['time']!r} is no time")
    statistic = next(name[3:] for name in known if name.startswith("is_"))
    return Row(
        line, collective, count * itemsize if nbytes is None and count is not None else nbytes or 0, time,
        library=text("library") or "mpi", algorithm=text("algorithm") or "default", size=integer("size"),
        nodes=integer("nodes"), dtype=dtype, op=text("op"), count=count,
        in_place=_yes(found, line, cell["in_place"]) if cell.get("in_place") else None,
        low_us=real("low"), high_us=real("high"), n_samples=integer("n_samples"), wrong=_wrong(found, line, cell),
        launch=integer("launch") or 0, statistic=text("statistic") or statistic, call=text("call") or "call",
        sync=text("sync"), segment_bytes=integer("segment_bytes"), device=device_of(text("device"), text("transport")),
        placement=text("placement"), mpi_library=text("mpi_library"),
        crowded=_yes(found, line, cell["crowded"]) if cell.get("crowded") else None,
    )  # fmt: skip


def _yes(found: Found, line: int, cell: str) -> bool:
    if cell.lower() not in ("0", "1", "true", "false", "yes", "no", "pass", "fail"):
        found.refuse(line, f"{cell!r} is neither yes nor no")
    return cell.lower() in ("1", "true", "yes", "pass")


def _wrong(found: Found, line: int, cell: dict[str, str]) -> int | None:
    """Wrong elements, or 1 for a check that failed; nothing where nothing was checked."""
    if right := cell.get("right"):
        return int(not _yes(found, line, right))
    value = cell.get("wrong") or "N/A"
    if value.upper() == "N/A":
        return None
    figure = number(value)
    if figure is None:
        found.refuse(line, f"{value!r} is no number of wrong elements")
    return 1 if figure > 0 else 0
