"""One rank fails while the others wait for it: launch.py runs each kind by name, and the whole job must end.

The kinds that are exceptions run as a program, ``python -m mpi4py rank_fails.py KIND``; the tests under pytest, which
does not collect a file of this name by itself.
"""

import os
import sys
import time

import numpy as np
import pytest

ODD = 1
KINDS = (
    "ValueError",
    "MemoryError",
    "SystemExit",
    "KeyboardInterrupt",
    "test_a_rank_fails",
    "test_the_others_are_stuck",
)


def told(rank: int, to: int = 1) -> None:
    """The process, for launch.py to see that it is gone."""
    os.write(to, f"rank {rank} is process {os.getpid()}\n".encode())


def main(kind: str) -> None:
    from mpi4py import MPI

    import mpicoll
    from mpicoll.launcher import heard

    def excepthook(*error):
        sys.__excepthook__(*error)
        heard(1, 2)

    sys.excepthook = excepthook  # what the launcher reads is not mpi4py's affair, nor ours to test here
    comm = MPI.COMM_WORLD
    x = np.ones(100_000)
    plan = mpicoll.allreduce_init(MPI.IN_PLACE, x, comm=comm, algorithm="ring")
    plan()
    told(comm.rank)
    comm.Barrier()
    if comm.rank == ODD:
        time.sleep(0.5)  # the others are inside by then
        if kind == "SystemExit":
            sys.exit(3)
        raise {"ValueError": ValueError, "MemoryError": MemoryError, "KeyboardInterrupt": KeyboardInterrupt}[kind](
            f"rank {comm.rank} has had enough"
        )
    plan()


@pytest.fixture
def uncaptured():
    import together

    return together.real_stderr.fileno()


@pytest.mark.mpi
@pytest.mark.parametrize("comm", [4], indirect=True)
def test_a_rank_fails(comm, uncaptured):
    told(comm.rank, uncaptured)
    assert comm.rank != ODD, f"rank {comm.rank} has had enough"


@pytest.mark.mpi
@pytest.mark.parametrize("comm", [4], indirect=True)
def test_the_others_are_stuck(comm, uncaptured):
    import mpicoll

    plan = mpicoll.bcast_init(np.ones(100_000), ODD, comm)
    told(comm.rank, uncaptured)
    assert comm.rank != ODD, f"rank {comm.rank} has had enough"
    plan()


if __name__ == "__main__":
    main(sys.argv[1])
