"""Jobs run by a stand-in launcher: ranks counted, launches counted, signals, arrays, chains."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from standins import LIMIT_S, ROOT, clean, finished


def test_a_job_runs_whole_launches_and_says_how_many(cluster):
    done = cluster.submit("generic", "sweep", "--repeats", "3", "--seconds", "5", "--", "-e", "1K")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("job 1: ")
    status, out = cluster.run()
    assert status == 0, out
    assert "3 of 3 launches on 4 ranks, 2 nodes" in out
    assert len(cluster.results()) == 3
    assert all("-1001-p4" in path.name for path in cluster.results())
    text = cluster.results()[0].read_text()
    assert '"-e","1K","--max-time","5"' in text
    assert '"place":"GPU ' in text
    assert out.count("mpicoll place: ") == 4  # printed once, though every launch goes through it


def test_two_submissions_in_one_second_have_two_directories(cluster):
    for _ in range(3):
        assert cluster.submit("generic", "check").returncode == 0
    assert len(list((cluster.clone / "runs" / "generic").iterdir())) == 3


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"FAKE_STARTS": "6"}, "6 of 8 ranks came"),
        ({"FAKE_WORLD": "1"}, "8 worlds of one rank"),
        ({"FAKE_WORLD": "4"}, "in a world of 4"),
        ({"FAKE_NODE": "h0"}, "on 1 nodes, 4 were asked for"),
        ({"SLURM_JOB_NUM_NODES": "3"}, "3 nodes came, 4 were asked for"),
        ({"SLURM_NTASKS": "6"}, "6 ranks are allowed, 8 were asked for"),
        ({"SLURM_JOB_ID": ""}, "jobs/submit.sh"),
    ],
)
def test_ranks_that_are_not_those_asked_for_stop_the_job(cluster, env, said):
    assert cluster.submit("generic", "check", "--nodes", "4").returncode == 0
    status, out = cluster.run(**env)
    assert status == 2
    assert said in out
    assert not cluster.results()


def test_modules_are_loaded_in_order_or_the_job_says_which_is_missing(cluster):
    # As the real ones: what comes is split and its file names are looked for.
    load = '[ "$2" != gone ] && eval $(echo "seen=?$2") && echo "loaded ${seen#?}"'
    module = f'module() {{ case $1 in load) {load} ;; esac; }}; export -f module; exec "$@"'
    assert cluster.submit("generic", "check", "--seconds", "1", MPICOLL_MODULES="gcc ompi/5").returncode == 0
    words = ["bash", "-c", module, "bash", "env"]
    env = subprocess.run(words, env=clean(), capture_output=True, text=True, timeout=LIMIT_S).stdout
    name, body = re.search(r"^(BASH_FUNC_module\S*?)=(.*?^\})", env, re.MULTILINE | re.DOTALL).groups()
    status, out = cluster.run(**{name: body})
    assert status == 0, out
    assert out.index("loaded gcc") < out.index("loaded ompi/5")
    assert cluster.submit("generic", "check", MPICOLL_MODULES="gone gcc").returncode == 0
    status, out = cluster.run(2, **{name: body})
    assert status == 2
    assert "module load gone failed" in out
    assert "loaded gcc" not in out


def test_what_slurm_set_for_the_job_does_not_bind_the_launcher(cluster):
    words = ("generic", "check", "--cores-per-rank", "2", "--seconds", "1")
    assert cluster.submit(*words).returncode == 0
    status, out = cluster.run()
    assert status == 0, out
    assert "srun --mpi=pmix --nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=2 " in out
    (cluster.tools / "mpirun").write_text('#!/bin/sh\nenv >"$FAKE/env"\n')
    (cluster.tools / "mpirun").chmod(0o755)
    assert cluster.submit(*words, MPICOLL_LAUNCH="mpirun").returncode == 0
    # NONE: no variable of the job reaches the ranks. The others: so many daemons a node, on the cores of one rank.
    status, out = cluster.run(2, SLURM_EXPORT_ENV="NONE", SRUN_CPUS_PER_TASK="2", SLURM_NTASKS_PER_NODE="2")
    assert "0 of 4 ranks came" in out
    names = {line.partition("=")[0] for line in (cluster.fake / "env").read_text().splitlines()}
    assert "MPICOLL_NIC" in names
    assert not {"SLURM_EXPORT_ENV", "SRUN_CPUS_PER_TASK", "SLURM_NTASKS_PER_NODE"} & names


def test_paths_are_those_of_the_caller_and_jobs_run_from_any_directory(cluster):
    elsewhere = cluster.fake / "jobs"
    elsewhere.mkdir()
    for number, caller in enumerate((elsewhere, cluster.clone), start=1):
        python = os.path.relpath(cluster.tools / "python", caller)
        words = ("generic", "check", "--seconds", "1", "--python", python)
        done = cluster.submit(*words, cwd=caller, CDPATH=f"{cluster.fake}:.")
        assert done.returncode == 0, done.stderr
        status, out = cluster.run(number)
        assert status == 0, out
        (output,) = [word for word in cluster.submitted()[number - 1] if word.startswith("--output=")]
        read = re.sub("%(.)", lambda match: match[1] if match[1] == "%" else "1", output.removeprefix("--output="))
        assert Path(read).parent.is_dir()


def test_ranks_that_wait_for_each_other_are_given_up(cluster):
    assert cluster.submit("generic", "check").returncode == 0
    script = cluster.fake / "sbatch-1.script"
    script.write_text(script.read_text().replace("START_LIMIT=300", "START_LIMIT=1"))
    status, out = cluster.run(FAKE_LATE="20")
    assert status == 2
    assert "no start within 1 s (0 of 4 ranks came)" in out


def test_uneven_ranks_a_node_are_said_and_run(cluster):
    words = ("generic", "check", "--ranks-per-node", "4", "--seconds", "1")
    assert cluster.submit(*words).returncode == 0
    status, out = cluster.run(FAKE_FIRST="3")
    assert status == 0, out
    assert "uneven: 3 5 ranks a node, not 4" in out
    assert "1 of 1 launches on 8 ranks, 2 nodes" in out


def test_what_sbatch_refuses_is_said_with_its_line(cluster):
    done = cluster.submit("generic", "scaling", FAKE_JOBS="1")
    assert done.returncode == 1
    assert "Invalid account" in done.stderr
    assert "sbatch refused: sbatch --parsable --job-name=mpicoll-scaling-p8" in done.stderr
    assert done.stdout.startswith("job 1: ")  # this one is in the queue


def test_a_launcher_that_is_not_there(cluster):
    assert cluster.submit("generic", "check", MPICOLL_LAUNCH="sruun").returncode == 0
    status, out = cluster.run()
    assert status == 2
    assert "no sruun on PATH" in out


def test_launches_that_stop_early_are_counted(cluster):
    assert cluster.submit("generic", "sweep", "--repeats", "5", "--seconds", "1").returncode == 0
    status, out = cluster.run(FAKE_CUT="2 4")
    assert status == 1
    assert "3 of 5 launches on 4 ranks" in out
    assert len(cluster.results()) == 5


def test_a_launcher_that_stays_after_its_ranks_is_ended_and_its_run_counts(cluster):
    assert cluster.submit("generic", "sweep", "--repeats", "1", "--seconds", "1").returncode == 0
    script = cluster.fake / "sbatch-1.script"
    script.write_text(script.read_text().replace("STAY_LIMIT=30", "STAY_LIMIT=1"))
    status, out = cluster.run(FAKE_STAYS="1")
    assert status == 0, out
    assert "the launcher did not end though its run file is whole" in out
    assert "1 of 1 launches on 4 ranks" in out


def test_a_wrong_result_fails_the_job(cluster):
    assert cluster.submit("generic", "sweep", "--repeats", "2", "--seconds", "1").returncode == 0
    status, out = cluster.run(FAKE_STATUS="1")
    assert status == 1
    assert "2 of 2 launches" in out
    assert "a wrong result" in out


@pytest.mark.parametrize("form", ["chain", "array"])
def test_near_the_time_limit_the_ranks_end_and_no_launch_follows(cluster, form):
    words = ("generic", "scaling", "--nodes", "2", "--as", form, "--repeats", "4", "--seconds", "1")
    assert cluster.submit(*words).returncode == 0
    job = cluster.start(FAKE_WAIT="2", SLURM_ARRAY_JOB_ID="1001", SLURM_ARRAY_TASK_ID="2")
    until = time.monotonic() + LIMIT_S / 2
    while not (cluster.fake / "waits").exists() and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(job.pid, signal.SIGTERM)  # Slurm's --signal=B:TERM: this script alone
    status, out = finished(job)
    assert status == 1
    assert "1 of 4 launches" in out
    assert len(cluster.results()) == 2
    # One task of an array has the array's own number: it must not end the others.
    told = {"chain": "1001", "array": "1001_2"}[form]
    assert (cluster.fake / "scancel").read_text() == f"--signal=TERM {told}\n"


def test_array_tasks_at_once_leave_each_other_alone(cluster):
    done = cluster.submit("generic", "scaling", "--nodes=1,2", "--as", "array", "--repeats", "3", "--seconds", "1")
    assert done.returncode == 0, done.stderr
    words = cluster.submitted()[0]
    assert {"--array=1,2", "--nodes=2", "--ntasks=4"} <= set(words)
    assert any(word.endswith("/%x-%A_%a.out") for word in words)
    # In one second, on one host, with one job number: only the index and the ranks differ.
    jobs = [cluster.start(SLURM_ARRAY_JOB_ID="1001", SLURM_ARRAY_TASK_ID=n) for n in ("1", "2")]
    for job, ranks in zip(jobs, (2, 4)):
        status, out = finished(job)
        assert status == 0, out
        assert f"3 of 3 launches on {ranks} ranks" in out
    assert len(cluster.results()) == 6
    folder = cluster.results()[0].parent
    for ranks, nodes in ((2, 1), (4, 2)):
        assert len(list(folder.glob(f"*-1001-{nodes}-p{ranks}*.jsonl"))) == 3
        assert (folder / "log" / f"facts-1001_{nodes}-p{ranks}.txt").exists()


def test_a_scaling_run_is_a_chain_and_is_collected(cluster):
    done = cluster.submit("generic", "scaling", "--nodes", "1,2", "--repeats", "2", "--seconds", "1")
    assert done.returncode == 0, done.stderr
    first, second, third = cluster.submitted()
    assert not any(word.startswith("--dependency") for word in first)
    assert "--dependency=afterany:1" in second
    assert "--dependency=afterany:1:2" in third
    assert cluster.run(1)[0] == 0
    assert cluster.run(2, FAKE_CUT="1")[0] == 1
    status, out = cluster.run(3)
    assert status == 1
    assert "p = 2: 2 of 2 launches" in out
    assert "p = 4: 1 of 2 launches" in out
    assert "this version has no report" in out
    status, out = cluster.run(3, FAKE_BUILT="0")
    assert status == 1  # a launch is missing
    assert "report on 4 runs of 2 launches, " in out
    assert f"{cluster.results()[0].parent}/report.html" in out


def test_gpu_stops_where_there_are_no_device_buffers(cluster):
    words = ("generic", "gpu", "--gpus-per-node", "2", "--repeats", "1", "--seconds", "1")
    assert cluster.submit(*words, FAKE_HELP="--device cpu|cuda").returncode == 0
    status, out = cluster.run()
    assert status == 2
    assert "no device buffers" in out
    assert not cluster.results()
    status, out = cluster.run(FAKE_HELP="--device cpu|cuda")
    assert status == 0, out
    assert '"--device","cuda"' in cluster.results()[0].read_text()


def test_check_asks_the_doctor_where_there_is_one(cluster):
    for _ in range(3):
        assert cluster.submit("generic", "check", "--seconds", "1").returncode == 0
    status, out = cluster.run(1)
    assert status == 0, out
    assert "this version has no doctor" in out
    status, out = cluster.run(2, FAKE_BUILT="0")
    assert status == 0, out
    assert out.count("doctor was here") == 4  # on all ranks: it has every pair talk
    status, out = cluster.run(3, FAKE_BUILT="0", FAKE_SICK="1")
    assert status == 1
    assert "1 of 1 launches" in out  # the health run tells more
    assert "the doctor's checks failed (status 1)" in out


def test_a_job_that_is_started_again_writes_nothing_over(cluster):
    assert cluster.submit("generic", "check", "--seconds", "1").returncode == 0
    assert cluster.run()[0] == 0
    before = {path: path.read_bytes() for path in cluster.clone.glob("runs/**/*") if path.is_file()}
    status, out = cluster.run()
    assert status != 0
    assert "cannot overwrite existing file" in out
    assert before == {path: path.read_bytes() for path in cluster.clone.glob("runs/**/*") if path.is_file()}


def test_this_version_is_asked_what_it_has():
    """The stand-in's answers are those of the real commands."""
    ask = '. jobs/common.sh; has_cuda "$0"; echo $?; has "$0" mpicoll doctor; echo $?; has "$0" mpicoll list; echo $?'
    done = subprocess.run(
        ["bash", "-c", ask, sys.executable], cwd=ROOT, env=clean(), capture_output=True, text=True, timeout=LIMIT_S
    )
    cuda, doctor, listed = done.stdout.split()
    help = subprocess.run(
        [sys.executable, "-m", "mpicoll.bench", "--help"], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert (cuda == "0") == ("--device" in help.stdout)
    assert doctor in ("0", "1", "2")
    assert listed == "0"
