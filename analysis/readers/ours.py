"""Our own run files: JSON Lines, cut at any byte, appended to one another, several launches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..samples import Asked, Found, Row, device_of, median_interval
from .ours_fast import read_block
from .text import Source

SCHEMA = 1
_SAMPLE = b'{"record":"sample"'
_ODD = re.compile(rb'\n(?!\{"record":"sample")')
_BLOCK = 1 << 19  # bytes: a thousand samples, which stay in a cache
_FEW = 64  # lines
_RUN = '{"record":"run"'
_DECODER = json.JSONDecoder()


def read(source: Source, asked: Asked) -> Found:
    """Every whole sample of every launch in the file."""
    found = Found(source.file, "ours", asked)
    raw, size = source.raw, len(source.raw)
    while raw[size - 1 : size].isspace():  # not by rstrip, which copies what may be a gigabyte
        size -= 1
    # The same algorithm by two transports is two algorithms, of which one is read: the one that a GPU is bought for.
    state = _State(b'"staged"' in raw and any(map(_direct, raw.split(b"\n"))))
    odd = [] if raw.startswith(_SAMPLE) else [0]
    odd += [match.end() for match in _ODD.finditer(raw, 0, size)]
    begin, at = 0, 1
    for start in [*odd, size]:
        while begin < start:
            end = start if start - begin <= _BLOCK else raw.find(b"\n", begin + _BLOCK, start) + 1 or start
            at = _samples(found, state, at, raw[begin:end], end == size)
            begin = end
        if start < size:
            begin = raw.find(b"\n", start, size) + 1 or size
            at = _slowly(found, state, at, raw[start:begin], begin == size)
    if state.open_run:
        found.note(f"line {state.open_run}: a run without its end")
    return found.whole()


def _direct(line: bytes) -> bool:
    """Whether a line is one of our algorithms, direct."""
    try:
        record = json.loads(line) if b'"direct"' in line else None
    except (ValueError, RecursionError):  # cut or joined, which is said where it is read
        return False
    return isinstance(record, dict) and (record.get("library"), record.get("transport")) == ("mpicoll", "direct")


def _samples(found: Found, state: _State, at: int, block: bytes, last: bool) -> int:
    """Lines from number ``at`` on that begin as samples do; the number of the line after them."""
    columns = read_block(block, at, state.launch, state.where, found.asked.size, state.direct)
    if columns:
        found.extend(columns)
        return at + len(columns["line"])
    lines = block.count(b"\n")
    if lines <= _FEW:
        return _slowly(found, state, at, block, last)
    half = block.rfind(b"\n", 0, len(block) // 2) + 1 or block.index(b"\n") + 1  # both parts have lines
    return _samples(found, state, _samples(found, state, at, block[:half], False), block[half:], last)


def _slowly(found: Found, state: _State, at: int, block: bytes, last: bool) -> int:
    """Line by line, with a word on whatever is wrong; ``last``: the file ends with them."""
    lines = block.decode(errors="replace").removesuffix("\n").split("\n")
    for i, line in enumerate(lines):
        for record in _records(found, at + i, line.strip(), last and line is lines[-1]):
            state.take(found, at + i, record)
    return at + len(lines)


@dataclass
class _State:
    """What the records so far say of those that follow."""

    direct: bool = False
    launch: int = 0
    runs: int = 0
    open_run: int = 0
    where: dict[str, Any] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)

    def take(self, found: Found, at: int, record: dict[str, Any]) -> None:
        """One record."""
        kind = record.get("record")
        if kind == "run":
            if record.get("schema") != SCHEMA:
                found.refuse(at, f"schema {record.get('schema')!r}; this reads schema {SCHEMA}")
            if self.open_run:
                found.note(f"line {self.open_run}: a run that was cut short")
            if record.get("time") and (before := found.launches.setdefault(json.dumps(record), at)) != at:
                found.refuse(at, f"the same run a second time (line {before}): it would count twice")
            self.launch, self.runs, self.open_run = self.launch + bool(self.runs), self.runs + 1, at
            self.where = _where(record)
        elif kind == "end":
            if not record.get("complete"):
                found.note(f"line {at}: a run that was stopped: {record.get('reason') or 'no reason given'}")
            self.open_run = 0
        elif kind == "sample" and record.get("transport") == "staged" and self.direct:
            found.leave(at, "staged, in a file that has direct rows too")
        elif kind == "sample":
            try:
                _sample(found, at, record, self.launch, self.where)
            except (KeyError, TypeError, ValueError) as error:
                found.refuse(at, f"not a sample of ours: {type(error).__name__} {error}")
        elif not isinstance(kind, str):
            found.refuse(at, "a line without the kind of its record")
        elif kind == "calibration":
            _calibration(found, at, record, self.launch, self.where)
        elif kind not in self.known:
            self.known.add(kind)
            found.note(f"line {at}: records of kind {kind!r} are passed over")


def _records(found: Found, at: int, rest: str, last: bool) -> Iterator[dict[str, Any]]:
    """The objects of a line. A cut one may be followed on its line by the next run, when files were joined."""
    while rest:
        try:
            record, end = _DECODER.raw_decode(rest)
        except (ValueError, RecursionError):
            after = rest.find(_RUN, 1)
            if after < 0 and not last:
                found.refuse(at, "a damaged line in the middle of the file")
            found.leave(at, "cut row")
            rest = rest[after:] if after > 0 else ""
            continue
        if not isinstance(record, dict):
            found.refuse(at, "a line that is no record")
        yield record
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
            placement=where.get("placement"), crowded=where.get("crowded"), mpi_library=where.get("mpi_library"),
            device=device_of(_maybe(record.get("device")), record.get("transport")),
        )
    )  # fmt: skip
    if where.get("size") not in (None, record["size"]):
        found.refuse(at, f"{record['size']} ranks, but the run that it is of has {where['size']}")


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
    """What a run says of its ranks: how many, their nodes where not in blocks, whether they share cores; its MPI."""
    size, ranks = record.get("size"), record.get("ranks")
    found: dict[str, Any] = {"size": size if isinstance(size, int) and size > 0 else None}
    found["mpi_library"] = library if isinstance(library := record.get("mpi_library"), str) else None
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
    return isinstance(time, (int, float)) and not isinstance(time, bool) and 0 <= time < 1e300


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
