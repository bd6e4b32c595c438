"""From the table of samples to what figures show: series, medians over launches, who is fastest and how surely."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

from mpicoll.schedule import Nodes

from ..cells import placed

MPI = "MPI call"
BEST = "best MPI algorithm"
STAGED = " (staged)"  # behind the name of what went through the host's memory
NEAR = 0.05  # without intervals, or in few launches, two are told apart when they differ by more than this
FEW = 6  # launches: all of fewer agree by chance in more than 5 of 100 pairs that are alike


class Case(NamedTuple):
    """What is compared with each other: one collective on one type, operation and place of the result.

    ``setting``: what else tells runs on as many ranks apart: their nodes, how an iteration starts, shared cores.
    """

    collective: str
    dtype: str
    op: str
    in_place: bool
    device: str = "cpu"
    setting: str = ""

    def __str__(self) -> str:
        words = [self.collective, self.dtype, "" if self.op == "none" else self.op, "in place" if self.in_place else ""]
        words += ["" if self.device == "cpu" else f"on {self.device}", self.setting]
        return " ".join(word for word in words if word)


class Point(NamedTuple):
    """A cell: median over launches and its interval, microseconds. ``low`` and ``high`` are 0 where none is known.

    The interval is that of the median where there is one launch, else the range of the launches (``by_launch``).
    """

    nbytes: int
    time_us: float
    low_us: float = 0.0
    high_us: float = 0.0
    by_launch: tuple[tuple[int, float], ...] = ()


Series = dict[str, list[Point]]  # name -> points, ascending in bytes


class Place(NamedTuple):
    """Where the ranks of a case and size are; ``odd``: they share cores, and those of other runs do not.

    ``timed``: what its times are, in words.
    """

    nodes: Nodes | None
    odd: bool
    timed: str


TIMED = {
    "ours": "the slowest rank's time",
    "max": "the slowest rank's mean time",
    "mean": "the mean time",
    "median": "the median time",
    "call": "the time of a call",
}
KEYS = ["collective", "dtype", "op", "in_place", "device", "setting", "size"]


def split(table: pd.DataFrame) -> dict[Case, dict[int, Series]]:
    """Case -> number of ranks -> series. Rows without a number of ranks are under 0."""
    found: dict[Case, dict[int, Series]] = {}
    for (*case, size, name), part in _named(table).groupby([*KEYS, "name"], sort=False):
        found.setdefault(Case(*case), {}).setdefault(int(size), {})[str(name)] = _points(part)
    for by_size in found.values():
        for series in by_size.values():
            _best_of_mpi(series)
    return {case: dict(sorted(by_size.items())) for case, by_size in found.items()}


def places(table: pd.DataFrame) -> dict[tuple[Case, int], Place]:
    """Of each case and number of ranks."""
    crowded = table["crowded"].fillna(False).astype(bool)
    found = {}
    for (*case, size), part in _named(table).assign(odd=crowded & (not crowded.all())).groupby(KEYS, sort=False):
        told = part[part["nodes"].notna()]
        nodes = placed(int(size), told["nodes"].iloc[0], told["placement"].iloc[0]) if len(told) else None
        found[Case(*case), int(size)] = Place(nodes, bool(part["odd"].all()), _timed(part))
    return found


def _timed(part: pd.DataFrame) -> str:
    """Ours are medians over iterations of the slowest rank; others print what they print."""
    kinds = part["statistic"].where(part["kind"] != "ours", "ours").unique()
    return " or ".join(TIMED.get(str(kind), f"the {kind}") for kind in kinds)


def _named(table: pd.DataFrame) -> pd.DataFrame:
    """With the name of its series, and with what a case is made of."""
    named = table.assign(
        name=_of_each(table, ["library", "algorithm", "call", "device"], _name),
        dtype=table["dtype"].fillna(""),
        op=table["op"].fillna(""),
        in_place=table["in_place"].fillna(False).astype(bool),
        size=table["size"].fillna(0).astype(int),
        device=table["device"].fillna("cpu").str.partition(" ")[0],
        setting=_of_each(table, ["mpi_library", "nodes", "placement", "sync", "crowded"], _setting),
    )
    several = named.groupby([key for key in KEYS if key != "setting"])["setting"].transform("nunique") > 1
    return named.assign(setting=named["setting"].where(several, ""))


def _of_each(table: pd.DataFrame, columns: list[str], words: Callable[..., str]) -> pd.Series:
    """What ``words`` says of each row, said once of those that are alike: there may be millions."""
    alike = table.groupby(columns, sort=False, dropna=False).ngroup()
    first = ~alike.duplicated()
    said = map(words, *(table.loc[first, name] for name in columns))
    return alike.map(dict(zip(alike[first], said)))


def _setting(mpi: object, nodes: object, placement: object, sync: object, crowded: object) -> str:
    words = [] if pd.isna(mpi) else [f"under {mpi}"]
    words += [] if pd.isna(nodes) else [f"on {nodes} node{'s' if nodes != 1 else ''}"]
    words += [] if pd.isna(placement) else ["not in blocks"]
    words += ["started at a common time"] if not pd.isna(sync) and sync == "window" else []
    words += ["sharing cores"] if not pd.isna(crowded) and crowded else []
    return " ".join(words)


def _name(library: object, algorithm: object, call: object, device: object) -> str:
    """How a series is called; the library's call of our bench stands for all that a foreign file calls default."""
    library = "mpi" if pd.isna(library) else str(library)
    algorithm = "default" if pd.isna(algorithm) else str(algorithm)
    call = "" if pd.isna(call) else str(call)
    if library == "mpicoll":
        return algorithm + (" (one-shot call)" if call == "call" else "") + STAGED * str(device).endswith(" staged")
    if algorithm == "default" and library == "mpi":
        return "MPI persistent" if call == "persistent" else MPI
    return library.upper() + ("" if algorithm == "default" else f" {algorithm}")


