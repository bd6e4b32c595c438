"""One collective call from arguments to simulated result: arguments -> problem -> lower -> Simulator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from functools import reduce as fold

import numpy as np
from mpi4py import MPI
from simulator import POISON, Simulator

from mpicoll.runtime import cut
from mpicoll.runtime import lower as lowering
from mpicoll.runtime.problem import Arguments, problem
from mpicoll.runtime.steps import Copy
from mpicoll.schedule import COLLECTIVES, REDUCING, algorithms, bounds

ALL = [(collective, name) for collective in COLLECTIVES for name in algorithms(collective)]
MODULUS = 1 << 20
# Only its flag is looked at: with it a reduce takes the way that keeps rank order.
ORDERED = MPI.Op.Create(lambda *_: None, commute=False)


def compose(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Two maps x -> ax + b (mod 2^20), each packed in one element, one after the other: it does not commute."""
    (a, b), (c, d) = np.divmod(left, MODULUS), np.divmod(right, MODULUS)
    return (a * c % MODULUS) * MODULUS + (b * c + d) % MODULUS


@lru_cache(maxsize=64)
def values(rank: int, count: int) -> np.ndarray:
    """Maps that differ by rank and by place."""
    i = np.arange(count, dtype=np.int64)
    return (2 * ((i * 7919 + rank * 104729) % 5000) + 3) * MODULUS + (i * 31 + rank * 17 + 5) % MODULUS


@lru_cache(maxsize=16)
def reduced(size: int, count: int, ordered: bool) -> np.ndarray:
    return fold(compose if ordered else np.add, [values(rank, count) for rank in range(size)])


@dataclass(frozen=True)
class Call:
    """A collective call of all ranks. ``ordered``: the operation does not commute."""

    collective: str
    algorithm: str
    size: int
    count: int
    in_place: bool = False
    root: int = 0
    ordered: bool = False
    counts: tuple[int, ...] | None = None
    segment: int = cut.SEGMENT_BYTES

    def but(self, **changes) -> Call:
        return replace(self, **changes)

    def edges(self) -> list[int]:
        return bounds(self.count, self.size) if self.counts is None else [0, *np.cumsum(self.counts).tolist()]

    def buffers(self, rank: int) -> tuple[np.ndarray | None, np.ndarray | None]:
        """(sendbuf, recvbuf) as the caller hands them in; None in place, and where there is no recvbuf."""
        whole, edges = values(rank, self.count), self.edges()
        lo, hi = edges[rank], edges[rank + 1]
        empty = np.full(self.count, POISON)
        if self.collective == "bcast":
            return None, whole if rank == self.root else empty
        if self.collective == "reduce" and rank != self.root:
            return whole, None
        if self.collective == "allgather":
            if not self.in_place:
                return whole[lo:hi].copy(), empty
            empty[lo:hi] = whole[lo:hi]
            return None, empty
        if self.in_place:
            return None, whole
        return whole, empty[lo:hi].copy() if self.collective == "reduce_scatter" else empty

    def expected(self, rank: int) -> np.ndarray:
        """What this rank's recvbuf begins with in the end."""
        edges = self.edges()
        if self.collective == "bcast":
            return values(self.root, self.count)
        if self.collective == "allgather":
            return np.concatenate([values(r, self.count)[edges[r] : edges[r + 1]] for r in range(self.size)])
        if self.collective == "reduce" and rank != self.root:
            return np.empty(0, np.int64)
        result = reduced(self.size, self.count, self.ordered)
        return result[edges[rank] : edges[rank + 1]] if self.collective == "reduce_scatter" else result

    def lowered(self, rank: int) -> tuple:
        send, recv = self.buffers(rank)
        handed = MPI.IN_PLACE if send is None else send
        op = ORDERED if self.ordered else MPI.SUM
        args = Arguments(self.collective, handed, recv, op, self.root, self.algorithm, self.counts)
        task = problem(args, rank, (0,) * self.size)
        cutter = cut.Cutter(task.edges, 8, self.segment)
        return lowering.lower(task.schedule.program(rank), task.layout, rank, cutter), send, recv, task.work

    def simulate(self) -> list:
        """Run it and compare. The steps of each rank."""
        simulator = Simulator(compose if self.ordered else np.add)
        for rank in range(self.size):
            simulator.add(*self.lowered(rank))
        simulator.run()
        divided = self.collective in REDUCING and self.size > 1  # by AVG, which commutes
        for rank in range(self.size):
            result = self.expected(rank)
            found, finals = simulator.recvbuf(rank)[:, : len(result)]
            assert np.array_equal(found, result), f"rank {rank} of {self}"
            assert self.ordered or (finals == divided).all(), f"rank {rank} of {self}: averaged {finals} times"
        return [rank.steps for rank in simulator.ranks]

    def copies(self) -> int:
        """How many passes over memory the ranks make that a reduction does not."""
        return sum(isinstance(step, Copy) for steps in self.simulate() for step in steps)
