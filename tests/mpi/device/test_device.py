"""Collectives on device memory: right on the first try, whatever the device has not come to yet."""

import gc
import warnings
import weakref

import cupy
import ml_dtypes
import numpy as np
import pytest
from calls import ALL, KINDS, NAMES, Call
from device_calls import DeviceCall, read
from mpi4py import MPI
from together import refused

import mpicoll
from mpicoll.runtime import cut, device, fence, kernels
from mpicoll.runtime.private import private
from mpicoll.runtime.steps import Enter, Sync
from mpicoll.schedule import COLLECTIVES

pytestmark = pytest.mark.mpi
READABLE = getattr(getattr(cupy, "_memory", None), "READABLE", None)
double = pytest.mark.skipif(READABLE is None, reason="needs the test double, whose device is late on purpose")


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_counts(comm, collective):
    p = comm.size
    for i, count in enumerate((0, p + 1, 2003)):
        for j, name in enumerate(name for of, name in ALL if of == collective):
            in_place = (i + j) % 2 == 0 and collective != "bcast"
            call = DeviceCall(comm, collective, count, in_place=in_place, root=(i + j) % p)
            if (i + j) % 3:
                call.once(name)
            else:
                call.planned(name, turns=(1, 2))


@pytest.mark.parametrize("comm", [2, 3], indirect=True)
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_segments(comm, collective, monkeypatch):
    monkeypatch.setattr(cut, "SEGMENT_BYTES", 1 << 16)
    for i, name in enumerate(name for of, name in ALL if of == collective and name in KINDS):
        call = DeviceCall(comm, collective, 500_017, in_place=i % 2 == 0 and collective != "bcast")
        call.planned(name, turns=(0, 1))


OPERATIONS = [
    ("f2", MPI.SUM, sum),
    ("f8", MPI.MAX, np.maximum.reduce),
    ("c8", MPI.PROD, np.multiply.reduce),
    ("i4", MPI.BXOR, np.bitwise_xor.reduce),
    ("i8", MPI.LAND, np.logical_and.reduce),
    ("?", MPI.LOR, np.logical_or.reduce),
    (ml_dtypes.bfloat16, MPI.SUM, sum),
    (ml_dtypes.bfloat16, MPI.MIN, np.minimum.reduce),
]


@pytest.mark.parametrize("comm", [3, 4], indirect=True)
@pytest.mark.parametrize(("dtype", "op", "reduce"), OPERATIONS, ids=lambda value: None)
def test_operations(comm, dtype, op, reduce):
    def few(rank, count, turn):
        return (np.arange(count) + rank + turn) % 3

    for name in KINDS:
        DeviceCall(comm, "allreduce", 1000, dtype=dtype, op=op, reduce=reduce, data=few).planned(name)


@pytest.mark.parametrize("comm", [1, 2, 5], indirect=True)
@pytest.mark.parametrize("dtype", ["f4", "f2", "c16", ml_dtypes.bfloat16])
def test_average(comm, dtype):
    def average(vectors):
        return np.true_divide(sum(vectors), comm.size, casting="unsafe", dtype=vectors[0].dtype)

    def few(rank, count, turn):
        return comm.size * ((np.arange(count) + rank + turn) % 3)

    for collective in ("allreduce", "reduce_scatter", "reduce"):
        DeviceCall(comm, collective, 999, dtype=dtype, op=mpicoll.AVG, reduce=average, data=few).planned()


@pytest.mark.parametrize("comm", [2, 3], indirect=True)
def test_shapes_and_orders(comm):
    for shape, order in (((), "C"), ((3, 4), "C"), ((3, 4), "F"), ((2, 0, 3), "C")):
        x = cupy.asarray(np.full(shape, comm.rank + 1.0), order=order)
        y = cupy.empty(shape, "f8", order=order)
        mpicoll.allreduce(x, y, comm=comm)
        assert (read(y) == comm.size * (comm.size + 1) / 2).all()


@pytest.mark.parametrize("comm", [3], indirect=True)
def test_a_host_and_a_device_rank_understand_each_other(comm):
    kind = DeviceCall if comm.rank == 1 else Call
    for name in KINDS:
        kind(comm, "allreduce", 1000).planned(name)


@double
@pytest.mark.parametrize("comm", [2, 4], indirect=True)
@pytest.mark.parametrize("name", NAMES)
def test_each_wait_for_the_device_is_needed(comm, name, monkeypatch):
    """Take away one at a time, on all ranks: some rank must then find a wrong number."""
    sound = fence.fence
    count = sum(isinstance(step, (Enter, Sync)) for step in _steps(comm, name, monkeypatch, sound))
    fewest = comm.allreduce(count, MPI.MIN)
    assert fewest >= 2
    for gone in range(fewest):

        def without(steps, gone=gone):
            fenced = sound(steps)
            waits = [i for i, step in enumerate(fenced) if isinstance(step, (Enter, Sync))]
            fenced[waits[gone]] = Sync(-1)
            return fenced

        call = DeviceCall(comm, "allreduce", 64)
        call.fill(0)
        monkeypatch.setattr(device, "fence", without)
        with call.stream:
            plan = call.plan(name)
            plan()
        try:
            call.algorithm = name
            call.check(0)
            wrong = False
        except AssertionError:
            wrong = True
        cupy.cuda.runtime.deviceSynchronize()
        plan.free()
        assert comm.allreduce(wrong, MPI.LOR), f"{name}: wait {gone} of {fewest} is not needed"


