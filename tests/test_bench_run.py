"""The bench on real ranks: what it prints and records, and what it does when something is wrong."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from launching import ROOT, mpirun, run

from mpicoll.bench.table import busbw_factor

BENCH = ("-m", "mpicoll.bench")
SABOTAGE = str(ROOT / "tests" / "sabotage.py")


def rows(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_table_and_record_agree(tmp_path):
    path = tmp_path / "run.jsonl"
    done = mpirun(3, *BENCH, "-e", "1K", "-f", "4", "-n", "12", "--baselines", "all", "--calls", "-J", str(path))
    assert done.returncode == 0, done.stderr
    first, *samples, last = [row for row in rows(path) if row["record"] != "calibration"]
    assert (first["record"], first["schema"], first["size"]) == ("run", 1, 3)
    assert [rank["rank"] for rank in first["ranks"]] == [0, 1, 2]
    assert last == {"record": "end", "complete": True}
    assert {row["nbytes"] for row in samples} == {8, 32, 128, 512}
    assert {(row["library"], row["call"]) for row in samples} >= {
        ("mpi", "call"),
        ("mpi", "persistent"),
        ("mpicoll", "plan"),
        ("mpicoll", "call"),
    }
    for row in samples:
        if row["times_us"]:
            assert len(row["times_us"]) == 12
            assert row["median_us"] == pytest.approx(np.median(row["times_us"]), rel=1e-3)
            assert row["algbw_GBps"] == pytest.approx(row["nbytes"] / row["median_us"] / 1e3, rel=1e-3)
            assert row["busbw_GBps"] == pytest.approx(row["algbw_GBps"] * 4 / 3, rel=1e-3)
            assert row["wrong"] == 0
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    assert [line.split()[0] for line in lines] == ["8", "32", "128", "512"]
    assert all(line.count("*") == 1 and line.split()[-1] == "0" for line in lines)


@pytest.mark.parametrize(
    "flags",
    [
        ("--collective", "reduce_scatter"),
        ("--collective", "allgather", "--in-place"),
        ("--collective", "reduce", "-r", "2"),
        ("--collective", "bcast", "-r", "1"),
        ("--in-place", "-d", "float16"),
        ("-d", "bfloat16", "-o", "avg"),
        ("-d", "complex64", "-o", "prod"),
        ("-d", "int8"),
        ("-d", "uint16", "-o", "prod"),
        ("-d", "int64", "-o", "bxor"),
        ("-d", "bool", "-o", "lxor"),
        ("-d", "float64", "-o", "max", "--segment-bytes", "64", "--in-place"),
    ],
    ids=" ".join,
)
def test_every_kind_of_run_is_right(flags):
    done = mpirun(3, *BENCH, "-b", "0", "-e", "4K", "-f", "16", "-n", "2", "--algorithms", "all", *flags)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    assert len(lines) >= 3
    assert all(line[-1] == "0" for line in lines)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("sum", "float16"),
        ("last_element", "float32"),
        ("last_element", "int32"),
        ("ranks_differ", "float32"),
        ("sendbuf", "float32"),
        ("second_run", "float64"),
    ],
)
def test_a_wrong_result_is_seen_at_every_size_and_is_the_exit_status(kind, dtype, tmp_path):
    path = tmp_path / "run.jsonl"
    done = mpirun(2, SABOTAGE, kind, "-d", dtype, "-b", "16", "-e", "64K", "-f", "8", "-n", "3", "-J", str(path))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "WRONG" in done.stdout
    samples = [row for row in rows(path) if row["record"] == "sample"]
    assert all((row["wrong"] > 0) == (row["library"] == "mpicoll") for row in samples), samples


def test_a_schedule_that_is_not_proved_is_refused():
    done = mpirun(3, SABOTAGE, "unproved", "--algorithms", "unproved")
    assert done.returncode == 2
    assert "lacks the part of rank" in done.stderr


@pytest.mark.parametrize("kind", ["raise_value", "raise_exit"])
def test_one_rank_that_raises_ends_the_run_with_its_traceback(kind):
    done = mpirun(3, SABOTAGE, kind, "-e", "64")
    assert done.returncode != 0
    assert "Traceback" in done.stderr
    assert "rank 1 of 3 failed" in done.stderr


def test_vectors_that_do_not_fit_are_refused_with_the_figure():
    done = mpirun(2, *BENCH, "-e", "4096T")
    assert done.returncode == 2
    assert "GB needed" in done.stderr
    assert not done.stdout


def test_an_algorithm_whose_scratch_does_not_fit_is_skipped_with_the_figure():
    done = mpirun(3, SABOTAGE, "little_memory", "-b", "64K", "-e", "64K", "--algorithms", "ring,one_shot", "-n", "2")
    assert done.returncode == 0, done.stderr
    assert "# one_shot: needs 0.0 GB of scratch a rank at 64K" in done.stdout


@pytest.mark.parametrize("flags", [("-d", "bool"), ("-o", "avg", "-d", "int8"), ("-r", "2", "--collective", "reduce")])
def test_what_only_mpi_can_tell_is_refused_in_one_line(flags):
    done = mpirun(2, *BENCH, *flags)
    assert done.returncode == 2
    assert len([line for line in done.stderr.splitlines() if line.startswith("mpicoll.bench:")]) == 1


def test_a_world_of_one_where_more_were_started_stops_and_one_on_purpose_runs():
    alone = run([sys.executable, *BENCH, "-e", "64"])
    assert alone.returncode == 0, alone.stderr
    assert "one rank" in alone.stdout
    many = run([sys.executable, *BENCH, "-e", "64"], {"SLURM_NTASKS": "8", "SLURM_PROCID": "3"})
    assert many.returncode == 2
    assert "SLURM_NTASKS=8" in many.stderr


def test_busbw_factors():
    assert busbw_factor("allreduce", 8) == 1.75
    assert busbw_factor("allgather", 8) == busbw_factor("reduce_scatter", 8) == 0.875
    assert busbw_factor("bcast", 8) == busbw_factor("reduce", 8) == 1
    assert busbw_factor("allreduce", 1) == 0


def test_score_picks_in_one_launch_and_scores_in_another(tmp_path):
    def sample(library, algorithm, call, times):
        row = {"record": "sample", "nbytes": 8, "library": library, "algorithm": algorithm, "call": call, "wrong": 0}
        return json.dumps(row | {"times_us": times}) + "\n"

    mpi = sample("mpi", "default", "call", [20.0] * 12)
    pick, score = tmp_path / "pick.jsonl", tmp_path / "score.jsonl"
    pick.write_text(
        mpi + sample("mpicoll", "ring", "plan", [9.0] * 12) + sample("mpicoll", "direct", "plan", [10.0] * 12)
    )
    score.write_text(
        mpi + sample("mpicoll", "ring", "plan", [10.0] * 12) + sample("mpicoll", "direct", "plan", [5.0] * 12)
    )
    done = run([sys.executable, "-m", "mpicoll.bench.score", str(pick), str(score)])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].split()[:3] == ["8", "ring", "2.00x"]
