"""The critical path of a schedule at many sizes at once: what ``mpicoll.schedule.price`` walks size by size.

A schedule is looked at once. Where all ranks do alike and there is one level, its counts are a sum that no parameter
changes; elsewhere clocks of all ranks go through the rounds, arrays over the sizes, and carry their counts along.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mpicoll.schedule import Nodes, Schedule, find
from mpicoll.schedule.forecast import sampled
from mpicoll.schedule.price import alike, in_turn

# Columns of a count: messages and bytes of (outside, inside) x (short, long), then bytes reduced, then rounds.
MESSAGES, BYTES, REDUCED, ROUNDS = slice(0, 8, 2), slice(1, 8, 2), 8, 9
COUNTS = 10
MOST = 1 << 15  # ranks; to look at a ring of so many takes some ten seconds
KEPT = 512  # schedules looked at that are kept


@dataclass(frozen=True)
class Costs:
    """Seconds a message and a byte of each class (outside, outside long, inside, inside long), a byte reduced, a round.

    A message is long from ``switch`` bytes on, excluded. ``excess`` of a size: seconds more for each byte it moves or
    reduces.
    """

    alpha: tuple[float, float, float, float]
    beta: tuple[float, float, float, float]
    gamma: float
    per_round: float
    switch: float = np.inf

    @property
    def array(self) -> np.ndarray:
        """In the order of the columns."""
        pairs = [value for pair in zip(self.alpha, self.beta) for value in pair]
        return np.array([*pairs, self.gamma, self.per_round])


@dataclass(frozen=True)
class Batch:
    """Messages of different senders to different receivers: who of the round's ranks, chunks, inside a node."""

    source: np.ndarray
    peer: np.ndarray
    chunks: np.ndarray
    inside: np.ndarray


@dataclass(frozen=True)
class Step:
    """A round: the ranks that do something, its batches one after the other, chunks reduced, who spoke."""

    ranks: np.ndarray
    batches: tuple[Batch, ...]
    reduced: np.ndarray
    spoke: np.ndarray


@dataclass(frozen=True)
class Looked:
    """A schedule as arrays; ``ranks`` is 1 where all do alike.

    ``flat``, where no parameter changes the path: (chunks, inside, how often) of each kind of message; chunks reduced;
    rounds.
    """

    chunks: int
    ranks: int
    steps: tuple[Step, ...]
    flat: tuple[list[tuple[int, bool, int]], int, int] | None


@lru_cache(maxsize=KEPT)
def look(collective: str, algorithm: str, size: int, nodes: Nodes | None, levels: bool = True) -> Looked:
    """Look at every message once; without ``levels`` none counts as inside a node. ValueError: no such algorithm."""
    if size > MOST:
        raise ValueError(f"{size} ranks: every message of {algorithm} is looked at, on up to {MOST} ranks")
    schedule = find(collective, algorithm).schedule(size, nodes=nodes)  # nodes make it what it is, whatever the levels
    nodes = nodes if levels else None
    shapes = sampled(schedule, nodes) or alike(schedule.programs(), size, nodes)
    if shapes is None:
        steps = tuple(_steps(schedule, nodes))
        return Looked(schedule.chunks, size, steps, None)
    steps = tuple(
        _step([[(0, 0, chunks)] for chunks, _ in shape.messages], {0: shape.reduced}, [i for _, i in shape.messages])
        for shape in shapes
    )
    mixed = any(len({inside for _, inside in shape.messages}) > 1 for shape in shapes)
    often: dict[tuple[int, bool], int] = {}
    for shape in shapes:
        for message in shape.messages:
            often[message] = often.get(message, 0) + 1
    messages = [(chunks, inside, n) for (chunks, inside), n in often.items()]
    flat = messages, sum(shape.reduced for shape in shapes), sum(bool(shape.messages) for shape in shapes)
    return Looked(schedule.chunks, 1, steps, None if mixed else flat)


def _steps(schedule: Schedule, nodes: Nodes | None) -> list[Step]:
    found = []
    for rounds in zip(*map(schedule.rounds_of, range(schedule.size))):
        batches: list[list[tuple[int, int, int]]] = []
        sender: dict[int, int] = {}  # the batch from which on a rank's port is free
        receiver: dict[int, int] = {}
        for source, peer, chunks in in_turn(rounds):
            at = max(sender.get(source, 0), receiver.get(peer, 0))
            sender[source] = receiver[peer] = at + 1
            if at == len(batches):
                batches.append([])
            batches[at].append((source, peer, chunks))
        reduced = {
            rank: sum([len(recv.chunks) for recv in recvs if recv.reduce])
            for rank, (_, recvs) in enumerate(rounds)
            if recvs
        }
        inside = [nodes is not None and nodes[s] == nodes[p] for batch in batches for s, p, _ in batch]
        found.append(_step(batches, reduced, inside))
    return found


