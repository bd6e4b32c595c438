"""All ranks pass together and fail together."""

from __future__ import annotations

import re
import sys
import time
import traceback
from collections.abc import Callable

import numpy as np
import pytest
from mpi4py import MPI

from mpicoll.launcher import heard

PATIENCE_S = 10.0  # how long a rank that failed waits for the others, which may sit in a receive, before it aborts

world = MPI.COMM_WORLD
_line = world.Dup()
_subsets: dict[int, MPI.Intracomm] = {}
real_stderr = sys.stderr  # conftest puts one here that pytest does not capture


def agreed(error: BaseException | None) -> None:
    """Raise on all ranks when one of them has an error. Collective.

    A rank with an error that finds the others stuck shows its traceback and ends the job.
    """
    failed = error is not None and not isinstance(error, pytest.skip.Exception)
    any_failed = np.zeros(1, "i4")
    request = _line.Iallreduce(np.array([failed], "i4"), any_failed, MPI.MAX)
    late = time.monotonic() + PATIENCE_S
    while not request.Test():
        time.sleep(0.0005)  # the ranks that work need the cores
        if failed and time.monotonic() > late:
            print(_said(error), "The other ranks are stuck: aborting.", sep="\n", file=real_stderr, flush=True)
            heard(real_stderr.fileno())
            world.Abort(1)
    if any_failed[0]:
        told = [text for text in _line.allgather(_said(error) if failed else "") if text]
        if not failed:
            pytest.fail("\n".join(told[:2]), pytrace=False)
    if error is not None:
        raise error


def _said(error: BaseException | None) -> str:
    return f"rank {world.rank}: " + "".join(traceback.format_exception(error)) if error else ""


def subset(size: int) -> MPI.Intracomm:
    """The first ranks of the world; COMM_NULL on the others. Collective over the world at the first call of a size."""
    if size not in _subsets:
        _subsets[size] = world.Split(0 if world.rank < size else MPI.UNDEFINED, world.rank)
    return _subsets[size]


def refused(comm: MPI.Intracomm, kind: type[Exception], match: str, call: Callable, /, *args, **kwargs) -> None:
    """The call raises the same one line on all ranks, and it says ``match``."""
    try:
        call(*args, **kwargs)
        told = ("nothing", "no error")
    except Exception as error:
        told = (type(error).__name__, str(error))
    everyone = comm.allgather(told)
    assert everyone == [told] * comm.size
    assert told[0] == kind.__name__, told
    assert re.search(match, told[1]), told
    assert "\n" not in told[1]
    assert len(told[1]) < 400
