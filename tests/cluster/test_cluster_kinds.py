"""Every kind of job on a real Slurm: submitted, waited for, its run files complete and right."""

from __future__ import annotations

import pytest
from real import right, rows

SMALL = ("--", "-b", "64", "-e", "4K", "-f", "64")
FEW = (*SMALL, "--algorithms", "ring,recursive_doubling", "--baselines", "default")


def test_check(slurm):
    job = slurm.run("check", "--nodes", "4", "--seconds", "10", "--", "-e", "64K", "-f", "16")
    assert job.state == "COMPLETED", job.said
    assert "1 of 1 launches on 8 ranks, 4 nodes" in job.said
    (path,) = job.folder.glob("*.jsonl")
    samples = right(path)
    assert {row["nbytes"] for row in samples} == {8 << k for k in (0, 4, 8, 12)}
    facts = (job.folder / "log" / f"facts-{job.number}-p8.txt").read_text()
    assert f"JobId={job.number}" in facts
    assert job.said.count("mpicoll place: ") == 8
    assert f"mpicoll-check-p8-{job.number}.out" in job.facts["StdOut"]


def test_sweep(slurm):
    job = slurm.run("sweep", "--nodes", "4", "--seconds", "2", "--repeats", "2", *SMALL)
    assert job.state == "COMPLETED", job.said
    assert "2 of 2 launches on 8 ranks, 4 nodes" in job.said
    paths = sorted(job.folder.glob("*.jsonl"))
    assert [rows(path)[0]["launch"] for path in paths] == [f"{job.number}-p8-{k}" for k in (1, 2)]
    for path in paths:
        ran = {row["algorithm"] for row in right(path)}
        assert {"default", "ring", "rabenseifner", "double_tree", "torus"} <= ran


def test_gpu_is_refused_where_there_is_none(slurm):
    done = slurm.call("jobs/submit.sh", "generic", "gpu", "--gpus-per-node", "2")
    if done.returncode == 0:  # this version has device buffers: the job finds no device
        number = done.stdout.split()[1].rstrip(":")
        slurm.folder = next(slurm.clone.glob("runs/generic/*-gpu"))
        (job,) = slurm.wait(number)
        assert job.state == "FAILED"
        assert "the doctor's checks failed" in job.said
        assert "GPU" in job.said
        assert not list(job.folder.glob("*.jsonl"))
    else:
        assert "no device buffers" in done.stderr
        assert not slurm.call("squeue", "--noheader").stdout


# The chain is the same jobs one after the other.
@pytest.mark.parametrize("form", [pytest.param("chain", marks=pytest.mark.one_mpi("mpich")), "array"])
def test_scaling(slurm, form):
    words = ("scaling", "--nodes", "1,2", "--as", form, "--repeats", "2", "--seconds", "2", *FEW)
    *numbers, last = slurm.submit(*words)
    jobs = [job for number in numbers for job in slurm.wait(number)]
    (collected,) = slurm.wait(last)
    for job in jobs:
        assert job.state == "COMPLETED", job.said
    for nodes in (1, 2):
        assert f"p = {2 * nodes}: 2 of 2 launches" in collected.said
        paths = [path for path in collected.folder.glob("*.jsonl") if rows(path)[0]["size"] == 2 * nodes]
        assert len(paths) == 2
        for path in paths:
            right(path, nodes=nodes)
    if "this version has no report" not in collected.said:
        assert collected.state == "COMPLETED", collected.said
        assert (collected.folder / "report.html").stat().st_size > 10_000
    (first, second) = sorted(jobs, key=lambda job: job.facts["StartTime"])
    if form == "array":  # at once, and still apart
        assert second.facts["StartTime"] < first.facts["EndTime"]
        outputs = {job.facts["StdOut"].rsplit("/", 1)[1] for job in jobs}
        assert outputs == {f"mpicoll-scaling-{numbers[0]}_{n}.out" for n in (1, 2)}
    else:
        assert second.facts["StartTime"] >= first.facts["EndTime"]
