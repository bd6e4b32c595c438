"""NCCL beside MPI, through CuPy, where each rank has a GPU of its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from mpi4py import MPI

from mpicoll import hardware

from .case import Case
from .cells import Cell
from .memory import DeviceMemory

# NCCL's numbers
TYPES = {
    **{"int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5},
    **{"float16": 6, "float32": 7, "float64": 8, "bfloat16": 9},
}
OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}


class Nccl:
    """NCCL's communicator of all ranks. ``why`` says why there is none."""

    def __init__(self, comm: MPI.Intracomm, memory: DeviceMemory, hosts: Sequence[str]) -> None:
        """Collective."""
        self.handle: Any = None
        self.memory = memory
        gpus = len(set(zip(hosts, comm.allgather(memory.uuid))))
        self.why = (
            "" if gpus == comm.size else f"{comm.size} ranks share {gpus} GPU{'s' * (gpus > 1)}: it needs one each"
        )
        if self.why:
            return
        module, said = _module()
        name: Any = None
        if comm.rank == 0 and not said:
            name, said = _tried(module.get_unique_id)
        name, self.why = comm.bcast(name), next((text for text in comm.allgather(said) if text), "")
        if not self.why:
            self.handle, said = _tried(module.NcclCommunicator, comm.size, name, comm.rank)
            self.why = next((text for text in comm.allgather(said) if text), "")

    def cell(self, case: Case) -> Cell:
        """A column."""
        why = self.why or _refusal(case)
        return Cell("nccl", "default", "call", None if why else self._run(case), why)

    def _run(self, case: Case) -> Callable[[], None]:
        kind, op, current = TYPES[case.dtype.name], OPS.get(case.op, 0), self.memory.cupy.cuda.get_current_stream()
        recv = case.recv.data.ptr if case.recv is not None else 0
        send = case.send.data.ptr if case.send is not None else recv
        share, handle = case.count // case.comm.size, self.handle
        if case.collective == "allgather" and case.send is None:
            send = recv + case.own.start * case.dtype.itemsize
        calls: dict[str, Callable[[], None]] = {
            "allreduce": lambda: handle.allReduce(send, recv, case.count, kind, op, current.ptr),
            "reduce_scatter": lambda: handle.reduceScatter(send, recv, share, kind, op, current.ptr),
            "allgather": lambda: handle.allGather(send, recv, share, kind, current.ptr),
            "reduce": lambda: handle.reduce(send, recv or send, case.count, kind, op, case.root, current.ptr),
            "bcast": lambda: handle.bcast(recv, case.count, kind, case.root, current.ptr),
        }
        call = calls[case.collective]

        def run() -> None:
            call()
            current.synchronize()

        return run


def _module() -> tuple[Any, str]:
    """CuPy's door to NCCL, or why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CuPy says in many lines, on each rank, what is said here
            from cupy.cuda import nccl
    except ImportError:
        return None, "this CuPy has no NCCL"
    wheel = f"nvidia-nccl-cu{hardware.gpus().extra[4:]}"
    return nccl, "" if nccl.available else f"this CuPy finds no NCCL: pip install {wheel}"


def _tried(call: Callable[..., Any], *args: Any) -> tuple[Any, str]:
    """What a call gives, or what is wrong, in one line: a rank that raised would leave the others waiting."""
    try:
        return call(*args), ""
    except Exception as error:  # CuPy's own kind
        return None, " ".join(f"{type(error).__name__}: {error}".split())


def _refusal(case: Case) -> str:
    if case.dtype.name not in TYPES:
        return f"it has no type {case.dtype.name}"
    if case.op not in OPS:
        return f"it has no operation {case.op}"
    uneven = case.count % case.comm.size != 0
    if case.collective in ("allgather", "reduce_scatter") and uneven:
        return f"{case.count} elements are no multiple of {case.comm.size} ranks"
    if case.collective == "reduce_scatter" and case.in_place:
        return "in place it leaves the result elsewhere"
    return ""
