"""Derived datatypes: moved element by element, reduced where they are dense, their gaps left alone."""

import numpy as np
import pytest
from mpi4py import MPI
from together import refused

import mpicoll
from mpicoll.runtime import cut
from mpicoll.runtime.private import private

pytestmark = pytest.mark.mpi
some = pytest.mark.parametrize("comm", [1, 2, 5, 8], indirect=True)


@pytest.fixture
def made():
    """Makes and commits datatypes, and frees them."""
    kept = []

    def make(datatype):
        kept.append(datatype.Commit())
        return datatype

    yield make
    for datatype in kept:
        if datatype != MPI.DATATYPE_NULL:
            datatype.Free()


def column(made, rows, columns):
    """A column of a matrix of doubles, the next one beside it."""
    vector = made(MPI.DOUBLE.Create_vector(rows, 1, columns))
    return made(vector.Create_resized(0, 8))


@some
def test_columns(comm, made):
    p, r = comm.size, comm.rank
    each = column(made, 3, 2 * p)
    for algorithm in mpicoll.algorithms("allgather"):
        m = np.full((3, 2 * p), -1.0)
        mpicoll.allgather(np.arange(3.0) + 10 * r, [m, [1] * p, each], comm, algorithm=algorithm)
        assert (m[:, :p] == np.arange(3.0)[:, None] + 10 * np.arange(p)).all()
        assert (m[:, p:] == -1).all(), "beside the columns"
        m[:, :p] = np.where(np.arange(p) == r, m[:, :p], np.nan)
        plan = mpicoll.allgather_init(MPI.IN_PLACE, [m, [1] * p, each], comm, algorithm=algorithm)
        plan()
        assert (m[:, :p] == np.arange(3.0)[:, None] + 10 * np.arange(p)).all()
        plan.free()


@some
def test_columns_in_places_of_their_own(comm, made):
    p, r = comm.size, comm.rank
    each, m = column(made, 3, 3 * p), np.full((3, 3 * p), -1.0)
    counts = [i % 2 for i in range(p)]
    displs = [3 * (p - 1 - i) for i in range(p)]
    own = [np.full((3, 1), float(r)), counts[r], column(made, 3, 1)]
    mpicoll.allgather(own, [m, (counts, displs), each], comm)
    expected = np.full((3, 3 * p), -1.0)
    for i in range(1, p, 2):
        expected[:, displs[i]] = i
    assert (m == expected).all()


@some
def test_each_rank_may_spell_it_in_its_own_way(comm, made):
    p, r = comm.size, comm.rank
    spread = made(MPI.DOUBLE.Create_indexed([2, 1], [0, 4]))
    for root in (0, p - 1):
        x = np.full(10, -1.0)
        if r == root:
            x[:] = np.arange(10.0)
        buffer = [x, 2, spread] if r % 2 else x[[0, 1, 4, 5, 6, 9]]
        plan = mpicoll.bcast_init(buffer, root, comm)
        plan()
        if r % 2 == 0:
            assert (buffer == [0, 1, 4, 5, 6, 9]).all()
        elif r != root:
            assert (x == [0, 1, -1, -1, 4, 5, 6, -1, -1, 9]).all()
        plan.free()


@some
def test_several_basic_types(comm, made):
    root = comm.size - 1
    dtype = np.dtype({"names": ["i", "d"], "formats": ["i4", "f8"], "offsets": [2, 8], "itemsize": 20})
    whole = made(MPI.Datatype.Create_struct([1, 1], [2, 8], [MPI.INT, MPI.DOUBLE]))
    each = made(whole.Create_resized(0, 20))
    x = np.frombuffer(bytearray(b"\xff" * 20 * 7), dtype)
    if comm.rank == root:
        x["i"], x["d"] = np.arange(7), np.arange(7) / 2
    mpicoll.bcast([x, 7, each], root, comm)
    assert (x["i"] == np.arange(7)).all()
    assert (x["d"] == np.arange(7) / 2).all()
    gaps = np.frombuffer(x, np.uint8).reshape(7, 20)[:, [0, 1, 6, 7, 16, 17, 18, 19]]
    assert (gaps == 255).all()


