"""The examination: facts, a world that talks, buffers that add up, device messages tried in a child, one report."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from mpicoll.launcher import SIZE_VARIABLES, abort, singletons
from mpicoll.launcher import rank as launched_rank
from mpicoll.launcher import told as launched

from . import checks, facts
from .arrays import Device, Host
from .checks import FAIL, OK, SKIP, WARN, Check
from .report import Report
from .watch import Watch

COUNTS = (1, 1 << 20)  # float32 elements of the allreduce of ones


def examine(options: Namespace, watch: Watch) -> int:
    """Run everything; the exit status, the same on all ranks of a world. MPI starts here."""
    watch.stage("the facts of this machine", options.limit)
    own = facts.gather()
    arrays, trouble = _arrays(options.device, own)
    watch.stage("the start of MPI: are this mpirun and this MPI library of one kind?", options.limit)
    from mpi4py import MPI

    try:
        status = _examine(MPI.COMM_WORLD, options, own, arrays, trouble, watch)
    except Exception as error:  # the other ranks would wait for this one
        print(
            f"mpicoll doctor: rank {launched_rank()}: {type(error).__name__}: {_line(error)}",
            file=sys.stderr,
            flush=True,
        )
        abort(MPI.COMM_WORLD)
        raise
    watch.done()
    return status


def _examine(
    comm: Any, options: Namespace, own: facts.Facts, arrays: Host | Device | None, trouble: str, watch: Watch
) -> int:
    from . import talk

    limit = options.limit
    watch.stage("what this MPI tells of itself", limit)
    own.rank = comm.rank
    asked = options.transport or os.environ.get("MPICOLL_TRANSPORT") or "auto"
    refused = _about_mpi(own, asked)
    report = Report(options.device, comm.size, [own])
    wrong = singletons(comm.size, own.library["library"])
    if wrong:  # each rank is a world of its own: one of them speaks, and fails: the launcher ends all at the first
        if launched_rank():
            return 0
        report.checks = [Check("world", FAIL, wrong)]
        _print(report, options)
        return report.status
    # Each of these ends by itself; the watch is for an MPI that does not come back from a call.
    watch.stage("messages between all pairs of ranks", 4 * limit)
    heard = talk.tournament(comm, limit)
    told = talk.gather(comm, (own, heard, trouble, refused), limit)
    ways = (True, True)  # whether all ranks can talk, and whether device pointers may be tried in this process
    if comm.rank == 0:
        report.facts = [one[0] for one in told if one]
        report.checks = [*_about_world(told), *checks.all_checks(report.facts, options.device)]
        report.checks += _refusals(told, options.device)
        whole = report.checks[0].verdict != FAIL
        tried, safe = _trial(options, own, limit, watch)
        report.checks += tried
        ways = (whole, safe)
    watch.stage("the word of rank 0", 5 * limit)
    whole, safe = talk.tell(comm, ways, 4 * limit) or (False, False)
    watch.stage("an allreduce of ones", limit)
    if whole:
        found = _ones(comm, arrays, asked if safe else "staged")
        everywhere = comm.allgather((found, arrays is not None))
        if comm.rank == 0:
            report.checks.append(_about_ones(comm.size, options.device, everywhere))
    elif comm.rank == 0:
        report.checks.append(Check("allreduce", SKIP, "not tried: not all ranks can talk"))
    if comm.rank == 0:
        _print(report, options)
    watch.stage("the end", limit)
    if not whole:
        if comm.rank == 0:
            abort(comm)  # messages are under way that will never end
        return 1
    return comm.bcast(report.status)


def _print(report: Report, options: Namespace) -> None:
    print(report.json() if options.json else report.text(), flush=True)


def _arrays(device: str, own: facts.Facts) -> tuple[Host | Device | None, str]:
    """What makes the buffers, the GPU of this rank chosen; or None and why not."""
    if device == "cpu":
        return Host(), ""
    if own.gpu is None or not own.cupy:
        return None, ""  # the checks of the facts say so
    try:
        arrays = Device(own.gpu.index)
        told = arrays.read(arrays.make(np.arange(8.0)))
    except Exception as error:  # whatever a broken driver or wheel raises
        return None, f"{type(error).__name__}: {_line(error)}"
    return (arrays, "") if (told == np.arange(8.0)).all() else (None, f"GPU {own.gpu.index} gives back other values")


def _about_mpi(own: facts.Facts, asked: str) -> str:
    """Fill in what MPI tells; the refusal of the transport that was asked for."""
    import mpi4py
    from mpi4py import MPI

    from mpicoll.runtime import mpilib, transport

    levels = {MPI.THREAD_SINGLE: "single", MPI.THREAD_FUNNELED: "funneled", MPI.THREAD_SERIALIZED: "serialized"}
    built = os.path.basename(MPI.__file__)
    abi = built.removeprefix("MPI.").partition(".")[0]
    how = f"by mpi4py's wheel for the ABI of {abi}" if not abi.startswith("cpython") else "linked when mpi4py was built"
    chosen = {name: os.environ[name] for name in ("MPI4PY_MPIABI", "MPI4PY_LIBMPI") if name in os.environ}
    own.library = {
        "library": mpilib.vendor(),
        "standard": ".".join(map(str, MPI.Get_version())),
        "path": mpilib.path() or "cannot be told",
        "found": f"{how}{''.join(f', {name}={value}' for name, value in chosen.items())}",
        "module": MPI.__file__,
        "threads": levels.get(MPI.Query_thread(), "multiple"),
    }
    if tuple(map(int, mpi4py.__version__.split(".")[:2])) < (4, 0):
        raise ValueError(f"mpi4py is {mpi4py.__version__}: mpicoll needs 4.0 or newer")
    found = transport.evidence(asked)
    own.evidence = [asdict(one) for one in found]
    try:
        own.transport = asdict(transport.rule(asked, found))
    except ValueError as error:
        own.transport = {"name": "refused", "why": str(error)}
        return str(error)
    return ""


def _about_world(told: Sequence[Any]) -> list[Check]:
    """Whether everybody can talk to everybody: the first of these fails when not."""
    from . import talk

    size, hosts = len(told), [one[0].host if one else "" for one in told]
    said = talk.complaints([one[1] if one else None for one in told], hosts)
    if said:
        more = [f"{len(said) - checks.SHOWN} more like these"] if len(said) > checks.SHOWN else []
        return [Check("pairs", FAIL, text) for text in [*said[: checks.SHOWN], *more]]
    if size == 1:
        return [Check("world", OK, "one rank alone: start it under mpirun to check messages between ranks")]
    pairs = size * (size - 1) // 2
    return [Check("pairs", OK, f"{'the pair' if pairs == 1 else f'all {pairs} pairs'} of ranks can talk, both ways")]


def _refusals(told: Sequence[Any], device: str) -> list[Check]:
    """What single ranks said of CuPy and of the transport, the same words once."""
    found = []
    for place, name in ((2, "CuPy"), (3, "transport")):
        for text in dict.fromkeys(one[place] for one in told if one and one[place]):
            ranks = [rank for rank, one in enumerate(told) if one and one[place] == text]
            verdict = FAIL if device == "cuda" else WARN
            found.append(Check(name, verdict, f"{text} ({checks._ranks(ranks)})"))
    ways = checks._by({rank: one[0].transport["name"] for rank, one in enumerate(told) if one})
    if device == "cuda" and len(ways) > 1:
        text = "; ".join(f"{way} on {checks._ranks(ranks)}" for way, ranks in ways.items())
        found.append(Check("transport", WARN, f"ranks differ: {text}: all will use staged"))
    return found


def _trial(options: Namespace, own: facts.Facts, limit: float, watch: Watch) -> tuple[list[Check], bool]:
    """Messages in a child of two ranks; and whether device pointers may be tried in this process: not after a crash."""
    from . import child

    on_device = own.gpu is not None and own.cupy
    why = "no GPU here" if own.gpu is None else "no CuPy"
    skipped = [] if on_device else [Check("device messages", SKIP, f"not tried: {why}")]
    if skipped and (options.device == "cuda" or launched(SIZE_VARIABLES)):
        return skipped, True
    watch.stage("a trial in a child", 2 * limit)
    outcome = child.trial("cuda" if on_device else "cpu", limit, watch.child)
    if not outcome.tried:
        return [Check("trial", SKIP, f"not tried: {outcome.why}"), *skipped], True
    passed = ", ".join(outcome.passed[1:]) or "nothing"
    if skipped:
        text = f"in a child of two ranks: {outcome.why}" if outcome.why else f"two ranks in a child: {passed}"
        return [Check("trial", WARN if outcome.why else OK, text), *skipped], True
    decided = own.transport["name"]
    if not outcome.why or child.REDUCTION in outcome.why:  # ours need messages only
        hint = " (--transport direct would use them)" if decided == "staged" else ""
        ends = f"; but {outcome.why}" if outcome.why else ""
        return [Check("device messages", WARN if outcome.why else OK, f"went through: {passed}{ends}{hint}")], True
    cure = ": use --transport staged" if decided == "direct" else ": staged is used"
    verdict = FAIL if decided == "direct" and options.device == "cuda" else WARN
    return [Check("device messages", verdict, f"in a child of two ranks: {outcome.why}{cure}")], False


def _ones(comm: Any, arrays: Host | Device | None, asked: str) -> str:
    """Allreduce ones on the buffers asked for; what is wrong on this rank."""
    ready = arrays is not None
    if not all(comm.allgather(ready)) or arrays is None:
        return ""
    import mpicoll

    os.environ["MPICOLL_TRANSPORT"] = asked
    try:
        for count in COUNTS:
            ones, sums = arrays.make(np.ones(count, "f4")), arrays.make(np.zeros(count, "f4"))
            mpicoll.allreduce(ones, sums, comm=comm)
            if not (arrays.read(sums) == comm.size).all():
                return f"{count} ones of {comm.size} ranks added up to something else on rank {comm.rank}"
    except Exception as error:  # told to all as a line of the report
        return f"{type(error).__name__}: {_line(error)}"
    return ""


def _about_ones(size: int, device: str, everywhere: Sequence[tuple[str, bool]]) -> Check:
    where = "host" if device == "cpu" else "device"
    lacking = [rank for rank, (_, ready) in enumerate(everywhere) if not ready]
    if lacking:
        return Check("allreduce", SKIP, f"not tried: no {where} buffers on {checks._ranks(lacking)}")
    error = next((text for text, _ in everywhere if text), "")
    if error:
        return Check("allreduce", FAIL, f"on {where} memory: {error}")
    return Check("allreduce", OK, f"ones of all ranks add up to {size} on {where} memory")


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0]
