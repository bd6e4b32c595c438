"""What a caller can get wrong is raised before any message leaves, in the same words on all ranks, and on one alone."""

import numpy as np
import pytest
from mpi4py import MPI
from together import refused, world

import mpicoll

pytestmark = [pytest.mark.mpi, pytest.mark.parametrize("comm", [1, 8], indirect=True)]

IN_ONE = ("allreduce", "allreduce_init")
X = np.arange(8, dtype="f8")


def both(comm, kind, match, sendbuf, recvbuf, *rest, **more):
    """At once and as a plan; and sendbuf is as it was."""
    for name in IN_ONE:
        refused(comm, kind, match, getattr(mpicoll, name), sendbuf, recvbuf, *rest, comm=comm, **more)


STRIDED = {
    "every second": lambda: np.zeros(16)[::2],
    "backwards": lambda: np.zeros(8)[::-1],
    "a column": lambda: np.zeros((8, 3))[:, 1],
    "real parts": lambda: np.zeros(8, "c16").real,
    "one value, eight times": lambda: np.broadcast_to(1.0, (8,)),
    "a field": lambda: np.zeros(8, [("a", "f8"), ("b", "f8")])["a"],
    "a window": lambda: np.zeros((8, 8))[2:4, 2:6],
}


@pytest.mark.parametrize("make", STRIDED.values(), ids=STRIDED)
def test_not_contiguous(comm, make):
    wrong, right = make(), np.zeros(make().shape)
    both(comm, ValueError, r"^sendbuf is not contiguous \(shape .*, strides .*ascontiguousarray", wrong, right)
    both(comm, ValueError, "^recvbuf is not contiguous|^recvbuf is read-only", right, wrong)
    both(comm, ValueError, "^recvbuf is not contiguous|^recvbuf is read-only", MPI.IN_PLACE, wrong)
    refused(
        comm, ValueError, "^buffer is not contiguous|^buffer is read-only", mpicoll.bcast, wrong, comm.size - 1, comm
    )


def test_read_only(comm):
    wrong = X.copy()
    wrong.setflags(write=False)
    both(comm, ValueError, "^recvbuf is read-only: pass a writable array", X, wrong)
    both(comm, ValueError, "^recvbuf is read-only", MPI.IN_PLACE, wrong)
    for name in ("allgather", "reduce_scatter"):
        refused(comm, ValueError, "^recvbuf is read-only", getattr(mpicoll, name), X[:1], wrong, comm=comm)


def test_counts_that_differ(comm):
    both(comm, ValueError, "^recvbuf is too small: it holds 7 elements and sendbuf needs 8", X, np.zeros(7))
    both(comm, ValueError, "^recvbuf is too large: it holds 9 elements and sendbuf needs 8", X, np.zeros(9))
    both(comm, ValueError, "^recvbuf is too small: it holds 0 ", X, np.zeros(0))
    gather, scatter = mpicoll.allgather, mpicoll.reduce_scatter
    own = 8 // comm.size
    refused(
        comm, ValueError, f"^sendbuf holds {own + 1} elements and rank ", one(gather), np.zeros(own + 1), X.copy(), comm
    )
    refused(
        comm,
        ValueError,
        rf"^recvbuf is too small.*share of sendbuf needs {own}",
        one(scatter),
        X,
        np.zeros(own - 1),
        None,
        comm,
    )
    refused(
        comm,
        ValueError,
        "^sendbuf .*too small|^recvbuf is too small",
        mpicoll.reduce,
        X,
        np.zeros(3),
        None,
        0,
        MPI.COMM_SELF,
    )


def one(call):
    """The ranks' shares carry their rank's number; without it the messages are the same."""

    def told(*args, **more):
        try:
            call(*args, **more)
        except ValueError as error:
            comm = next(arg for arg in args if isinstance(arg, MPI.Comm))
            raise ValueError(str(error).replace(f"rank {comm.rank}'s", "rank ?'s")) from None

    return told


def test_dtypes_that_differ(comm):
    both(comm, TypeError, "^sendbuf has dtype float64 and recvbuf float32: both must be the same", X, np.zeros(8, "f4"))
    both(comm, TypeError, "^sendbuf has dtype float64 and recvbuf >f8", X, np.zeros(8, ">f8"))


@pytest.mark.parametrize("dtype", ["S4", "U2", "M8[s]", "m8[s]", "V8", [("a", "f4")], [("a", "f8"), ("b", "f8")]])
def test_dtypes_that_do_not_travel(comm, dtype):
    wrong = np.zeros(8, dtype)
    both(comm, TypeError, "^recvbuf has dtype .*: pass a numeric dtype", wrong, wrong.copy())
    refused(comm, TypeError, "^buffer has dtype .*: pass a numeric dtype", mpicoll.bcast, wrong, 0, comm)


@pytest.mark.parametrize("dtype", ["O", [("a", "f8"), ("b", "O")], np.dtypes.StringDType()], ids=str)
def test_objects_do_not_travel_as_bytes_either(comm, dtype):
    """They are addresses: another process would free what is not its own."""
    wrong, byte = np.zeros(8, dtype), MPI.BYTE
    said = "has dtype .*: its elements are addresses in this process; pass a numeric dtype"
    both(comm, TypeError, f"^recvbuf {said}", wrong, wrong.copy())
    both(comm, TypeError, f"^recvbuf {said}", [wrong, byte], [wrong.copy(), byte])
    refused(comm, TypeError, f"^buffer {said}", mpicoll.bcast, [wrong, byte], 0, comm)


