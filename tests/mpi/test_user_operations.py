"""Operations made with MPI.Op.Create: in rank order where they do not commute, refused by name where that cannot be."""

from functools import partial, reduce

import numpy as np
import pytest
from calls import Call
from mpi4py import MPI
from together import refused

import mpicoll
from mpicoll.schedule import REDUCING, algorithms

pytestmark = pytest.mark.mpi

MODULUS = 1 << 20


def compose(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Maps x -> ax + b (mod 2^20), packed in one int64 each, one after the other: associative, and no more."""
    (a, b), (c, d) = np.divmod(left, MODULUS), np.divmod(right, MODULUS)
    return (a * c % MODULUS) * MODULUS + (b * c + d) % MODULUS


def maps(rank: int, count: int, turn: int) -> np.ndarray:
    i = np.arange(count, dtype="i8")
    return (2 * ((i * 7919 + rank * 104729 + turn) % 5000) + 3) * MODULUS + (i * 31 + rank * 17 + 5) % MODULUS


def into(function):
    """An MPI operation's signature: the second operand becomes the result."""

    def user(left, right, datatype):
        right = np.frombuffer(right, "i8")
        right[:] = function(np.frombuffer(left, "i8"), right)

    return user


@pytest.fixture
def composing():
    op = MPI.Op.Create(into(compose), commute=False)
    yield op
    op.Free()


@pytest.fixture
def adding():
    op = MPI.Op.Create(into(np.add), commute=True)
    yield op
    op.Free()


IN_ORDER = {"dtype": "i8", "data": maps, "reduce": partial(reduce, compose)}


@pytest.mark.parametrize("collective", REDUCING)
def test_not_commutative(comm, composing, collective):
    for name, entry in algorithms(collective).items():
        if entry.keeps_order(comm.size):
            for root in range(comm.size) if collective == "reduce" else (0,):
                Call(comm, collective, 37, op=composing, root=root, **IN_ORDER).once(name, turns=(0, 1))
                Call(comm, collective, 5, op=composing, root=root, in_place=True, **IN_ORDER).planned(name, turns=(2,))


@pytest.mark.parametrize("collective", REDUCING)
def test_not_commutative_refused_by_name(comm, composing, collective):
    fit = [name for name, entry in algorithms(collective).items() if entry.keeps_order(comm.size)]
    for name in sorted(set(algorithms(collective)) - set(fit)):
        said = f"^{collective} by {name} does not keep rank order on {comm.size} ranks.* use .*{fit[0]}"
        call = Call(comm, collective, 5, op=composing, **IN_ORDER)
        call.fill(0)
        refused(comm, ValueError, said, call.plan, name)
        args, more = call.arguments
        refused(comm, ValueError, said, getattr(mpicoll, collective), *args, algorithm=name, **more)
        assert call.send.tobytes() == call.sent


@pytest.mark.parametrize("collective", REDUCING)
def test_auto_keeps_rank_order(comm, composing, collective):
    for count in (5, 30_000):
        Call(comm, collective, count, op=composing, root=comm.size - 1, **IN_ORDER).once()


@pytest.mark.parametrize("comm", [1, 2, 5, 8], indirect=True)
@pytest.mark.parametrize("collective", REDUCING)
def test_commutative(comm, adding, collective):
    for name in algorithms(collective):
        call = Call(comm, collective, 23, op=adding, dtype="i8", root=comm.size // 2)
        call.once(name)
        call.planned(name, turns=(2,))


@pytest.mark.parametrize("comm", [1, 4], indirect=True)
def test_what_a_user_operation_cannot_take(comm, adding):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    for dtype in (bfloat16, np.dtype([("value", "f4"), ("index", "i4")])):
        x = np.zeros(4, dtype)
        refused(comm, TypeError, "user operation", mpicoll.allreduce, x, x.copy(), adding, comm)


@pytest.mark.parametrize("comm", [1, 4], indirect=True)
def test_operations_that_cannot_reduce(comm):
    x = np.zeros(4)
    for op in (MPI.OP_NULL, MPI.REPLACE, MPI.NO_OP):
        refused(comm, TypeError, "cannot reduce: pass MPI.SUM", mpicoll.allreduce, x, x.copy(), op, comm)
    for op in ("sum", np.add, sum, 3):
        refused(comm, TypeError, r"op is .*: pass an mpi4py\.MPI\.Op", mpicoll.allreduce, x, x.copy(), op, comm)


@pytest.mark.parametrize("comm", [1, 4], indirect=True)
def test_a_freed_operation_is_refused_even_when_its_plan_is_cached(comm):
    op = MPI.Op.Create(into(np.add), commute=True)
    x, y = np.ones(4, "i8"), np.empty(4, "i8")
    mpicoll.allreduce(x, y, op, comm)
    op.Free()
    refused(comm, TypeError, "cannot reduce", mpicoll.allreduce, x, y, op, comm)


@pytest.mark.parametrize("comm", [1, 2, 3], indirect=True)
@pytest.mark.parametrize("name", ["recursive_doubling", "binomial_tree"])
def test_a_plan_whose_operation_was_freed_sends_nothing(comm, name):
    """A rank that finds it in mid-message leaves the others waiting."""
    op = MPI.Op.Create(into(np.add), commute=True)
    x, y, other = np.ones(4, "i8"), np.empty(4, "i8"), np.ones(4, "i8")
    plan = mpicoll.allreduce_init(x, y, op, comm, algorithm=name)
    beside = mpicoll.allreduce_init(MPI.IN_PLACE, other, comm=comm)
    plan()
    assert (y == comm.size).all()
    op.Free()
    for begin in (plan, plan.start):
        refused(comm, RuntimeError, "the user operation of this plan was freed", begin)
    beside.start()
    refused(comm, RuntimeError, "the user operation of this plan was freed", plan)
    beside.wait()
    assert (other == comm.size).all()
    plan.free()
