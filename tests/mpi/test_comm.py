"""The communicator that is put in the place of mpi4py's: the same calls, the same results, and nothing else changes."""

import pickle
import re

import numpy as np
import pytest
from mpi4py import MPI
from together import refused

import mpicoll
from mpicoll.runtime.private import private
from mpicoll.runtime.problem import KEEPING

pytestmark = pytest.mark.mpi
some = pytest.mark.parametrize("comm", [1, 3, 8], indirect=True)
OURS = ("Allreduce", "Reduce", "Reduce_scatter", "Reduce_scatter_block", "Bcast", "Allgather", "Allgatherv")


def numbers(comm, count):
    return (np.arange(count) * 7 + comm.rank * 13) % 41


def calls(p):
    """(name, arguments behind the buffers, elements sent, elements received on a rank) of each of our calls."""
    counts = [i % 3 for i in range(p)]
    for count in (0, 1, 5, 300):
        yield "Allreduce", (), count, lambda r, n=count: n
        yield "Allreduce", (MPI.MAX,), count, lambda r, n=count: n
        yield "Reduce", (MPI.SUM, p - 1), count, lambda r, n=count: n
        yield "Reduce_scatter_block", (), count * p, lambda r, n=count: n
        yield "Allgather", (), count, lambda r, n=count: n * p
        yield "Bcast", (p - 1,), None, lambda r, n=count: n
    yield "Reduce_scatter", (counts,), sum(counts), lambda r: counts[r]
    yield "Reduce_scatter", (), sum(counts), lambda r: counts[r]
    yield "Reduce_scatter", (None, MPI.PROD), sum(counts), lambda r: counts[r]


def test_the_librarys_results(comm):
    ours, library = mpicoll.Comm(comm), MPI.Intracomm(comm)
    for name, rest, sent, received in calls(comm.size):
        found = []
        for where, suffix in ((library, ""), (ours, ""), (ours, ""), (ours, "_init")):
            y = np.full(received(comm.rank), -1)
            if name == "Bcast" and comm.rank == rest[0]:
                y = numbers(comm, len(y))
            buffers = (y,) if sent is None else (numbers(comm, sent), y)
            made = getattr(where, name + suffix)(*buffers, *rest)
            if suffix:
                assert isinstance(made, mpicoll.Plan)
                made.Start()
                made.Wait()
                made.Free()
            found.append(y)
        assert all((y == found[0]).all() for y in found), (name, rest, found)


def test_places_in_an_allgatherv(comm):
    p, r = comm.size, comm.rank
    counts = [(2 * i + 1) % 4 for i in range(p)]
    places = [5 * ((i + 1) % p) + i % 2 for i in range(p)]  # not in order, and with gaps
    if r % 2:
        places = [5 * p - 4 - at for at in places]  # nor alike on all ranks
    expected = np.full(5 * p, -1.0)
    for c, (at, n) in enumerate(zip(places, counts)):
        expected[at : at + n] = c + np.arange(n) / 8
    for algorithm in mpicoll.algorithms("allgather"):
        ours = mpicoll.Comm(comm, {"allgather": algorithm})
        own = r + np.arange(counts[r]) / 8
        for spell in (lambda y: [y, (counts, places), MPI.DOUBLE], lambda y: (y, counts, np.array(places), "d")):
            y = np.full(5 * p, -1.0)
            ours.Allgatherv(own, spell(y))
            assert (y == expected).all(), algorithm
            for c, (at, n) in enumerate(zip(places, counts)):
                y[at : at + n] = y[at : at + n] if c == r else np.nan
            plan = ours.Allgatherv_init(MPI.IN_PLACE, spell(y))
            for _ in range(2):
                plan.Start()
                plan.Wait()
                assert (y == expected).all(), algorithm
            plan.Free()


@some
def test_a_sendbuf_in_a_gap(comm):
    p, r = comm.size, comm.rank
    y = np.full(4 * p, -1.0)
    y[4 * r + 3] = r
    mpicoll.Comm(comm).Allgatherv(y[4 * r + 3 : 4 * r + 4], [y, (1, 4)])
    assert (y[::4] == np.arange(p)).all()
    if p > 1:
        other = y[4 * ((r + 1) % p) : 4 * ((r + 1) % p) + 1]
        with pytest.raises(ValueError, match=r"^sendbuf is rank \d's share of recvbuf|overlap"):
            mpicoll.Comm(comm).Allgatherv(other, [y, (1, 4)])