def _points(rows: pd.DataFrame) -> list[Point]:
    points = []
    for nbytes, part in rows.groupby("nbytes"):
        each = part.groupby("launch").agg({"time_us": "median", "low_us": "min", "high_us": "max"})
        if len(each) > 1:
            low, high = each["time_us"].min(), each["time_us"].max()
        else:
            low, high = each["low_us"].iloc[0], each["high_us"].iloc[0]
        known = not (pd.isna(low) or pd.isna(high))
        median = float(each["time_us"].median())
        by_launch = tuple((int(launch), float(time)) for launch, time in each["time_us"].items())
        interval = (float(low), float(high)) if known else (0.0, 0.0)
        points.append(Point(int(nbytes), median, *interval, by_launch))
    return points


def _best_of_mpi(series: Series) -> None:
    """The fastest of the library's own algorithms at each size, where they were forced."""
    forced = [
        points for name, points in series.items() if name.startswith("MPI ") and name not in (MPI, "MPI persistent")
    ]
    best: dict[int, Point] = {}
    for point in (point for points in forced for point in points):
        if point.nbytes not in best or point.time_us < best[point.nbytes].time_us:
            best[point.nbytes] = point
    if len(forced) > 1:
        series[BEST] = [best[nbytes] for nbytes in sorted(best)]


def is_ours(name: str) -> bool:
    """Whether a series is one of our plans."""
    return not is_theirs(name) and " (one-shot call)" not in name


def is_theirs(name: str) -> bool:
    """Whether a series is a library's."""
    return name == BEST or name.split(" ")[0].isupper()


def key(name: str) -> str:
    """How the fit calls a series. ValueError: no curve is drawn of a library's forced algorithms."""
    if is_ours(name):
        return name.removesuffix(STAGED)
    library, _, algorithm = name.partition(" ")
    if name == MPI or not algorithm:
        return f"{library.lower()}:default"
    raise ValueError(f"{name} is not drawn as a curve")


