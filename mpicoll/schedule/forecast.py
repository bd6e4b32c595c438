"""Seconds of a schedule at any size, from one look at it: what a selection and a number of segments are made by.

The critical path at a byte and the one at a gibibyte, each a straight line in the bytes; the later of the two. With
segments, what is in flight at once: a rank does all its rounds in every slot, each for another segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from .model import Program, Schedule
from .price import Network, Price, Shape, alone, price, shape
from .registry import Algorithm, Nodes

SMALL, LARGE = 1.0, float(1 << 30)  # bytes at which the paths are looked for
SAMPLED = 64  # ranks from which on a few are looked at, and speak for all if they do alike
SEGMENTS = tuple(1 << i for i in range(11))  # numbers of segments that are tried


@dataclass(frozen=True)
class Forecast:
    """Two critical paths and what keeps the ranks busy.

    ``paths`` for one byte each; ``loads`` of the different ranks: messages and vectors (outside, inside nodes), vectors
    reduced.
    """

    network: Network
    paths: tuple[Price, ...]
    loads: frozenset[tuple[tuple[int, int], tuple[float, float], float]]

    def seconds(self, nbytes: float, segments: int = 1) -> float:
        """The predicted time."""
        part = nbytes / segments
        net = self.network
        once = max(self._line(path, part) for path in self.paths)
        if segments == 1:
            return once
        slot = max(
            max(m * alpha + b * part * beta for m, b, (alpha, beta) in zip(messages, sent, net.levels))
            + reduced * part * net.gamma
            for messages, sent, reduced in self.loads
        )
        return once + (segments - 1) * (slot + net.per_round)

    def segments(self, nbytes: float, segment_bytes: int | None = None) -> int:
        """The number of segments that is fastest, or the one that makes them ``segment_bytes`` long (1024 at most)."""
        if segment_bytes is not None:
            return min(SEGMENTS[-1], max(1, -(-int(nbytes) // segment_bytes)))
        return min((s for s in SEGMENTS if s <= max(1, nbytes)), key=lambda s: (self.seconds(nbytes, s), s))

    def _line(self, path: Price, nbytes: float) -> float:
        terms = path.terms(self.network)
        return terms["alpha"] + terms["rounds"] + nbytes * (terms["beta"] + terms["gamma"])


@lru_cache(maxsize=512)
def forecast(algorithm: Algorithm, size: int, nodes: Nodes, network: Network) -> Forecast:
    """Look at an algorithm; O(messages), or those of a few ranks from SAMPLED ranks on where these do alike."""
    schedule = algorithm.schedule(size, nodes=nodes)
    levels = nodes if network.inner else None
    if sampled(schedule, levels) is not None:
        program = schedule.program(0)
        path = alone(program, 0, network, LARGE, schedule.chunks, levels)
        return Forecast(network, (_for_a_byte(path, LARGE),), frozenset([_load(program, 0, schedule, levels)]))
    programs = schedule.programs()
    paths = [_for_a_byte(price(schedule, network, n, levels, programs), n) for n in (SMALL, LARGE)]
    loads = frozenset(_load(program, rank, schedule, levels) for rank, program in enumerate(programs))
    return Forecast(network, tuple(dict.fromkeys(paths)), loads)


def sampled(schedule: Schedule, nodes: Sequence[int] | None) -> list[Shape] | None:
    """The shapes of the rounds from SAMPLED ranks on, if a few ranks that are looked at do alike."""
    size = schedule.size
    if size < SAMPLED:
        return None
    found: list[Shape] | None = None
    for rank in sorted({0, 1, 2, size // 3, size // 2 - 1, size // 2, size - 2, size - 1}):
        shapes = [shape(rank, step, nodes) for step in schedule.rounds_of(rank)]
        if found is not None and shapes != found:
            return None
        found = shapes
    return found


def _for_a_byte(path: Price, nbytes: float) -> Price:
    outer, inner = path.sent
    return path._replace(seconds=0.0, sent=(outer / nbytes, inner / nbytes), reduced=path.reduced / nbytes)


def _load(
    program: Program, rank: int, schedule: Schedule, nodes: Sequence[int] | None
) -> tuple[tuple[int, int], tuple[float, float], float]:
    """What a rank does in all its rounds: the busier of its two directions, level by level."""
    messages, chunks = [[0, 0], [0, 0]], [[0, 0], [0, 0]]  # ways, levels
    reduced = 0
    for sends, recvs in program:
        both = [(0, send.peer, send.chunks) for send in sends] + [(1, recv.peer, recv.chunks) for recv in recvs]
        for way, peer, moved in (message for message in both if message[1] != rank):
            inside = nodes is not None and nodes[peer] == nodes[rank]
            messages[way][inside] += 1
            chunks[way][inside] += len(moved)
        reduced += sum(len(recv.chunks) for recv in recvs if recv.reduce)
    most = [max(a, b) / schedule.chunks for a, b in zip(*chunks)]
    return (
        (max(messages[0][0], messages[1][0]), max(messages[0][1], messages[1][1])),
        (most[0], most[1]),
        reduced / schedule.chunks,
    )
