"""What this run runs on: ranks, nodes, cores, versions, and whether the launcher did what it was asked."""

from __future__ import annotations

import os
import platform
import re
import socket
import subprocess
from dataclasses import dataclass

import mpi4py
import numpy as np
from mpi4py import MPI

from mpicoll.hardware import numa_of, text
from mpicoll.launcher import SIZE_VARIABLES
from mpicoll.runtime import mpilib
from mpicoll.runtime.private import private

from .memory import DeviceMemory, Memory

# Variables that explain a run; never the whole environment, which holds tokens.
RECORDED = (
    *SIZE_VARIABLES,
    *("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_JOB_NUM_NODES", "SLURM_NTASKS_PER_NODE"),
    *("SLURM_JOB_PARTITION", "SLURM_CLUSTER_NAME", "SLURM_CPUS_PER_TASK", "SLURM_MPI_TYPE", "SLURM_CPU_BIND"),
    *("MPICOLL_SEGMENT_BYTES", "MPICOLL_CHECK", "MPICOLL_TUNING", "MPICOLL_TRANSPORT", "MPICOLL_DEBUG"),
    *("OMPI_MCA_opal_common_ucx_tls", "OMPI_MCA_opal_cuda_support", "MPICH_GPU_IPC_ENABLED"),
    *("OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_coll", "OMPI_MCA_mpi_yield_when_idle"),
    *(
        "OMPI_MCA_coll_tuned_use_dynamic_rules",
        "OMPI_MCA_coll_tuned_dynamic_rules_filename",
        "OMPI_MCA_coll_han_priority",
    ),
    *(
        "OMPI_MCA_coll_tuned_allreduce_algorithm",
        "PRTE_MCA_rmaps_default_mapping_policy",
        "OMPI_MCA_btl_sm_backing_directory",
    ),
    *("UCX_TLS", "UCX_NET_DEVICES", "UCX_RNDV_THRESH", "UCX_RNDV_SCHEME", "UCX_MODULE_DIR", "UCX_MAX_RNDV_RAILS"),
    *("UCX_IB_GPU_DIRECT_RDMA", "UCX_MEMTYPE_CACHE", "UCX_PROTO_ENABLE", "FI_PROVIDER", "FI_CXI_RX_MATCH_MODE"),
    *("MPICH_GPU_SUPPORT_ENABLED", "MPICH_OFI_NIC_POLICY", "MPICH_ALLREDUCE_NO_SMP", "MPIR_CVAR_DEVICE_COLLECTIVES"),
    *("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM", "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE", "MPIR_CVAR_ENABLE_GPU"),
    *("I_MPI_ADJUST_ALLREDUCE", "I_MPI_FABRICS", "I_MPI_PIN_DOMAIN", "CUDA_VISIBLE_DEVICES", "NCCL_ALGO", "NCCL_PROTO"),
    *("OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND", "OPENBLAS_NUM_THREADS"),
)
GPU = re.compile(r"nvidia\d+")
GOVERNOR = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"


@dataclass(frozen=True)
class Machine:
    """``hosts``, ``nodes`` (0, 1, ... in order of appearance) and ``cores`` of each rank, in rank order.

    ``hardware`` of each rank: its NUMA nodes, the model of its CPU, the governor of its first core, the GPUs it sees,
    and the GPU and NIC that the job chose.
    """

    hosts: list[str]
    nodes: list[int]
    cores: list[list[int]]
    library: str
    hardware: list[dict[str, object]]

    def facts(self) -> list[dict[str, object]]:
        """What the record says of each rank."""
        columns = zip(self.hosts, self.nodes, self.cores, self.hardware)
        return [{"host": host, "node": node, "cores": cores, **rest} for host, node, cores, rest in columns]

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


def survey(comm: MPI.Intracomm, memory: Memory) -> Machine:
    """Ask every rank. Collective."""
    cores = sorted(os.sched_getaffinity(0))
    told = comm.allgather((socket.gethostname(), cores, _hardware(cores) | _gpu(memory)))
    hosts, all_cores, hardware = (list(column) for column in zip(*told))
    return Machine(hosts, list(private(comm).nodes), all_cores, mpilib.vendor(), hardware)


def _hardware(cores: list[int]) -> dict[str, object]:
    """NUMA nodes, CPU model, governor and placement, as far as they can be read."""
    model = re.search(r"^model name\s*: (.*)$", text("/proc/cpuinfo"), re.MULTILINE)
    governor = text(GOVERNOR.format(cores[0])) if cores else ""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = visible.split(",") if visible else sorted(name[6:] for name in os.listdir("/dev") if GPU.fullmatch(name))
    place = os.environ.get("MPICOLL_PLACE")  # what jobs/place.sh chose for this rank
    found = {"numa": numa_of(cores), "cpu": model[1] if model else None, "governor": governor or None}
    return {**found, "gpus": gpus, "place": place}


def _gpu(memory: Memory) -> dict[str, object]:
    """The GPU that this rank took."""
    if not isinstance(memory, DeviceMemory):
        return {}
    return {"gpu": memory.index, "gpu_uuid": memory.uuid, "gpu_name": memory.name or None}


def source() -> dict[str, object] | None:
    """Git revision of this package and whether its tree is clean; None outside a clone."""
    here = os.path.dirname(__file__)

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", here, *words], capture_output=True, text=True, timeout=10, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    revision = git("rev-parse", "HEAD")
    if revision is None or git("ls-files", "--error-unmatch", __file__) is None:
        return None
    return {"revision": revision, "clean": git("status", "--porcelain") == ""}


def versions() -> dict[str, str]:
    """Versions of what times and is timed."""
    from mpicoll import __version__

    return {
        "mpicoll": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "mpi4py": mpi4py.__version__,
    }


def environment() -> dict[str, str]:
    """The variables of the white list that are set."""
    return {name: os.environ[name] for name in RECORDED if name in os.environ}


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
