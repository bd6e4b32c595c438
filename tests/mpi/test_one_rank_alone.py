"""What one rank alone gets wrong is told to all: by ``_init`` always, by one-shot calls where asked to check."""

import numpy as np
import pytest
from mpi4py import MPI
from together import refused

import mpicoll
from mpicoll.runtime.problem import Arguments

pytestmark = [pytest.mark.mpi, pytest.mark.parametrize("comm", [2, 5], indirect=True)]


class Given:
    """Arguments of an allreduce, right until one of them is changed."""

    def __init__(self):
        self.send, self.recv, self.op, self.algorithm = np.ones(8), np.zeros(8), MPI.SUM, "ring"


class Broken:
    """What a library's tensor may do when it is asked for its memory."""

    def __dlpack__(self, **_):
        raise KeyError("no such dtype")

    def __dlpack_device__(self):
        raise LookupError("no such device")


class Unspeakable:
    def __repr__(self):
        raise ZeroDivisionError("it cannot be shown")


def reading(array):
    array.setflags(write=False)
    return array


def no_memory(given):
    given.recv = None


def shifted(given):
    base = np.zeros(9)
    given.send, given.recv = base[1:], base[:-1]


# What the odd rank does, and what all must be told. Of two ranks neither is the odd one: rank 0's way is named first.
ALONE = {
    "count": (lambda g: vars(g).update(send=np.ones(9), recv=np.zeros(9)), ValueError, r"count is (9|8) on rank \d"),
    "dtype": (
        lambda g: vars(g).update(send=np.ones(8, "f4"), recv=np.zeros(8, "f4")),
        ValueError,
        r"dtype is float(32|64) on rank \d",
    ),
    "op": (lambda g: vars(g).update(op=MPI.MAX), ValueError, r"op is (MAX|SUM) on rank \d"),
    "average": (lambda g: vars(g).update(op=mpicoll.AVG), ValueError, r"op is (mpicoll.AVG|SUM) on rank \d"),
    "algorithm": (lambda g: vars(g).update(algorithm="direct"), ValueError, r"algorithm is '(direct|ring)' on rank \d"),
    "order": (
        lambda g: vars(g).update(send=np.ones((4, 2), order="F"), recv=np.zeros((4, 2), order="F")),
        ValueError,
        r"order is (F|C) on rank \d",
    ),
    "an unknown algorithm": (
        lambda g: vars(g).update(algorithm="rnig"),
        ValueError,
        "^rank {odd}: .*'rnig'; there are",
    ),
    "read-only": (lambda g: vars(g).update(recv=reading(np.zeros(8))), ValueError, "^rank {odd}: recvbuf is read-only"),
    "strides": (lambda g: vars(g).update(send=np.ones(16)[::2]), ValueError, "^rank {odd}: sendbuf is not contiguous"),
    "overlap": (shifted, ValueError, "^rank {odd}: sendbuf and recvbuf overlap in part"),
    "too small": (lambda g: vars(g).update(recv=np.zeros(7)), ValueError, "^rank {odd}: recvbuf is too small"),
    "two dtypes": (
        lambda g: vars(g).update(recv=np.zeros(8, "f4")),
        TypeError,
        "^rank {odd}: sendbuf has dtype float64",
    ),
    "objects": (lambda g: vars(g).update(send=np.ones(8, "O")), TypeError, "^rank {odd}: sendbuf has dtype object"),
    "objects as bytes": (
        lambda g: vars(g).update(send=[np.ones(8, "O"), MPI.BYTE]),
        TypeError,
        "^rank {odd}: sendbuf has dtype object: its elements are addresses",
    ),
    "an exporter that breaks": (
        lambda g: vars(g).update(send=Broken()),
        TypeError,
        "^rank {odd}: a Broken cannot be used as a buffer: no such device",
    ),
    "what nobody thinks of": (
        lambda g: vars(g).update(op=Unspeakable()),
        TypeError,
        "^rank {odd}: op is a Unspeakable: pass",
    ),
    "many lines": (
        lambda g: vars(g).update(op=np.zeros((20, 20))),
        TypeError,
        r"^rank {odd}: op is array\(.*\.\.\.: pass an mpi4py",
    ),
    "no array": (no_memory, TypeError, "^rank {odd}: recvbuf is None"),
    "no operation": (lambda g: vars(g).update(op="sum"), TypeError, "^rank {odd}: op is 'sum'"),
}


@pytest.mark.parametrize(("spoil", "kind", "said"), ALONE.values(), ids=ALONE)
def test_a_plan(comm, spoil, kind, said):
    for odd in {0, comm.size - 1}:
        given = Given()
        if comm.rank == odd:
            spoil(given)
        args = given.send, given.recv, given.op, comm
        match = said.format(odd=odd)
        refused(comm, kind, match, mpicoll.allreduce_init, *args, algorithm=given.algorithm)
        if comm.size > 2 and r"\d" in said:
            refused(
                comm,
                kind,
                f"on rank {odd} and .* on the others",
                mpicoll.allreduce_init,
                *args,
                algorithm=given.algorithm,
            )
    plan = mpicoll.allreduce_init(np.ones(8), right := np.zeros(8), comm=comm)
    plan()
    assert (right == comm.size).all()
    plan.free()


