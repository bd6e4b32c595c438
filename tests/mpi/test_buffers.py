"""Memory of all the shapes that a caller may hand in, and two views of one memory."""

import warnings

import numpy as np
import pytest
from calls import KINDS, Call
from mpi4py import MPI

import mpicoll

pytestmark = pytest.mark.mpi

some = pytest.mark.parametrize("comm", [1, 3, 8], indirect=True)


def total(comm) -> int:
    return comm.size * (comm.size + 1) // 2


@some
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (3, 4), (1, 9), (9, 1), (2, 3, 4)])
def test_shapes_in_both_orders(comm, shape):
    for order in "CF":
        for algorithm in KINDS:
            x = np.full(shape, comm.rank + 1.0, order=order)
            y = np.full(shape, np.nan, order=order)
            mpicoll.allreduce(x, y, None, comm, algorithm=algorithm)
            assert y.shape == shape
            assert (y == total(comm)).all()
            mpicoll.allreduce(MPI.IN_PLACE, x, None, comm, algorithm=algorithm)
            assert (x == total(comm)).all()


@some
def test_fortran_order_keeps_its_elements_apart(comm):
    x = np.asfortranarray(np.arange(12.0).reshape(3, 4)) + comm.rank
    y = np.empty_like(x)
    mpicoll.allreduce(x, y, None, comm)
    assert (y == sum(np.arange(12.0).reshape(3, 4) + r for r in range(comm.size))).all()


@some
def test_the_same_memory_twice_is_in_place(comm):
    for algorithm in KINDS:
        x = np.arange(9.0) + comm.rank
        expected = sum(np.arange(9.0) + r for r in range(comm.size))
        mpicoll.allreduce(x, x, None, comm, algorithm=algorithm)
        assert (x == expected).all()
        base = np.arange(20.0) + comm.rank
        mpicoll.allreduce(base[:9], base[:9], None, comm, algorithm=algorithm)
        assert (base[:9] == expected).all()
        assert (base[9:] == np.arange(9.0, 20) + comm.rank).all()
        plan = mpicoll.allreduce_init(base[9:], base[9:], None, comm, algorithm=algorithm)
        plan()
        assert (base[9:] == sum(np.arange(9.0, 20) + r for r in range(comm.size))).all()
        plan.free()


@some
def test_neighbours_in_one_memory_are_apart(comm):
    for algorithm in KINDS:
        base = np.arange(20.0) + comm.rank
        mpicoll.allreduce(base[:9], base[9:18], None, comm, algorithm=algorithm)
        assert (base[9:18] == sum(np.arange(9.0) + r for r in range(comm.size))).all()
        assert (base[:9] == np.arange(9.0) + comm.rank).all()
        assert (base[18:] == [18 + comm.rank, 19 + comm.rank]).all()


@some
def test_the_own_share_in_the_receive_buffer_is_in_place(comm):
    for algorithm in mpicoll.algorithms("allgather"):
        x = np.full(4 * comm.size, np.nan)
        own = x[4 * comm.rank : 4 * comm.rank + 4]
        own[:] = comm.rank
        mpicoll.allgather(own, x, comm, algorithm=algorithm)
        assert (x == np.repeat(np.arange(comm.size), 4)).all()


@some
def test_the_reduce_root_may_use_one_memory(comm):
    x = np.arange(5.0) + comm.rank
    mpicoll.reduce(x, x if comm.rank == comm.size - 1 else None, None, comm.size - 1, comm)
    expected = (
        sum(np.arange(5.0) + r for r in range(comm.size)) if comm.rank == comm.size - 1 else np.arange(5.0) + comm.rank
    )
    assert (x == expected).all()


@some
def test_what_only_the_root_writes_may_be_read_only_elsewhere(comm):
    x, root = np.full(5, comm.rank + 1.0), comm.size - 1
    y = np.zeros(5)
    y.setflags(write=comm.rank == root)
    mpicoll.reduce(x, y, None, root, comm)
    x.setflags(write=comm.rank != root)
    mpicoll.bcast(x, root, comm)
    assert (x == comm.size).all()
    assert (y == (total(comm) if comm.rank == root else 0)).all()


@some
def test_memory_that_is_not_aligned(comm):
    raw = np.zeros(8 * 10 + 1, np.uint8)
    x = raw[1:].view("f8")
    assert not x.flags.aligned
    for algorithm in KINDS:
        x[:] = comm.rank + 1
        y = np.zeros(81, np.uint8)[1:].view("f8")
        mpicoll.allreduce(x, y, None, comm, algorithm=algorithm)
        mpicoll.allreduce(MPI.IN_PLACE, x, None, comm, algorithm=algorithm)
        assert (x == total(comm)).all()
        assert (y == total(comm)).all()


@some
@pytest.mark.parametrize("algorithm", KINDS)
def test_the_callers_strictness_stops_nothing_in_the_middle(comm, algorithm):
    # One rank that raised on an overflow or a warning would leave the others waiting.
    quiet = [
        ("f4", MPI.SUM, 3e38), ("f2", MPI.PROD, 300), ("F", MPI.PROD, 1e30), ("f4", MPI.SUM, np.inf),
        ("f4", MPI.MIN, np.nan), ("f4", MPI.MAX, np.nan), ("f2", mpicoll.AVG, 6e4), ("i4", MPI.SUM, 2**31 - 1),
        ("f8", MPI.PROD, 1e-200), ("i1", MPI.MIN, 3),
    ]  # fmt: skip
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for dtype, op, value in quiet:
            x = np.full(9, value, dtype)
            if value == np.inf and comm.rank:
                x[:] = -np.inf
            mpicoll.allreduce(x, np.empty_like(x), op, comm, algorithm=algorithm)
            plan = mpicoll.allreduce_init(MPI.IN_PLACE, x, op, comm, algorithm=algorithm)
            plan.start()
            plan.wait()
            plan.free()
        pairs = np.zeros(5, [("value", "f4"), ("index", "i4")])
        pairs["value"] = np.nan if comm.rank == 0 else 1
        for op in (MPI.MINLOC, MPI.MAXLOC):
            mpicoll.allreduce(pairs, np.empty_like(pairs), op, comm, algorithm=algorithm)
        with pytest.raises(FloatingPointError):  # and it is the caller's own afterwards
            np.float32(3e38) * np.float32(3e38)


@some
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_a_subclass_is_an_array(comm):
    x = np.matrix(np.full((2, 3), comm.rank + 1.0))
    mpicoll.allreduce(MPI.IN_PLACE, x, None, comm)
    assert (x == total(comm)).all()


@pytest.mark.parametrize("comm", [2, 7], indirect=True)
def test_large_vectors(comm):
    for algorithm in KINDS:  # past every threshold of mpicoll and of MPI's eager messages
        for in_place in (False, True):
            Call(comm, "allreduce", 300_007, in_place=in_place).once(algorithm)
