"""The bench's baselines, forms, calibration, record and self-test on real ranks."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from launching import ROOT, mpirun

from mpicoll.bench.record import named
from mpicoll.bench.score import load
from mpicoll.schedule import find, verify

BENCH = ("-m", "mpicoll.bench")
SHORT = ("-e", "8K", "-f", "32", "-n", "9")


def rows(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("ranks", [2, 3])
def test_self_test(ranks):
    done = mpirun(ranks, *BENCH, "--self-test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok ") == 4
    assert "add" in done.stdout


def test_the_librarys_own_algorithms_stand_beside_ours(tmp_path):
    path = tmp_path / "run.jsonl"
    done = mpirun(4, *BENCH, "-b", "8", "-e", "1M", "-f", "512", "-n", "5", "--baselines", "all", "-J", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    samples = [row for row in rows(path) if row["record"] == "sample" and row["library"] == "mpi"]
    forced = {row["algorithm"] for row in samples} - {"default"}
    assert {"recursive_doubling", "ring"} <= forced
    assert len(forced) >= 6
    for row in samples:
        assert bool(row["times_us"]) != bool(row["skipped"])
        assert not row["wrong"]
    large = [row for row in samples if row["nbytes"] > 1000 and row["algorithm"] in ("ring", "recursive_doubling")]
    assert all(row["times_us"] for row in large)
    # What is recorded is the schedule's, not what one rank does of it.
    for row in rows(path):
        if row.get("library") == "mpicoll":
            assert row["rounds"] == verify(find("allreduce", row["algorithm"]).schedule(4)).counts.rounds
    # Two elements on four ranks: both libraries would run something else under the name of their reduce-scatter.
    small = {row["algorithm"]: row for row in samples if row["nbytes"] == 8}
    replaced = small.get("rabenseifner") or small["reduce_scatter_allgather"]
    assert replaced["skipped"]
    assert "best MPI algorithm" in done.stdout
    assert "the best of MPI's algorithms" in done.stdout


@pytest.mark.parametrize("collective", ["reduce_scatter", "allgather", "reduce", "bcast"])
def test_baselines_of_the_other_collectives(collective):
    flags = ("--collective", collective, "--baselines", "all", "-b", "12", *SHORT)
    done = mpirun(4, *BENCH, *flags, "--algorithms", "default")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "geometric mean" in done.stdout


def test_a_forced_algorithm_is_the_one_it_is_called():
    """What a launch is told by the environment is what the tool interface reads and writes."""
    code = (
        "from mpi4py import MPI; from mpicoll.bench import forced; c = forced._chooser('Allreduce'); "
        "print('read', c.read(), c.names.get('ring'), len(forced.names('Allreduce')))"
    )
    env = {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "ring", "OMPI_MCA_coll_tuned_allreduce_algorithm": "ring"}
    done = mpirun(1, "-c", code, env={**env, "OMPI_MCA_coll_tuned_use_dynamic_rules": "1"})
    said = next(line for line in done.stdout.splitlines() if line.startswith("read")).split()
    assert said[1] == said[2]
    assert int(said[3]) >= 6


@pytest.mark.parametrize(
    "flags", [("-c", "0"), ("-d", "bfloat16"), ("-o", "avg"), ("-d", "bool", "-o", "lor")], ids=" ".join
)
def test_baselines_that_the_library_refuses_are_told_and_left_out(flags):
    done = mpirun(4, *BENCH, "-e", "64", "-n", "9", "--baselines", "all", *flags)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fastest of ours" in done.stdout


def test_zero_bytes_are_not_calibrated(tmp_path):
    path = tmp_path / "run.jsonl"
    done = mpirun(3, *BENCH, "-b", "0", "-e", "64", "-n", "9", "--algorithms", "ring,auto", "-J", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert min(row["nbytes"] for row in rows(path) if row["record"] == "calibration") == 4


def test_score_keeps_auto_apart_and_reads_a_cut_file(tmp_path):
    path = tmp_path / "run.jsonl"
    done = mpirun(2, *BENCH, *SHORT, "--algorithms", "ring,auto", "-J", str(path))
    assert done.returncode == 0, done.stderr
    text = path.read_text()
    (tmp_path / "cut.jsonl").write_text(text[: text.index('{"record":"end"') - 20])
    command = [sys.executable, "-m", "mpicoll.bench.score", str(path), str(tmp_path / "cut.jsonl")]
    scored = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert scored.stdout.count("x ") >= 2
    times = load(str(path))
    assert all({name for _, name, _ in row} == {"default", "ring", "auto"} for row in times.values())


def test_csv():
    done = mpirun(3, *BENCH, *SHORT, "--format", "csv", "--algorithms", "ring,auto", "--baselines", "all")
    assert done.returncode == 0, done.stderr
    table = list(csv.DictReader(done.stdout.splitlines()))
    assert {row["nbytes"] for row in table} == {"8", "256", "8192"}
    for row in table:
        assert None not in row, row
        if row["median_us"]:
            assert float(row["low_us"]) <= float(row["median_us"]) <= float(row["high_us"])
            assert (row["iterations"], row["wrong"], row["why"]) == ("9", "0", "")
        else:
            assert row["why"]
    assert {row["asked"] for row in table if row["library"] == "mpicoll"} == {"ring", "auto"}


def test_full_has_both_ways():
    done = mpirun(2, *BENCH, *SHORT, "--full", "--algorithms", "ring,direct")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    assert {line[5] for line in lines} == {"MPI", "ring", "direct"}
    for line in lines:
        size, count, kind, op, root, _, *figures = line
        assert (kind, op, root) == ("float32", "sum", "-1")
        assert int(size) == 4 * int(count)
        assert len(figures) == 8
        for time_us, algbw, busbw, wrong in (figures[:4], figures[4:]):
            assert float(algbw) == pytest.approx(int(size) / float(time_us) / 1e3, rel=0.05, abs=1e-3)
            assert float(busbw) == pytest.approx(float(algbw), abs=1e-3)
            assert wrong == "0"


@pytest.mark.parametrize(
    "flags", [(), ("--calibrate",), ("--baselines", "all"), ("--algorithms", "all", "--calibrate")]
)
def test_no_line_of_the_table_is_wider_than_a_hundred_columns(flags):
    done = mpirun(3, *BENCH, *SHORT, *flags)
    assert done.returncode == 0, done.stderr
    table = [line for line in done.stdout.splitlines() if not line.startswith("# ") or "bytes " in line[:9]]
    assert len(table) >= 4
    assert max(map(len, table)) <= 100
    assert "\033" not in done.stdout
    assert sum("fastest of ours:" in line for line in done.stdout.splitlines()) == 1


def test_the_record_explains_a_run(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    flags = (*SHORT, "--algorithms", "chain,auto", "-J", str(folder), "--launch", "third", "--sync", "window")
    env = {"UCX_TLS": "self,sm,tcp", "SECRET_TOKEN": "hidden", "SLURM_JOB_ID": "77"}
    for _ in range(2):
        done = mpirun(3, *BENCH, *flags, "--arrival-skew", "1:300", env=env)
        assert done.returncode == 0, done.stdout + done.stderr
    files = sorted(folder.iterdir())
    assert len(files) == 2
    assert all("-77-p3" in path.name for path in files)
    first, *others, last = rows(files[0])
    assert (first["launch"], first["sync"], first["arrival_skew"]) == ("third", "window", {"1": 300.0})
    assert first["launcher"]["UCX_TLS"] == "self,sm,tcp"
    assert "SECRET" not in files[0].read_text()
    assert {"host", "node", "cores", "numa", "cpu", "governor", "gpus", "place", "rank"} == set(first["ranks"][0])
    assert len(first["source"]["revision"]) == 40
    assert first["timer_us"] > 0
    assert last == {"record": "end", "complete": True}
    kinds = {(row["kind"], row["level"]) for row in others if row["record"] == "calibration"}
    assert kinds == {("pingpong", "inside"), ("exchange", "inside"), ("reduce", "alone"), ("copy", "alone")}
    for row in others:
        assert row["median_us"] == pytest.approx(np.median(row["times_us"]), rel=1e-3, abs=1e-3)
        if row["record"] == "sample":
            assert row["low_us"] <= row["median_us"] <= row["high_us"]
            assert row["launch"] == "third"
            if row["library"] == "mpicoll":
                assert row["reason"]
    assert {row["asked"] for row in others if row["record"] == "sample"} == {"default", "chain", "auto"}
    assert "late on purpose: rank 1 300 us" in done.stdout


def test_a_name_is_never_taken_twice(tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    first = named(str(tmp_path), 4)
    open(first, "x").close()
    assert named(str(tmp_path), 4) != first
    assert named(str(tmp_path / "a.jsonl"), 4) == str(tmp_path / "a.jsonl")


@pytest.mark.parametrize(
    ("number", "told"),
    [(signal.SIGTERM, "ranks"), (signal.SIGINT, "ranks"), (signal.SIGUSR1, "mpirun"), (signal.SIGTERM, "mpirun")],
    ids=lambda one: getattr(one, "name", one),
)
def test_a_run_that_is_stopped_keeps_its_rows(number, told, tmp_path):
    path = tmp_path / "run.jsonl"
    # Soon a row, and a minute at the end.
    flags = ("-e", "16M", "-f", "8", "-n", "1500", "--algorithms", "ring,recursive_doubling", "-J", str(path))
    command = [shutil.which("mpirun"), "-n", "2", sys.executable, *BENCH, *flags]
    child = subprocess.Popen(command, cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL, text=True)
    try:
        deadline = time.monotonic() + 200
        while not (path.exists() and '"sample"' in path.read_text()) and time.monotonic() < deadline:
            time.sleep(0.1)
        below = psutil.Process(child.pid).children(recursive=True)
        ranks = [process.pid for process in below if process.cmdline()[:1] == [sys.executable]]
        for pid in ranks if told == "ranks" else [child.pid]:
            os.kill(pid, number)
        assert child.wait(100) != 0
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    assert len(ranks) == 2
    last = rows(path)[-1]
    # A launcher that is told to end may kill its ranks before they come to the last line; no line is ever cut.
    assert last["record"] == "end" or (told, number) == ("mpirun", signal.SIGTERM)
    assert not last.get("complete")


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_plot(kind, tmp_path):
    path = tmp_path / f"run.{kind}"
    done = mpirun(2, *BENCH, *SHORT, "--plot", str(path))
    assert done.returncode == 0, done.stderr
    assert path.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--format", "xml"], "xml"),
        (["--sync", "sundial"], "sundial"),
        (["--arrival-skew", "1"], "'1'"),
        (["--plot", "run.txt"], "run.txt"),
        (["--full", "--in-place"], "--in-place"),
        (["--full", "--collective", "bcast"], "bcast"),
    ],
)
def test_what_makes_no_sense_is_one_line(argv, named):
    done = subprocess.run([sys.executable, *BENCH, *argv], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert named in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_rank_that_is_not_there_cannot_be_late():
    done = mpirun(2, *BENCH, *SHORT, "--arrival-skew", "2:10")
    assert done.returncode == 2
    assert "--arrival-skew 2" in done.stderr