@some
def test_one_chunk_is_spelled_and_not_the_whole(comm):
    p, r, ours = comm.size, comm.rank, mpicoll.Comm(comm)
    x = np.full(2, float(r))
    for spell in (lambda y: [y, 2], lambda y: [y, (2, 1), "d"], lambda y: [y, 2, 1, MPI.DOUBLE]):
        y = np.full(2 * p + 1, -1.0)
        ours.Allgather(x, spell(y))
        at = 0 if len(spell(y)) == 2 else 1
        assert (y[at : 2 * p + at] == np.repeat(np.arange(p), 2)).all()
    x = np.arange(2.0 * p + 1) + r
    ours.Reduce_scatter_block([x, (2, 1), "d"], [y, 2])
    assert (y[:2] == p * np.arange(2 * r + 1, 2 * r + 3) + p * (p - 1) / 2).all()
    if p > 1:
        for name in ("Allgather", "Allgather_init"):
            said = f"cannot be cut in {p} equal chunks"
            refused(comm, ValueError, said, getattr(ours, name), x[:1], np.zeros(2 * p + 1))


@some
def test_in_place_leaves_the_rest_alone(comm):
    p, r = comm.size, comm.rank
    for algorithm in mpicoll.algorithms("reduce_scatter"):
        ours = mpicoll.Comm(comm, {"reduce_scatter": algorithm})
        counts = [i % 3 + 1 for i in range(p)]
        total, at = sum(counts), sum(counts[:r])
        for place in (None, MPI.IN_PLACE):
            for turn in range(2):
                x = np.arange(float(total)) + r + turn
                expected = x.copy()
                expected[: counts[r]] = sum(np.arange(at, at + counts[r]) + k + turn for k in range(p))
                ours.Reduce_scatter(place, x, counts)
                assert (x == expected).all(), algorithm
            x = np.arange(3.0 * p) + r
            plan = ours.Reduce_scatter_block_init(place, x)
            plan.Start()
            plan.Wait()
            assert (x[:3] == p * np.arange(3 * r, 3 * r + 3) + p * (p - 1) / 2).all()
            assert (x[3:] == np.arange(3.0, 3 * p) + r).all()
            plan.Free()
    assert repr(KEEPING) == "MPI.IN_PLACE"


@pytest.mark.parametrize("comm", [3], indirect=True)
def test_without_recvcounts_all_ranks_are_told(comm):
    ours, x = mpicoll.Comm(comm), np.zeros(6)
    wrong = np.zeros(4)[::2] if comm.rank == 1 else np.zeros(2)
    for name in ("Reduce_scatter", "Reduce_scatter_init"):
        refused(comm, ValueError, "^rank 1: recvbuf is not contiguous", getattr(ours, name), x, wrong)
        refused(comm, ValueError, "^recvcounts is None: with MPI.IN_PLACE give", getattr(ours, name), MPI.IN_PLACE, x)


@some
def test_a_plan_behaves_as_a_persistent_request(comm):
    x, y, status = np.ones(4), np.zeros(4), MPI.Status()
    request = mpicoll.Comm(comm).Allreduce_init([x, MPI.DOUBLE], [y, "d"])
    assert request.Test() is True, "not started is through"
    assert request.Wait(status) is True
    for turn in range(3):
        x[:] = turn
        request.Start()
        while turn == 1 and not request.Test(status):
            pass
        assert request.Wait(status) is True
        assert (y == turn * comm.size).all()
    assert (status.source, status.tag, status.Get_count(MPI.BYTE)) == (MPI.ANY_SOURCE, MPI.ANY_TAG, 0)
    request.Start()
    with pytest.raises(RuntimeError, match="is started already"):
        request.Start()
    request.Wait()
    request.Free()
    with pytest.raises(RuntimeError, match="is freed"):
        request.Start()