@some
def test_long_messages_of_several_basic_types(comm, made):
    """MPICH cuts a long message to oneself within an element, where it is not on a communicator of one."""
    mixed = made(MPI.Datatype.Create_struct([1, 1], [0, 8], [MPI.DOUBLE, MPI.INT]).Create_resized(0, 16))
    x = np.zeros(30_000, [("d", "f8"), ("i", "i4"), ("gap", "i4")])
    x["d"], x["i"], x["gap"] = np.arange(len(x)) + comm.rank, comm.rank, comm.rank
    mpicoll.bcast([x, len(x), mixed], comm.size - 1, comm)
    assert (x["d"] == np.arange(len(x)) + comm.size - 1).all()
    assert (x["i"] == comm.size - 1).all()
    assert (x["gap"] == comm.rank).all()


@some
def test_addresses(comm, made):
    a, b = np.full(3, float(comm.rank)), np.full(2, comm.rank, "i4")
    where = [MPI.Get_address(a), MPI.Get_address(b)]
    both = made(MPI.Datatype.Create_struct([3, 2], where, [MPI.DOUBLE, MPI.INT]))
    for root in (0, comm.size - 1):
        a[:], b[:] = comm.rank + 1, comm.rank + 2
        mpicoll.bcast([MPI.BOTTOM, 1, both], root, comm)
        assert (a == root + 1).all()
        assert (b == root + 2).all()


@some
def test_a_plan_keeps_its_datatype(comm):
    p, x = comm.size, np.full(8, -1.0)
    each = MPI.DOUBLE.Create_vector(4, 1, 2).Commit()
    plan = mpicoll.bcast_init([x, 1, each], p - 1, comm)
    each.Free()
    other = MPI.DOUBLE.Create_vector(2, 2, 4).Commit()  # may well have the handle that is free again
    for turn in range(3):
        x[:] = 10 * comm.rank + turn
        plan.start()
        plan.wait()
        assert (x[::2] == 10 * (p - 1) + turn).all()
        assert (x[1::2] == 10 * comm.rank + turn).all()
    plan.free()
    x[:] = comm.rank
    mpicoll.bcast([x, 1, other], p - 1, comm)
    assert (x == np.where(np.isin(np.arange(8), [0, 1, 4, 5]), p - 1, comm.rank)).all()
    other.Free()


@some
def test_a_handle_that_comes_again(comm):
    # Were plans found by the handle of a datatype that was freed, the second one would be taken for the first.
    x, root = np.empty(8), comm.size - 1
    for turn in range(12):
        each = MPI.DOUBLE.Create_vector(2, 1, 2 + turn % 3).Commit()
        x[:] = comm.rank
        mpicoll.bcast([x, 1, each], root, comm)
        each.Free()
        assert np.flatnonzero(x == root).tolist() == [0, 2 + turn % 3] or comm.rank == root
    assert not private(comm).cache


@some
def test_pieces_beyond_the_limit_of_mpi(comm, monkeypatch):
    monkeypatch.setattr(cut, "LIMIT_BYTES", 48)
    each = MPI.DOUBLE.Create_vector(2, 1, 2).Create_resized(0, 32).Commit()
    x = np.full(4 * 7, float(comm.rank))
    mpicoll.bcast([x, 7, each], comm.size - 1, comm)
    assert (x.reshape(7, 4) == [comm.size - 1, comm.rank, comm.size - 1, comm.rank]).all()
    each.Free()
    x = np.arange(9.0 * comm.size)
    mpicoll.Comm(comm).Reduce_scatter_block(None, x)
    assert (x[:9] == comm.size * np.arange(9 * comm.rank, 9 * comm.rank + 9)).all()
    assert (x[9:] == np.arange(9, 9.0 * comm.size)).all()


@some
def test_it_need_not_be_committed(comm):
    each = MPI.DOUBLE.Create_vector(2, 1, 2)
    x = np.full(3, float(comm.rank))
    mpicoll.bcast([x, 1, each], 0, comm)
    assert (x == [0, comm.rank, 0]).all()
    each.Free()


