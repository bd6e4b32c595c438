"""The calls. Buffers are contiguous arrays, or what ``spelling`` reads; errors are raised before any message.

Each collective comes twice: at once, and as ``..._init``, a plan to be run again and again. The ``_init`` forms are
collective and compare the ranks' arguments: what one rank alone can see wrong is raised on all. The others do so with
MPICOLL_CHECK=1. One-shot calls keep their plans, so that the same buffers again cost no set-up.

In all of them ``comm`` is an intracommunicator (None: MPI.COMM_WORLD), ``op`` an MPI.Op or ``mpicoll.AVG`` (None:
MPI.SUM), ``algorithm`` a name of ``mpicoll.algorithms(collective)`` or "auto". TypeError and ValueError say what is
wrong with an argument, in one line. ``sendbuf`` is never written; what recvbuf held before never matters.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from mpi4py import MPI

from mpicoll.schedule import Schedule

from . import device_buffers
from .agree import agree
from .bind import HostPlace, Place
from .cut import SEGMENT_BYTES, Cutter
from .derived import calls
from .lower import lower
from .plan import Plan, make_plan
from .private import ONE_SHOT_TAG, Private, _states, private
from .problem import KEEPING, Arguments, Problem, problem
from .steps import Lowered


def allreduce(sendbuf: Any, recvbuf: Any, op: Any = None, comm: Any = None, *, algorithm: str = "auto") -> None:
    """Reduce the vectors of all ranks; every rank gets the result.

    Both buffers hold the same number of elements of one dtype; sendbuf may be MPI.IN_PLACE.
    """
    _once("allreduce", sendbuf, recvbuf, op, 0, comm, algorithm)


def allreduce_init(sendbuf: Any, recvbuf: Any, op: Any = None, comm: Any = None, *, algorithm: str = "auto") -> Plan:
    """The plan of an ``allreduce``."""
    return _plan(Arguments("allreduce", sendbuf, recvbuf, op, 0, algorithm), private(comm))


def reduce(
    sendbuf: Any, recvbuf: Any, op: Any = None, root: int = 0, comm: Any = None, *, algorithm: str = "auto"
) -> None:
    """Reduce the vectors of all ranks; the root gets the result.

    As allreduce; away from the root recvbuf is ignored and may be None. MPI.IN_PLACE is for the root alone.
    """
    _once("reduce", sendbuf, recvbuf, op, root, comm, algorithm)


def reduce_init(
    sendbuf: Any, recvbuf: Any, op: Any = None, root: int = 0, comm: Any = None, *, algorithm: str = "auto"
) -> Plan:
    """The plan of a ``reduce``."""
    return _plan(Arguments("reduce", sendbuf, recvbuf, op, root, algorithm), private(comm))


def bcast(buffer: Any, root: int = 0, comm: Any = None, *, algorithm: str = "auto") -> None:
    """Every rank gets the root's vector. Off the root, ``buffer`` is overwritten."""
    _once("bcast", None, buffer, None, root, comm, algorithm)


def bcast_init(buffer: Any, root: int = 0, comm: Any = None, *, algorithm: str = "auto") -> Plan:
    """The plan of a ``bcast``."""
    return _plan(Arguments("bcast", None, buffer, None, root, algorithm), private(comm))


def allgather(
    sendbuf: Any, recvbuf: Any, comm: Any = None, *, counts: Sequence[int] | None = None, algorithm: str = "auto"
) -> None:
    """Every rank gets the chunks of all ranks, in rank order.

    recvbuf is cut in one chunk a rank: ``counts`` elements each, by default balanced (the first count mod p have one
    more). sendbuf holds the own chunk, or is MPI.IN_PLACE when that lies in recvbuf already. A recvbuf that is spelled
    as that of an Allgatherv says itself how many elements come from each rank, and where they go.
    """
    _once("allgather", sendbuf, recvbuf, None, 0, comm, algorithm, counts)


def allgather_init(
    sendbuf: Any, recvbuf: Any, comm: Any = None, *, counts: Sequence[int] | None = None, algorithm: str = "auto"
) -> Plan:
    """The plan of an ``allgather``."""
    return _plan(Arguments("allgather", sendbuf, recvbuf, None, 0, algorithm, counts), private(comm))


