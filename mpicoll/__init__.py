"""AllReduce and its relatives over point-to-point MPI messages, each algorithm proved before it runs.

    import mpicoll
    mpicoll.allreduce(sendbuf, recvbuf)                   # MPI.SUM on MPI.COMM_WORLD
    plan = mpicoll.allreduce_init(MPI.IN_PLACE, gradients, mpicoll.AVG, comm)
    plan()                                                # again and again
    comm = mpicoll.Comm(MPI.COMM_WORLD)                   # a communicator for programs that use mpi4py's

Importing this module neither imports nor initialises MPI; the first call that needs it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import algorithms, schedule
from .schedule import Algorithm, Schedule, verify

if TYPE_CHECKING:
    from .runtime.api import (
        allgather,
        allgather_init,
        allreduce,
        allreduce_init,
        bcast,
        bcast_init,
        reduce,
        reduce_init,
        reduce_scatter,
        reduce_scatter_init,
    )
    from .runtime.comm import Comm
    from .runtime.ops import AVG
    from .runtime.plan import Plan

__version__ = "0.1.0"
_CALLS = tuple(c + s for c in ("allgather", "allreduce", "bcast", "reduce", "reduce_scatter") for s in ("", "_init"))
__all__ = [
    "AVG",
    "Algorithm",
    "Comm",
    "Plan",
    "Schedule",
    "algorithms",
    "allgather",
    "allgather_init",
    "allreduce",
    "allreduce_init",
    "bcast",
    "bcast_init",
    "reduce",
    "reduce_init",
    "reduce_scatter",
    "reduce_scatter_init",
    "schedule",
    "verify",
]


def __getattr__(name: str) -> Any:
    # Loaded at first use: MPI takes a second to import, and initialises itself.
    home = "api" if name in _CALLS else {"AVG": "ops", "Comm": "comm", "Plan": "plan"}.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f".runtime.{home}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
