"""jobs/gpu_check.sh as far as it goes without a GPU: what it refuses, and what it says is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from standins import JOBS, LIMIT_S, ROOT, clean


def check(
    *words: str, path: Path, python: str = sys.executable, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it with a folder of tools first on PATH."""
    command = [str(JOBS / "gpu_check.sh"), "--python", python, *words]
    env = clean() | {"PATH": f"{path}:{os.environ['PATH']}"}
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=env, cwd=cwd)


@pytest.fixture
def tools(tmp_path):
    """No GPU here: a machine that has one is told so by what it reads."""
    folder = tmp_path / "tools"
    folder.mkdir()
    nothing = folder / "nvidia-smi"
    nothing.write_text("#!/bin/sh\nexit 9\n")
    nothing.chmod(0o755)
    return folder


def gpu(tools: Path) -> Path:
    (tools / "nvidia-smi").write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: GPU-0)'\n")
    return tools


def test_no_gpu(tools, tmp_path):
    done = check("--out", str(tmp_path / "out"), path=tools)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "gpu_check: no NVIDIA GPU here (nvidia-smi -L lists none): run it on a machine that has one\n"
    )
    assert not (tmp_path / "out").exists()


def test_missing_wheels_are_named(tools, tmp_path):
    wheels = tmp_path / "none"
    done = check("--out", str(tmp_path / "out"), "--wheels", str(wheels), path=gpu(tools))
    assert done.returncode == 2
    assert "missing: " in done.stderr
    assert "cupy-cuda13x[ctk]" in done.stderr
    assert "libucx-cu13" in done.stderr
    assert f"lay them into {wheels} (fetched by: python3 -m pip download" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()  # the same call may follow


def test_what_was_not_begun_is_no_finding(tools, tmp_path):
    clone = tmp_path / "clone"
    (clone / "jobs").mkdir(parents=True)
    for part in ("mpicoll", "tests"):
        (clone / part).symlink_to(ROOT / part)
    text = (JOBS / "gpu_check.sh").read_text()
    (clone / "jobs" / "gpu_check.sh").write_text(text.replace("LIMIT_S=285", "LIMIT_S=0"))
    for package in ("cupy", "libucx", "ml_dtypes", "pytest_mpi", "psutil"):
        (tmp_path / "has" / package).mkdir(parents=True)
    env = clean() | {"PATH": f"{gpu(tools)}:{os.environ['PATH']}", "PYTHONPATH": str(tmp_path / "has")}
    command = ["bash", str(clone / "jobs" / "gpu_check.sh"), "--python", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=env)
    assert done.returncode == 1, done.stderr
    assert "direct: not known, 0 s are over" in done.stdout
    assert "does not send" not in done.stdout


def test_a_folder_without_them_is_refused(tools, tmp_path):
    (tmp_path / "wheels").mkdir()
    # Paths are those of the caller, though the work is done in the clone.
    python = os.path.relpath(sys.executable, tmp_path)
    done = check("--out", "out", "--wheels", "wheels", path=gpu(tools), python=python, cwd=tmp_path)
    assert done.returncode == 2
    assert f"gpu_check: {tmp_path}/wheels has not all of: " in done.stderr
    assert (tmp_path / "out" / "venv").exists()
    assert "pip download" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--fast",), "--fast: no such option"),
        (("--out",), "--out needs a value"),
        (("--out", "/"), "--out /: exists"),
        (("--python", "/nowhere/python"), "no such Python"),
    ],
)
def test_bad_options(words, said, tools):
    done = check(*words, path=gpu(tools))
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
