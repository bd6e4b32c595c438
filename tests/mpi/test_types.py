"""Every dtype with every operation on one algorithm of each kind, and numbers at the edges of their types."""

import re
from functools import partial, reduce
from itertools import product

import numpy as np
import pytest
from calls import KINDS, NAMES, Call
from mpi4py import MPI
from together import refused

import mpicoll

pytestmark = pytest.mark.mpi

CODES = "?bBhHiIlLqQefdgFDG"
PAIRS = [np.dtype([("value", value), ("index", index)]) for value, index in (("f4", "i4"), ("f8", "i8"), ("i4", "u2"))]


def all_dtypes() -> list[np.dtype]:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    return [*map(np.dtype, CODES), np.dtype(ml_dtypes.bfloat16)]


def folded(ufunc, vectors):
    """Folded in the type itself: integers wrap, and bool and float16 stay what they are."""
    with np.errstate(invalid="ignore"):
        return reduce(lambda a, b: ufunc(a, b).astype(a.dtype), vectors)


def averaged(vectors):
    return (folded(np.add, vectors) / len(vectors)).astype(vectors[0].dtype)


# Name -> (operation, kinds that MPI's standard or mpicoll allows, reference).
OPERATIONS = {
    name: (getattr(MPI, name), kinds, partial(folded, ufunc))
    for name, kinds, ufunc in (
        ("SUM", "iufc", np.add),
        ("PROD", "iufc", np.multiply),
        ("MIN", "iuf", np.minimum),
        ("MAX", "iuf", np.maximum),
        ("LAND", "biu", np.logical_and),
        ("LOR", "biu", np.logical_or),
        ("LXOR", "biu", np.logical_xor),
        ("BAND", "iu", np.bitwise_and),
        ("BOR", "iu", np.bitwise_or),
        ("BXOR", "iu", np.bitwise_xor),
    )
}
OPERATIONS["AVG"] = (mpicoll.AVG, "fc", averaged)


def tiny(rank: int, count: int, turn: int) -> np.ndarray:
    """0..3: sums and products of eight stay exact in every type, bfloat16 with its 8 bits included."""
    return (np.arange(count) * 3 + rank * 5 + turn) % (3 if count % 2 else 4)


def small_powers(rank: int, count: int, turn: int) -> np.ndarray:
    return 1 + (np.arange(count) + rank + turn) % 2


def takes(dtype: np.dtype, kinds: str) -> bool:
    return ("f" if dtype.name == "bfloat16" else dtype.kind) in kinds


@pytest.mark.parametrize("comm", [3], indirect=True)
@pytest.mark.parametrize("algorithm", KINDS)
def test_every_dtype_and_operation(comm, algorithm):
    for dtype in all_dtypes():
        for name, (op, kinds, expected) in OPERATIONS.items():
            if takes(dtype, kinds):
                data = small_powers if name == "PROD" else tiny
                Call(comm, "allreduce", 13, dtype=dtype, op=op, data=data, reduce=expected).once(algorithm)


@pytest.mark.parametrize("comm", [1, 3], indirect=True)
@pytest.mark.parametrize("collective", ["allreduce", "reduce", "reduce_scatter"])
def test_operations_that_a_dtype_cannot_take(comm, collective):
    for dtype in [*all_dtypes(), PAIRS[0]]:
        refusals = {name: op for name, (op, kinds, _) in OPERATIONS.items() if not takes(dtype, kinds)}
        if dtype.names is None:
            refusals |= {"MINLOC": MPI.MINLOC, "MAXLOC": MPI.MAXLOC}
        for name, op in refusals.items():
            x = np.zeros(comm.size, dtype)
            y = x[:1].copy() if collective == "reduce_scatter" else x.copy()
            said = f"^{name} cannot take dtype {re.escape(str(dtype))}; it takes "
            for call in (getattr(mpicoll, collective), getattr(mpicoll, f"{collective}_init")):
                refused(comm, TypeError, said, call, x, y, op, comm=comm)


@pytest.mark.parametrize("comm", [3, 8], indirect=True)
@pytest.mark.parametrize("collective", ["bcast", "allgather", "reduce", "reduce_scatter"])
def test_every_dtype_through_the_other_collectives(comm, collective):
    for dtype in all_dtypes():
        op = MPI.LOR if dtype.kind == "b" else MPI.SUM
        expected = partial(folded, np.logical_or if dtype.kind == "b" else np.add)
        Call(comm, collective, 11, dtype=dtype, op=op, root=comm.size - 1, data=tiny, reduce=expected).once()
    for dtype in PAIRS if collective in ("bcast", "allgather") else ():
        Call(comm, collective, 11, dtype=dtype, root=1, data=pairs).once()


def pairs(rank: int, count: int, turn: int) -> np.ndarray:
    both = np.zeros(count, [("value", "f8"), ("index", "i8")])
    both["value"], both["index"] = tiny(rank, count, turn) - 1, (rank * 7) % 5
    return both


