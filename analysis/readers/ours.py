"""Our own run files: JSON Lines, cut at any byte, appended to one another, several launches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..samples import Asked, Found, Row, median_interval
from .text import Source

SCHEMA = 1
_RUN = '{"record":"run"'
_DECODER = json.JSONDecoder()


def read(source: Source, asked: Asked) -> Found:
    """Every whole sample of every launch in the file."""
    found = Found(source.file, "ours", asked)
    launch, runs, open_run, known = 0, 0, 0, set[Any]()
    where: dict[str, Any] = {}
    records = list(_records(found, source))
    # The same algorithm by two transports is two algorithms, of which one is read: the one that a GPU is bought for.
    direct = any((r.get("library"), r.get("transport")) == ("mpicoll", "direct") for _, r in records)
    for at, record in records:
        kind = record.get("record")
        if kind == "run":
            if record.get("schema") != SCHEMA:
                found.refuse(at, f"schema {record.get('schema')!r}; this reads schema {SCHEMA}")
            if open_run:
                found.note(f"line {open_run}: a run that was cut short")
            launch, runs, open_run = launch + bool(runs), runs + 1, at
            where = _where(record)
        elif kind == "end":
            if not record.get("complete"):
                found.note(f"line {at}: a run that was stopped: {record.get('reason') or 'no reason given'}")
            open_run = 0
        elif kind == "sample" and record.get("transport") == "staged" and direct:
            found.leave(at, "staged, in a file that has direct rows too")
        elif kind == "sample":
            try:
                _sample(found, at, record, launch, where)
            except (KeyError, TypeError, ValueError) as error:
                found.refuse(at, f"not a sample of ours: {type(error).__name__} {error}")
        elif not isinstance(kind, str):
            found.refuse(at, "a line without the kind of its record")
        elif kind == "calibration":
            _calibration(found, at, record, launch, where)
        elif kind not in known:
            known.add(kind)
            found.note(f"line {at}: records of kind {kind!r} are passed over")
    if open_run:
        found.note(f"line {open_run}: a run without its end")
    return found.whole()


def _records(found: Found, source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file. A cut one may be followed on its line by the next run, when files were joined."""
    lines = source.text.split("\n")
    last = max((at for at, line in enumerate(lines, 1) if line.strip()), default=0)
    for at, line in enumerate(lines, 1):
        rest = line.strip()
        while rest:
            try:
                record, end = _DECODER.raw_decode(rest)
            except (ValueError, RecursionError):
                after = rest.find(_RUN, 1)
                if after < 0 and at < last:
                    found.refuse(at, "a damaged line in the middle of the file")
                found.leave(at, "cut row")
                rest = rest[after:] if after > 0 else ""
                continue
            if not isinstance(record, dict):
                found.refuse(at, "a line that is no record")
            yield at, record
            rest = rest[end:].lstrip()


def _sample(found: Found, at: int, record: dict[str, Any], launch: int, where: dict[str, Any]) -> None:
    """One sample; those that were skipped have no times."""
    times = record["times_us"]
    if record.get("skipped") or not times:
        found.leave(at, "skipped by the bench" if record.get("skipped") else "no times")
        return
    if not all(_is_time(time) for time in times):
        found.refuse(at, "times_us holds something that is no time")
    time_us, low, high = median_interval(times)
    found.take(
        Row(
            at, _text(record["collective"]), _whole(record["nbytes"]), time_us,
            library=_text(record["library"]), algorithm=_text(record["algorithm"]), size=_whole(record["size"]),
            nodes=record.get("nodes"), dtype=_maybe(record["dtype"]), op=_maybe(record["op"]),
            count=_whole(record["count"]),
            in_place=bool(record["in_place"]),
            low_us=_or(record.get("low_us"), low), high_us=_or(record.get("high_us"), high),
            n_samples=len(times), wrong=record.get("wrong"), launch=launch, call=_maybe(record.get("call")),
            sync=_maybe(record.get("sync")), segment_bytes=record.get("segment_bytes"),
            placement=where.get("placement"), crowded=where.get("crowded"),
        )
    )  # fmt: skip


def _calibration(found: Found, at: int, record: dict[str, Any], launch: int, where: dict[str, Any]) -> None:
    """What the machine can do, where the record is whole; a fit can do without."""
    times, nbytes, kind, level = (record.get(name) for name in ("times_us", "nbytes", "kind", "level"))
    whole = isinstance(nbytes, int) and nbytes > 0 and isinstance(kind, str) and isinstance(level, str)
    if not (whole and isinstance(times, list) and times and all(_is_time(time) for time in times)):
        found.leave(at, "a calibration without size, kind or times")
        return
    assert isinstance(nbytes, int)
    time_us, low, high = median_interval(times)
    if time_us > 0:
        found.calibrations.append(
            Row(
                at, "calibration", nbytes, time_us, library="machine", algorithm=f"{kind} {level}",
                size=where.get("size"), nodes=where.get("nodes"), low_us=low, high_us=high, n_samples=len(times),
                launch=launch, placement=where.get("placement"), crowded=where.get("crowded"),
            )
        )  # fmt: skip


def _where(record: dict[str, Any]) -> dict[str, Any]:
    """What a run says of its ranks: how many, their nodes where they are not in blocks, whether they share cores."""
    size, ranks = record.get("size"), record.get("ranks")
    found: dict[str, Any] = {"size": size if isinstance(size, int) and size > 0 else None}
    if not isinstance(ranks, list) or not all(isinstance(rank, dict) for rank in ranks) or not ranks:
        return found
    nodes = [rank.get("node") for rank in ranks]
    if all(isinstance(node, int) for node in nodes):
        found["nodes"] = len(set(nodes))
        if nodes != [rank * found["nodes"] // len(nodes) for rank in range(len(nodes))]:
            found["placement"] = ",".join(map(str, nodes))
        if all(isinstance(rank.get("cores"), list) for rank in ranks):
            cores: dict[int, set[Any]] = {}
            for node, rank in zip(nodes, ranks):
                cores.setdefault(node, set()).update(map(str, rank["cores"]))
            found["crowded"] = any(nodes.count(node) > len(of) for node, of in cores.items())
    return found


def _is_time(time: Any) -> bool:
    return isinstance(time, (int, float)) and 0 <= time < 1e300


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no whole number")
    return value


def _or(value: Any, other: float | None) -> float | None:
    return other if value is None else float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no name")
    return value


def _maybe(value: Any) -> str | None:
    return None if value is None else _text(value)
