"""Every way in which mpi4py takes host memory is taken, means the same, or is refused in one line on all ranks."""

import array

import ml_dtypes
import numpy as np
import pytest
from mpi4py import MPI
from spelled import SPELLINGS, Exporter
from together import refused

import mpicoll
from mpicoll.runtime.private import private

pytestmark = pytest.mark.mpi
some = pytest.mark.parametrize("comm", [1, 3, 8], indirect=True)


def total(comm) -> int:
    return comm.size * (comm.size + 1) // 2


@some
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_spelling_means_its_elements(comm, spelling):
    spell, p, r = SPELLINGS[spelling], comm.size, comm.rank
    for count in (0, 1, 2 * p):
        values = np.arange(count, dtype="f8")
        expected = p * values + total(comm) - p
        x, _ = spell(values + r)
        y, seen = spell(np.full(count, -1.0))
        mpicoll.allreduce(x, y, None, comm)
        assert (seen == expected).all()
        for _ in range(2):
            seen[:] = -1
            mpicoll.reduce(x, y if r == p - 1 else None, None, p - 1, comm)
            assert (seen == (expected if r == p - 1 else -1)).all()
        z, seen = spell(values + r)
        plan = mpicoll.allreduce_init(MPI.IN_PLACE, z, None, comm)
        plan()
        assert (seen == expected).all()
        plan.free()
        b, seen = spell(values + r)
        mpicoll.bcast(b, p - 1, comm)
        assert (seen == values + p - 1).all()
    own, _ = spell(np.full(3, float(r)))
    mpicoll.allgather(own, whole := np.full(3 * p, -1.0), comm)
    assert (whole == np.repeat(np.arange(p), 3)).all()
    part, seen = spell(np.full(3, -1.0))
    mpicoll.reduce_scatter(whole, part, None, comm)
    assert (seen == p * r).all()


@some
def test_what_may_only_be_read(comm):
    x = np.arange(4.0) + comm.rank
    fixed = x.copy()
    fixed.setflags(write=False)
    for wrong in ([x.tobytes(), MPI.DOUBLE], memoryview(fixed), Exporter(fixed), [fixed, 4]):
        mpicoll.allreduce(wrong, y := np.empty(4), None, comm)
        assert (y == comm.size * np.arange(4.0) + total(comm) - comm.size).all()
        refused(comm, ValueError, "^recvbuf is read-only", mpicoll.allreduce_init, x, wrong, None, comm)
        refused(comm, ValueError, "^recvbuf is read-only", mpicoll.allreduce, x, wrong, None, comm)


@some
def test_text_and_other_types_travel(comm):
    for sent, got in (
        (b"abc", bytearray(3)),
        (array.array("u", "xyz"), array.array("u", "---")),
        ([np.array([(1, 2.5)], "i4,f8"), MPI.BYTE], [np.zeros(1, "i4,f8"), MPI.BYTE]),
        ([b"abc", MPI.CHAR], [bytearray(3), MPI.CHAR]),
    ):
        buffer = sent if comm.rank == 0 else got
        mpicoll.bcast(buffer, 0, comm)
        memory = [b[0] if isinstance(b, list) else b for b in (sent, buffer)]
        assert bytes(memory[0]) == bytes(memory[1])
    refused(
        comm, TypeError, "^SUM cannot take dtype .S1", mpicoll.allreduce_init, [b"a", MPI.CHAR], [bytearray(1), "c"],
        None, comm,
    )  # fmt: skip


@some
def test_bfloat16(comm):
    x = np.full(6, comm.rank + 1, ml_dtypes.bfloat16)
    for spell in (lambda x: [x, 6], lambda x: [x, (6, 0)], Exporter, lambda x: x.reshape(2, 3)):
        y = np.zeros_like(x)
        mpicoll.allreduce(spell(x), spell(y), None, comm)
        assert (y.astype("f4") == total(comm)).all()


@some
def test_a_tensor(comm):
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        x, y = torch.full((2, 3), comm.rank + 1, dtype=dtype), torch.zeros(2, 3, dtype=dtype)
        mpicoll.allreduce(x, y, None, comm)
        assert (y == total(comm)).all()
    wrong = torch.zeros(3, requires_grad=True)
    refused(comm, TypeError, "^sendbuf .*grad", mpicoll.allreduce_init, wrong, torch.zeros(3), None, comm)


@some
def test_nothing_is_a_count_of_none(comm):
    for nothing in ([None, MPI.INT], [None, 0, "i"], [MPI.BOTTOM, 0, MPI.INT], [np.zeros(3, "i4"), 0]):
        mpicoll.allreduce(nothing, [None, MPI.INT], None, comm)
        mpicoll.bcast_init(nothing, 0, comm)()
        mpicoll.allgather(nothing, nothing, comm)


@some
def test_a_count_is_that_of_each_rank_in_an_allgather(comm):
    p, x = comm.size, np.full(2, float(comm.rank))
    for spell in (lambda y: [y, 2], lambda y: [y, [2] * p, MPI.DOUBLE], lambda y: [y, ([2] * p, 2), "d"]):
        mpicoll.allgather(x, spell(y := np.full(2 * p, -1.0)), comm)
        assert (y == np.repeat(np.arange(p), 2)).all()


