"""A schedule in text: who talks to whom in each round, how the chunks fill, and how many bytes go from whom to whom."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from fractions import Fraction

from .model import REDUCING, Recv, Round, Schedule, Send


def contents(schedule: Schedule) -> list[list[list[frozenset[int] | None]]]:
    """For each round (the start first), rank and chunk: whose parts it holds, or None."""
    reducing = schedule.collective in REDUCING
    programs = schedule.programs()
    state: list[list[frozenset[int] | None]] = [
        [
            (frozenset([rank]) if reducing else frozenset([c])) if c in schedule.inputs(rank) else None
            for c in range(schedule.chunks + schedule.slots)
        ]
        for rank in range(schedule.size)
    ]
    states = [state]
    for rounds in zip(*programs):
        before, state = state, [list(row) for row in state]
        for rank, send, recv in matched(rounds):
            for source, target in zip(send.chunks, recv.chunks):
                own, value = state[send.peer][target], before[rank][source]
                both = recv.reduce and own is not None and value is not None
                state[send.peer][target] = own | value if both else value  # type: ignore[operator]
        states.append(state)
    return states


def matched(rounds: Sequence[Round]) -> Iterator[tuple[int, Send, Recv]]:
    """The messages of a round: (from, send, receive); those of a pair meet in order."""
    expected: dict[tuple[int, int], deque[Recv]] = defaultdict(deque)
    for rank, (_, recvs) in enumerate(rounds):
        for recv in recvs:
            expected[recv.peer, rank].append(recv)
    for rank, (sends, _) in enumerate(rounds):
        for send in sends:
            yield rank, send, expected[rank, send.peer].popleft()


def steps(schedule: Schedule) -> Iterator[str]:
    """Lines that draw the rounds: messages, then each rank's chunks (digits: parts summed; ``.``: nothing)."""
    states, reducing = contents(schedule), schedule.collective in REDUCING
    yield from _state("start", states[0], schedule.size, reducing)
    for k, (rounds, state) in enumerate(zip(zip(*schedule.programs()), states[1:])):
        said = []
        for rank, send, recv in matched(rounds):
            into = "" if list(send.chunks) == list(recv.chunks) else f" into {_ranges(recv.chunks)}"
            said.append(f"{rank} {'+>' if recv.reduce else '->'} {send.peer}: {_ranges(send.chunks)}{into}")
        yield ""
        yield from _wrapped(f"round {k + 1}", said)
        yield from _state("", state, schedule.size, reducing)


def matrix(schedule: Schedule) -> list[list[Fraction]]:
    """Vectors sent from each rank (row) to each rank (column)."""
    table = [[Fraction(0)] * schedule.size for _ in range(schedule.size)]
    for rank, program in enumerate(schedule.programs()):
        for sends, _ in program:
            for peer, chunks in sends:
                if peer != rank:
                    table[rank][peer] += Fraction(len(chunks), schedule.chunks)
    return table


def _state(title: str, state: Sequence[Sequence[frozenset[int] | None]], size: int, reducing: bool) -> Iterator[str]:
    width = len(str(size))
    for rank, row in enumerate(state):
        cells = []
        for held in row:
            if held is None:
                cells.append("." * width)
            else:
                cells.append(f"{len(held) if reducing else min(held):>{width}}")
        yield f"{title if rank == 0 else '':<9} rank {rank:<{width}}  [{' '.join(cells)}]"


def _wrapped(title: str, said: Sequence[str]) -> Iterator[str]:
    line = f"{title:<9} "
    for i, text in enumerate(said):
        if i and len(line) + len(text) > 98:
            yield line.rstrip()
            line = " " * 10
        line += text + "   "
    yield line.rstrip()


def _ranges(chunks: Sequence[int]) -> str:
    """1, 2, 3, 5 as 1-3,5."""
    parts: list[list[int]] = []
    for c in chunks:
        if parts and parts[-1][1] + 1 == c:
            parts[-1][1] = c
        else:
            parts.append([c, c])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
