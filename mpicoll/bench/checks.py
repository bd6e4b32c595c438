"""What is refused before anything is timed: one line, the same on all ranks."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from functools import cache
from typing import TypeVar

import numpy as np
from mpi4py import MPI

from mpicoll.runtime.ops import operation
from mpicoll.runtime.private import private
from mpicoll.schedule import REDUCING, Report, Schedule, find, verify

from .case import OPS, dtype_of
from .machine import Machine, available_bytes
from .memory import DeviceMemory, Memory
from .table import human

PROVED_UP_TO = 128  # ranks; a proof takes seconds beyond
Made = TypeVar("Made")


class RefusedError(Exception):
    """Options that cannot be run here: one line, on all ranks."""


def checked(comm: MPI.Intracomm, options: Namespace) -> np.dtype:
    """The dtype, and the refusals that need MPI or the number of ranks."""
    try:
        nodes = private(comm).nodes
        dtype = dtype_of(options.dtype)
        if options.collective in REDUCING:
            operation(OPS[options.op], dtype)
        if options.root >= comm.size:
            raise ValueError(f"-r {options.root}: the ranks are 0..{comm.size - 1}")
        late = [rank for rank in options.arrival_skew if rank >= comm.size]
        if late:
            raise ValueError(f"--arrival-skew {late[0]}:...: the ranks are 0..{comm.size - 1}")
        root = options.root if options.collective in ("reduce", "bcast") else 0
        for name in options.algorithms if comm.size <= PROVED_UP_TO else ():
            if name != "auto":  # proved when it is known what that is
                prove(find(options.collective, name).schedule(comm.size, root, nodes=nodes))
    except (TypeError, ValueError, ImportError) as error:
        raise RefusedError(error) from None
    return dtype


@cache
def prove(schedule: Schedule) -> Report:
    """Nothing is timed before it is proved. ValueError: it is wrong."""
    report = verify(schedule)
    if not report.ok:
        raise ValueError(str(report))
    return report


def all_agree(comm: MPI.Intracomm, make: Callable[[], Made], errors: type[Exception]) -> Made:
    """What ``make`` gives; where it fails on one rank, a refusal on all."""
    made, said = None, ""
    try:
        made = make()
    except errors as error:
        said = str(error)
    said = next((text for text in comm.allgather(said) if text), "")
    if said:
        raise RefusedError(said)
    return made  # type: ignore[return-value]


def room(comm: MPI.Intracomm, machine: Machine, nbytes: int, memory: Memory) -> None:
    """Refuse vectors that do not fit: three a rank, and the references in higher precision on the host."""
    ranks = machine.nodes.count(machine.nodes[comm.rank])
    needed = nbytes * 3 * ranks + nbytes * 4
    free = available_bytes()
    short = comm.allgather((needed > free, needed, free))
    for host, (lacks, needed, free) in zip(machine.hosts, short):
        if lacks:
            raise RefusedError(
                f"not enough memory on {host} for vectors of {human(nbytes)}: about {needed / 1e9:.1f} GB needed, "
                f"{free / 1e9:.1f} GB free; lower -e"
            )
    if isinstance(memory, DeviceMemory):
        _room_on_gpus(comm, machine, nbytes, memory)


def _room_on_gpus(comm: MPI.Intracomm, machine: Machine, nbytes: int, memory: DeviceMemory) -> None:
    told = comm.allgather((memory.uuid, memory.index, memory.free_bytes()))
    for (uuid, index, free), host in zip(told, machine.hosts):
        sharing = sum((other[0], where) == (uuid, host) for other, where in zip(told, machine.hosts))
        if nbytes * 3 * sharing > free:
            raise RefusedError(
                f"not enough memory on GPU {index} of {host}, {sharing} rank{'s' * (sharing > 1)} on it: vectors of "
                f"{human(nbytes)} need {nbytes * 3 * sharing / 1e9:.1f} GB, {free / 1e9:.1f} GB are free; lower -e, or "
                "start fewer ranks a GPU"
            )


def spare(comm: MPI.Intracomm, machine: Machine, memory: Memory) -> int:
    """Bytes that this rank may take for scratch. Collective where it is on a GPU."""
    if not isinstance(memory, DeviceMemory):
        return available_bytes() // machine.nodes.count(machine.nodes[comm.rank])
    told = [*zip(machine.hosts, comm.allgather(memory.uuid))]
    return memory.free_bytes() // told.count(told[comm.rank])