def _steps(comm, name, monkeypatch, sound):
    seen = []
    monkeypatch.setattr(device, "fence", lambda steps: seen.append(sound(steps)) or seen[-1])
    DeviceCall(comm, "allreduce", 64).plan(name).free()
    return seen[0]


@pytest.mark.parametrize("comm", [1, 2, 8], indirect=True)
def test_what_is_refused(comm):
    x, host = cupy.asarray(np.ones(8, "f4")), np.ones(8, "f4")
    refused(comm, ValueError, "sendbuf is in host memory and recvbuf in the memory of GPU 0", _init, comm, host, x)
    refused(comm, ValueError, "both must be in the same memory", _init, comm, x, host)
    refused(comm, ValueError, "not contiguous", _init, comm, x[::2], cupy.empty(4, "f4"))
    refused(comm, TypeError, "a user operation does not run in GPU memory", _init, comm, x, x, _mine())
    refused(comm, TypeError, "dtype", _init, comm, x, cupy.empty(8, "f8"))
    pair = cupy.empty(4, np.dtype([("value", "f8"), ("index", "i4")]))
    refused(comm, TypeError, "MINLOC does not run in GPU memory", _init, comm, MPI.IN_PLACE, pair, MPI.MINLOC)


@pytest.mark.parametrize("comm", [2], indirect=True)
def test_a_dtype_without_kernels(comm):
    long = [cupy.asarray(np.ones(8)), MPI.LONG_DOUBLE]
    said = "^dtype float128 cannot be reduced in GPU memory"
    refused(comm, TypeError, said, mpicoll.allreduce_init, MPI.IN_PLACE, long, comm=comm)
    mpicoll.bcast(long, 0, comm)


@pytest.mark.parametrize("comm", [2], indirect=True)
def test_a_compiler_that_is_missing_on_one_rank(comm, monkeypatch):
    monkeypatch.setattr(kernels, "_compiled", set())
    if comm.rank == 1:

        def add(*_, **__):
            raise OSError("no libnvrtc\nnowhere")

        monkeypatch.setattr(cupy, "add", add)
    said = r"^rank 1: SUM on float32 cannot be compiled for GPU 0 \(no libnvrtc nowhere\): pip install"
    refused(comm, RuntimeError, said, _init, comm, MPI.IN_PLACE, cupy.empty(8, "f4"))


@double
@pytest.mark.parametrize("comm", [2], indirect=True)
def test_two_devices(comm):
    x = cupy.asarray(np.ones(8, "f4"))
    with cupy.cuda.Device(1):
        y = cupy.empty(8, "f4")
    refused(comm, ValueError, "the memory of GPU 0 and recvbuf in the memory of GPU 1", _init, comm, x, y)


@double
@pytest.mark.parametrize("comm", [2], indirect=True)
def test_too_little_memory_on_one_rank(comm):
    gc.collect()  # arrays of earlier tests, which may lie anywhere
    count = 1 << 20
    x = cupy.empty(count, "f8")
    taken = cupy.cuda.Memory((192 << 20) - (9 << 20)) if comm.rank == 1 else None
    refused(comm, MemoryError, "rank 1: .* bytes on GPU 0 cannot be had", _init, comm, MPI.IN_PLACE, x)
    del taken
    _init(comm, MPI.IN_PLACE, x).free()


@double
@pytest.mark.parametrize("comm", [2], indirect=True)
def test_memory_that_cannot_be_shared(comm):
    managed = cupy.cuda.MemoryPointer(cupy.cuda.ManagedMemory(80), 0)
    x = cupy.ndarray((10,), "f8", memptr=managed)
    x.set(np.arange(10.0))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        plan = mpicoll.allreduce_init(MPI.IN_PLACE, x, comm=comm)
    assert plan.transport == "staged"
    assert len(said) == bool(READABLE)
    if READABLE:
        assert "managed memory cannot be shared by MPI" in str(said[0].message)
    plan.free()


@double
@pytest.mark.parametrize("comm", [2, 3], indirect=True)
def test_what_one_shot_calls_share_is_held_once(comm):
    rooms = []
    for count in (1000, 3000, 9000):
        x = cupy.asarray(np.full(count, comm.rank + 1.0))
        mpicoll.allreduce(MPI.IN_PLACE, x, comm=comm, algorithm="recursive_doubling")
        assert read(x)[-1] == comm.size * (comm.size + 1) / 2
        held = private(comm).devices[0].held
        rooms.append({where: weakref.ref(room) for where, (_, room) in held.items()})
    assert all(room() is None for earlier in rooms[:-1] for room in earlier.values())
    assert comm.allreduce(len(rooms[-1])) > 0
    assert all(room() is not None for room in rooms[-1].values())


@pytest.mark.parametrize("comm", [2], indirect=True)
def test_buffers_that_go_while_their_plan_stays(comm):
    """A one-shot plan is found again by address; what lies there now is what counts."""
    for turn in range(4):
        DeviceCall(comm, "allreduce", 100 + turn % 2).once("ring", turns=(turn,))


def _init(comm, send, recv, op=None):
    return mpicoll.allreduce_init(send, recv, op, comm, algorithm="recursive_doubling")


def _mine():
    return MPI.Op.Create(lambda *_: None, commute=True)
