"""What this run runs on: ranks, nodes, cores, versions, and whether the launcher did what it was asked."""

from __future__ import annotations

import os
import platform
import socket
from dataclasses import dataclass

import mpi4py
import numpy as np
from mpi4py import MPI

from mpicoll.runtime.private import private

SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS")
# Launcher variables that explain a run; never the whole environment, which holds tokens.
RECORDED = (
    *SIZE_VARIABLES,
    "SLURM_JOB_ID",
    "SLURM_JOB_NUM_NODES",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_MPI_TYPE",
    "MPICOLL_SEGMENT_BYTES",
    "MPICOLL_CHECK",
    "MPICOLL_TUNING",
)


@dataclass(frozen=True)
class Machine:
    """``hosts``, ``nodes`` (0, 1, ... in order of appearance) and ``cores`` of each rank, in rank order."""

    hosts: list[str]
    nodes: list[int]
    cores: list[list[int]]
    library: str

    @property
    def node_count(self) -> int:
        """Nodes that the ranks are on."""
        return max(self.nodes) + 1

    def shared_cores(self) -> str:
        """Says so when a node has fewer cores than ranks."""
        said = []
        for node in range(self.node_count):
            ranks = [r for r, n in enumerate(self.nodes) if n == node]
            cores = len({core for r in ranks for core in self.cores[r]})
            if cores < len(ranks):
                said.append(f"{len(ranks)} ranks share {cores} core{'s' * (cores > 1)}")
        return ", ".join(dict.fromkeys(said))


def survey(comm: MPI.Intracomm) -> Machine:
    """Ask every rank. Collective."""
    told = comm.allgather((socket.gethostname(), sorted(os.sched_getaffinity(0))))
    library = " ".join(MPI.Get_library_version().split("\0")[0].split("\n")[0].split(",")[0].split()).replace(
        "Version: ", ""
    )
    return Machine([host for host, _ in told], list(private(comm).nodes), [cores for _, cores in told], library)


def versions() -> dict[str, str]:
    """Versions of what times and is timed."""
    from mpicoll import __version__

    return {
        "mpicoll": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "mpi4py": mpi4py.__version__,
    }


def launcher_variables() -> dict[str, str]:
    """The launcher variables of the white list that are set."""
    return {name: os.environ[name] for name in RECORDED if name in os.environ}


def singletons(size: int) -> str:
    """Say what is wrong when the launcher started more ranks than the communicator has: N worlds of one."""
    told = {name: int(os.environ[name]) for name in SIZE_VARIABLES if os.environ.get(name, "").isdecimal()}
    if size in told.values() or not any(asked > size for asked in told.values()):
        return ""
    name, asked = max(told.items(), key=lambda item: item[1])
    return (
        f"the launcher started {asked} ranks ({name}={asked}) and this MPI sees {size}: the launcher is of another MPI "
        f"than {MPI.Get_library_version().split(',')[0].split(chr(10))[0].strip()}, or srun lacks the right --mpi=... "
        "Use the mpirun of this MPI; for one rank on purpose unset that variable"
    )


def available_bytes() -> int:
    """Memory that can be had on this node without swapping, control groups minded."""
    with open("/proc/meminfo") as lines:
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            with open(f"/sys/fs/cgroup/{limit}") as a, open(f"/sys/fs/cgroup/{used}") as b:
                free = min(free, int(a.read()) - int(b.read()))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return free
