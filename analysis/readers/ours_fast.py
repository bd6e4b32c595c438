"""Whole blocks of samples at once: what ``ours`` reads record by record, in a tenth of the time.

A block in which anything is not as the bench writes it is not read here: ``ours`` then says what is wrong with it, or
leaves what must be left.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np

from mpicoll.statistics import interval_ranks

from ..samples import LARGEST, Row

BLOCK = 1000  # lines
SAMPLE = '{"record":"sample"'
_FIELDS: tuple[str, ...] = (
    "collective",
    "nbytes",
    "library",
    "algorithm",
    "size",
    "nodes",
    "dtype",
    "op",
    "count",
    "in_place",
)
_FIELDS += ("wrong", "call", "sync", "segment_bytes", "times_us", "low_us", "high_us", "skipped", "record")
_get = itemgetter(*_FIELDS)
_NONE = type(None)
_TYPES: tuple[tuple[tuple[str, ...], set[type]], ...] = (
    (("collective", "library", "algorithm", "record"), {str}),
    (("dtype", "op", "call", "sync"), {str, _NONE}),
    (("nbytes", "size", "count"), {int}),
    (("nodes", "wrong", "segment_bytes"), {int, _NONE}),
    (("low_us", "high_us"), {int, float, _NONE}),
    (("in_place",), {bool}),
    (("times_us",), {list}),
    (("skipped",), {_NONE}),
)

loads: Callable[[str], Any] = json.loads
if find_spec("orjson"):
    import orjson

    loads = orjson.loads  # the same, in a third of the time


def read_block(at: int, lines: Sequence[str], launch: int, size: int | None, where: dict[str, Any]) -> list[Row] | None:
    """The rows of lines from number ``at`` on, all of them samples to be taken; None if any is not."""
    try:
        records = loads("[" + ",".join(lines) + "]")
        columns = dict(zip(_FIELDS, zip(*map(_get, records))))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if len(records) != len(lines):
        return None
    if not all(types.issuperset(map(type, columns[name])) for names, types in _TYPES for name in names):
        return None
    if set(columns["record"]) != {"sample"} or any(columns["wrong"]):
        return None
    if not _right(columns, size):
        return None
    timed = _timed(columns)
    if timed is None:
        return None
    middle, low, high = timed
    n = len(lines)
    rows = zip(
        range(at, at + n), columns["collective"], columns["nbytes"], middle, columns["library"], columns["algorithm"],
        columns["size"], columns["nodes"], columns["dtype"], columns["op"], columns["count"], columns["in_place"], low,
        high, map(len, columns["times_us"]), columns["wrong"], (launch,) * n, ("median",) * n, columns["call"],
        columns["sync"], columns["segment_bytes"], (where.get("placement"),) * n, (where.get("crowded"),) * n,
    )  # fmt: skip
    return list(map(Row._make, rows))


def _right(columns: dict[str, tuple[Any, ...]], size: int | None) -> bool:
    """Whether all figures are such as a row is taken with."""
    if size is not None and set(columns["size"]) != {size}:
        return False
    for name, least in (("nbytes", 1), ("size", 2), ("count", 0), ("nodes", -LARGEST), ("segment_bytes", -LARGEST)):
        known = [value for value in set(columns[name]) if value is not None]
        if known and not (min(known) >= least and max(known) < LARGEST):
            return False
    return True


def _timed(columns: dict[str, tuple[Any, ...]]) -> tuple[list[float], list[float | None], list[float | None]] | None:
    """Medians and their intervals; None if something is no time."""
    times: tuple[list[float], ...] = columns["times_us"]
    lengths = np.fromiter(map(len, times), int, len(times))
    flat = list(chain.from_iterable(times))
    if not lengths.all() or not {int, float}.issuperset(map(type, flat)):
        return None
    values = np.array(flat, float)
    if not ((values >= 0) & (values < 1e300)).all():
        return None
    ends = np.cumsum(lengths)
    middle = np.empty(len(times))
    low, high = list(columns["low_us"]), list(columns["high_us"])
    for n in np.unique(lengths).tolist():
        which = np.flatnonzero(lengths == n)
        ordered = np.sort(values[(ends[which] - n)[:, None] + np.arange(n)], axis=1)
        middle[which] = (ordered[:, (n - 1) // 2] + ordered[:, n // 2]) / 2
        ranks = interval_ranks(n)
        for said, rank in ((low, 0), (high, 1)):
            if ranks and None in said:
                for i, value in zip(which.tolist(), ordered[:, ranks[rank]].tolist()):
                    if said[i] is None:
                        said[i] = value
    if not (middle > 0).all():
        return None
    return middle.tolist(), low, high
