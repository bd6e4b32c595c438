"""The library's own algorithms, forced by name, each in the run beside ours.

Open MPI binds its choice to a communicator: each algorithm gets a duplicate, made while the control variables name it.
MPICH looks at each call: the variables are written before it and put back after it, outside the clock. What the library
would replace by another algorithm is not shown under the forced name.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from mpi4py import MPI

from mpicoll.runtime.private import private

from .tool import Control

TUNED_SEGMENT_BYTES = 1 << 16  # of Open MPI's segmented_ring, which without segments is its ring
# The automatic choice, schedules of nonblocking calls, GPU libraries, and MPICH's two levels, which call themselves
# again inside a node, where they cannot run.
NOT_ALGORITHMS = {"ignore", "auto", "nb", "ccl", "smp"}


DYNAMIC = "coll_tuned_use_dynamic_rules"
ABOVE_TUNED = (
    "coll_han_priority",
    "coll_adapt_priority",
    "coll_hcoll_priority",
    "coll_ucc_priority",
    "coll_xhc_priority",
)


@dataclass
class Forced:
    """One of the library's algorithms for one call. ``before`` and ``after`` frame each call, outside the clock."""

    name: str
    comm: MPI.Intracomm
    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None


def is_mpich() -> bool:
    """Whether the library is MPICH or made from it."""
    return "MPICH" in MPI.Get_library_version() and _control("MPIR_CVAR_COLLECTIVE_FALLBACK") is not None


def names(call: str) -> list[str]:
    """The algorithms that the library has for a call such as "Allreduce"; empty where it cannot be told."""
    control = _chooser(call)
    return [name for name in control.names if name and name not in NOT_ALGORITHMS] if control else []


def why_none(call: str) -> str:
    """What to say where there are none."""
    return f"the algorithms of this MPI's {call} cannot be forced from inside: their rows are left out"


def why_not() -> str:
    """What to say where the library has an algorithm and does not let it be forced."""
    rules = _control(DYNAMIC)
    cure = f": OMPI_MCA_{DYNAMIC}=1 in the environment lets it" if rules and not rules.read() else ""
    return f"the library does not let it be forced{cure}"


def force(comm: MPI.Intracomm, call: str, name: str) -> Forced | None:
    """Force one; None: the library does not let it. Collective; asked for again it is the same."""
    key = comm.handle, call, name
    if key not in _made:
        _made[key] = _force(comm, call, name)
    return _made[key]


_made: dict[tuple[int, str, str], Forced | None] = {}


def _force(comm: MPI.Intracomm, call: str, name: str) -> Forced | None:
    control = _chooser(call)
    if control is None:
        return None
    if is_mpich():
        return _mpich(comm, control, name)
    settings = {DYNAMIC: 1, **dict.fromkeys(ABOVE_TUNED, 0)}
    settings[f"coll_tuned_{call.lower()}_algorithm_segmentsize"] = _segment_bytes(call, name)
    known = {variable: found for variable in settings if (found := _control(variable)) is not None}
    before = {variable: found.read() for variable, found in known.items()}
    old = control.read()
    try:
        for variable, found in known.items():
            if before[variable] == settings[variable]:
                continue  # Open MPI 4 lets some of them be set at the start alone
            try:
                found.write(settings[variable])
            except OSError:
                # On one node only tuned is asked; on several these would answer in its place.
                if variable not in ABOVE_TUNED or max(private(comm).nodes) > 0:
                    raise
        control.write(control.names[name])
        return Forced(name, comm.Dup())
    except OSError:
        return None
    finally:
        for found, value in ((control, old), *((found, before[variable]) for variable, found in known.items())):
            with suppress(OSError):
                found.write(value)


def unfit(call: str, name: str, size: int, count: int, itemsize: int) -> str:
    """Why an algorithm is not tried: what Open MPI 4 and 5 run in its place, read in their sources; what aborts MPICH.

    Otherwise MPICH says itself what it cannot run: there a fallback is an error. Empty: try it.
    """
    power = 1 << (size.bit_length() - 1)
    if is_mpich():
        aborts = (call, name) == ("Reduce_scatter", "noncommutative") and (size != power or count % size)
        return "it ends the job unless the ranks are a power of two with equal counts" if aborts else ""
    reasons = {
        ("Allreduce", "ring"): (count < size, "recursive_doubling"),
        ("Allreduce", "segmented_ring"): (count * itemsize < size * TUNED_SEGMENT_BYTES, "ring"),
        ("Allreduce", "rabenseifner"): (count < power, "basic_linear"),
        ("Reduce", "rabenseifner"): (count < power, "basic_linear"),
        ("Allgather", "recursive_doubling"): (size != power, "bruck"),
        ("Allgather", "neighbor"): (size % 2 == 1, "ring"),
        ("Allgather", "two_proc"): (size != 2, "nothing"),
        ("Allgatherv", "neighbor"): (size % 2 == 1, "ring"),
        ("Allgatherv", "two_proc"): (size != 2, "nothing"),
        ("Bcast", "split_binary_tree"): (count < 2, "chain"),
    }
    holds, other = reasons.get((call, name), (False, ""))
    return f"this MPI would run {other} in its place" if holds else ""


def _segment_bytes(call: str, name: str) -> int:
    return TUNED_SEGMENT_BYTES if (call, name) == ("Allreduce", "segmented_ring") else 0


def _mpich(comm: MPI.Intracomm, control: Control, name: str) -> Forced:
    settings = [(control, control.names[name], control.read())]
    for variable, wanted in (("MPIR_CVAR_COLLECTIVE_FALLBACK", "error"), ("MPIR_CVAR_DEVICE_COLLECTIVES", "none")):
        found = _control(variable)
        if found is not None:
            settings.append((found, found.names[wanted], found.read()))

    def before() -> None:
        for variable, value, _ in settings:
            variable.write(value)

    def after() -> None:
        for variable, _, old in settings:
            variable.write(old)

    return Forced(name, comm, before, after)


@cache
def _control(name: str) -> Control | None:
    try:
        return Control(name)
    except LookupError:
        return None


def _chooser(call: str) -> Control | None:
    if is_mpich():
        return _control(f"MPIR_CVAR_{call.upper()}_INTRA_ALGORITHM")
    return _control(f"coll_tuned_{call.lower()}_algorithm")
