"""Tuning files under the MPI at hand, which obeys them: the algorithm that ran is seen in the bits of a sum."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from launching import ROOT, mpirun
from runs import run_file

pytest.importorskip("pandas")

from analysis.export import mpich, openmpi
from analysis.export.advice import Band, Rule
from analysis.export.malformed import MalformedError

PROBE = str(ROOT / "tests" / "probe.py")
SMALL, LARGE = "64", "16384"  # elements of float32


def library() -> str:
    launcher = shutil.which("mpirun")
    if launcher is None:
        pytest.skip("no mpirun on PATH")
    said = subprocess.run([launcher, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    return "openmpi" if "Open MPI" in said or "PRRTE" in said else "mpich"


def bits(env: dict[str, str]) -> list[str]:
    done = mpirun(4, PROBE, SMALL, LARGE, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_library_obeys_the_file(tmp_path):
    """Small vectors by one algorithm, large ones by another; each leaves its own bits when it is forced by itself."""
    file = tmp_path / "rules"
    if library() == "openmpi":
        first, second = "basic_linear", "ring"
        calls = {"allreduce": (Band(3, 4, (Rule(0, first), Rule(4096, second))),)}
        file.write_text(openmpi.write(calls, "a test", 5))
        dynamic = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1"}
        under = dynamic | {"OMPI_MCA_coll_tuned_dynamic_rules_filename": str(file)}
        force = [dynamic | {"OMPI_MCA_coll_tuned_allreduce_algorithm": n} for n in ("1", "4")]
    else:
        first, second = "ring", "tree"
        calls = {"allreduce": (Band(3, 4, (Rule(0, first), Rule(4096, second))),)}
        own = mpich.own_library()
        assert own, "no table in this MPICH"
        file.write_text(mpich.write(calls, mpich.base_table(own)))
        under = {"MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": str(file), "MPIR_CVAR_DEVICE_COLLECTIVES": "none"}
        force = [
            {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": n, "MPIR_CVAR_DEVICE_COLLECTIVES": "none"} for n in (first, second)
        ]
    small, large = bits(force[0]), bits(force[1])
    assert small[0] != large[0], "the two algorithms cannot be told apart by their bits"
    assert small[1] != large[1], "the two algorithms cannot be told apart by their bits"
    assert bits(under) == [small[0], large[1]]


def test_mpich_does_not_start_under_a_part_of_the_table(tmp_path):
    """Why the file carries the whole table, and why the reader refuses a part."""
    if library() != "mpich":
        pytest.skip("of MPICH")
    own = mpich.own_library()
    assert own
    table = mpich.base_table(own)
    file = tmp_path / "part.json"
    file.write_text(json.dumps({"collective=allreduce": table["collective=allreduce"]}))
    with pytest.raises(MalformedError, match="whole table"):
        mpich.read(file.read_text())
    assert mpirun(2, PROBE, SMALL, env={"MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": str(file)}).returncode != 0


def test_recheck_says_whether_it_helps(tmp_path):
    """A file that forces a bad algorithm is not said to help; the bench really runs under it."""
    target, name = ("openmpi5", "Open MPI v5.0.11") if library() == "openmpi" else ("mpich", "MPICH 5.0.2")
    run = run_file(tmp_path / "a", 2, library=name, sizes=(8, 32), forced={"ring": 0.5})
    argv = ["-m", "analysis", "export", run, "--for", target, "-o", str(tmp_path / "f"), "--recheck", "--launches", "1"]
    done = subprocess.run([sys.executable, *argv], capture_output=True, text=True, check=False, cwd=ROOT, timeout=500)
    assert done.returncode == 1, done.stderr
    assert "one pair: no interval" in done.stdout
    assert "does not help here" in done.stdout
    assert "from 0 ring" in done.stderr