def located(better, vectors):
    """The better value; of equal ones the lower index."""
    value, index = vectors[0].dtype.names
    result = vectors[0].copy()
    for other in vectors[1:]:
        same = (other[value] == result[value]) & (other[index] < result[index])
        result = np.where(better(other[value], result[value]) | same, other, result)
    return result


@pytest.mark.parametrize("algorithm", KINDS)
@pytest.mark.parametrize("comm", [1, 3, 8], indirect=True)
def test_locations(comm, algorithm):
    for dtype in PAIRS:
        for op, better in ((MPI.MINLOC, np.less), (MPI.MAXLOC, np.greater)):
            data = lambda *args: np.maximum(0, pairs(*args)["value"])  # noqa: E731
            whole = lambda *args, data=data: np.rec.fromarrays([data(*args), pairs(*args)["index"]])  # noqa: E731
            call = Call(comm, "allreduce", 20, dtype=dtype, op=op, data=whole, reduce=partial(located, better))
            call.once(algorithm)


@pytest.mark.parametrize("comm", [1, 2, 4, 7], indirect=True)
@pytest.mark.parametrize("algorithm", KINDS)
def test_integers_wrap(comm, algorithm):
    for dtype, value, op, ufunc in (
        ("i4", 2**30, MPI.SUM, np.add),
        ("i1", 100, MPI.SUM, np.add),
        ("u1", 251, MPI.PROD, np.multiply),
        ("i8", 2**62 + 1, MPI.SUM, np.add),
        ("u2", 65535, MPI.SUM, np.add),
    ):
        data = lambda rank, count, turn, value=value: np.full(count, value) - rank % 2  # noqa: E731
        Call(comm, "allreduce", 9, dtype=dtype, op=op, data=data, reduce=partial(folded, ufunc)).once(algorithm)


@pytest.mark.parametrize("comm", [4, 5], indirect=True)
def test_a_nan_on_any_rank_goes_through_min_and_max(comm):
    dtypes = [np.dtype("f4"), np.dtype("f2"), all_dtypes()[-1]]
    for algorithm, dtype in [*product(NAMES, dtypes[:1]), *product(KINDS[:2], dtypes[1:])]:
        for op, ufunc in ((MPI.MIN, np.minimum), (MPI.MAX, np.maximum)):
            for who in range(comm.size):

                def data(rank, count, turn, who=who):
                    vector = np.arange(count) + rank + 1.0
                    vector[1::3] = np.nan if rank == who else vector[1::3]
                    return vector

                call = Call(comm, "allreduce", 6, dtype=dtype, op=op, data=data, reduce=partial(folded, ufunc))
                call.once(algorithm)
                assert np.isnan(call.recv.astype("f8")).tolist() == [False, True, False] * 2


@pytest.mark.parametrize("comm", [1, 3, 8], indirect=True)
@pytest.mark.parametrize("algorithm", KINDS)
def test_min_and_max_are_never_zero(comm, algorithm):
    for low in (5, -9):  # FIELD_REPORTS A4
        for op, ufunc in ((MPI.MIN, np.minimum), (MPI.MAX, np.maximum)):
            for dtype in ("i4", "f4", "i1"):
                data = lambda rank, count, turn, low=low: low + (np.arange(count) + rank) % 5  # noqa: E731
                for in_place in (False, True):
                    call = Call(comm, "allreduce", 7, dtype=dtype, op=op, data=data, reduce=partial(folded, ufunc))
                    call.in_place = in_place
                    call.once(algorithm)


@pytest.mark.parametrize("comm", [1, 2, 3, 5, 8], indirect=True)
@pytest.mark.parametrize("algorithm", KINDS)
def test_an_average_is_divided_once(comm, algorithm):
    for dtype, in_place in product(["f2", "f4", "F", all_dtypes()[-1]], (False, True)):
        call = Call(comm, "allreduce", 11, dtype=dtype, op=mpicoll.AVG, data=tiny, reduce=averaged, in_place=in_place)
        call.once(algorithm)
        call.planned(algorithm, turns=(1,))


@pytest.mark.parametrize("collective", ["reduce", "reduce_scatter"])
def test_an_average_by_the_halves(comm, collective):
    for name in mpicoll.algorithms(collective):
        for root in {0, comm.size - 1}:
            call = Call(comm, collective, 11, op=mpicoll.AVG, data=tiny, reduce=averaged, root=root)
            call.once(name)


@pytest.mark.parametrize("comm", [1, 3], indirect=True)
def test_other_byte_orders_are_right_or_refused(comm):
    call = Call(comm, "allreduce", 10, dtype=np.dtype("f8").newbyteorder())
    call.once("ring")
    # MPI reduces native numbers only: a user operation would see swapped bytes.
    add = MPI.Op.Create(lambda a, b, _: np.add(np.frombuffer(a), np.frombuffer(b), out=np.frombuffer(b)), commute=True)
    args = call.arguments[0]
    refused(comm, TypeError, "user operation", mpicoll.allreduce, args[0], args[1], add, comm)
    add.Free()
