"""How device memory travels in a run: direct, staged or both, and whether MPI's own calls may be given it."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass

from mpi4py import MPI

from mpicoll.doctor import child
from mpicoll.launcher import local_rank
from mpicoll.runtime.private import private
from mpicoll.runtime.transport import UCX, Decision

from .checks import RefusedError
from .memory import DeviceMemory, Memory

VARIABLE = "MPICOLL_TRANSPORT"
TRIAL_S = 60.0


@dataclass(frozen=True)
class Transports:
    """``comms``: by the name of a transport the communicator whose plans go by it.

    ``mpi`` says why MPI's own calls cannot have these buffers; empty: they can. ``why``: how that was decided.
    """

    comms: dict[str, MPI.Intracomm]
    mpi: str = ""
    why: str = ""

    def labelled(self) -> Iterator[tuple[str, str, MPI.Intracomm]]:
        """Each transport, the word for its columns, and its communicator. Beside direct ones staged ones say so."""
        for name, comm in self.comms.items():
            yield name, name if len(self.comms) > 1 and name == "staged" else "", comm


def prepare(comm: MPI.Intracomm, options: Namespace, trouble: str) -> Transports:
    """Decide, the same on all ranks, before anything else is done on ``comm``. RefusedError: it cannot be."""
    if options.device == "cpu":
        return Transports({"direct": comm})
    said = comm.allgather(trouble)
    if any(said):
        ranks = [rank for rank, text in enumerate(said) if text]
        text = said[ranks[0]]
        raise RefusedError(text if len(ranks) == comm.size else f"rank {ranks[0]}: {text}")
    asked = comm.bcast(options.transport or os.environ.get(VARIABLE) or "auto")
    try:
        decided = _decision(comm, asked)
    except ValueError as error:
        raise RefusedError(str(error)) from None
    if isinstance(decided, str):
        raise RefusedError(decided)
    if decided.name == "staged":
        mpi = "" if asked == "auto" else "not asked for: --transport staged"
        return Transports({"staged": comm}, mpi or f"this MPI takes no device memory ({decided.why})", decided.why)
    messages, mpi = comm.bcast(_tried(decided) if comm.rank == 0 else None)
    if messages and asked == "direct":
        raise RefusedError(f"--transport direct: {messages}: use --transport staged")
    if messages:
        return Transports({"staged": _staged(comm)}, mpi, f"direct was decided ({decided.why}), but {messages}")
    comms = {"direct": comm}
    if asked == "auto":
        comms["staged"] = _staged(comm)
    return Transports(comms, mpi, decided.why)


def place(comm: MPI.Intracomm, memory: Memory) -> None:
    """Where no launcher told the rank's number on its node, take the GPU by what MPI tells. Collective."""
    if not isinstance(memory, DeviceMemory) or not comm.allreduce(local_rank() is None, MPI.LOR):
        return
    nodes = private(comm).nodes
    memory.choose(nodes[: comm.rank].count(nodes[comm.rank]))


def _decision(comm: MPI.Intracomm, asked: str) -> Decision | str:
    """A communicator learns its transport at the first call on it."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = asked
    try:
        return private(comm).config.transport
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def _staged(comm: MPI.Intracomm) -> MPI.Intracomm:
    other = MPI.Intracomm(comm).Dup()
    _decision(other, "staged")
    return other


def _tried(decided: Decision) -> tuple[str, str]:
    """Why messages, and why MPI's own reduction, cannot have device memory; empty where they can."""
    outcome = child.trial("cuda", TRIAL_S)
    if not outcome.tried:  # a library that is built with CUDA says so itself; UCX alone says nothing of reductions
        return "", f"not tried in a child ({outcome.why})" if UCX in decided.why else ""
    if not outcome.why:
        return "", ""
    why = f"in a child of two ranks: {outcome.why}"
    return "" if child.REDUCTION in outcome.why else why, why
