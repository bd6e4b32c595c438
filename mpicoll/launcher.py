"""What the launcher tells a process before MPI starts: rank, size, place on the node; and what it must have heard."""

from __future__ import annotations

import argparse
import fcntl
import os
import stat
import struct
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

HEARD_S = 10.0  # that a launcher has to read what was said; it reads at once, but for want of a core

# The launcher's own variables first: under mpirun, Slurm's are those of the daemon that started the ranks.
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID")
SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS")
LOCAL_VARIABLES = (
    *("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "PMI_LOCAL_RANK"),
    *("PMIX_LOCAL_RANK", "PALS_LOCAL_RANKID", "FLUX_TASK_LOCAL_ID", "SLURM_LOCALID"),
)


def told(names: Sequence[str], environ: Mapping[str, str] = os.environ) -> tuple[int, str] | None:
    """The first of the variables that holds a number, and its name."""
    return next(((int(environ[name]), name) for name in names if environ.get(name, "").isdecimal()), None)


def rank() -> int:
    """The rank of this process in its world; 0 where no launcher tells."""
    return (told(RANK_VARIABLES) or (0, ""))[0]


def local_rank() -> tuple[int, str] | None:
    """The rank of this process on its node and the variable that tells it; None where no launcher does."""
    return told(LOCAL_VARIABLES)


def singletons(size: int, library: str) -> str:
    """Say what is wrong when the launcher started more ranks than the world has: N worlds of one."""
    found = {name: one[0] for name in SIZE_VARIABLES if (one := told([name]))}
    if size in found.values() or not any(asked > size for asked in found.values()):
        return ""
    name, asked = max(found.items(), key=lambda item: item[1])
    return (
        f"the launcher started {asked} ranks ({name}={asked}) and this MPI sees {size}: the launcher is of another MPI "
        f"than {library}, or srun lacks the right --mpi=... Use the mpirun of this MPI; for one rank on purpose unset "
        "that variable"
    )


def abort(comm: Any) -> None:
    """End the job with status 1, and nothing that was said is lost. Local."""
    sys.stdout.flush()
    sys.stderr.flush()
    heard(1, 2)
    comm.Abort(1)


def heard(*pipes: int) -> None:
    """Wait until these files have been read: Hydra drops what it has not read of a job that aborts."""
    late = time.monotonic() + HEARD_S
    while any(map(_unread, pipes)) and time.monotonic() < late:
        time.sleep(0.01)


def _unread(pipe: int) -> int:
    """Bytes that nobody has read; 0 of what is no pipe: a terminal would tell of what was typed."""
    try:
        if not stat.S_ISFIFO(os.fstat(pipe).st_mode):
            return 0
        return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]
    except OSError:
        return 0


class Parser(argparse.ArgumentParser):
    """One line for an error, from rank 0, which alone leaves with a status: a launcher ends all ranks at the first."""

    def _print_message(self, message: str, file=None) -> None:
        if rank() == 0:
            super()._print_message(message, file)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Leave; with the status where the message is printed, or the launcher could end that rank before."""
        super().exit(status if rank() == 0 else 0, message)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and leave with status 2."""
        self.exit(2, f"{self.prog}: {message} (--help lists the options)\n")
