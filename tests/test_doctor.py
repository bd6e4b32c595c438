"""``python -m mpicoll doctor`` as it is started: alone, under mpirun, and where something is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from launching import ROOT, mpirun, run

DOCTOR = ("-m", "mpicoll", "doctor")


def alone(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, *DOCTOR, *argv], env)


def test_alone_it_tries_two_ranks_in_a_child():
    done = alone()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "one rank alone" in done.stdout
    assert "two ranks in a child: host messages of 8 B, host messages of 64 KiB" in done.stdout
    assert "MPI_Allreduce on host memory" in done.stdout
    assert done.stdout.rstrip().endswith("--device cpu will work")


def test_under_mpirun_every_pair_talks():
    done = mpirun(3, *DOCTOR, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert (report["size"], report["status"]) == (3, 0)
    assert [one["rank"] for one in report["facts"]] == [0, 1, 2]
    assert sorted(one["local"] for one in report["facts"]) == [0, 1, 2]
    assert all(one["library"]["path"] and one["cores"] for one in report["facts"])
    found = {check["name"]: check for check in report["checks"]}
    assert found["pairs"]["text"] == "all 3 pairs of ranks can talk, both ways"
    assert found["allreduce"]["text"] == "ones of all ranks add up to 3 on host memory"
    assert report["facts"][0]["evidence"][0]["source"] == "the user's word"


def test_no_gpu_is_said_and_is_the_exit_status():
    done = mpirun(2, *DOCTOR, "--device", "cuda", env={"CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode != 0
    assert "FAIL  GPUs: " in done.stdout
    assert "pip install 'mpicoll[cuda1" in done.stdout
    assert "skip  allreduce: not tried" in done.stdout


def test_worlds_of_one_are_told_once():
    first, fourth = (alone(SLURM_NTASKS="8", SLURM_PROCID=rank) for rank in "03")
    assert first.returncode == 1
    assert "the launcher started 8 ranks (SLURM_NTASKS=8)" in first.stdout
    # Its status would have the launcher end the first before that is said.
    assert (fourth.returncode, fourth.stdout) == (0, "")


@pytest.mark.parametrize("argv", [("--device", "tpu"), ("--limit", "0"), ("--transport", "fast"), ("--nonsense",)])
def test_options_that_make_no_sense_are_one_line(argv):
    done = mpirun(2, *DOCTOR, *argv)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("mpicoll doctor: ") == 1 or done.stderr.count("mpicoll: ") == 1
    assert argv[-1] in done.stderr


LATE = """
import sys, time
from mpicoll.launcher import rank
time.sleep(0 if rank() else 1)
sys.argv[1:] = {argv!r}
from mpicoll.{module} import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("module", "argv"), [("__main__", ["doctor", "--limit", "0"]), ("bench.__main__", ["-n", "0"])]
)
def test_the_line_comes_though_rank_0_is_the_last(module, argv):
    done = mpirun(3, "-c", LATE.format(module=module, argv=argv))
    assert done.returncode == 2
    assert done.stderr.count(" (--help lists the options)") == 1


STOPPED = """
import os, signal, sys
from mpicoll.launcher import rank
from mpicoll.doctor import talk
whole, gather = talk.tournament, talk.gather
def stop(comm, limit_s):
    if rank() == 2:
        os.kill(os.getpid(), signal.SIGSTOP)
    return whole(comm, 2)
talk.gather = lambda comm, item, limit_s: gather(comm, item, 4)  # short here alone: MPI may take long to start
talk.tournament = stop
from mpicoll.__main__ import main
sys.exit(main(["doctor", "--limit", "60"]))
"""


def test_a_rank_that_does_not_answer_is_named():
    done = mpirun(3, "-c", STOPPED)
    assert done.returncode != 0
    assert "FAIL  pairs: rank 2: no report came to rank 0" in done.stdout
    assert "not tried: not all ranks can talk" in done.stdout


HANGS = """
import signal, sys, time
from mpicoll.doctor.watch import Watch
import subprocess
watch = Watch("mpicoll doctor: rank 0")
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
watch.child(child.pid)
print(child.pid, flush=True)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM] if sys.argv[1] == "hang" else [])
watch.stage("a call that does not come back", 0.5 if sys.argv[1] == "hang" else 1000)
time.sleep(1000)
"""


def ended(pid: int) -> None:
    for _ in range(600):  # the guard kills it after the rank
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().split()[2] == "Z":  # nobody reaps it in some containers
                    return
        except FileNotFoundError:
            return
        time.sleep(0.1)
    raise AssertionError("what the rank started is left")


@pytest.mark.parametrize("end", ["hang", "killed"])
def test_the_watch_ends_a_rank_that_hangs_and_what_it_started(end):
    process = subprocess.Popen(
        [sys.executable, "-c", HANGS, end], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    if end == "killed":
        process.kill()
    _, said = process.communicate(timeout=60)
    try:
        assert process.returncode == -signal.SIGKILL
        ended(child)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    assert ("no end of a call that does not come back within 0.5 s: stopped" in said) == (end == "hang")
