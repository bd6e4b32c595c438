"""Whole blocks of samples at once: what ``ours`` reads record by record, in a tenth of the time.

A block in which anything is not as the bench writes it is not read here: ``ours`` then says what is wrong with it, or
leaves what must be left.
"""

from __future__ import annotations

from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from mpicoll.statistics import interval_ranks

from ..samples import LARGEST, device_of

Columns = dict[str, list[Any]]


class _Sample(msgspec.Struct, tag_field="record", tag="sample", gc=False):
    """What is read of a sample, in these types only; what else a record holds is passed over."""

    collective: str
    library: str
    algorithm: str
    nbytes: int
    size: int
    count: int
    dtype: str | None
    op: str | None
    in_place: bool
    times_us: list[float]
    nodes: int | None = None
    wrong: int | None = None
    segment_bytes: int | None = None
    low_us: float | None = None
    high_us: float | None = None
    call: str | None = None
    sync: str | None = None
    device: str | None = None
    transport: str | None = None
    skipped: None = None


_decode = msgspec.json.Decoder(_Sample).decode_lines
_REPEATED = ("collective", "library", "algorithm", "dtype", "op", "call", "sync")
_OTHERS = ("nbytes", "size", "count", "in_place", "nodes", "wrong", "segment_bytes", "low_us", "high_us")
_LEAST = {"nbytes": 1, "size": 2, "count": 0, "nodes": 1, "segment_bytes": -LARGEST}


def read_block(
    block: bytes, at: int, launch: int, where: dict[str, Any], size: int | None, direct: bool
) -> Columns | None:
    """The columns of lines from number ``at`` on, all of them samples to be taken; None if any is not.

    ``size``: the ranks that all must have. ``direct``: none may be staged.
    """
    try:
        samples = _decode(block)
    except msgspec.DecodeError:
        return None
    n = len(samples)
    if n != block.count(b"\n") + (not block.endswith(b"\n")):
        return None
    if direct and "staged" in map(attrgetter("transport"), samples):
        return None
    columns: Columns = {name: _shared(list(map(attrgetter(name), samples))) for name in _REPEATED}
    columns |= {name: list(map(attrgetter(name), samples)) for name in _OTHERS}
    if any(columns["wrong"]) or not _right(columns, {size, where.get("size")} - {None}):
        return None
    times = list(map(attrgetter("times_us"), samples))
    columns["line"] = list(range(at, at + n))
    columns["n_samples"] = list(map(len, times))
    columns |= {name: [value] * n for name, value in (("launch", launch), ("statistic", "median"))}
    columns |= {name: [where.get(name)] * n for name in ("placement", "crowded", "mpi_library")}
    devices = list(map(attrgetter("device"), samples))
    plain = devices[0] in (None, "cpu") and devices.count(devices[0]) == n  # then no transport matters
    columns["device"] = devices if plain else _shared([device_of(one.device, one.transport) for one in samples])
    return columns if _timed(columns, times) else None


def _shared(names: list[Any]) -> list[Any]:
    """The same names, each kept once."""
    if names.count(names[0]) == len(names):
        return names[:1] * len(names)
    kept: dict[Any, Any] = {}
    return list(map(kept.setdefault, names, names))


def _right(columns: Columns, sizes: set[int | None]) -> bool:
    """Whether all figures are such as a row is taken with; ``sizes``: what the run and the person say."""
    if sizes and set(columns["size"]) != sizes:
        return False
    for name, least in _LEAST.items():
        known = [value for value in set(columns[name]) if value is not None]
        if known and not (min(known) >= least and max(known) < LARGEST):
            return False
    # Nodes of one run beside ranks of another are looked at one by one.
    return max((nodes for nodes in set(columns["nodes"]) if nodes is not None), default=1) <= min(columns["size"])


def _timed(columns: Columns, times: list[list[float]]) -> bool:
    """Put medians and their intervals into the columns; whether all are times."""
    lengths = np.array(columns["n_samples"])
    values = np.fromiter(chain.from_iterable(times), float, lengths.sum())
    if not lengths.all() or not ((values >= 0) & (values < 1e300)).all():
        return False
    ends = np.cumsum(lengths)
    middle = np.empty(len(times))
    for n in np.unique(lengths).tolist():
        which = np.flatnonzero(lengths == n)
        ordered = np.sort(values[(ends[which] - n)[:, None] + np.arange(n)], axis=1)
        middle[which] = (ordered[:, (n - 1) // 2] + ordered[:, n // 2]) / 2
        ranks = interval_ranks(n)
        for said, rank in ((columns["low_us"], 0), (columns["high_us"], 1)):
            if ranks and None in said:
                for i, value in zip(which.tolist(), ordered[:, ranks[rank]].tolist()):
                    if said[i] is None:
                        said[i] = value
    columns["time_us"] = middle.tolist()
    return bool((middle > 0).all())