@some
def test_an_operation_of_the_user_sees_whole_elements(comm, made):
    dtype = np.dtype([("a", "f8"), ("b", "f8")])
    each = made(MPI.DOUBLE.Create_contiguous(2))

    def compose(left, right, _):  # maps x -> ax + b, one after the other
        f, g = np.frombuffer(left, dtype), np.frombuffer(right, dtype)
        g["a"], g["b"] = f["a"] * g["a"], f["b"] * g["a"] + g["b"]

    op = MPI.Op.Create(compose, commute=False)
    maps = [np.array([(2, r), (1, r + 1), (3, 0)], dtype) for r in range(comm.size)]
    expected = maps[0].copy()
    for other in maps[1:]:
        right = other.copy()
        compose(expected, right, None)
        expected = right
    x, y = maps[comm.rank], np.zeros(3, dtype)
    for algorithm in ("rabenseifner", "linear", "recursive_doubling"):
        mpicoll.allreduce([x, 3, each], [y, 3, each], op, comm, algorithm=algorithm)
        assert (y == expected).all()
    plan = mpicoll.reduce_init([x, 3, each], [y, 3, each], op, 0, comm)
    y[:] = 0
    plan()
    assert (y == expected).all() or comm.rank
    plan.free()
    op.Free()


@some
def test_mpis_operations_see_the_basic_elements(comm, made):
    p, r = comm.size, comm.rank
    each = made(MPI.INT.Create_contiguous(3))
    x, y = np.arange(6 * p, dtype="i4") + r, np.zeros(6 * p, "i4")
    expected = p * np.arange(6 * p) + p * (p - 1) // 2
    mpicoll.allreduce([x, each], [y, each], None, comm)
    assert (y == expected).all()
    mpicoll.reduce_scatter([x, each], [y, 2, each], None, comm, counts=[2] * p)
    assert (y[:6] == expected[6 * r : 6 * r + 6]).all()
    mpicoll.allreduce([x, MPI.INT.Dup()], x := x.copy(), MPI.MAX, comm)
    pairs = np.zeros(2, np.dtype("d,i", align=True))
    pairs["f0"], pairs["f1"] = (r, -r), r
    mpicoll.allreduce(MPI.IN_PLACE, [pairs, MPI.DOUBLE_INT], MPI.MAXLOC, comm)
    assert pairs["f1"].tolist() == [p - 1, 0]


@pytest.mark.parametrize("comm", [1, 8], indirect=True)
def test_what_is_refused(comm, made):
    x, y, p = np.zeros(24), np.zeros(24), comm.size
    gaps = made(MPI.DOUBLE.Create_vector(2, 1, 2))
    swapped = made(MPI.DOUBLE.Create_indexed([1, 1], [1, 0]))
    mixed = made(MPI.Datatype.Create_struct([2, 1], [0, 8], [MPI.INT, MPI.DOUBLE]))
    still = made(MPI.DOUBLE.Create_resized(0, 0))
    init = mpicoll.allreduce_init
    for wrong, said in ((gaps, "size 16 and extent 24 whose bytes are not in a row"), (swapped, "not in a row")):
        said = f"^recvbuf has a datatype of .*{said}"
        refused(comm, TypeError, said, init, [x, 1, wrong], [y, 1, wrong], None, comm)
    refused(comm, TypeError, r"^SUM cannot take dtype \|V16", init, [x, 1, mixed], [y, 1, mixed], None, comm)
    init = mpicoll.bcast_init
    refused(comm, TypeError, "^buffer has a datatype of extent 0", init, [x, 1, still], 0, comm)
    said = "^buffer has 192 bytes and its spelling asks for bytes 0 to 216"
    refused(comm, ValueError, said, init, [x, 9, gaps], 0, comm)
    whole = np.zeros(3 * p + 1)
    overlap = [whole[1:], [1] * p, gaps]
    refused(comm, ValueError, "^sendbuf and recvbuf overlap", mpicoll.allgather_init, [whole, 1, gaps], overlap, comm)
