"""python -m mpicoll.doctor.trial cpu|cuda, on two ranks: messages and a reduction, each told before and after.

It may crash or hang; the parent reads what it said last.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from mpicoll.launcher import local_rank

from .child import REDUCTION, SAYS

SIZES = {"8 B": 2, "64 KiB": 1 << 14, "4 MiB": 1 << 20}  # float32 elements: eager, rendezvous, pipelined


def main() -> int:
    """Try all stages; status 1 when one gave a wrong result."""
    kind = sys.argv[1]
    device, arrays = _arrays(kind)
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
    stages: dict[str, Callable[[], bool]] = {}
    for name, count in SIZES.items():
        stages[f"{device} messages of {name}"] = lambda count=count: _exchange(comm, arrays, count)  # type: ignore[misc]
    stages[f"{REDUCTION} on {device} memory"] = lambda: _allreduce(comm, arrays)
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


def _arrays(kind: str) -> tuple[str, Any]:
    """What the buffers are called, and the library that makes them; on a GPU the one of this local rank is chosen."""
    if kind == "cpu":
        import numpy

        return "host", numpy
    import cupy

    local, _ = local_rank() or (0, "")
    cupy.cuda.Device(local % cupy.cuda.runtime.getDeviceCount()).use()
    return "device", cupy


def _ready(arrays: Any) -> None:
    if hasattr(arrays, "cuda"):
        arrays.cuda.Device().synchronize()  # MPI reads as soon as it is called


def _exchange(comm: Any, arrays: Any, count: int) -> bool:
    """Both ways at once, by persistent requests, as plans do; twice, since the second may find all set up."""
    other = 1 - comm.rank
    out, into = arrays.empty(count, "f4"), arrays.empty(count, "f4")
    receive, send = comm.Recv_init(into, other, 7), comm.Send_init(out, other, 7)
    right = True
    for turn in range(2):
        out[:] = arrays.arange(count, dtype="f4") % 1000 + comm.rank + turn
        into[:] = 0
        _ready(arrays)
        receive.Start()
        send.Start()
        send.Wait()
        receive.Wait()
        right &= bool((into == arrays.arange(count, dtype="f4") % 1000 + other + turn).all())
    receive.Free()
    send.Free()
    return right


def _allreduce(comm: Any, arrays: Any) -> bool:
    out, into = arrays.ones(1 << 14, "f4"), arrays.empty(1 << 14, "f4")
    _ready(arrays)
    comm.Allreduce(out, into)
    return bool((into == comm.size).all())


if __name__ == "__main__":
    sys.exit(main())