def reduce_scatter(
    sendbuf: Any,
    recvbuf: Any,
    op: Any = None,
    comm: Any = None,
    *,
    counts: Sequence[int] | None = None,
    algorithm: str = "auto",
) -> None:
    """Reduce the vectors of all ranks; rank r gets chunk r of the result.

    sendbuf is cut in one chunk a rank: ``counts`` elements each, by default balanced. recvbuf holds the own chunk. With
    MPI.IN_PLACE recvbuf holds the whole vector, and its beginning the result; the rest of it is then undefined.
    """
    _once("reduce_scatter", sendbuf, recvbuf, op, 0, comm, algorithm, counts)


def reduce_scatter_init(
    sendbuf: Any,
    recvbuf: Any,
    op: Any = None,
    comm: Any = None,
    *,
    counts: Sequence[int] | None = None,
    algorithm: str = "auto",
) -> Plan:
    """The plan of a ``reduce_scatter``."""
    return _plan(Arguments("reduce_scatter", sendbuf, recvbuf, op, 0, algorithm, counts), private(comm))


def _once(
    collective: str,
    sendbuf: Any,
    recvbuf: Any,
    op: Any,
    root: int,
    comm: Any,
    algorithm: str,
    counts: Sequence[int] | None = None,
) -> None:
    """Run a one-shot call, from the cache when the same memory comes again."""
    key: Any = None
    try:
        # By address, not by object: the plan then need not keep the caller's arrays alive.
        sent = None if sendbuf is _IN_PLACE else _key(sendbuf)
        # The handle too: it changes when the operation is freed.
        by = None if op is None else (id(op), getattr(op, "handle", 0))
        key = (collective, sent, _key(recvbuf), by, root, algorithm, counts and tuple(counts))
        plan = _states[(_WORLD if comm is None else comm).handle].cache[key]
    except Exception:  # whatever it is: the checks below say it well
        plan = _remember(Arguments(collective, sendbuf, recvbuf, op, root, algorithm, counts), comm, key)
    plan()


_WORLD, _IN_PLACE, _address, _array = MPI.COMM_WORLD, MPI.IN_PLACE, MPI.Get_address, np.ndarray


def _key(buffer: Any) -> Any:
    """What makes a plan fit a buffer; TypeError for what is checked anew each time."""
    if type(buffer) is _array:
        try:
            return _address(buffer), buffer.size, buffer.dtype, buffer.flags.num
        except ValueError:  # dtypes without a buffer interface, such as bfloat16
            return buffer.ctypes.data, buffer.size, buffer.dtype, buffer.flags.num
    if buffer is None or buffer is KEEPING:
        return id(buffer)
    if isinstance(buffer, (list, tuple)):
        return _key(buffer[0]), *map(_part, buffer[1:])
    return device_buffers.key(buffer)


def _part(part: Any) -> Any:
    """What makes a plan fit a count, a displacement, several, or a datatype; not one that may be freed."""
    kind = type(part)
    if kind is MPI.Datatype:
        return _lasting[part.handle]
    if kind is int or kind is str or part is None:
        return part
    if kind is list or kind is tuple:
        return kind, *map(_part, part)  # (counts, displacements), or [counts]
    raise TypeError


_lasting = {  # what stands for a datatype in a key; the handle of one that may be freed could come again
    datatype.handle: ("datatype", name)
    for name, datatype in vars(MPI).items()
    if type(datatype) is MPI.Datatype and datatype != MPI.DATATYPE_NULL
}


def _remember(args: Arguments, comm: Any, key: Any) -> Plan:
    state = private(comm)
    plan = _plan(args, state, one_shot=True, cached=key is not None)
    if key is not None and not state.config.check:
        state.keep(key, plan)
    return plan


@dataclass(frozen=True)
class Outlook:
    """What a plan would be: the algorithm that would run (its segments named) and why, bytes of working memory.

    ``segment_bytes``: the length of a pipeline's segments, and of the pieces that long messages travel in otherwise.
    """

    schedule: Schedule
    why: str
    scratch_bytes: int
    segment_bytes: int