@pytest.mark.parametrize("comm", [2], indirect=True)
def test_the_same_spelling_again_finds_its_plan(comm):
    x, y, cache = np.ones(4), np.empty(4), private(comm).cache
    for spell in (lambda a: [a, MPI.DOUBLE], lambda a: (a, 4), lambda a: [a, (3, 1), "d"]):
        before = len(cache)
        for turn in range(3):
            x[:] = turn
            mpicoll.allreduce(spell(x), spell(y), None, comm)
            assert (y[1:] == 2 * turn).all()
        assert len(cache) == before + 1
    for _ in range(2):  # one from each, two apart; and one and two
        mpicoll.allgather(x[:1], [y, (1, 2)], comm)
        mpicoll.allgather(x[: comm.rank + 1], [y, [1, 2]], comm)
    table = np.full((2, 4), -1.0)
    for tables in ([table, ([2, 1], [4, 0])], [table, ([2, 1], [0, 4])], [table, [2, 1]]):
        table[:] = -1
        mpicoll.allgather(x[: 2 - comm.rank], tables, comm)
        counts, displs = tables[1] if isinstance(tables[1], tuple) else (tables[1], [0, 2])
        there = np.concatenate([np.arange(d, d + c) for c, d in zip(counts, displs)])
        assert (np.delete(table.ravel(), there) == -1).all()
        assert (table.ravel()[there] == 2).all()


@pytest.mark.parametrize("comm", [2, 8], indirect=True)
def test_orders_that_differ_between_ranks(comm, monkeypatch):
    order = "F" if comm.rank == 1 else "C"
    x, y = np.zeros((3, 4), order=order), np.zeros((3, 4), order=order)
    said = (
        "^the ranks disagree: order is F on rank 1 and C on the others$" if comm.size > 2 else "order is [FC] on rank"
    )
    for spell in (lambda a: a, lambda a: [a, MPI.DOUBLE], memoryview, Exporter):
        refused(comm, ValueError, said, mpicoll.allreduce_init, spell(x), spell(y), None, comm)
        refused(comm, ValueError, said, mpicoll.bcast_init, spell(y), 0, comm)
    monkeypatch.setenv("MPICOLL_CHECK", "1")
    fresh = comm.Dup()
    refused(fresh, ValueError, said, mpicoll.allreduce, x, y, None, fresh)
    fresh.Free()


@pytest.mark.parametrize("comm", [1, 8], indirect=True)
def test_bad_input(comm):
    x, p = np.zeros(8), comm.size
    freed = MPI.DOUBLE.Dup()
    freed.Free()
    for wrong, kind, said in (
        ([x, 9], ValueError, "has 64 bytes and its spelling asks for bytes 0 to 72"),
        ([x, (4, 5)], ValueError, "asks for bytes 40 to 72"),
        ([x, -1], ValueError, "has count -1: give a number, not negative"),
        ([x, 1.5, "d"], ValueError, "has count 1.5: give a number"),
        ([x, (1, -1), "d"], ValueError, "has displacement -1: give a number"),
        ([x, [1, 2, 3], "d"], ValueError, r"spelled with \[1, 2, 3\]: give \(count, displacement\)"),
        ([x, np.ones(3, int), "d"], ValueError, "has count array.*: give a number"),
        ([x, "nonsense"], ValueError, "has datatype 'nonsense': give an MPI.Datatype, or a code such as 'd'"),
        ([x, 1, 2], ValueError, "has datatype 2: give an MPI.Datatype"),
        ([x, MPI.DATATYPE_NULL], ValueError, "MPI.DATATYPE_NULL or one that was freed"),
        ([x, freed], ValueError, "MPI.DATATYPE_NULL or one that was freed"),
        ([x, 1, 2, "d", 5], TypeError, "is a list of 5: pass an array, or"),
        ([np.zeros(9, "u1"), MPI.DOUBLE], ValueError, "is not a whole number of elements of its datatype"),
        ([None, 3, MPI.INT], ValueError, "is None and its spelling asks for 3 elements"),
        ([MPI.BOTTOM, 3, MPI.INT], ValueError, "is MPI.BOTTOM: only a derived datatype"),
        ([MPI.BOTTOM, 3], TypeError, "is MPI.BOTTOM: pass an array"),
        ([x[::2], MPI.DOUBLE], ValueError, "is not contiguous"),
        ("text", TypeError, "is a str: pass an array"),
        (
            Exporter(x, device=10),
            TypeError,
            "is a Exporter that gives no memory: it is on a device of DLPack's kind 10",
        ),
    ):
        refused(comm, kind, f"^sendbuf .*{said}|^sendbuf {said}", mpicoll.allreduce_init, wrong, x.copy(), None, comm)
        refused(comm, kind, f"^buffer .*{said}|^buffer {said}", mpicoll.bcast, wrong, 0, comm)
    y = np.zeros(8 * p)
    for wrong, said in (
        ([y, ([8] * p, [1] * p)], "overlap at element 1" if p > 1 else "asks for bytes 8 to 72"),
        ([y, [8] * (p + 1)], f"has counts .*: give {p} numbers"),
        ([y, ([8] * p, [-1] * p)], f"has displacements .*: give {p} numbers, not negative"),
        ([y, ([8] * p, [8 * p] * p)], "asks for bytes|overlap"),
    ):
        refused(comm, ValueError, f"^recvbuf .*{said}", mpicoll.allgather_init, x, wrong, comm)


@some
def test_datatypes_that_differ(comm):
    x, y = np.zeros(4, "i4"), np.zeros(4, "f4")
    refused(comm, ValueError, "^sendbuf has dtype int32 and recvbuf float32", mpicoll.reduce_scatter_init,
            [x, MPI.INT], [y, MPI.FLOAT], None, comm)  # fmt: skip
    mpicoll.allreduce([np.ones(4, "i8"), MPI.LONG], [np.ones(4, "i8"), MPI.LONG_LONG], None, comm)
