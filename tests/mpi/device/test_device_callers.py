"""What the caller has: work on streams of his own, other plans, another device, other libraries' memory."""

import sys
from types import SimpleNamespace

import cupy
import ml_dtypes
import numpy as np
import pytest
from device_calls import DeviceCall, read
from mpi4py import MPI
from together import refused

import mpicoll

pytestmark = pytest.mark.mpi
double = pytest.mark.skipif(cupy.__version__ != "0+double", reason="PyTorch is a stand-in on the test double's streams")


@double
@pytest.mark.parametrize("comm", [1], indirect=True)
def test_a_device_that_fails_is_not_waited_for(comm, monkeypatch):
    def failed(*_):
        raise cupy.cuda.runtime.CUDARuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")

    plan = DeviceCall(comm, "allreduce", 1000).plan("ring")
    plan.start()
    monkeypatch.setattr(cupy.cuda.runtime, "eventQuery", lambda _: 700)
    monkeypatch.setattr(cupy.cuda.Event, "synchronize", failed)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        plan.test()
    monkeypatch.undo()
    plan.wait()
    plan.free()


@pytest.mark.parametrize("comm", [2, 4], indirect=True)
def test_plans_that_are_under_way_together(comm):
    calls = [DeviceCall(comm, "allreduce", 5000 + i) for i in range(3)]
    plans = []
    for call, name in zip(calls, ("ring", "recursive_doubling", "binomial_tree")):
        call.fill(9)
        plans.append(call.plan(name))
    for turn in range(3):
        for call, plan in zip(calls, plans):
            call.fill(turn)
            with call.stream:
                plan.start()
        for call, plan in reversed(list(zip(calls, plans))):
            with call.stream:
                plan.wait()
            call.check(turn)
    for plan in plans:
        plan.free()


@pytest.mark.parametrize("comm", [2], indirect=True)
@pytest.mark.parametrize("name", ["ring", "recursive_doubling"])
def test_a_plan_that_is_called_while_another_is_under_way(comm, name):
    """It waits for what the caller launched on his own stream, as when it is alone."""
    first, second = DeviceCall(comm, "allreduce", 5000), DeviceCall(comm, "allreduce", 3000)
    plans = [call.plan(name) for call in (first, second)]
    for turn in range(2):
        for call in (first, second):
            call.fill(turn)
        with first.stream:
            plans[0].start()
        with second.stream:
            plans[1]()
        plans[0].wait()
        for call in (first, second):
            call.check(turn)
    for plan in plans:
        plan.free()


@pytest.mark.parametrize("comm", [2], indirect=True)
def test_the_callers_stream_is_his_again(comm):
    """One that he entered, and one that he took by ``use``, to which leaving ours by ``with`` would not go back."""
    stream, inner = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    default = cupy.cuda.get_current_stream()
    x = cupy.asarray(np.arange(70.0))
    plan = mpicoll.allreduce_init(MPI.IN_PLACE, x, comm=comm)
    try:
        stream.use()
        for run in (plan, lambda: mpicoll.allreduce(MPI.IN_PLACE, x, comm=comm)):
            run()
            assert cupy.cuda.get_current_stream() == stream
            with inner:
                run()
                assert cupy.cuda.get_current_stream() == inner
            stream.use()
    finally:
        default.use()
    plan.free()


@pytest.mark.parametrize("comm", [3], indirect=True)
def test_memory_of_another_device_than_the_current_one(comm):
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two GPUs")
    with cupy.cuda.Device(1):
        x, y = cupy.asarray(np.arange(70.0) + comm.rank), cupy.empty(70, "f8")
    for op, expected in ((MPI.SUM, 3 * np.arange(70.0) + 3), (mpicoll.AVG, np.arange(70.0) + 1)):
        mpicoll.allreduce(x, y, op, comm)
        plan = mpicoll.allreduce_init(x, y, op, comm)
        plan()
        plan.free()
        with cupy.cuda.Device(1):
            assert (read(y) == expected).all()


@double
@pytest.mark.parametrize("comm", [2], indirect=True)
def test_a_tensor_of_pytorch(comm, monkeypatch):
    """By DLPack, for its interface raises what it likes for bfloat16; and it works on PyTorch's stream."""
    stream = cupy.cuda.Stream(non_blocking=True)
    current = SimpleNamespace(cuda_stream=stream.ptr)
    cuda = SimpleNamespace(current_stream=lambda device: current)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))

    class Tensor:
        __module__ = "torch"

        def __init__(self, values):
            self.array = cupy.empty(values.shape, values.dtype)
            self.array.set(values, stream)

        def __dlpack__(self, stream):
            return self.array

        def __dlpack_device__(self):
            return 2, 0

        @property
        def __cuda_array_interface__(self):
            raise KeyError("torch.bfloat16")

    class Mine(Tensor):
        """A user's subclass."""

    few = (np.arange(99) % 3).astype(ml_dtypes.bfloat16)
    x, y = Mine(few), Mine(np.zeros_like(few))
    mpicoll.allreduce(x, y, comm=comm)
    assert (read(y.array) == 2 * few).all()
    plan = mpicoll.allreduce_init(x, y, comm=comm)
    x.array.set(few[::-1], stream)
    plan()
    assert (read(y.array) == 2 * few[::-1]).all()
    plan.free()


class Foreign:
    """An array that shows nothing but the interface, and in it the stream that it is worked on, or none."""

    def __init__(self, array, stream=None):
        self.array, self.stream = array, stream

    @property
    def __cuda_array_interface__(self):
        return {**self.array.__cuda_array_interface__, "stream": self.stream and self.stream.ptr}


@pytest.mark.parametrize("comm", [3], indirect=True)
def test_memory_of_another_library(comm):
    x, y = cupy.asarray(np.arange(7.0) + comm.rank), cupy.empty(7, "f8")
    mpicoll.allreduce(Foreign(x), Foreign(y), comm=comm)
    assert (read(y) == 3 * np.arange(7.0) + 3).all()
    for i in range(2):  # a stream for each of the two
        late = cupy.cuda.Stream(non_blocking=True)
        plan = mpicoll.allreduce_init(Foreign(x, late if i else None), Foreign(y, None if i else late), comm=comm)
        for turn in range(2):
            y.set(np.full(7, np.nan), late)
            x.set(np.arange(7.0) + comm.rank + turn, late)
            plan()
            assert (read(y) == 3 * np.arange(7.0) + 3 + 3 * turn).all()
        plan.free()


@pytest.mark.parametrize("comm", [1, 2], indirect=True)
def test_memory_that_may_only_be_read(comm):
    class ReadOnly:
        def __init__(self, array):
            self.array = array

        @property
        def __cuda_array_interface__(self):
            told = dict(self.array.__cuda_array_interface__)
            return {**told, "data": (told["data"][0], True)}

    x, y = cupy.asarray(np.arange(7.0)), cupy.empty(7, "f8")
    mpicoll.allreduce(ReadOnly(x), y, comm=comm)
    assert (read(y) == comm.size * np.arange(7.0)).all()
    refused(comm, ValueError, "recvbuf is read-only", mpicoll.allreduce_init, x, ReadOnly(y), comm=comm)
