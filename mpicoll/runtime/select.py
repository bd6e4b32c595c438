"""Size, ranks and nodes -> algorithm, for ``algorithm="auto"``; and the number of segments of a pipeline.

Measured where the tuning file has a row, by predicted time otherwise, among what the operation and the size allow.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from mpicoll.schedule import Algorithm, Nodes, algorithms, find, forecast

from .tuning import Tuning


@dataclass(frozen=True)
class Call:
    """What a selection looks at: ``nbytes`` of the whole vector, the node of each rank."""

    collective: str
    nodes: Nodes
    nbytes: int
    commutes: bool

    @property
    def size(self) -> int:
        """Ranks."""
        return len(self.nodes)

    @property
    def ranks_per_node(self) -> int:
        """Ranks of the fullest node."""
        return max(map(self.nodes.count, set(self.nodes)))


def select(name: str, call: Call, tuning: Tuning, segment_bytes: int | None = None) -> tuple[Algorithm, str]:
    """The algorithm to run and why. ``segment_bytes``: how long a pipeline's segments are (None: as is predicted best).

    ValueError: no such name, or one that this operation must not be given to.
    """
    if name == "auto":
        return _auto(call, tuning, segment_bytes)
    found = find(call.collective, name)
    if not _may(found, call):
        fit = [n for n, other in algorithms(call.collective).items() if _may(other, call)]
        raise ValueError(
            f"{call.collective} by {name} does not keep rank order on {call.size} ranks, and the operation does not "
            f"commute: use {', '.join(fit)}"
        )
    piped = _piped(found, call, tuning, segment_bytes)
    if piped is found:
        return found, "asked for"
    how = "by predicted time" if segment_bytes is None else f"of {segment_bytes} bytes"
    return piped, f"asked for; {piped.segments} segments {how}"


def _auto(call: Call, tuning: Tuning, segment_bytes: int | None) -> tuple[Algorithm, str]:
    need = "" if call.commutes else ", in rank order"
    where = f"auto: {call.nbytes} bytes on {call.size} ranks{need}"
    row = tuning.measured.get((call.collective, call.size, call.ranks_per_node), ())
    at = bisect_right([least for least, _ in row], call.nbytes) - 1
    if at >= 0:
        found = find(call.collective, row[at][1])
        if _may(found, call) and _fits(found, call):
            return _piped(found, call, tuning, segment_bytes), f"{where}, measured best ({tuning.source})"
    times: dict[Algorithm, float] = {}
    for name in tuning.candidates[call.collective]:
        found = find(call.collective, name)
        if found.kind == "levels" and not 1 < call.ranks_per_node < call.size:
            continue
        if not _may(found, call) or not _fits(found, call):
            continue
        piped = _piped(found, call, tuning, segment_bytes)
        segments = piped.segments if piped is not found else 1
        times[piped] = forecast(found, call.size, call.nodes, tuning.network).seconds(call.nbytes, segments)
    if not times:
        raise ValueError(f"{where}: none of {', '.join(tuning.candidates[call.collective])} can run")
    best, *others = sorted(times, key=lambda algorithm: times[algorithm])
    next_best = f", {others[0].name} {times[others[0]] * 1e6:.4g}" if others else ""
    return best, f"{where}, predicted us: {best.name} {times[best] * 1e6:.4g}{next_best} ({tuning.source})"


def _may(algorithm: Algorithm, call: Call) -> bool:
    return call.commutes or algorithm.keeps_order(call.size, call.nodes)


def _fits(algorithm: Algorithm, call: Call) -> bool:
    """Whether it can run on these ranks: a parameter in its name may not suit them."""
    try:
        algorithm.schedule(call.size, nodes=call.nodes)
    except ValueError:
        return False
    return True


def _piped(algorithm: Algorithm, call: Call, tuning: Tuning, segment_bytes: int | None) -> Algorithm:
    """A pipeline under its plain name in as many segments as are best, or of the length that is configured."""
    if not algorithm.free_segments or call.size == 1:
        return algorithm
    chunks = 1 if segment_bytes is None else algorithm.schedule(call.size, nodes=call.nodes).chunks
    look = forecast(algorithm, call.size, call.nodes, tuning.network)
    segments = look.segments(call.nbytes / chunks, segment_bytes)
    return algorithm if segments == 1 else algorithm.in_segments(segments)
