"""One launch, eight ranks: a test gets a fresh communicator of the first p of them, and all ranks end it together."""

import faulthandler
import io
import os
import time

import pytest
import together
from mpi4py import MPI

from mpicoll.launcher import heard

LIMIT_S = 240  # of one test; a rank that is stuck shows where, and the job ends
world = MPI.COMM_WORLD
passed = pytest.StashKey[bool]()
agreed_failures = 0
real_stderr: int


def _nothing(**_):
    """What a rank outside the communicator does in a test."""


@pytest.hookimpl(trylast=True)  # the reporter is there by then
def pytest_configure(config):
    global real_stderr
    with config.pluginmanager.get_plugin("capturemanager").global_and_fixture_disabled():
        real_stderr = os.dup(2)
    together.real_stderr = os.fdopen(real_stderr, "w")
    if world.rank:
        manager = config.pluginmanager
        loud = manager.unregister(name="terminalreporter")
        manager.register(type(loud)(config, io.StringIO()), "terminalreporter")


def pytest_sessionstart(session):
    expected = int(os.environ.get("MPICOLL_TEST_RANKS", "0"))
    if expected and world.size != expected:
        pytest.exit(f"the launcher was to start {expected} ranks, and this world has {world.size}", 4)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    faulthandler.dump_traceback_later(LIMIT_S, exit=True, file=real_stderr)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    global agreed_failures
    if pyfuncitem.funcargs.get("comm") == MPI.COMM_NULL:
        pyfuncitem.obj = _nothing
    error = None
    try:
        result = yield
    except BaseException as caught:
        error = caught
    try:
        together.agreed(error)
    except BaseException:
        agreed_failures += 1
        raise
    pyfuncitem.stash[passed] = True
    return result


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    failures = sum(len(reporter.stats.get(kind, [])) for kind in ("failed", "error")) if reporter else 0
    if world.rank and failures > agreed_failures:
        together.real_stderr.write(f"rank {world.rank}:\n{reporter._tw._file.getvalue()}\n")
        together.real_stderr.flush()
    # The first rank to exit with a failure aborts the job: not before rank 0 has said what failed, and that is read.
    heard(1, 2)
    request, late = world.Ibarrier(), time.monotonic() + 20
    while not request.Test() and time.monotonic() < late:
        time.sleep(0.01)


@pytest.fixture(params=range(1, 9), ids=lambda size: f"p{size}")
def comm(request):
    """A fresh duplicate of the first p ranks; on the others the test does nothing."""
    if request.param > world.size:
        pytest.skip(f"{request.param} ranks are needed, and {world.size} were started")
    fresh = together.subset(request.param)
    if fresh == MPI.COMM_NULL:
        yield fresh
        return
    fresh = fresh.Dup()
    yield fresh
    if request.node.stash.get(passed, False) and fresh != MPI.COMM_NULL:  # else messages may be under way
        fresh.Free()
