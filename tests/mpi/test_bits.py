"""The same bits on every rank, every time, and by every algorithm that promises the same tree."""

from hashlib import sha256
from itertools import permutations, product

import numpy as np
import pytest
from calls import ALL, IDENTICAL, KINDS
from mpi4py import MPI

import mpicoll
from mpicoll.schedule import find, verify

pytestmark = pytest.mark.mpi


def random(comm: MPI.Intracomm, count: int, dtype: str) -> np.ndarray:
    """Numbers of all sizes: their sum depends on the order."""
    generator = np.random.default_rng(comm.rank)
    return (generator.standard_normal(count) * 2.0 ** generator.integers(-8, 8, count)).astype(dtype)


def digest(array: np.ndarray) -> str:
    return sha256(array.tobytes()).hexdigest()


@pytest.mark.parametrize("comm", [3, 5, 6, 7, 8], indirect=True)
def test_all_ranks_get_the_same_bits_every_time(comm):
    for algorithm, dtype in [*product([*IDENTICAL, "auto"], ("f4",)), *product(KINDS, ("f2",))]:
        for count in (comm.size - 1, 1000):
            x = random(comm, count, dtype)
            y, z, w = np.empty_like(x), x.copy(), np.empty_like(x)
            mpicoll.allreduce(x, y, MPI.SUM, comm, algorithm=algorithm)
            first = digest(y)
            assert comm.allgather(first) == [first] * comm.size, algorithm
            y.fill(np.nan)
            mpicoll.allreduce(x, y, MPI.SUM, comm, algorithm=algorithm)
            mpicoll.allreduce(MPI.IN_PLACE, z, MPI.SUM, comm, algorithm=algorithm)
            plan = mpicoll.allreduce_init(x, w, MPI.SUM, comm, algorithm=algorithm)
            plan()
            assert [digest(y), digest(z), digest(w)] == [first] * 3, algorithm
            plan.free()


@pytest.mark.parametrize("comm", [4], indirect=True)
def test_cancellation(comm):
    # Some orders give 0, some 1, some 2: every rank must have the same one (FIELD_REPORTS I1).
    one_tree = {name for name in IDENTICAL if verify(find("allreduce", name).schedule(4)).same_tree}
    for algorithm, values in product(IDENTICAL, sorted(set(permutations((1e8, 1.0, -1e8, 1.0))))):
        x = np.full(5, values[comm.rank], "f4")
        y = np.empty_like(x)
        mpicoll.allreduce(x, y, MPI.SUM, comm, algorithm=algorithm)
        told = comm.allgather(y.tobytes())
        assert told == [told[0]] * 4, algorithm
        if algorithm in one_tree:
            assert len(set(y)) == 1, "one tree for all chunks, and so one result for equal inputs"


def test_rabenseifner_is_recursive_doubling_bit_for_bit(comm):
    for dtype in ("f4", "f8", "f2", "F"):
        for count in (1, 7, 1000, 10007):
            x = random(comm, count, dtype)
            y, z = np.empty_like(x), np.empty_like(x)
            mpicoll.allreduce(x, y, MPI.SUM, comm, algorithm="rabenseifner")
            mpicoll.allreduce(x, z, MPI.SUM, comm, algorithm="recursive_doubling")
            assert digest(y) == digest(z)


@pytest.mark.parametrize("comm", [5, 8], indirect=True)
def test_a_prefix_has_the_same_bits_where_chunks_have_one_tree(comm):
    x = random(comm, 1000, "f4")
    for name in IDENTICAL:
        if verify(find("allreduce", name).schedule(comm.size)).same_tree:
            y, z = np.empty_like(x), np.empty(77, "f4")
            mpicoll.allreduce(x, y, MPI.SUM, comm, algorithm=name)
            mpicoll.allreduce(x[:77], z, MPI.SUM, comm, algorithm=name)
            assert digest(z) == digest(y[:77])


@pytest.mark.parametrize("comm", [3, 8], indirect=True)
def test_halves_give_the_same_bits_every_time(comm):
    x = random(comm, 1001, "f4")
    for collective, name in [pair for pair in ALL if pair[0] in ("reduce", "reduce_scatter")]:
        own = 1001 // comm.size + (comm.rank < 1001 % comm.size)
        results = set()
        for _ in range(2):
            y = np.full(1001 if collective == "reduce" else own, np.nan, "f4")
            getattr(mpicoll, collective)(x, y, MPI.SUM, comm=comm, algorithm=name)
            results.add(digest(y))
        assert len(results) == 1, (collective, name)
