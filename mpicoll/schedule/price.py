"""What a schedule takes under alpha, beta and gamma: a walk along its critical path, message by message.

A message starts when both ends have come to its round and, with one port, when both are through with the messages of
that round before it; it takes alpha + bytes x beta. What it brings is reduced at gamma a byte before the next round.
Sending and receiving go on side by side (full duplex), and so do messages inside a node and out of it, each at its own
alpha and beta.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .garbage import unlooked
from .model import Program, Round, Schedule


@dataclass(frozen=True)
class Network:
    """Seconds a message, seconds a byte, seconds a byte reduced, and seconds a round of software.

    ``ports``: messages that a rank can send (and receive) at a time, 1 or None for any number; one inside the node and
    one out of it where ``inner`` tells them apart: alpha and beta between ranks of one node (None: as outside).
    """

    alpha: float
    beta: float
    gamma: float = 0.0
    per_round: float = 0.0
    ports: int | None = 1
    inner: tuple[float, float] | None = None

    @property
    def levels(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """(alpha, beta) outside nodes and inside."""
        outer = (self.alpha, self.beta)
        return outer, self.inner or outer


class Price(NamedTuple):
    """Seconds, and what the critical path is made of: messages, bytes sent, bytes reduced; (outside, inside) nodes."""

    seconds: float = 0.0
    messages: tuple[int, int] = (0, 0)
    sent: tuple[float, float] = (0.0, 0.0)
    reduced: float = 0.0
    rounds: int = 0

    def terms(self, network: Network) -> dict[str, float]:
        """The seconds, split."""
        (alpha, beta), (inner_alpha, inner_beta) = network.levels
        return {
            "alpha": self.messages[0] * alpha + self.messages[1] * inner_alpha,
            "beta": self.sent[0] * beta + self.sent[1] * inner_beta,
            "gamma": self.reduced * network.gamma,
            "rounds": self.rounds * network.per_round,
        }


@unlooked()
def price(
    schedule: Schedule,
    network: Network,
    nbytes: float,
    nodes: Sequence[int] | None = None,
    programs: Sequence[Program] | None = None,
) -> Price:
    """The critical path for vectors of ``nbytes``.

    Cost O(messages): a look at each where all ranks do alike, three or four times that otherwise.
    """
    if network.ports not in (1, None):
        raise ValueError(f"ports {network.ports}: 1, or None for as many as there are messages")
    nodes = nodes if network.inner else None
    each = nbytes / schedule.chunks
    everyone = range(schedule.size)
    shapes = alike(map(schedule.rounds_of, everyone) if programs is None else programs, schedule.size, nodes)
    if shapes is not None:
        clock = Price()
        for one in shapes:
            clock = _lockstep(clock, one, each, network)
        return clock
    clocks = [Price()] * schedule.size
    for rounds in zip(*(map(schedule.rounds_of, everyone) if programs is None else programs)):
        _walk(clocks, rounds, each, network, nodes)
    return max(clocks)


class Shape(NamedTuple):
    """What a rank does in a round: chunks and whether inside its node, message by message; chunks it reduces."""

    messages: tuple[tuple[int, bool], ...]
    reduced: int


def shape(rank: int, step: Round, nodes: Sequence[int] | None) -> Shape:
    """The shape of one rank's round, as it sends."""
    reduced = 0
    for recv in step.recvs:
        if recv.reduce:
            reduced += len(recv.chunks)
    leaving = [send for send in step.sends if send.peer != rank]
    if nodes is None:
        return Shape(tuple([(len(send.chunks), False) for send in leaving]), reduced)
    return Shape(tuple([(len(send.chunks), nodes[send.peer] == nodes[rank]) for send in leaving]), reduced)


