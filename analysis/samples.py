"""The one long table that every reader fills: a row is one cell of one launch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import pandas as pd

from mpicoll.statistics import interval_ranks

COLLECTIVES = ("allreduce", "reduce_scatter", "allgather", "reduce", "bcast")

# Names that the libraries and benchmarks give to types: ours, and the bytes of one element.
_TYPES = {
    "int8": (1, "char mpi_char mpi_signed_char mpi_int8_t byte mpi_byte i1"),
    "uint8": (1, "mpi_unsigned_char mpi_uint8_t u1"),
    "int16": (2, "short mpi_short mpi_int16_t i2"),
    "uint16": (2, "mpi_uint16_t u2"),
    "int32": (4, "int mpi_int mpi_int32_t i4"),
    "uint32": (4, "mpi_uint32_t mpi_unsigned u4"),
    "int64": (8, "mpi_long mpi_int64_t mpi_long_long i8"),
    "uint64": (8, "mpi_uint64_t mpi_unsigned_long u8"),
    "float16": (2, "half f2"),
    "bfloat16": (2, "bf16"),
    "float32": (4, "float mpi_float f4"),
    "float64": (8, "double mpi_double f8"),
    "complex64": (8, "mpi_c_float_complex mpi_c_complex c8"),
    "complex128": (16, "mpi_c_double_complex c16"),
    "fp8_e4m3": (1, "f8e4m3"),
    "fp8_e5m2": (1, "f8e5m2"),
}
DTYPES = {name: (ours, nbytes) for ours, (nbytes, names) in _TYPES.items() for name in (ours, *names.split())}


FAILED = "failed its check"  # why a row is left that had wrong elements
COPIED = 6  # rows with the very same times, from which on a table is a copy of another
LARGEST = 2**62  # fits the table's columns


class RefusedError(Exception):
    """A file that cannot be read without a guess; says where and why in one line."""

    def __init__(self, file: str, line: int | None, reason: str) -> None:
        reason = " ".join(reason.split())
        reason = reason if len(reason) <= 200 else reason[:150] + " … " + reason[-40:]  # it may quote the file
        self.file, self.line, self.reason = file, line, reason
        super().__init__(f"{file}:{line}: {reason}" if line else f"{file}: {reason}")


class Asked(NamedTuple):
    """What the person says where the file does not."""

    size: int | None = None
    collective: str | None = None
    unit: str | None = None
    dtype: str | None = None


class Row(NamedTuple):
    """One cell. ``time_us`` is the median where the file has samples; ``statistic`` says what it is elsewhere.

    ``low_us`` and ``high_us`` are the 95 % interval of the median, and nothing else: the fastest and the slowest rank
    or iteration, which others print, say nothing of how well a time is known.
    """

    line: int
    collective: str
    nbytes: int
    time_us: float
    library: str | None = None
    algorithm: str | None = None
    size: int | None = None
    nodes: int | None = None
    dtype: str | None = None
    op: str | None = None
    count: int | None = None  # type: ignore[assignment]  # hides what a tuple counts with
    in_place: bool | None = None
    low_us: float | None = None
    high_us: float | None = None
    n_samples: int | None = None
    wrong: int | None = None
    launch: int = 0
    statistic: str = "median"
    call: str | None = None
    sync: str | None = None
    segment_bytes: int | None = None
    placement: str | None = None  # the node of each rank, where ranks are not in blocks: "0,1,0,1"
    crowded: bool | None = None  # more ranks than cores
    device: str | None = None  # whose memory: "cpu", "cuda", "cuda staged" through the host's
    mpi_library: str | None = None  # under which our runs ran


COLUMNS = {
    "file": "str",
    "kind": "str",
    "line": "int64",
    "library": "str",
    "collective": "str",
    "algorithm": "str",
    "size": "Int64",
    "nodes": "Int64",
    "dtype": "str",
    "op": "str",
    "count": "Int64",
    "nbytes": "int64",
    "in_place": "boolean",
    "time_us": "float64",
    "low_us": "float64",
    "high_us": "float64",
    "n_samples": "Int64",
    "wrong": "Int64",
    "launch": "int64",
    "statistic": "str",
    "call": "str",
    "sync": "str",
    "segment_bytes": "Int64",
    "placement": "str",
    "crowded": "boolean",
    "device": "str",
    "mpi_library": "str",
}


@dataclass
class Found:
    """What one file gave: the rows taken, the rows left and why, and what a person should know.

    ``columns``: the rows, a list for each field of ``Row``: a file may have millions.
    """

    file: str
    kind: str
    asked: Asked
    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in Row._fields})
    left: dict[str, list[int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    calibrations: list[Row] = field(default_factory=list)
    launches: dict[object, int] = field(default_factory=dict)  # what tells each from all others, and its line

    def __len__(self) -> int:
        """How many rows were taken."""
        return len(self.columns["line"])

    @property
    def rows(self) -> list[Row]:
        """The rows, one by one."""
        return list(map(Row._make, zip(*self.columns.values())))

    def extend(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Rows that a fit may see, in the columns that ``Row`` has."""
        for name, values in self.columns.items():
            values += columns[name]

    def refuse(self, line: int | None, reason: str) -> NoReturn:
        """The file is not read at all."""
        raise RefusedError(self.file, line, reason)

    def leave(self, line: int, reason: str) -> None:
        """One row is not taken, the others are."""
        self.left.setdefault(reason, []).append(line)

    def note(self, text: str) -> None:
        """Something to know about the file, said once."""
        if text not in self.notes:
            self.notes.append(text)

    def size(self, line: int, told: int | None) -> int | None:
        """Ranks: from the file or from the person, who may not contradict each other."""
        asked = self.asked.size
        if told is not None and asked is not None and told != asked:
            self.refuse(line, f"--size {asked}, but the file says {told} ranks")
        return asked if told is None else told

    def take(self, row: Row) -> None:
        """A row, if it is one that a fit may see."""
        time_us = row.time_us
        if (size := self.size(row.line, row.size)) != row.size:
            row = row._replace(size=size)
        whole = (row.nbytes, row.size, row.nodes, row.count, row.n_samples, row.wrong, row.segment_bytes)
        if not all(value is None or (isinstance(value, int) and value < LARGEST) for value in whole):
            self.refuse(row.line, "a figure that is no whole number, or one past all measure")
        if not math.isfinite(time_us) or time_us < 0:
            self.refuse(row.line, f"{time_us} is no time")
        if row.nbytes < 0:
            self.refuse(row.line, f"{row.nbytes} is no number of bytes")
        if row.size is not None and row.size < 1:
            self.refuse(row.line, f"{row.size} is no number of ranks")
        if row.nodes is not None and not 1 <= row.nodes <= (row.size or LARGEST):
            self.refuse(row.line, f"{row.size or 'some'} ranks on {row.nodes} nodes")
        if row.wrong:
            self.leave(row.line, FAILED)
        elif row.nbytes == 0:
            self.leave(row.line, "0 bytes: nothing is moved")
        elif row.size == 1:
            self.leave(row.line, "one rank alone (p = 1): nothing is sent")
        elif time_us == 0:
            self.leave(row.line, "time 0: below what the file resolves")
        else:
            for values, value in zip(self.columns.values(), row):
                values.append(value)

    def whole(self) -> Found:
        """The reader is done; a file of which nothing could be taken is refused."""
        if not self:
            why = "; ".join(f"{reason} ({len(lines)} rows)" for reason, lines in self.left.items())
            first = min((lines[0] for lines in self.left.values()), default=None)
            self.refuse(first, f"no row can be taken: {why}" if why else "no row of a table in it")
        if self.kind != "ours":  # which tells runs apart by what they say of themselves
            self._once()
        if None in self.columns["size"]:
            self.note("how many ranks is not in the file: give --size P")
        return self

    def _once(self) -> None:
        """A launch with the very times of another is a copy, which would count twice."""
        launches: dict[int, list[Row]] = {}
        for row in self.rows:
            launches.setdefault(row.launch, []).append(row)
        for rows in launches.values():
            times = tuple((row.collective, row.algorithm, row.nbytes, row.time_us) for row in rows)
            if len(rows) >= COPIED and self.launches.setdefault(times, rows[0].line) != rows[0].line:
                reason = f"the same table a second time (line {self.launches[times]}): it would count twice"
                self.refuse(rows[0].line, reason)


