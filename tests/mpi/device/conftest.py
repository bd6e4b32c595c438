"""Device tests: on the deferred double of CuPy (tests/double, on PYTHONPATH), or with the real one on a GPU."""

import pytest

from mpicoll.runtime import private
from mpicoll.runtime.transport import Decision

try:
    import cupy

    DOUBLE = cupy.__version__ == "0+double"
    cupy.cuda.runtime.getDeviceCount()
    missing = ""
except Exception as error:
    DOUBLE, missing = False, f"no GPU to test on: {' '.join(str(error).split())[:200]}"


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a real GPU")


def pytest_collection_modifyitems(items):
    for item in items:
        if missing:
            item.add_marker(pytest.mark.skip(reason=missing))
        elif DOUBLE and item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a real GPU; this is the test double"))


@pytest.fixture(autouse=True)
def readable(monkeypatch):
    """A double whose memory MPI can read stands for a CUDA-aware MPI, which this one does not say it is."""
    if DOUBLE and cupy._memory.READABLE:
        monkeypatch.setattr(private, "decide", lambda asked: Decision("direct", "the double can be read"))