@pytest.mark.parametrize(("spoil", "kind", "said"), ALONE.values(), ids=ALONE)
def test_a_checked_call(comm, spoil, kind, said, monkeypatch):
    monkeypatch.setenv("MPICOLL_CHECK", "1")
    given, odd = Given(), comm.size - 1
    mpicoll.allreduce(given.send, given.recv, comm=comm)
    monkeypatch.undo()  # it is read once a communicator
    if comm.rank == odd:
        spoil(given)
    args = given.send, given.recv, given.op, comm
    refused(comm, kind, said.format(odd=odd), mpicoll.allreduce, *args, algorithm=given.algorithm)
    mpicoll.allreduce(np.ones(8), right := np.zeros(8), comm=comm)
    assert (right == comm.size).all()


def test_rank_0_alone_decides_on_checking(comm, monkeypatch):
    monkeypatch.setenv("MPICOLL_CHECK", "1" if comm.rank == 0 else "0")
    count = 8 if comm.rank else 9
    refused(comm, ValueError, "count is ", mpicoll.allreduce, np.ones(count), np.zeros(count), comm=comm)


@pytest.mark.parametrize(("name", "value"), [("CHECK", "yes"), ("SEGMENT_BYTES", "4K"), ("SEGMENT_BYTES", "0")])
def test_a_wrong_configuration_of_rank_0_is_told_to_all(comm, name, value, monkeypatch):
    if comm.rank == 0:
        monkeypatch.setenv(f"MPICOLL_{name}", value)
    refused(
        comm, ValueError, f"^MPICOLL_{name} is '{value}': give", mpicoll.allreduce, np.ones(3), np.zeros(3), comm=comm
    )
    monkeypatch.undo()
    mpicoll.allreduce(np.ones(3), right := np.zeros(3), comm=comm)
    assert (right == comm.size).all()


def test_another_root(comm):
    root = 1 if comm.rank == comm.size - 1 else 0
    refused(comm, ValueError, r"root is [01] on rank", mpicoll.bcast_init, np.zeros(3), root, comm)
    root = comm.size if comm.rank == 0 else 0
    refused(comm, ValueError, f"^rank 0: root {comm.size} is not one of", mpicoll.bcast_init, np.zeros(3), root, comm)


def test_another_collective(comm):
    x, y = np.ones(comm.size), np.zeros(comm.size)
    call = mpicoll.reduce_init if comm.rank == 0 else mpicoll.allreduce_init
    refused(comm, ValueError, "collective is ", call, x, y, comm=comm)


def test_other_counts_of_chunks(comm):
    counts = [2] * comm.size if comm.rank else [1, 3, *[2] * (comm.size - 2)]
    x = np.zeros(counts[comm.rank])
    refused(comm, ValueError, "counts is ", mpicoll.allgather_init, x, np.zeros(2 * comm.size), comm, counts=counts)


def test_counts_that_are_no_sequence(comm):
    x, counts = np.zeros(2 * comm.size), 5 if comm.rank == 0 else [2] * comm.size
    Arguments("allgather", x, x, counts=5).facts()  # never raises: rank 0 has its error to tell
    call = mpicoll.allgather_init
    with pytest.raises((TypeError, ValueError), match=r"^rank 0: counts is 5"):
        call(np.zeros(2), x, comm, counts=counts)


def test_counts_that_break(comm):
    """No kind of error of one rank leaves the others waiting."""

    class Breaking(list):
        def __iter__(self):
            raise LookupError("no such file")

    counts = [2] * comm.size if comm.rank else Breaking([2])
    said = "^rank 0: no such file$"
    refused(comm, LookupError, said, mpicoll.allgather_init, np.zeros(2), np.zeros(2 * comm.size), comm, counts=counts)


def test_the_same_values_in_other_types_are_the_same(comm):
    root = np.int64(1) if comm.rank else 1
    mpicoll.bcast_init(np.zeros(3), root, comm).free()
    counts = [2] * comm.size if comm.rank else np.full(comm.size, 2)
    mpicoll.allgather_init(np.zeros(2), np.zeros(2 * comm.size), comm, counts=counts).free()


def test_no_memory_on_one_rank(comm, monkeypatch):
    x, odd, empty = np.ones(8), comm.size - 1, np.empty
    mpicoll.allreduce(x, x.copy(), comm=comm)
    if comm.rank == odd:
        monkeypatch.setattr(np, "empty", lambda *args, **more: empty(1 << 60, np.uint8))
    said = f"^rank {odd}: Unable to allocate"
    refused(comm, MemoryError, said, mpicoll.allreduce_init, x, x.copy(), comm=comm)
