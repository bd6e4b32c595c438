"""One collective call with data, guards around what may be written, and what must come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from mpi4py import MPI

import mpicoll
from mpicoll.schedule import COLLECTIVES, algorithms, bounds

ALL = [(collective, name) for collective in COLLECTIVES for name in algorithms(collective)]
NAMES = list(algorithms("allreduce"))
IDENTICAL = [name for name, entry in algorithms("allreduce").items() if entry.identical]
# One of each kind, for what does not depend on the schedule; test_matrix and test_bits run them all.
KINDS = ["ring", "recursive_doubling", "rabenseifner", "direct", "one_shot", "binomial_tree", "linear"]
GUARD = 3  # elements before and after recvbuf that nobody may touch


@lru_cache(maxsize=256)
def whole_numbers(rank: int, count: int, turn: int) -> np.ndarray:
    """Small whole numbers that depend on rank, index and turn: their sums are exact in float32."""
    return (np.arange(count) * 7 + rank * 13 + turn * 29) % 41 - 20


def poison(dtype: np.dtype) -> object:
    """NaN where there is one, else what nobody sends."""
    return np.nan if dtype.kind in "fc" else np.zeros((), dtype) if dtype.kind in "bV" else 111


class Call:
    """The buffers of one rank; ``fill`` and ``check`` frame a run. ``data(rank, count, turn)`` is a rank's vector."""

    def __init__(
        self,
        comm: MPI.Intracomm,
        collective: str,
        count: int,
        *,
        in_place: bool = False,
        root: int = 0,
        dtype: object = "f4",
        op: object = None,
        counts: Sequence[int] | None = None,
        data: Callable[[int, int, int], np.ndarray] = whole_numbers,
        reduce: Callable[[list[np.ndarray]], np.ndarray] = sum,  # type: ignore[assignment]
    ) -> None:
        self.comm, self.collective, self.count, self.in_place, self.root = comm, collective, count, in_place, root
        self.dtype, self.op, self.counts, self.data, self.reduce = np.dtype(dtype), op, counts, data, reduce
        edges = bounds(count, comm.size) if counts is None else [0, *np.cumsum(counts).tolist()]
        self.lo, self.hi = edges[comm.rank], edges[comm.rank + 1]
        scattered = collective == "reduce_scatter" and not in_place
        self.length = self.hi - self.lo if scattered else count
        self.guarded = np.empty(self.length + 2 * GUARD, self.dtype)
        here = self.guarded[GUARD : GUARD + self.length]
        self.recv = here if collective != "reduce" or comm.rank == root else None
        self.only_in_place = collective == "reduce" and comm.rank != root  # the root alone works in place
        self.send = np.empty(self.hi - self.lo if collective == "allgather" else count, self.dtype)
        self.result = self.hi - self.lo if collective == "reduce_scatter" else count

    def vector(self, rank: int, turn: int) -> np.ndarray:
        return self.data(rank, self.count, turn).astype(self.dtype)

    def fill(self, turn: int) -> None:
        """New data; what is not input is poison."""
        self.guarded.fill(poison(self.dtype))
        self.frame = self.guarded.copy()
        mine = self.vector(self.comm.rank, turn)
        own = slice(self.lo, self.hi) if self.collective == "allgather" else slice(None)
        self.send.setflags(write=True)
        self.send[:] = mine[own]
        self.sent = self.send.tobytes()
        self.send.setflags(write=False)
        inside = self.guarded[GUARD : GUARD + self.length]
        if self.collective == "bcast":
            if self.comm.rank == self.root:
                inside[:] = mine
        elif self.in_place and not self.only_in_place:
            inside[own] = mine[own]

    def expected(self, turn: int) -> np.ndarray:
        if self.collective == "bcast":
            return self.vector(self.root, turn)
        if self.collective == "allgather":
            edges = bounds(self.count, self.comm.size) if self.counts is None else [0, *np.cumsum(self.counts).tolist()]
            vectors = [self.vector(r, turn)[edges[r] : edges[r + 1]] for r in range(self.comm.size)]
            return np.concatenate(vectors)
        result = self.reduce([self.vector(rank, turn) for rank in range(self.comm.size)])
        return result[self.lo : self.hi] if self.collective == "reduce_scatter" else result

    def check(self, turn: int) -> None:
        where = f"{self.collective} by {self.algorithm}, {self.count} of {self.dtype} on {self.comm.size}"
        where += f", {self.in_place=}, {self.root=}"
        assert self.send.tobytes() == self.sent, f"sendbuf was written: {where}"
        for ends in (slice(GUARD), slice(GUARD + self.length, None)):
            assert self.guarded[ends].tobytes() == self.frame[ends].tobytes(), f"written beside recvbuf: {where}"
        if self.recv is None:
            assert self.guarded.tobytes() == self.frame.tobytes()
        else:
            found, expected = self.recv[: self.result], self.expected(turn)
            if self.dtype.name == "bfloat16":  # NumPy does not know its NaN
                found, expected = found.astype("f4"), expected.astype("f4")
            if not np.array_equal(found, expected):  # the other one takes a millisecond, and equals NaNs
                np.testing.assert_array_equal(found, expected, where)

    @property
    def arguments(self) -> tuple[tuple, dict]:
        sendbuf = MPI.IN_PLACE if self.in_place and not self.only_in_place else self.send
        counts = {} if self.counts is None else {"counts": self.counts}
        return {
            "allreduce": ((sendbuf, self.recv, self.op, self.comm), {}),
            "reduce": ((sendbuf, self.recv, self.op, self.root, self.comm), {}),
            "bcast": ((self.recv, self.root, self.comm), {}),
            "allgather": ((sendbuf, self.recv, self.comm), counts),
            "reduce_scatter": ((sendbuf, self.recv, self.op, self.comm), counts),
        }[self.collective]

    def once(self, algorithm: str = "auto", turns: Sequence[int] = (0,)) -> None:
        """One-shot calls on the same buffers: made, and then found in the cache."""
        args, more = self.arguments
        self.algorithm = algorithm
        for turn in turns:
            self.fill(turn)
            getattr(mpicoll, self.collective)(*args, algorithm=algorithm, **more)
            self.check(turn)

    def plan(self, algorithm: str = "auto") -> mpicoll.Plan:
        args, more = self.arguments
        self.algorithm = algorithm
        return getattr(mpicoll, f"{self.collective}_init")(*args, algorithm=algorithm, **more)

    def planned(self, algorithm: str = "auto", turns: Sequence[int] = (0, 1, 2)) -> None:
        """One plan, run with new data each time."""
        self.fill(9)
        plan = self.plan(algorithm)
        for turn in turns:
            self.fill(turn)
            plan()
            self.check(turn)
        plan.free()