def once(found: Iterable[Found]) -> None:
    """RefusedError: a launch that is in two of the files, which as files are no copies."""
    seen: dict[object, str] = {}
    for one in found:
        for launch, line in one.launches.items():
            if seen.setdefault(launch, one.file) != one.file:
                raise RefusedError(one.file, line, f"a run that is in {seen[launch]} too: its rows would count twice")


def table(found: Iterable[Found], what: str = "rows") -> pd.DataFrame:
    """All rows (or ``what="calibrations"``) of all files; launches are numbered through.

    RefusedError: one would count twice.
    """
    found = list(found)
    once(found)
    parts: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    base = 0
    for one in found:
        columns = one.columns if what == "rows" else dict(zip(Row._fields, zip(*one.calibrations)))
        launches = {*one.columns["launch"], *(row.launch for row in one.calibrations)}
        order = {launch: base + i for i, launch in enumerate(sorted(launches))}
        n = len(columns.get("line", ()))
        parts["file"] += [one.file] * n
        parts["kind"] += [one.kind] * n
        for name, values in columns.items():
            parts[name] += map(order.__getitem__, values) if name == "launch" else values
        base += len(order)
    return pd.DataFrame({name: _series(parts[name], dtype) for name, dtype in COLUMNS.items()})


def _series(values: list[Any], name: str) -> pd.Series:
    dtype: Any = pd.StringDtype(na_value=pd.NA) if name == "str" else name
    if values and values.count(values[0]) == len(values):  # by far the most columns: told from one
        return pd.Series(values[0], index=range(len(values)), dtype=dtype)
    return pd.Series(values, dtype=dtype)


def device_of(device: str | None, transport: str | None) -> str | None:
    """Whose memory was reduced, and whether it went through the host's."""
    return f"{device} staged" if device not in (None, "cpu") and transport == "staged" else device


def median_interval(times: list[float]) -> tuple[float, float | None, float | None]:
    """Median of at least one time and its 95 % interval, where there are enough times for one."""
    ordered = sorted(times)
    n = len(ordered)
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    ranks = interval_ranks(n)
    return (middle, ordered[ranks[0]], ordered[ranks[1]]) if ranks else (middle, None, None)