@some
def test_communicators_made_from_it(comm):
    ours = mpicoll.Comm(comm, "ring" if comm.size > 1 else "auto")
    group = ours.Get_group()
    half = MPI.Group.Incl(group, range((comm.size + 1) // 2))
    duplicate, request = ours.Idup()
    request.Wait()
    made = [
        ours.Dup(),
        ours.Dup(MPI.INFO_NULL),
        ours.Dup_with_info(MPI.INFO_NULL),
        ours.Clone(),
        duplicate,
        ours.Split(comm.rank % 2),
        ours.Split_type(MPI.COMM_TYPE_SHARED),
        ours.Create(half),
        ours.Create_group(group),
        ours.Split(MPI.UNDEFINED),
    ]
    for one in made:
        assert type(one) is mpicoll.Comm
        assert one.algorithm == ours.algorithm
        if one != MPI.COMM_NULL:
            one.Allreduce(np.ones(3), y := np.zeros(3))
            assert (y == one.size).all()
            one.Free()
    assert made[-1] == MPI.COMM_NULL
    group.Free()
    half.Free()
    grid = ours.Create_cart([comm.size])
    assert type(grid) is MPI.Cartcomm
    grid.Free()
    assert ours == comm
    assert private(ours) is private(comm)


@some
def test_what_is_the_librarys_stays_so(comm):
    ours = mpicoll.Comm(comm)
    assert ours.allreduce(comm.rank) == comm.size * (comm.size - 1) // 2
    assert ours.bcast({"rank": comm.rank}) == {"rank": 0}
    request = ours.Iallreduce(np.ones(2), y := np.zeros(2))
    request.Wait()
    assert (y == comm.size).all()
    ours.Barrier()
    ours.Gather(np.full(1, comm.rank), box := np.zeros(comm.size, int))
    assert comm.rank or (box == np.arange(comm.size)).all()


@some
def test_algorithms(comm):
    x, y = np.ones(40), np.zeros(40)
    ours = mpicoll.Comm(comm, {"allreduce": "linear", "bcast": "chain@2"})
    assert ours.Allreduce_init(x, y).algorithm == "linear"
    assert ours.Bcast_init(y, comm.size - 1).algorithm == "chain@2"
    assert "auto" in ours.Reduce_init(x, y).why
    refused(comm, ValueError, "^bcast has no algorithm 'ring'", mpicoll.Comm(comm, "ring").Bcast_init, y)
    refused(comm, ValueError, "^no collective has an algorithm 'rnig'", mpicoll.Comm, comm, "rnig")
    refused(comm, ValueError, "^bcast has no algorithm 'ring'", mpicoll.Comm, comm, {"bcast": "ring"})
    refused(comm, ValueError, "^algorithm names 'Bcast': the collectives are", mpicoll.Comm, comm, {"Bcast": "chain"})
    refused(comm, TypeError, "^algorithm is 3: pass its name", mpicoll.Comm, comm, 3)


@some
def test_what_is_no_communicator(comm):
    if comm.size > 1:
        half = comm.Split(comm.rank % 2)
        between = half.Create_intercomm(0, comm, 1 - comm.rank % 2)
        refused(comm, ValueError, "^comm is an intercommunicator", mpicoll.Comm, between)
        between.Free()
        half.Free()
    for wrong in ("world", 3):
        refused(comm, TypeError, r"^comm is .*: pass an mpi4py\.MPI\.Intracomm", mpicoll.Comm, wrong)
    refused(comm, ValueError, "COMM_NULL or was freed", mpicoll.Comm(MPI.COMM_NULL).Allreduce, np.ones(1), np.ones(1))
    refused(comm, ValueError, "COMM_NULL or was freed", mpicoll.Comm().Bcast_init, np.ones(1))


def test_it_can_be_pickled_where_mpi4pys_can():
    ours = pickle.loads(pickle.dumps(mpicoll.Comm(MPI.COMM_WORLD, {"allreduce": "ring"})))
    assert type(ours) is mpicoll.Comm
    assert ours == MPI.COMM_WORLD
    assert ours.algorithm["allreduce"] == "ring"
    with pytest.raises(ValueError, match="cannot serialize"):
        pickle.dumps(mpicoll.Comm(MPI.COMM_WORLD.Dup()))


@pytest.mark.parametrize("name", [*OURS, *(f"{name}_init" for name in OURS)])
def test_the_arguments_are_mpi4pys(name):
    theirs = re.findall(
        r"(\w+):[^,]*?(?: = ([\w.]+))?(?=, \w+:|\))", getattr(MPI.Intracomm, name).__doc__.split("->")[0]
    )
    call = getattr(mpicoll.Comm, name)
    names = call.__code__.co_varnames[1 : call.__code__.co_argcount]
    assert list(names) == [argument for argument, _ in theirs]
    given = [value for _, value in theirs if value]
    assert list(call.__defaults__ or ()) == [eval(value, vars(MPI)) for value in given]
