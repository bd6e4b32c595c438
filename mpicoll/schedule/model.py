"""What a collective is here: a schedule, and a schedule is data.

A *program* is the list of rounds of one rank; a *schedule* is the programs of all ranks, each made on demand by a
pure function of the rank. Nothing in this package knows MPI, arrays or byte counts.

What a round means. Its sends read the state before the round. When its messages are through, each chunk takes what
came for it: a copy replaces it; reductions fold every piece that came with the rank's own in the order of the ranks
they came from (the own piece stands at its own rank), never in the order of arrival. Round k of one rank talks to
round k of the others: all programs of a schedule have the same number of rounds, idle ones included.

A schedule may have scratch: chunks from ``chunks`` on are *slots*, slot s as long as chunk s mod chunks, and nothing is
in them at the start. A round in which ranks send only to themselves is one of *local steps*: copies and reductions in
memory, what comes standing left of the own. They are no messages, and nobody waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .garbage import unlooked

COLLECTIVES = ("allreduce", "reduce_scatter", "allgather", "reduce", "bcast")
REDUCING = ("allreduce", "reduce_scatter", "reduce")


class Send(NamedTuple):
    """One message to ``peer`` with the chunks in this order."""

    peer: int
    chunks: Sequence[int]


class Recv(NamedTuple):
    """One message from ``peer``; its chunks replace the own ones, or are reduced with them."""

    peer: int
    chunks: Sequence[int]
    reduce: bool = False


class Round(NamedTuple):
    """Messages in flight together."""

    sends: Sequence[Send] = ()
    recvs: Sequence[Recv] = ()


IDLE = Round()
Program = list[Round]


@dataclass(frozen=True)
class Schedule:
    """The programs of ``size`` ranks for one collective on a vector of ``chunks`` chunks.

    ``rounds_of(rank)`` yields that rank's rounds. ``root`` matters to reduce and bcast only. For allgather and
    reduce_scatter chunk r belongs to rank r.
    """

    collective: str
    algorithm: str
    size: int
    chunks: int
    rounds_of: Callable[[int], Iterable[Round]]
    root: int = 0
    slots: int = 0

    def program(self, rank: int) -> Program:
        """The rounds of one rank; cost O(its own messages)."""
        return list(self.rounds_of(rank))

    @unlooked()
    def programs(self) -> list[Program]:
        """The rounds of all ranks."""
        return [self.program(rank) for rank in range(self.size)]

    def outputs(self, rank: int) -> range:
        """The chunks that this rank must end with."""
        if self.collective == "reduce_scatter":
            return range(rank, rank + 1)
        if self.collective == "reduce" and rank != self.root:
            return range(0)
        return range(self.chunks)

    def inputs(self, rank: int) -> range:
        """The chunks that this rank starts with."""
        if self.collective == "allgather":
            return range(rank, rank + 1)
        if self.collective == "bcast" and rank != self.root:
            return range(0)
        return range(self.chunks)

    def but(self, **changes: object) -> Schedule:
        """The same schedule with other fields."""
        return replace(self, **changes)  # type: ignore[arg-type]


def bounds(count: int, chunks: int) -> list[int]:
    """Edges of ``chunks`` balanced pieces of ``count`` elements: the first (count mod chunks) have one more.

    >>> bounds(7, 3)
    [0, 3, 5, 7]
    """
    quotient, remainder = divmod(count, chunks)
    return [i * quotient + min(i, remainder) for i in range(chunks + 1)]


class Wrapped(Sequence[int]):
    """Chunks that go round the end of 0..size-1, without a list of them."""

    def __init__(self, first: int, length: int, size: int) -> None:
        self.first, self.length, self.size = first, length, size

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: Any) -> Any:
        if not -self.length <= i < self.length:
            raise IndexError(i)
        return (self.first + i % self.length) % self.size


def cyclic(first: int, count: int, size: int) -> Sequence[int]:
    """``count`` chunks from ``first`` on, round the end of 0..size-1: a range where it does not wrap."""
    first %= size
    return range(first, first + count) if first + count <= size else Wrapped(first, count, size)


def power_of_two(size: int) -> bool:
    """Whether the size is 1, 2, 4, 8, ...; a restriction that several patterns share."""
    return size & (size - 1) == 0