def test_what_is_no_memory(comm):
    for wrong, said in ((None, "None"), ([1.0], "a list of 1"), (1.0, "a float"), (MPI.BOTTOM, r"MPI\.BOTTOM")):
        both(comm, TypeError, f"^sendbuf is {said}: pass an array, or \\[data, count, datatype", wrong, X.copy())
        both(comm, TypeError, f"^recvbuf is {said}: pass an array", X, wrong)
    both(comm, TypeError, r"^recvbuf is MPI\.IN_PLACE: pass an array", X, MPI.IN_PLACE)
    both(comm, TypeError, "^sendbuf is a MaskedArray: pass an array", np.ma.zeros(8), X.copy())
    refused(comm, TypeError, r"^buffer is MPI\.IN_PLACE", mpicoll.bcast, MPI.IN_PLACE, 0, comm)


def test_partial_overlap(comm):
    base = np.zeros(9)
    both(comm, ValueError, "^sendbuf and recvbuf overlap in part", base[:-1], base[1:])
    both(comm, ValueError, "^sendbuf and recvbuf overlap in part", base[1:], base[:-1])
    whole = np.zeros(4 * comm.size)
    if comm.size > 1:
        refused(comm, ValueError, "overlap in part", mpicoll.reduce_scatter, whole, whole[:4], None, comm)
        refused(comm, ValueError, "overlap in part", mpicoll.allgather, whole[2:6], whole, comm)


def test_orders_that_differ(comm):
    c, f = np.zeros((3, 4)), np.zeros((3, 4), order="F")
    both(comm, ValueError, "C order and the other in Fortran order", c, f)
    both(comm, ValueError, "C order and the other in Fortran order", f, c)


def test_algorithms(comm):
    names = ", ".join(mpicoll.algorithms("allreduce"))
    both(comm, ValueError, f"^allreduce has no algorithm 'rnig'; there are {names}$", X, X.copy(), algorithm="rnig")
    both(comm, TypeError, "^algorithm is 3: pass its name, or 'auto'", X, X.copy(), algorithm=3)
    both(comm, TypeError, "^algorithm is None", X, X.copy(), algorithm=None)
    refused(comm, ValueError, "^bcast has no algorithm 'ring'", mpicoll.bcast, X.copy(), 0, comm, algorithm="ring")


def test_roots(comm):
    for root in (-1, comm.size, 1.5, "0", None):
        said = rf"^root {root!r} is not one of the ranks 0\.\.{comm.size - 1}$"
        for name in ("bcast", "bcast_init"):
            refused(comm, ValueError, said, getattr(mpicoll, name), X.copy(), root, comm)
        for name in ("reduce", "reduce_init"):
            refused(comm, ValueError, said, getattr(mpicoll, name), X, X.copy(), None, root, comm)


def test_counts_of_the_chunks(comm):
    p = comm.size
    for name in ("allgather", "allgather_init"):
        call = getattr(mpicoll, name)
        refused(comm, ValueError, f"^counts is .*: give {p} numbers", call, X[:1], X.copy(), comm, counts=[1] * (p + 1))
        refused(comm, ValueError, "^counts is ", call, X[:1], X.copy(), comm, counts=[-1, *[9] * (p - 1)])
        refused(comm, ValueError, "^counts is ", call, X[:1], X.copy(), comm, counts=[0.5] * p)
        refused(comm, ValueError, f"^counts add up to {3 * p}, .* 8", call, X[:1], X.copy(), comm, counts=[3] * p)


@pytest.mark.parametrize("wrong", [5, "8", 2.5])
def test_counts_that_are_no_sequence(comm, wrong):
    for name in ("allgather", "allgather_init"):
        with pytest.raises((TypeError, ValueError), match=r"^counts is "):
            getattr(mpicoll, name)(X[:1], X.copy(), comm, counts=wrong)


def test_communicators(comm):
    x = X.copy()
    for name in IN_ONE:
        call = getattr(mpicoll, name)
        refused(comm, ValueError, r"COMM_NULL or was freed", call, X, x, None, MPI.COMM_NULL)
        freed = comm.Dup()
        mpicoll.allreduce(X, x, None, freed)
        freed.Free()
        refused(comm, ValueError, r"COMM_NULL or was freed", call, X, x, None, freed)
        for wrong in ("world", 3):
            refused(comm, TypeError, r"^comm is .*: pass an mpi4py\.MPI\.Intracomm", call, X, x, None, wrong)


def test_an_intercommunicator(comm):
    if comm.size > 1:
        half = comm.Split(comm.rank % 2)
        between = half.Create_intercomm(0, comm, 1 - comm.rank % 2)
        for name in IN_ONE:
            refused(
                comm, ValueError, "^comm is an intercommunicator", getattr(mpicoll, name), X, X.copy(), None, between
            )
        between.Free()
        half.Free()


def test_in_place_away_from_the_root(comm):
    mpicoll.reduce(X, X.copy(), None, 0, comm)  # the first call on a communicator is collective
    if comm.rank:
        with pytest.raises(ValueError, match=r"^sendbuf is MPI\.IN_PLACE: only the root"):
            mpicoll.reduce(MPI.IN_PLACE, X.copy(), None, 0, comm)


def test_nothing_was_sent(comm):
    # After all the refusals above a call on the same communicator still works: no stray message is under way.
    both(comm, TypeError, "dtype", X, np.zeros(8, "f4"))
    x = np.full(8, comm.rank + 1.0)
    mpicoll.allreduce(MPI.IN_PLACE, x, None, comm)
    assert (x == comm.size * (comm.size + 1) / 2).all()
    assert not comm.Iprobe()
    assert world.size >= comm.size
