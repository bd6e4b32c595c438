"""What a schedule takes under alpha, beta and gamma: a walk along its critical path, message by message.

A message starts when both ends have come to its round and, with one port, when both are through with the messages of
that round before it; it takes alpha + bytes x beta. What it brings is reduced at gamma a byte before the next round.
Sending and receiving go on side by side (full duplex). Ranks on one node talk at the inner alpha and beta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .model import Program, Schedule


@dataclass(frozen=True)
class Network:
    """Seconds a message, seconds a byte, seconds a byte reduced, and seconds a round of software.

    ``ports``: messages that a rank can send (and receive) at a time, 1 or None for any number. ``inner``: alpha and
    beta between ranks of one node (None: as outside).
    """

    alpha: float
    beta: float
    gamma: float = 0.0
    per_round: float = 0.0
    ports: int | None = 1
    inner: tuple[float, float] | None = None


class Price(NamedTuple):
    """Seconds, and what the critical path is made of: messages, bytes sent, bytes reduced; (outside, inside) nodes."""

    seconds: float = 0.0
    messages: tuple[int, int] = (0, 0)
    sent: tuple[float, float] = (0.0, 0.0)
    reduced: float = 0.0
    rounds: int = 0

    def terms(self, network: Network) -> dict[str, float]:
        """The seconds, split."""
        inner = network.inner or (network.alpha, network.beta)
        return {
            "alpha": self.messages[0] * network.alpha + self.messages[1] * inner[0],
            "beta": self.sent[0] * network.beta + self.sent[1] * inner[1],
            "gamma": self.reduced * network.gamma,
            "rounds": self.rounds * network.per_round,
        }


def price(
    schedule: Schedule,
    network: Network,
    nbytes: float,
    nodes: Sequence[int] | None = None,
    programs: Sequence[Program] | None = None,
) -> Price:
    """The critical path for vectors of ``nbytes``; cost O(messages)."""
    if network.ports not in (1, None):
        raise ValueError(f"ports {network.ports}: 1, or None for as many as there are messages")
    programs = schedule.programs() if programs is None else programs
    inner = network.inner or (network.alpha, network.beta)
    each = nbytes / schedule.chunks
    clock = [Price()] * schedule.size
    for rounds in zip(*programs):
        ends: dict[int, Price] = {}
        sending: dict[int, Price] = {}
        receiving: dict[int, Price] = {}
        reduced: dict[int, float] = {}
        for source, peer, count in _in_turn(rounds):
            begin = max(clock[source], clock[peer])
            if network.ports == 1:
                begin = max(begin, sending.get(source, begin), receiving.get(peer, begin))
            inside = nodes is not None and nodes[source] == nodes[peer]
            end = _after(begin, count * each, inside, inner if inside else (network.alpha, network.beta))
            sending[source] = receiving[peer] = end
            ends[source] = max(end, ends.get(source, end))
            ends[peer] = max(end, ends.get(peer, end))
        for rank, (_, recvs) in enumerate(rounds):
            came = sum(len(recv.chunks) for recv in recvs if recv.reduce)
            if came:
                reduced[rank] = came * each
        for rank, end in ends.items():
            work = reduced.get(rank, 0.0)
            clock[rank] = end._replace(
                seconds=end.seconds + work * network.gamma + network.per_round,
                reduced=end.reduced + work,
                rounds=end.rounds + 1,
            )
    return max(clock)


def _in_turn(rounds: Sequence) -> list[tuple[int, int, int]]:
    """(from, to, chunks) of a round: every rank's first message, then every rank's second, ..."""
    turns = [
        (i, rank, send.peer, len(send.chunks)) for rank, (sends, _) in enumerate(rounds) for i, send in enumerate(sends)
    ]
    turns.sort()
    return [turn[1:] for turn in turns]


def _after(begin: Price, nbytes: float, inside: bool, cost: tuple[float, float]) -> Price:
    seconds, (outer, inner), (sent, sent_inside), reduced, rounds = begin
    seconds += cost[0] + nbytes * cost[1]
    if inside:
        return Price(seconds, (outer, inner + 1), (sent, sent_inside + nbytes), reduced, rounds)
    return Price(seconds, (outer + 1, inner), (sent + nbytes, sent_inside), reduced, rounds)
