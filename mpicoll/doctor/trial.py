"""python -m mpicoll.doctor.trial cpu|cuda SECONDS, on two ranks: messages and a reduction, each told before and after.

It may crash or hang; the parent reads what it said last.
"""

from __future__ import annotations

import faulthandler
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mpicoll.launcher import local_rank

from .arrays import Device, Host
from .child import REDUCTION, SAYS

SIZES = {"8 B": 2, "64 KiB": 1 << 14, "4 MiB": 1 << 20}  # float32 elements: eager, rendezvous, pipelined


def main() -> int:
    """Try all stages; status 1 when one gave a wrong result."""
    faulthandler.dump_traceback_later(float(sys.argv[2]), exit=True)  # also where nobody is left to end it
    arrays = _arrays(sys.argv[1])
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    speaks = comm.rank == 0

    def say(line: str) -> None:
        if speaks:
            print(SAYS + line, flush=True)

    if comm.size != 2:
        print(f"{SAYS}failed two ranks came up as worlds of {comm.size}: this mpirun is of another MPI", flush=True)
        return 1
    say("passed two ranks")
    stages: dict[str, Callable[[], bool]] = {
        f"{arrays.name} messages of {name}": partial(_exchange, comm, arrays, count) for name, count in SIZES.items()
    }
    stages[f"{REDUCTION} on {arrays.name} memory"] = partial(_allreduce, comm, arrays)
    for name, stage in stages.items():
        say(f"begin {name}")
        if not comm.allreduce(stage(), MPI.LAND):
            say(f"failed wrong contents in: {name}")
            return 1
        say(f"passed {name}")
    say("begin the end of MPI")
    MPI.Finalize()
    if speaks:
        print(SAYS + "end", flush=True)
    return 0


def _arrays(kind: str) -> Host | Device:
    """On a GPU, that of this local rank, chosen before MPI starts."""
    if kind == "cpu":
        return Host()
    import cupy

    local, _ = local_rank() or (0, "")
    return Device(local % cupy.cuda.runtime.getDeviceCount())


def _exchange(comm: Any, arrays: Host | Device, count: int) -> bool:
    """Both ways at once, by persistent requests, as plans do; twice, since the second finds all set up."""
    mine, theirs = (np.arange(count, dtype="f4") % 1000 + rank for rank in (comm.rank, 1 - comm.rank))
    out, into = arrays.make(mine), arrays.make(np.zeros(count, "f4"))
    receive, send = comm.Recv_init(into, 1 - comm.rank, 7), comm.Send_init(out, 1 - comm.rank, 7)
    arrays.ready()
    for _ in range(2):
        receive.Start()
        send.Start()
        send.Wait()
        receive.Wait()
    receive.Free()
    send.Free()
    return bool((arrays.read(into) == theirs).all())


def _allreduce(comm: Any, arrays: Host | Device) -> bool:
    ones = np.ones(1 << 14, "f4")
    out, into = arrays.make(ones), arrays.make(ones)
    arrays.ready()
    comm.Allreduce(out, into)
    return bool((arrays.read(into) == comm.size).all())


if __name__ == "__main__":
    sys.exit(main())
