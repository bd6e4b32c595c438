"""What a schedule costs, counted from the schedule itself, and what no schedule can go below.

Bytes are counted in vectors: 1.0 is the whole vector of n bytes, cut in equal chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from .model import REDUCING, Program, Schedule


@dataclass(frozen=True)
class Counts:
    """Counts of one schedule. ``sent`` and ``reduced`` are the busiest rank's, in vectors; totals over all ranks.

    ``ports`` is the largest number of messages that one rank has in flight one way in a round.
    """

    schedule: Schedule
    rounds: int
    ports: int
    messages: int
    messages_total: int
    sent: Fraction
    sent_total: Fraction
    reduced: Fraction
    reduced_total: Fraction

    def below_bounds(self) -> list[str]:
        """The lower bounds that these counts undercut (Chan et al. 2007, table 1): a list that must be empty."""
        p, collective = self.schedule.size, self.schedule.collective
        reach, latency = 1, 0
        while reach < p:  # with k ports a rank's value reaches k + 1 times as many ranks each round
            reach, latency = reach * (max(1, self.ports) + 1), latency + 1
        halves = 2 if collective == "allreduce" else 1
        share = Fraction(halves * (p - 1), p) if collective in ("allreduce", "reduce_scatter", "allgather") else 0
        adds = p - 1 if collective in REDUCING else 0
        floors = {
            "rounds": latency,
            "sent_total": halves * (p - 1),
            "sent": share,
            "reduced_total": adds,
            "reduced": Fraction(adds, p),
        }
        return [
            f"{name} is {getattr(self, name)}, and less than {floor} is impossible"
            for name, floor in floors.items()
            if getattr(self, name) < floor
        ]


def count(schedule: Schedule, programs: Sequence[Program] | None = None) -> Counts:
    """Count messages, bytes and reductions of all ranks; O(messages)."""
    programs = schedule.programs() if programs is None else programs
    ports, messages, sent, reduced = 0, [], [], []
    speaks = [False] * len(programs[0])  # rounds in which nobody does cost nothing
    for rank, program in enumerate(programs):
        leaving = [[send for send in sends if send.peer != rank] for sends, _ in program]
        coming = [[recv for recv in recvs if recv.peer != rank] for _, recvs in program]
        ports = max([ports, *map(len, leaving), *map(len, coming)])
        speaks = [before or bool(sends) for before, sends in zip(speaks, leaving)]
        messages.append(sum(map(len, leaving)))
        sent.append(sum(len(send.chunks) for sends in leaving for send in sends))
        reduced.append(sum(len(recv.chunks) for _, recvs in program for recv in recvs if recv.reduce))
    k = schedule.chunks
    return Counts(
        schedule,
        sum(speaks),
        ports,
        max(messages),
        sum(messages),
        Fraction(max(sent), k),
        Fraction(sum(sent), k),
        Fraction(max(reduced), k),
        Fraction(sum(reduced), k),
    )
