"""mpirun from a test that is itself no MPI program: a child with a time limit, ended by its process group."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

LIMIT_S = 240  # nothing takes a tenth of it on a quiet machine
ROOT = Path(__file__).parent.parent


def mpirun(ranks: int, *argv: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``python argv`` on some ranks; the launcher is that of the environment the tests run in."""
    launcher = shutil.which("mpirun")
    assert launcher, "no mpirun on PATH: run the tests by make test"
    return run([launcher, "-n", str(ranks), sys.executable, *argv], env)


def run(command: list[str], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in a process group of its own; past the limit all of it is killed and the test fails."""
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        cwd=ROOT,
        env=os.environ | (env or {}),
        start_new_session=True,
    )
    out, err = finish(child, LIMIT_S)
    return subprocess.CompletedProcess(command, child.returncode, out, err)


def finish(child: subprocess.Popen[str], limit_s: float) -> tuple[str, str]:
    """What a child with a process group of its own says on stdout and stderr; past the limit its group is killed."""
    try:
        return child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
        raise AssertionError(f"no end after {limit_s} s: {child.args}\n{out}\n{err}") from None
