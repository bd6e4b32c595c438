"""The bench with one thing broken on purpose: ``sabotage.py KIND FLAGS...``; the tests see whether it is noticed."""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

from mpicoll.bench import __main__ as entry
from mpicoll.bench import cells, measure
from mpicoll.bench import run as bench
from mpicoll.schedule import Recv, Round, Send, algorithm

RAISES = {
    "raise_value": ValueError("on purpose"),
    "raise_exit": SystemExit(3),
}
rank = MPI.COMM_WORLD.rank
kind = sys.argv.pop(1)
ours = cells.ours


def after(spoil):
    """Our cells, with ``spoil(case, number of the call)`` behind each call."""

    def make(case, *args):
        cell, calls, run = ours(case, *args), [0], None
        run = cell.run

        def spoiled():
            run()
            calls[0] += 1
            spoil(case, calls[0])

        cell.run = spoiled
        return cell

    return make


def last_element(case, call):
    if rank == 0:  # its own share, so that the reference must see it
        case.recv[case.own.stop - 1] += 1


def ranks_differ(case, call):
    if rank == 0:  # the least bit of an element that is another rank's to check
        case.recv.view(np.uint8)[-case.dtype.itemsize] ^= 1


def sendbuf(case, call):
    case.send.flags.writeable = True
    case.send[0] += 1


def second_run(case, call):
    if call > 1:  # right once, and then other bits on all ranks, within the margin of any float
        case.recv.view(np.uint8)[0] ^= 1


if kind == "sum":
    from mpicoll.runtime import ops

    ops._BY_HANDLE[MPI.SUM.handle] = ("SUM", np.maximum, "iuf")
elif kind in RAISES:
    timed = measure.measure

    def failing(*args, **kwargs):
        if rank == 1:
            raise RAISES[kind]
        return timed(*args, **kwargs)

    bench.measure = failing
elif kind == "unproved":

    @algorithm("allreduce")
    def unproved(rank: int, size: int):
        """Pass the vector on, once; enough for nobody."""
        if size > 1:
            yield Round([Send((rank + 1) % size, [0])], [Recv((rank - 1) % size, [0], reduce=True)])
elif kind == "little_memory":
    bench.spare = lambda *_: 50_000  # bytes a rank, when the cells are made
else:
    cells.ours = after(globals()[kind])

sys.exit(entry.main())