def compared(series: Series) -> Series:
    """What competes: our plans and the library's call; where there is but the library, its algorithms."""
    found = {name: points for name, points in series.items() if is_ours(name) or name == MPI}
    return found if len(found) > 1 else {name: points for name, points in series.items() if name != BEST}


class Winner(NamedTuple):
    """The fastest of a size; ``sure``: told apart from the second; ``ratio``: time of the second / of the first."""

    name: str
    second: str | None
    ratio: float
    sure: bool


def winners(series: Series) -> dict[int, Winner]:
    """The fastest at each size."""
    by_bytes: dict[int, list[tuple[Point, str]]] = {}
    for name, points in compared(series).items():
        for point in points:
            by_bytes.setdefault(point.nbytes, []).append((point, name))
    found = {}
    for nbytes, cells in sorted(by_bytes.items()):
        cells.sort(key=lambda cell: cell[0].time_us)
        (first, name), *rest = cells
        if not rest:
            found[nbytes] = Winner(name, None, 1.0, True)
            continue
        second, other = rest[0]
        found[nbytes] = Winner(name, other, second.time_us / first.time_us, all(apart(first, cell) for cell, _ in rest))
    return found


def ratios(a: Point, b: Point) -> list[float]:
    """Time of a / time of b in each launch that has both: what slows a launch slows both."""
    of_b = dict(b.by_launch)
    return [time / of_b[launch] for launch, time in a.by_launch if launch in of_b]


def apart(a: Point, b: Point) -> bool:
    """Whether two cells can be told apart: the same is faster in all launches, in each by NEAR where they are few.

    In one launch: their intervals do not meet; without intervals, by NEAR.
    """
    pairs = ratios(a, b)
    if len(pairs) > 1:
        least = 1 + NEAR if len(pairs) < FEW else 1.0
        return min(pairs) > least or max(pairs) < 1 / least
    if a.high_us and b.high_us:
        return a.high_us < b.low_us or b.high_us < a.low_us
    return max(a.time_us, b.time_us) > (1 + NEAR) * min(a.time_us, b.time_us)


def shown(series: Series, most: int) -> Series:
    """The series that a figure has room for: the library's call, its best algorithm, then ours by how near they are."""
    first = [name for name in (MPI, BEST) if name in series]
    names = [name for name in compared(series) if name not in first]
    best = {n: min(p.time_us for ps in series.values() for p in ps if p.nbytes == n) for n in sizes(series.values())}
    names.sort(key=lambda name: np.median([point.time_us / best[point.nbytes] for point in series[name]]))
    wins = {winner.name for winner in winners(series).values()}
    names.sort(key=lambda name: name not in wins)  # stable: a winner is never left out
    kept = [*first, *names][:most]
    return {name: series[name] for name in kept}


def sizes(all_points: Iterable[list[Point]]) -> list[int]:
    """All bytes that were measured."""
    return sorted({point.nbytes for points in all_points for point in points})


def speedups(series: Series) -> Series:
    """Time of the MPI call / time, of all others: medians of the launches' own ratios, and the range of these.

    Where there is one launch, by the extremes of both intervals.
    """
    base = {point.nbytes: point for point in series.get(MPI, ())}
    found: Series = {}
    for name, points in series.items():
        for point in points if name != MPI else ():
            mpi = base.get(point.nbytes)
            if mpi is None:
                continue
            pairs = ratios(mpi, point)
            ratio, low, high = mpi.time_us / point.time_us, 0.0, 0.0
            if len(pairs) > 1:
                ratio, low, high = float(np.median(pairs)), min(pairs), max(pairs)
            elif mpi.high_us and point.low_us:
                low, high = mpi.low_us / point.high_us, mpi.high_us / point.low_us
            found.setdefault(name, []).append(Point(point.nbytes, ratio, low, high))
    return found


def factor(collective: str, size: int) -> float:
    """Bus bandwidth over algorithm bandwidth, as nccl-tests has it."""
    share = (size - 1) / size if size else 1.0
    return {"allreduce": 2 * share, "reduce_scatter": share, "allgather": share}.get(collective, 1.0)
