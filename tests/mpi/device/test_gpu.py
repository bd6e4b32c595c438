"""What only a GPU can show: kernels that really run late, its own arithmetic, memory of every kind, other libraries."""

import warnings

import cupy
import ml_dtypes
import numpy as np
import pytest
from calls import KINDS
from device_calls import read
from mpi4py import MPI
from together import refused

import mpicoll
from mpicoll.runtime import kernels

pytestmark = [pytest.mark.mpi, pytest.mark.gpu]
COUNT = 1000
SPIN = r"""
extern "C" __global__ void late(float* x, int n, float value, long long cycles) {
    long long begin = clock64();
    while (clock64() - begin < cycles) {}
    for (int i = 0; i < n; i++) x[i] = value;
}
"""
STREAMS = {
    "the default stream": lambda: cupy.cuda.Stream.null,
    "the thread's default stream": lambda: cupy.cuda.Stream.ptds,
    "a stream that waits for the default one": cupy.cuda.Stream,
    "a stream that does not": lambda: cupy.cuda.Stream(non_blocking=True),
}


def fill_late(stream, x, value):
    """Fill by a kernel that is still running when this returns, however slow the host."""
    kernel = cupy.RawKernel(SPIN, "late")
    for cycles in (1e8, 1e9, 1e10):  # from a twentieth of a second on
        kernel((1,), (1,), (x, np.int32(x.size), np.float32(value), np.int64(cycles)))
        if not stream.done:
            return
    pytest.fail("the kernel is through before the host goes on: this shows nothing")


@pytest.mark.parametrize("comm", [1, 2, 4], indirect=True)
@pytest.mark.parametrize("planned", [False, True], ids=["one-shot", "planned"])
@pytest.mark.parametrize("name", STREAMS)
def test_a_kernel_that_still_runs_on_the_callers_stream(comm, name, planned):
    p, stream = comm.size, STREAMS[name]()
    x, y = cupy.empty(COUNT, "f4"), cupy.empty(COUNT, "f4")
    with stream:
        for turn, algorithm in enumerate(("ring", "recursive_doubling", "binomial_tree")):
            plan = mpicoll.allreduce_init(x, y, comm=comm, algorithm=algorithm) if planned else None
            fill_late(stream, y, np.nan)  # it may not come after the result either
            fill_late(stream, x, comm.rank + turn)
            if plan:
                plan()
            else:
                mpicoll.allreduce(x, y, comm=comm, algorithm=algorithm)
            assert (read(y) == p * (p - 1) / 2 + p * turn).all(), algorithm
            if plan:
                plan.free()


@pytest.mark.parametrize("comm", [2, 3, 4], indirect=True)
def test_as_the_library_reduces(comm):
    """The same bits as our plan on host memory, and the library's own sums where it takes device pointers."""
    host = np.random.default_rng(comm.rank).standard_normal(COUNT).astype("f4")
    there, expected = cupy.asarray(host), np.empty_like(host)
    for name in KINDS:
        y = cupy.empty(COUNT, "f4")
        plan = mpicoll.allreduce_init(there, y, comm=comm, algorithm=name)
        plan()
        mpicoll.allreduce(host, expected, comm=comm, algorithm=name)
        assert (read(y) == expected).all(), name
        transport = plan.transport
        plan.free()
    if transport == "direct":
        library = cupy.empty(COUNT, "f4")
        cupy.cuda.runtime.deviceSynchronize()
        comm.Allreduce(there, library)
        np.testing.assert_allclose(read(library), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("comm", [1], indirect=True)
@pytest.mark.parametrize("name", kernels.EXPRESSIONS)
def test_bfloat16_as_ml_dtypes_rounds(comm, name):
    bits = np.arange(1 << 16, dtype=np.uint16)
    left, a, out = bits.view(ml_dtypes.bfloat16), cupy.asarray(bits), cupy.empty(1 << 16, np.uint16)
    for value in (3.0, 7.0) if name == "true_divide" else (0.0, -1.5, 1e-40, 3e38, np.inf, np.nan, 0.1):
        with np.errstate(all="ignore"):
            if name == "true_divide":
                right, expected = np.float32(value), (left.astype("f4") / np.float32(value)).astype(left.dtype)
            else:
                host = np.full(len(bits), value).astype(left.dtype)
                right, expected = cupy.asarray(host.view(np.uint16)), getattr(np, name)(left, host)
        kernels.bfloat16(name)(a, right, out)
        found = out.get().view(left.dtype)
        np.testing.assert_array_equal(found.astype("f4"), expected.astype("f4"), f"{name} with {value}")


@pytest.mark.parametrize("comm", [1, 2, 4], indirect=True)
@pytest.mark.parametrize("kind", ["managed memory", "a stream-ordered pool"])
def test_memory_that_cannot_be_shared(comm, kind):
    asked = mpicoll.allreduce_init(MPI.IN_PLACE, cupy.empty(8, "f4"), comm=comm)
    try:
        pool = cupy.cuda.malloc_managed if kind == "managed memory" else cupy.cuda.MemoryAsyncPool().malloc
        with cupy.cuda.using_allocator(pool):
            x = cupy.full(COUNT, comm.rank + 1, "f4")
    except RuntimeError as error:
        pytest.skip(f"this GPU has no {kind}: {error}")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        plan = mpicoll.allreduce_init(MPI.IN_PLACE, x, comm=comm)
    assert plan.transport == "staged"
    assert len(said) == (asked.transport == "direct"), [str(one.message) for one in said]
    plan()
    assert (read(x) == comm.size * (comm.size + 1) / 2).all()
    plan.free()
    asked.free()


@pytest.mark.parametrize("comm", [1, 2, 4], indirect=True)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_tensors(comm, dtype):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    gpu = torch.device("cuda", cupy.cuda.runtime.getDevice())
    kind = getattr(torch, dtype)
    x, y = (torch.zeros(COUNT, dtype=kind, device=gpu) for _ in range(2))
    torch.cuda.synchronize(gpu)
    with torch.cuda.stream(torch.cuda.Stream(gpu)):
        for turn in range(3):
            torch.cuda._sleep(10**8)
            x.fill_(comm.rank + turn)
            mpicoll.allreduce(x, y, comm=comm)
            expected = comm.size * (comm.size - 1) // 2 + comm.size * turn
            assert (y.float().cpu().numpy() == expected).all()


@pytest.mark.parametrize("comm", [1, 2], indirect=True)
def test_two_devices(comm):
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("this process sees one GPU")
    x, here = cupy.ones(8, "f4"), cupy.cuda.runtime.getDevice()
    with cupy.cuda.Device((here + 1) % cupy.cuda.runtime.getDeviceCount()):
        y = cupy.empty(8, "f4")
    refused(comm, ValueError, "memory of GPU", mpicoll.allreduce_init, x, y, comm=comm)