def outlook(collective: str, sendbuf: Any, recvbuf: Any, op: Any, root: int, algorithm: str, comm: Any) -> Outlook:
    """Look at a plan without making it. Collective only at the first call on ``comm``."""
    state = private(comm)
    task = _problem(Arguments(collective, sendbuf, recvbuf, op, root, algorithm), state)
    piped = "@" in task.schedule.algorithm
    longest = task.dtype.itemsize * max(b - a for a, b in pairwise(task.edges))
    segment = longest if piped else state.config.segment_bytes or SEGMENT_BYTES
    return Outlook(task.schedule, task.why, _lowered(task, state)[1], segment)


def _problem(args: Arguments, state: Private) -> Problem:
    return problem(args, state.rank, state.nodes, state.select)


def _lowered(task: Problem, state: Private) -> tuple[Lowered, int]:
    """The steps of a problem and the bytes of working memory they need; other memory of the same shape finds them."""
    displs = None if task.recv is None else task.recv.displs
    key = task.schedule, tuple(task.edges), task.dtype.itemsize, task.send is None, displs
    lowered = state.lowered.get(key)
    if lowered is None:
        cutter = Cutter(task.edges, task.dtype.itemsize, state.config.segment_bytes)
        lowered = lower(task.schedule.program(state.rank), task.layout, state.rank, cutter)
        state.remember(key, lowered)
    return lowered, (lowered.scratch + task.work) * task.dtype.itemsize


def _plan(args: Arguments, state: Private, *, one_shot: bool = False, cached: bool = False) -> Plan:
    """Check, lower and bind. Collective unless one-shot. One that is cached does not keep the caller's memory."""
    error: Exception | None = None
    task: Problem | None = None
    try:
        task = _problem(args, state)
        lowered, nbytes = _lowered(task, state)
        place = _place(task, lowered, nbytes, state, one_shot)
    except Exception as caught:  # whatever it is: the other ranks would wait
        error = caught
    if not one_shot or state.config.check:
        agree(state.comm, args.facts(task), error)
    if error is not None:
        raise error
    assert task is not None
    tag = ONE_SHOT_TAG if one_shot else state.tag()
    packs = [call for packing in task.before for call in calls(packing, state.alone, tag, back=False)]
    unpacks = [call for packing in task.after for call in calls(packing, state.alone, tag, back=True)]
    if state.config.debug:
        _tell(state, task, place)
    return make_plan(
        state,
        place,
        task.operation,
        tag=tag,
        keep=args.op if cached else (args, task),
        around=(packs, unpacks),
        collective=args.collective,
        algorithm=task.schedule.algorithm,
        why=task.why,
        rounds=lowered.rounds,
        nbytes=task.nbytes,
    )


def _place(task: Problem, lowered: Lowered, nbytes: int, state: Private, one_shot: bool) -> Place:
    """The memory of a plan. MemoryError; on a device ValueError and RuntimeError too."""
    if task.on_device:
        from .device import DevicePlace  # needs CuPy

        place = DevicePlace(state, lowered.steps, task.send, task.recv, (task.work, lowered.scratch), one_shot)
        if task.operation is not None:
            place.compile(task.operation)
        return place
    room = (state.scratch(nbytes) if one_shot else np.empty(nbytes, np.uint8)).view(task.dtype)
    return HostPlace(
        lowered.steps,
        None if task.send is None else task.send.array(readonly=True),
        None if task.recv is None else task.recv.array(),
        room[: task.work],
        room[task.work :],
    )


def _tell(state: Private, task: Problem, place: Place) -> None:
    host = os.uname().nodename
    said = f"{task.schedule.collective} of {task.nbytes} bytes by {task.schedule.algorithm} ({task.why})"
    over = f"over MPI, {place.transport.name} ({place.transport.why})"
    print(f"mpicoll: rank {state.rank} of {state.size} on {host}: {said}, {over}", file=sys.stderr, flush=True)