def _step(batches: list[list[tuple[int, int, int]]], reduced: dict[int, int], inside: list[bool]) -> Step:
    """``inside``: of each message, batch by batch."""
    talk = {rank for batch in batches for source, peer, _ in batch for rank in (source, peer)}
    ranks = sorted(talk | {rank for rank, chunks in reduced.items() if chunks})
    at = {rank: i for i, rank in enumerate(ranks)}
    arrays, flags = [], iter(inside)
    for batch in batches:
        level = np.array([next(flags) for _ in batch], int)
        source, peer, chunks = zip(*batch)
        arrays.append(
            Batch(np.array([at[r] for r in source]), np.array([at[r] for r in peer]), np.array(chunks), level)
        )
    return Step(
        np.array(ranks, int),
        tuple(arrays),
        np.array([reduced.get(rank, 0) for rank in ranks]),
        np.array([rank in talk for rank in ranks], bool),
    )


class Under(NamedTuple):
    """What messages cost: ``excess`` is seconds more for a byte, of each size."""

    costs: Costs
    alpha: np.ndarray
    beta: np.ndarray
    excess: np.ndarray


# Clocks are arrays (ranks, sizes, 1 + COUNTS): the seconds, and what they are made of.
Ports = dict[tuple[int, int], np.ndarray]  # (way, level) -> until when each rank's is taken


def counts(looked: Looked, nbytes: np.ndarray, costs: Costs, excess: np.ndarray | None = None) -> np.ndarray:
    """(sizes, COUNTS): what the critical path is made of at each size, under these costs."""
    each = np.asarray(nbytes, float) / looked.chunks
    if looked.flat is not None:
        return _sum(looked, each, costs.switch)
    sizes = len(each)
    none = np.zeros(sizes) if excess is None else excess
    under = Under(costs, np.array(costs.alpha), np.array(costs.beta), none)
    clock = np.zeros((looked.ranks, sizes, 1 + COUNTS))
    for step in looked.steps:
        _round(step, clock, each, under)
    last = clock[:, :, 0].argmax(axis=0)
    return clock[last, np.arange(sizes), 1:]


def _sum(looked: Looked, each: np.ndarray, switch: float) -> np.ndarray:
    found = np.zeros((len(each), COUNTS))
    assert looked.flat is not None
    messages, reduced, rounds = looked.flat
    for chunks, inside, often in messages:
        nbytes = chunks * each
        long = nbytes > switch
        for column, which in ((4 * inside, ~long), (4 * inside + 2, long)):
            found[:, column] += often * which
            found[:, column + 1] += often * nbytes * which
    found[:, REDUCED] = reduced * each
    found[:, ROUNDS] = rounds
    return found


def _round(step: Step, clock: np.ndarray, each: np.ndarray, under: Under) -> None:
    """Advance the clocks of a round's ranks, in place."""
    now = clock[step.ranks]
    if step.batches:
        ends = now.copy()
        ports: Ports | None = {} if len(step.batches) > 1 else None  # nobody waits for a port at the first message
        for batch in step.batches:
            _send(batch, now, ends, ports, each, under)
        now = ends
    reduced = step.reduced[:, None] * each
    now[:, :, 0] += reduced * (under.costs.gamma + under.excess) + under.costs.per_round * step.spoke[:, None]
    now[:, :, 1 + REDUCED] += reduced
    now[:, :, 1 + ROUNDS] += step.spoke[:, None]
    clock[step.ranks] = now


def _send(batch: Batch, now: np.ndarray, ends: np.ndarray, ports: Ports | None, each: np.ndarray, under: Under) -> None:
    """Send a batch: each message when both ends are there and, level by level, done with those before it."""
    source, peer, inside = batch.source, batch.peer, batch.inside
    clock = _later(now[source], now[peer])
    levels = np.unique(inside).tolist()
    for way, rank in ((0, source), (1, peer)):
        for level in levels:
            if ports and (way, level) in ports:
                busy = ports[way, level][rank]
                busy[inside != level, :, 0] = -np.inf
                clock = _later(clock, busy)
    nbytes = batch.chunks[:, None] * each
    kind = 2 * inside[:, None] + (nbytes > under.costs.switch)
    clock[:, :, 0] += under.alpha[kind] + nbytes * (under.beta[kind] + under.excess)
    message, size = np.arange(len(source))[:, None], np.arange(len(each))
    clock[message, size, 1 + 2 * kind] += 1
    clock[message, size, 2 + 2 * kind] += nbytes
    for way, rank in ((0, source), (1, peer)):
        ends[rank] = _later(ends[rank], clock)
        for level in levels if ports is not None else ():
            assert ports is not None
            if (way, level) not in ports:
                ports[way, level] = np.full(now.shape, -np.inf)
            ports[way, level][rank[inside == level]] = clock[inside == level]


def _later(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The later of two clocks, and what it is made of: a new array."""
    return np.where((b[:, :, 0] > a[:, :, 0])[:, :, None], b, a)
