"""The child of two ranks: it may crash, hang, give wrong contents or not start, and each is one line."""

from __future__ import annotations

import sys

import pytest
from launching import run

from mpicoll.doctor import child

HEAD = "from mpi4py import MPI; import os, signal, time; r = MPI.COMM_WORLD.rank\nsay = lambda t: "
HEAD += f"r or print({child.SAYS!r} + t, flush=True)\nsay('passed two ranks')\nsay('begin messages of 8 B')\n"


def two(code: str, limit_s: float = 60) -> child.Outcome:
    mpirun = child.launcher()
    assert mpirun
    return child.run([mpirun, "-n", "2", sys.executable, "-c", HEAD + code], limit_s)


def test_host_messages_go_through():
    outcome = child.trial("cpu", 60)
    assert outcome.why == ""
    assert outcome.passed[0] == "two ranks"
    assert outcome.passed[-1] == "MPI_Allreduce on host memory"


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 213\n", "#!/bin/sh\necho 'mpicoll trial: failed worlds of 1'\n"])
def test_ranks_that_do_not_come_up_have_tried_no_device_messages(script, monkeypatch, tmp_path):
    """As where a launcher starts no other below it: a transport is not refused for that."""
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(script)
    mpirun.chmod(0o755)
    monkeypatch.setattr(child, "launcher", lambda: str(mpirun))
    outcome = child.trial("cuda", 60)
    assert not outcome.tried
    assert outcome.why in ("ended with status 213 in: start of two ranks", "worlds of 1")
    assert child.trial("cpu", 60).tried


def test_a_trial_that_nobody_ends_ends_itself():
    code = "import sys, time; sys.argv = ['trial', 'cpu', '1']; from mpicoll.doctor import trial\n"
    code += "trial._arrays = lambda kind: time.sleep(1000); trial.main()"
    done = run([sys.executable, "-c", code])
    assert done.returncode == 1
    assert "Timeout" in done.stderr


def test_a_crash_is_named_with_its_stage():
    outcome = two("MPI.COMM_WORLD.Barrier(); r and os.kill(os.getpid(), signal.SIGSEGV); time.sleep(50)")
    assert outcome.why == "ended with SIGSEGV in: messages of 8 B"
    assert outcome.passed == ["two ranks"]


def test_a_hang_ends_at_the_limit():
    groups: list[int] = []
    mpirun = child.launcher()
    outcome = child.run([mpirun, "-n", "2", sys.executable, "-c", HEAD + "time.sleep(100)"], 20, groups.append)
    assert outcome.why == "no end within 20 s in: messages of 8 B"
    assert len(groups) == 2
    assert groups[1] == 0


def test_an_error_is_its_own_end():
    assert "in: messages of 8 B" in two("raise SystemExit(3)").why


@pytest.mark.parametrize(
    ("said", "status", "why", "passed"),
    [
        ("begin A\npassed A\nbegin B\npassed B\nend", 0, "", ["A", "B"]),
        ("begin A\npassed A\nbegin B\nfailed wrong contents in: B", 1, "wrong contents in: B", ["A"]),
        ("begin A\npassed A\nbegin the end of MPI", 139, "ended with status 139 in: the end of MPI", ["A"]),
        ("", 127, "ended with status 127 in: start of two ranks", []),
        ("begin A\npassed A\nbegin B\npassed B\nend", 1, "ended with status 1 in: the end of MPI", ["A", "B"]),
    ],
)
def test_what_a_child_said(said, status, why, passed):
    lines = "".join(f"noise\n{child.SAYS}{line}\n" for line in said.splitlines())
    assert child.read(lines, status) == child.Outcome(passed, why)


def test_no_such_launcher():
    outcome = child.run(["/nowhere/mpirun"], 5)
    assert not outcome.tried
    assert outcome.why == "/nowhere/mpirun: No such file or directory"


def test_a_child_is_no_part_of_its_parents_world():
    given = {
        "PMI_RANK": "3",
        "PMIX_RANK": "3",
        "OMPI_COMM_WORLD_RANK": "3",
        "SLURM_NTASKS": "9",
        "HYDI_CONTROL_FD": "7",
    }
    given |= {"MPI_LOCALRANKID": "1", "PRTE_LAUNCHED": "1", "OMPI_MCA_initial_wdir": "/"}
    kept = {"OMPI_MCA_pml": "ucx", "UCX_TLS": "sm", "PATH": "/bin", "LD_LIBRARY_PATH": "/lib", "MPICH_GPU_X": "1"}
    made = child.environment(given | kept)
    assert not made.keys() & given.keys()
    assert made.items() >= kept.items()
