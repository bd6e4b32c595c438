"""jobs/gpu_check.sh as far as it goes without a GPU: what it refuses, and what it says is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from standins import JOBS, LIMIT_S, clean


def check(*words: str, path: Path, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """Run it with a folder of tools first on PATH."""
    command = [str(JOBS / "gpu_check.sh"), "--python", python, *words]
    env = clean() | {"PATH": f"{path}:{os.environ['PATH']}"}
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=env)


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


def test_a_folder_without_them_is_refused(tools, tmp_path):
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    done = check("--out", str(tmp_path / "out"), "--wheels", str(wheels), path=gpu(tools))
    assert done.returncode == 2
    assert f"gpu_check: {wheels} has not all of: " in done.stderr
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
