"""Spellings and the drop-in communicator on device memory."""

import cupy
import numpy as np
import pytest
from device_calls import read
from mpi4py import MPI
from together import refused

import mpicoll

pytestmark = [pytest.mark.mpi, pytest.mark.parametrize("comm", [1, 3], indirect=True)]


def test_the_calls_of_a_communicator(comm):
    p, r, ours = comm.size, comm.rank, mpicoll.Comm(comm)
    x, y = cupy.asarray(np.arange(3.0 * p) + r), cupy.empty(3 * p, "f8")
    expected = p * np.arange(3.0 * p) + p * (p - 1) / 2
    for spell in (lambda a: a, lambda a: [a, MPI.DOUBLE], lambda a: (a, 3 * p, "d")):
        for _ in range(2):
            ours.Allreduce(spell(x), spell(y))
            assert (read(y) == expected).all()
    ours.Reduce_scatter_block([x, 3, MPI.DOUBLE], y[:3])
    assert (read(y)[:3] == expected[3 * r : 3 * r + 3]).all()
    request = ours.Bcast_init([x, (2, 1), "d"], p - 1)
    request.Start()
    request.Wait()
    assert (read(x)[:3] == [r, p, p + 1]).all()
    request.Free()


def test_places_in_an_allgatherv(comm):
    p, r = comm.size, comm.rank
    for algorithm in mpicoll.algorithms("allgather"):
        ours = mpicoll.Comm(comm, {"allgather": algorithm})
        y = cupy.asarray(np.full(4 * p, -1.0))
        ours.Allgatherv(cupy.asarray(np.full(3, float(r))), [y, ([3] * p, [4 * (p - 1 - c) for c in range(p)]), "d"])
        expected = np.full((p, 4), -1.0)
        expected[::-1, :3] = np.arange(p)[:, None]
        assert (read(y) == expected.ravel()).all(), algorithm


def test_what_is_refused(comm):
    ours, x = mpicoll.Comm(comm), cupy.asarray(np.ones(6 * comm.size))
    pair = MPI.DOUBLE.Create_contiguous(2).Commit()
    for name in ("Bcast", "Bcast_init"):
        refused(comm, TypeError, "^buffer has a derived datatype in GPU memory", getattr(ours, name), [x, 1, pair])
    pair.Free()
    said = "^sendbuf is MPI.IN_PLACE and recvbuf in GPU memory: pass separate memory"
    refused(comm, ValueError, said, ours.Reduce_scatter_block_init, MPI.IN_PLACE, x)
    refused(comm, ValueError, "asks for bytes 0 to", ours.Bcast_init, [x, 6 * comm.size + 1])