def alike(programs: Iterable[Iterable[Round]], size: int, nodes: Sequence[int] | None) -> list[Shape] | None:
    """The shapes of the rounds if they are every rank's, and the messages of a turn reach every rank once."""
    first: list[Shape] | None = None
    reached: list[list[bytearray]] = []  # for each round and turn which ranks get a message
    for rank, program in enumerate(programs):
        shapes = []
        for k, step in enumerate(program):
            if len(step.sends) != len(step.recvs):
                return None
            shapes.append(shape(rank, step, nodes))
            if first is None:
                reached.append([bytearray(size) for _ in shapes[k].messages])
            elif shapes[k] != first[k]:
                return None
            for marks, send in zip(reached[k], step.sends):  # of local steps nobody is reached
                marks[send.peer] = 1
        first = first or shapes
    return first if all(all(marks) for turns in reached for marks in turns) else None


def _lockstep(clock: Price, alike: Shape, each: float, network: Network) -> Price:
    """The clock after a round in which all ranks do alike."""
    if not alike.messages:
        return _locally(clock, alike.reduced * each, network)
    ends = [clock, clock]
    last = clock
    for chunks, inside in alike.messages:
        begin = ends[inside] if network.ports == 1 else clock
        ends[inside] = end = _after(begin, chunks * each, inside, network)
        last = max(last, end)
    return _through(last, alike.reduced * each, network)


def alone(
    program: Program, rank: int, network: Network, nbytes: float, chunks: int, nodes: Sequence[int] | None
) -> Price:
    """The price of one rank's program, which is everyone's where all ranks do alike."""
    clock = Price()
    for step in program:
        clock = _lockstep(clock, shape(rank, step, nodes), nbytes / chunks, network)
    return clock


def _walk(
    clock: list[Price], rounds: Sequence[Round], each: float, network: Network, nodes: Sequence[int] | None
) -> None:
    """Advance the clocks of all ranks by a round."""
    ends: dict[int, Price] = {}
    sending: dict[tuple[int, bool], Price] = {}
    receiving: dict[tuple[int, bool], Price] = {}
    for source, peer, count in in_turn(rounds):
        begin = max(clock[source], clock[peer])
        inside = nodes is not None and nodes[source] == nodes[peer]
        if network.ports == 1:
            begin = max(begin, sending.get((source, inside), begin), receiving.get((peer, inside), begin))
        end = _after(begin, count * each, inside, network)
        sending[source, inside] = receiving[peer, inside] = end
        ends[source] = max(end, ends.get(source, end))
        ends[peer] = max(end, ends.get(peer, end))
    for rank, (_, recvs) in enumerate(rounds):
        reduced = sum(len(recv.chunks) for recv in recvs if recv.reduce) * each
        if rank in ends:
            clock[rank] = _through(ends[rank], reduced, network)
        else:
            clock[rank] = _locally(clock[rank], reduced, network)


def in_turn(rounds: Sequence[Round]) -> list[tuple[int, int, int]]:
    """(from, to, chunks) of a round: every rank's first message, then every rank's second, ..."""
    turns = [
        (i, rank, send.peer, len(send.chunks))
        for rank, (sends, _) in enumerate(rounds)
        for i, send in enumerate(sends)
        if send.peer != rank
    ]
    turns.sort()
    return [turn[1:] for turn in turns]


def _after(begin: Price, nbytes: float, inside: bool, network: Network) -> Price:
    """The clock after a message."""
    seconds, (outer, inner), (sent, sent_inside), reduced, rounds = begin
    alpha, beta = network.levels[inside]
    seconds += alpha + nbytes * beta
    if inside:
        return Price(seconds, (outer, inner + 1), (sent, sent_inside + nbytes), reduced, rounds)
    return Price(seconds, (outer + 1, inner), (sent + nbytes, sent_inside), reduced, rounds)


def _locally(clock: Price, reduced: float, network: Network) -> Price:
    """The clock after local steps: no message, and no round."""
    if not reduced:
        return clock
    return clock._replace(seconds=clock.seconds + reduced * network.gamma, reduced=clock.reduced + reduced)


def _through(end: Price, reduced: float, network: Network) -> Price:
    """The clock after a round's last message and its reductions."""
    return end._replace(
        seconds=end.seconds + reduced * network.gamma + network.per_round,
        reduced=end.reduced + reduced,
        rounds=end.rounds + 1,
    )
