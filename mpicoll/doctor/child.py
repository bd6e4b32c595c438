"""A world of two ranks in a child process: what crashes or hangs there is a line here."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

SAYS = "mpicoll trial: "
REDUCTION = "MPI_Allreduce"
# What a launcher gave this process; a launcher below must not take it for its own.
INHERITED = re.compile(
    r"(PMIX?|MPI|MV2|PALS|FLUX|SLURM|SLURMD|HYDI|HYD|ALPS|PBS|LSB)_|OMPI_(?!MCA_)|PRTE_(?!MCA_)|OPAL_USER|"
    r"OMPI_MCA_(orte|ess|prte|pmix|PREFIXES|cpu_type|initial_wdir|num_procs)|PRTE_MCA_(ess|prte_ess|plm|state|ras)"
)


@dataclass
class Outcome:
    """``passed``: the stages that went through, in order. ``why`` is empty when all did."""

    passed: list[str] = field(default_factory=list)
    why: str = ""
    tried: bool = True


def launcher() -> str | None:
    """The mpirun that belongs to the library that this process has loaded, as far as its place tells."""
    from mpicoll.runtime import mpilib  # starts MPI: the child has this module too, and its GPU to choose before

    bins = [os.path.join(os.path.dirname(os.path.dirname(mpilib.path())), "bin")] if mpilib.path() else []
    for folder in [*bins, os.path.dirname(sys.executable)]:
        for name in ("mpirun", "mpiexec"):
            if found := shutil.which(name, path=folder):
                return found
    return shutil.which("mpirun") or shutil.which("mpiexec")


def environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables for a world of its own on this machine: two ranks even on one core, root as root."""
    kept = {name: value for name, value in environ.items() if not INHERITED.match(name)}
    kept |= {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    if os.geteuid() == 0:
        kept |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return kept


def trial(device: str, limit_s: float, started: Callable[[int], None] = lambda group: None) -> Outcome:
    """Send messages between two ranks of a child, on host or device buffers.

    Ranks that do not come up (a launcher that does not start others below it, a GPU that takes one process only) have
    tried no device messages: that says nothing of those.
    """
    mpirun = launcher()
    if mpirun is None:
        return Outcome(why="no mpirun beside this MPI library or on PATH", tried=False)
    command = [mpirun, "-n", "2", sys.executable, "-m", "mpicoll.doctor.trial", device, str(limit_s)]
    outcome = run(command, limit_s, started)
    outcome.tried &= device == "cpu" or bool(outcome.passed)
    return outcome


def run(command: list[str], limit_s: float, started: Callable[[int], None] = lambda group: None) -> Outcome:
    """Run a program that tells its stages; ``started`` hears the child's process group, and 0 when it has ended."""
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment(),
            start_new_session=True,
        )
    except OSError as error:
        return Outcome(why=f"{command[0]}: {error.strerror}", tried=False)
    started(child.pid)
    hung = False
    try:
        said, _ = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        hung = True
        _end(child.pid)
        said, _ = child.communicate()
    finally:
        _end(child.pid)
        started(0)
    return read(said, child.returncode, f"no end within {limit_s:g} s" if hung else "")


def read(said: str, status: int, hung: str = "") -> Outcome:
    """What became of a child, by the stages that it told and its end."""
    outcome, begun = Outcome(), "start of two ranks"
    for line in said.splitlines():
        kind, _, stage = line.removeprefix(SAYS).partition(" ") if line.startswith(SAYS) else ("", "", "")
        if kind == "begin":
            begun = stage
        elif kind == "passed":
            outcome.passed.append(stage)
        elif kind == "failed":
            outcome.why = stage
        elif kind == "end" and not hung:
            begun = ""
    if not outcome.why and (hung or begun or status):
        number = re.search(r"\b[Ss]ignal:? (?:code )?\(?(\d+)|\(signal (\d+)\)|EXIT CODE: (\d+)|on signal (\d+)", said)
        told = next((group for group in number.groups() if group), "") if number else ""
        ended = hung or f"ended with {_signal(int(told)) if told else f'status {status}'}"
        outcome.why = f"{ended} in: {begun or 'the end of MPI'}"
    return outcome


def _signal(number: int) -> str:
    try:
        return signal.Signals(number if number < 128 else number - 128).name
    except ValueError:
        return f"status {number}"


def _end(group: int) -> None:
    """Whatever is left of the child: a launcher that was killed leaves its ranks."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
