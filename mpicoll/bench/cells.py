"""What stands beside each other in a row: our plans, our one-shot calls, the library's call and its persistent one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from mpi4py import MPI
from numpy import ones

import mpicoll
from mpicoll.runtime.plan import Plan
from mpicoll.schedule import REDUCING

from . import forced
from .case import OPS, Case


@dataclass
class Cell:
    """One way to run the case. ``run`` is None when it cannot; ``why`` then says so.

    ``algorithm`` is what was asked for, ``runs`` what runs: auto's choice, a pipeline with its segments.
    """

    library: str  # "mpicoll", "mpi" or "nccl"
    algorithm: str
    call: str  # "plan", "call" or "persistent"
    run: Callable[[], Any] | None
    why: str = ""
    rounds: int | None = None
    free: Callable[[], None] | None = None
    runs: str = ""
    reason: str = ""
    segment_bytes: int | None = None
    identical: bool = True  # whether the algorithm gives all ranks the same bits; asked of ours only
    before: Callable[[], None] | None = None  # these two frame each call, outside the clock
    after: Callable[[], None] | None = None
    transport: str = "direct"  # how its messages take device memory
    label: str = ""  # "staged" in a run that has direct columns too

    @property
    def column(self) -> str:
        """The algorithm, and how it travels where that must be told."""
        return f"{self.algorithm} {self.label}".rstrip()

    @property
    def forced(self) -> bool:
        """Whether it is one of the library's algorithms by name."""
        return self.library == "mpi" and self.algorithm != "default"

    @property
    def name(self) -> str:
        """What the column is called."""
        if self.library == "mpi":
            return f"MPI {self.algorithm}" if self.forced else "MPI" if self.call == "call" else "MPI persistent"
        return "NCCL" if self.library == "nccl" else self.column + (" call" if self.call == "call" else "")


def ours(case: Case, algorithm: str, call: str, comm: MPI.Intracomm) -> Cell:
    """A cell of ours, on the communicator of a transport. Collective."""
    arguments, keywords = _arguments(case), {"comm": comm, "algorithm": algorithm}
    if call == "call":
        return Cell("mpicoll", algorithm, call, partial(getattr(mpicoll, case.collective), *arguments, **keywords))
    try:
        plan: Plan = getattr(mpicoll, f"{case.collective}_init")(*arguments, **keywords)
    except MemoryError as error:  # the same on all ranks
        return Cell("mpicoll", algorithm, call, None, str(error))
    return Cell("mpicoll", algorithm, call, plan, free=plan.free)


def _arguments(case: Case) -> tuple:
    op = OPS[case.op]
    return {
        "allreduce": (case.sendbuf, case.recv, op),
        "reduce_scatter": (case.sendbuf, case.recv, op),
        "allgather": (case.sendbuf, case.recv),
        "reduce": (case.sendbuf, case.recv, op, case.root),
        "bcast": (case.recv, case.root),
    }[case.collective]


def baseline(case: Case, call: str) -> Cell:
    """The library's own, as a call or as a persistent one. Collective."""
    name, arguments = _library(case)
    why = _refusal(case, name)
    if why:
        return Cell("mpi", "default", call, None, why)
    if call == "call":
        return Cell("mpi", "default", call, partial(getattr(case.comm, name), *arguments))
    try:
        request = getattr(case.comm, f"{name}_init")(*arguments)
    except NotImplementedError:
        return Cell("mpi", "default", call, None, f"this MPI has no {name}_init")
    return Cell("mpi", "default", call, _Persistent(request.Start, request.Wait), free=request.Free)


def library_algorithms(case: Case) -> list[Cell]:
    """Each of the library's own algorithms for this call, forced. Collective."""
    call, arguments = _library(case)
    found = forced.names(call)
    why = _refusal(case, call) or ("" if found else forced.why_none(call))
    if why:
        return [Cell("mpi", "forced", "call", None, why)]
    return [_forced(case, call, name, arguments) for name in found]


def _forced(case: Case, call: str, name: str, arguments: tuple) -> Cell:
    why = forced.unfit(call, name, case.comm.size, case.count, case.dtype.itemsize)
    own = None if why else forced.force(case.comm, call, name)
    if own is None:
        return Cell("mpi", name, "call", None, why or forced.why_not())
    return Cell("mpi", name, "call", partial(getattr(own.comm, call), *arguments), before=own.before, after=own.after)


class _Persistent:
    def __init__(self, start: Callable[[], Any], wait: Callable[[], Any]) -> None:
        self.start, self.wait = start, wait

    def __call__(self) -> None:
        self.start()
        self.wait()


def _refusal(case: Case, name: str) -> str:
    """Why the library does not take this dtype and operation, tried on one rank alone: it may abort, not refuse."""
    op = OPS[case.op]
    if not isinstance(op, MPI.Op):
        return f"MPI has no operation {case.op}"
    one = ones(1, case.dtype)
    try:
        if case.collective in REDUCING:
            MPI.COMM_SELF.Allreduce(MPI.IN_PLACE, one, op)
        else:
            MPI.COMM_SELF.Bcast(one)
    except Exception as error:  # the library's own refusal, in whatever class
        return f"{name} cannot: {str(error).splitlines()[0]}"
    return ""


def _library(case: Case) -> tuple[str, tuple]:
    """The library's call for a case, and its arguments."""
    send, recv, root, op = case.sendbuf, case.recv, case.root, OPS[case.op]
    even = case.count % case.comm.size == 0
    share = [b - a for a, b in zip(case.edges, case.edges[1:])]
    if case.collective == "allreduce":
        return "Allreduce", (send, recv, op)
    if case.collective == "reduce":
        return "Reduce", (send, recv, op, root)
    if case.collective == "bcast":
        return "Bcast", (recv, root)
    if case.collective == "allgather":
        return ("Allgather", (send, recv)) if even else ("Allgatherv", (send, [recv, share]))
    if even and not case.in_place:
        return "Reduce_scatter_block", (send, recv, op)
    return "Reduce_scatter", (send, recv, share, op)
