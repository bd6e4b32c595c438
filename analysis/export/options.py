"""The options of ``export`` and the libraries that it writes for; light, since every command line imports it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A library whose file is written. ``library``: how its runs call themselves; ``same``: its key in names.SAME.

    ``use``: the settings under which it reads the file, whose name stands for {file}.
    """

    title: str
    library: str
    same: str
    use: str


TARGETS = {
    "openmpi4": Target("Open MPI 4", "Open MPI v4", "openmpi",
        "OMPI_MCA_coll_tuned_use_dynamic_rules=1 OMPI_MCA_coll_tuned_dynamic_rules_filename={file}"),
    "openmpi5": Target("Open MPI 5", "Open MPI v5", "openmpi",
        "OMPI_MCA_coll_tuned_use_dynamic_rules=1 OMPI_MCA_coll_tuned_dynamic_rules_filename={file} OMPI_MCA_coll=^han"),
    "openmpi6": Target("Open MPI 6", "Open MPI v6", "openmpi",
        "OMPI_MCA_coll_tuned_use_dynamic_rules=1 OMPI_MCA_coll_tuned_dynamic_rules_filename={file} OMPI_MCA_coll=^han"),
    "mpich": Target("MPICH", "MPICH", "mpich",
        "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE={file} MPIR_CVAR_DEVICE_COLLECTIVES=none"),
    "intel": Target("Intel MPI", "Intel", "intel", ". {file}"),
    "nccl": Target("NCCL", "NCCL", "nccl", "NCCL_TUNER_PLUGIN=example NCCL_TUNER_CONFIG_FILE={file}"),
}  # fmt: skip


def add(put: Callable[..., object]) -> None:
    """The options of the command."""
    put("--for", dest="target", required=True, choices=list(TARGETS), help="the library")
    put("-o", "--output", metavar="FILE", help="write it, a new file (default: print it)")
    put("--unit", choices=("us", "ms", "s"), help="of times in CSV without a unit in the header")
    put("--channels", type=int, metavar="N", help="nccl: channels of each line, which must be written")
    put(
        "--base", metavar="FILE", help="mpich: its own table, in libmpi.so or generic.json (default: of mpirun on PATH)"
    )
    put("--recheck", action="store_true", help="run the bench under the file, and say whether it helps")
    put("--launches", type=int, default=3, metavar="N", help="--recheck: pairs of launches (default 3)")
