"""What goes wrong with jobs on a real Slurm: wrong launchers, limits, cancelled jobs, nodes that go, uneven ranks."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from real import ROOT, right, rows

FEW = ("--", "-b", "64", "-e", "4K", "-f", "64", "--algorithms", "ring,recursive_doubling")
# Rows of a tenth of a second, and of minutes at the end: it ends when it is told to.
LONG = (
    *("--seconds", "2", "--", "-n", "500", "-b", "8", "-e", "512K", "-f", "4"),
    *("--algorithms", "recursive_doubling", "--baselines", "none"),
)


def kept(job) -> list[dict]:
    """The finished rows of a job that was ended in its first launch; no row is cut, and no second launch followed."""
    (path,) = job.folder.glob("*.jsonl")
    assert path.read_text().endswith("\n")
    head, *rest = rows(path)
    assert head["record"] == "run"
    assert any(row["record"] == "sample" for row in rest)
    assert not any(row.get("complete") for row in rest)
    return rest


def gone(job) -> None:
    """No process of the job is left."""
    import psutil

    until = time.monotonic() + 60
    while left := [p for p in psutil.process_iter(["cmdline"]) if str(job.folder) in " ".join(p.info["cmdline"] or ())]:
        assert time.monotonic() < until, left
        time.sleep(0.2)


def test_the_right_srun(slurm, mpi):
    launch = {"mpich": "srun --mpi=pmi2", "openmpi": "srun --mpi=pmix"}[mpi]
    job = slurm.run("check", "--nodes", "4", "--seconds", "2", *FEW, MPICOLL_LAUNCH=launch)
    assert job.state == "COMPLETED", job.said
    (path,) = job.folder.glob("*.jsonl")
    right(path)


@pytest.mark.parametrize("plugin", ["none", "other"])
def test_the_wrong_srun_is_stopped_with_a_reason(slurm, mpi, plugin):
    plugin = {"mpich": "pmix", "openmpi": "pmi2"}[mpi] if plugin == "other" else plugin
    job = slurm.run("sweep", "--nodes", "4", "--seconds", "2", *FEW, MPICOLL_LAUNCH=f"srun --mpi={plugin}")
    assert job.state == "FAILED"
    assert job.status == 2
    # Open MPI and "none" start singletons in silence; MPICH refuses PMIx.
    reason = "0 of 8 ranks came" if plugin == "pmix" else "8 worlds of one rank, not one of 8"
    assert reason in job.said
    assert "srun --mpi=list" in job.said
    assert not list(job.folder.glob("*.jsonl"))


def test_a_bench_that_srun_started_alone_refuses(slurm, mpi):
    """Without our job, too: no file is overwritten by eight first ranks."""
    plugin = {"mpich": "none", "openmpi": "pmi2"}[mpi]
    bench = (slurm.env["MPICOLL_PYTHON"], "-m", "mpicoll.bench", "-e", "64", "-J", "x.jsonl")
    done = slurm.call("srun", "--nodes=4", "--ntasks=8", f"--mpi={plugin}", *bench, UCX_TLS="tcp,self")
    assert done.returncode != 0
    assert "singleton" in done.stderr or "rank" in done.stderr
    assert not (slurm.clone / "x.jsonl").exists()


@pytest.mark.one_mpi("openmpi")  # Slurm counts in minutes
def test_the_time_limit_ends_a_job_cleanly(slurm):
    job = slurm.run("sweep", "--nodes", "4", "-t", "2", "--repeats", "2", *LONG, "-e", "8M", MPICOLL_RESERVE="30")
    assert kept(job)[-1] == {"record": "end", "complete": False, "reason": "SIGUSR1"}
    assert "near the time limit" in job.said
    assert "0 of 2 launches on 8 ranks" in job.said
    assert job.state == "FAILED"
    gone(job)


@pytest.mark.parametrize("launch", ["mpirun", "srun"])
def test_a_job_that_is_told_to_end_ends_cleanly(slurm, mpi, launch):
    if launch == "srun":
        launch = {"mpich": "srun --mpi=pmi2", "openmpi": "srun --mpi=pmix"}[mpi]
    number = slurm.start("sweep", "--nodes", "4", "--repeats", "2", *LONG, MPICOLL_LAUNCH=launch)
    slurm.call("scancel", "--batch", "--signal=TERM", number)
    job = slurm.wait(number)[0]
    reason = "SIGTERM" if "srun" in launch else "SIGUSR1"
    assert kept(job)[-1] == {"record": "end", "complete": False, "reason": reason}
    assert "0 of 2 launches on 8 ranks" in job.said
    assert "a wrong result" not in job.said
    gone(job)


@pytest.mark.parametrize("words", [(), ("--full", "--signal=KILL")], ids=["cancelled", "killed"])
def test_a_job_that_is_ended_by_force_keeps_its_rows(slurm, words):
    number = slurm.start("sweep", "--nodes", "4", "--repeats", "2", *LONG)
    slurm.call("scancel", *words, number)
    job = slurm.wait(number)[0]
    assert job.state in ("CANCELLED", "FAILED")
    kept(job)
    gone(job)
    read = slurm.call(slurm.env["MPICOLL_PYTHON"], "-m", "analysis", "load", str(job.folder))
    assert read.returncode == 0, read.stderr


def test_uneven_ranks_a_node(slurm, mpi):
    flags = {"openmpi": "--host h1:3,h2:5 --map-by slot:oversubscribe", "mpich": "-hosts h1:3,h2:5"}[mpi]
    words = ("check", "--nodes", "2", "--ranks-per-node", "4", "--seconds", "2", *FEW)
    job = slurm.run(*words, MPICOLL_LAUNCH_FLAGS=flags)
    assert job.state == "COMPLETED", job.said
    assert "uneven: 3 5 ranks a node, not 4" in job.said
    (path,) = job.folder.glob("*.jsonl")
    head, *_, end = rows(path)
    assert Counter(rank["host"] for rank in head["ranks"]) == {"h1": 3, "h2": 5}
    assert end["complete"]


def test_a_node_is_drained_in_the_middle(slurm):
    words = ("scaling", "--nodes", "2,3", "--repeats", "1", "--seconds", "4", *FEW)
    first, second, last = slurm.submit(*words)
    slurm.call("scontrol", "hold", second)  # the first is short, and this may be slow
    slurm.until(first, "-p4", "run")
    slurm.call("scontrol", "update", "NodeName=h2", "State=DRAIN", "Reason=test")
    slurm.call("scontrol", "release", second)
    (whole,) = slurm.wait(first)
    assert whole.state == "COMPLETED", whole.said
    assert whole.facts["NodeList"] == "h[1-2]"
    (other,) = slurm.wait(second)
    assert other.state == "COMPLETED", other.said
    assert other.facts["NodeList"] == "h[1,3-4]"
    (collected,) = slurm.wait(last)
    assert "p = 6: 1 of 1 launches" in collected.said


def test_a_node_that_fails_leaves_the_rows(slurm):
    number = slurm.start("sweep", "--nodes", "4", "--repeats", "2", *LONG)
    slurm.call("scontrol", "update", "NodeName=h3", "State=DOWN", "Reason=test")
    job = slurm.wait(number)[0]
    assert job.state == "NODE_FAIL"
    assert job.facts["Restarts"] == "0"
    kept(job)


def test_more_nodes_than_there_are(slurm):
    done = slurm.call("jobs/submit.sh", "generic", "check", "--nodes", "5")
    assert done.returncode == 1
    assert "Node count specification invalid" in done.stderr or "configuration is not available" in done.stderr
    assert "sbatch refused: " in done.stderr
    assert str(ROOT) not in done.stderr
