"""Whether this MPI may be handed device pointers (``direct``) or gets host copies (``staged``), and how that is known.

A device pointer handed to an MPI that cannot take it is a segmentation fault, not an error. So nothing is tried here:
what says yes or no is looked at, and in doubt the answer is ``staged``.
"""

from __future__ import annotations

import ctypes
import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass

from mpi4py import MPI

from . import mpilib

TRANSPORTS = ("auto", "direct", "staged")
KINDS = "mpi_memory_alloc_kinds"
QUERY = "MPIX_Query_cuda_support"
UCX = "UCX with CUDA modules"
YES, NO, OFF, SILENT = "yes", "no", "off", "silent"


@dataclass(frozen=True)
class Evidence:
    """One thing that was looked at, and its ``verdict``.

    yes: MPI takes device pointers. no: this part of it does not. off: that is turned off, whatever else says yes.
    silent: it cannot tell.
    """

    source: str
    verdict: str
    detail: str

    def __str__(self) -> str:
        return f"{self.source}: {self.detail}"


@dataclass(frozen=True)
class Decision:
    """``name`` is "direct" or "staged"."""

    name: str
    why: str


def decide(asked: str = "auto") -> Decision:
    """What was asked for where it can be, else what is known to work. Local: ranks on other machines may differ.

    ValueError, in one line with the cure: no such transport, or direct with an MPI that says it cannot.
    """
    return rule(asked, () if asked == "staged" else evidence(asked))  # where looking itself does harm


def rule(asked: str, found: Sequence[Evidence]) -> Decision:
    """The decision that follows from the evidence. Pure. ValueError as ``decide``."""
    if asked not in TRANSPORTS:
        raise ValueError(f"transport is {asked!r}: give auto, direct or staged")
    if asked == "staged":
        return Decision("staged", "asked for")
    off, yes, no = ([one for one in found if one.verdict == verdict] for verdict in (OFF, YES, NO))
    against = "; ".join(map(str, off or no))
    if yes and not off:
        return Decision("direct", f"{'asked for, and ' if asked == 'direct' else ''}{yes[0]}")
    if asked == "direct":
        if against:
            raise ValueError(
                f"transport is 'direct' and this MPI takes no device pointers ({against}): use staged, or an MPI with "
                "CUDA (python -m mpicoll env --cuda)"
            )
        return Decision("direct", "asked for; this MPI cannot say whether it takes device pointers")
    return Decision("staged", against or "this MPI cannot say whether it takes device pointers")


def evidence(asked: str = "auto") -> list[Evidence]:
    """All that was looked at, in the order of its weight. Starts nothing on a device."""
    word = Evidence("the user's word", SILENT, "none" if asked == "auto" else asked)
    version = MPI.Get_library_version()
    pml = selected_pml()
    return [word, _kinds(), _query(), _cray(version), _open_mpi(), _ucx(pml), _ucx_tls(version, pml)]


def _kinds() -> Evidence:
    """MPI 4.1: a session that asks for memory of kind cuda is told which kinds it may use."""
    if MPI.Get_version() < (4, 1):
        return Evidence(KINDS, SILENT, f"MPI {MPI.VERSION}.{MPI.SUBVERSION} does not have it")
    told = _kinds_of(MPI.COMM_WORLD.Get_info())
    if not _has_cuda(told):
        # The world lists what mpiexec was asked for; support as such shows where it is asked for here.
        info = MPI.Info.Create()
        info[KINDS] = "mpi,system,cuda"
        session = MPI.Session.Init(info)
        told = _kinds_of(session.Get_info()) or told
        session.Finalize()
        info.Free()
    if not told:
        return Evidence(KINDS, SILENT, "this MPI does not set it")
    return Evidence(KINDS, YES if _has_cuda(told) else NO, told)


def _has_cuda(kinds: str) -> bool:
    """Whether memory of the device is among kinds such as ``system,cuda:device:managed``; bare, a kind is whole."""
    for kind, *only in (one.strip().lower().split(":") for one in kinds.split(",")):
        if kind == "cuda" and (not only or "device" in only):
            return True
    return False


def _kinds_of(info: MPI.Info) -> str:
    told = info.get(KINDS) or ""
    info.Free()
    return told


def _query() -> Evidence:
    """The call that Open MPI, MPICH and MVAPICH have; newer MPICH and Cray have one for each kind of GPU too."""
    loaded = mpilib.library()
    if hasattr(loaded, QUERY):
        says = int(loaded.MPIX_Query_cuda_support())
        return Evidence(QUERY, YES if says else NO, str(says))
    if hasattr(loaded, "MPIX_GPU_query_support"):
        flag = ctypes.c_int()
        known = loaded.MPIX_GPU_query_support(0, ctypes.byref(flag)) == 0  # 0 is CUDA
        if known:
            return Evidence("MPIX_GPU_query_support", YES if flag.value else NO, str(flag.value))
    return Evidence(QUERY, SILENT, "this MPI does not have it")


def _cray(version: str) -> Evidence:
    name = "MPICH_GPU_SUPPORT_ENABLED"
    if "CRAY" not in version.upper():
        return Evidence(name, SILENT, "only Cray MPICH reads it")
    value = os.environ.get(name, "0")
    if value == "1":
        return Evidence(name, YES, "1")
    return Evidence(name, OFF, f"{value}: export {name}=1")


def _open_mpi() -> Evidence:
    name = "opal_cuda_support"
    built, on = mpilib.flag("opal_built_with_cuda_support"), mpilib.flag(name)
    if built is None or on is None:
        return Evidence(name, SILENT, "only Open MPI has it")
    if not built:
        return Evidence(name, NO, "built without CUDA")
    if not on:
        return Evidence(name, OFF, f"built with CUDA, and turned off: export OMPI_MCA_{name}=true")
    return Evidence(name, SILENT, "built with CUDA; the query tells whether it runs")


def selected_pml() -> str:
    """Which of its ways Open MPI sends messages (ob1, cm, ucx); empty with other libraries."""
    words = [word for word in mpilib.raw("mca_pml_base_selected_component", 256).split(b"\0") if word.isalnum()]
    return words[words.index(b"pml") + 1].decode() if b"pml" in words[:-1] else ""


def _ucx(pml: str) -> Evidence:
    """Open MPI on UCX hands it every pointer as it comes, built with CUDA or not: UCX alone decides."""
    if not pml:
        return Evidence(UCX, SILENT, "not Open MPI")
    if pml != "ucx":
        return Evidence(UCX, NO, f"Open MPI sends by {pml}, not by UCX: export OMPI_MCA_pml=ucx")
    if loaded := mpilib.mapped("libuct_cuda."):
        return Evidence(UCX, YES, loaded[0])
    folders = [os.environ.get("UCX_MODULE_DIR", ""), *(f"{os.path.dirname(p)}/ucx" for p in mpilib.mapped("libuct."))]
    there = [path for folder in folders if folder for path in glob.glob(f"{glob.escape(folder)}/libuct_cuda.so*")]
    if there:
        needs = (
            "the driver's libcuda.so.1 and libnvidia-ml.so.1"  # of a container: its compute and utility capabilities
        )
        return Evidence(UCX, OFF, f"{there[0]} was not loaded: are {needs} on this machine?")
    return Evidence(UCX, OFF, f"no libuct_cuda.so in {next(filter(None, folders), 'its folder of modules')}")


def _ucx_tls(version: str, pml: str) -> Evidence:
    """UCX_TLS, where it is set, must let cuda_copy through; elsewhere device pointers crash."""
    name, value = "UCX_TLS", os.environ.get("UCX_TLS", "")
    if not value:
        return Evidence(name, SILENT, "not set")
    if pml != "ucx" and "ch4:ucx" not in version:
        return Evidence(name, SILENT, f"{value}; this MPI does not send by UCX")
    names = {one.strip() for one in value.lstrip("^").split(",")}
    named = bool(names & ({"cuda", "cuda_copy"} if value.startswith("^") else {"cuda", "cuda_copy", "all"}))
    if named == value.startswith("^"):
        return Evidence(name, OFF, f"{value} leaves cuda out: unset it, or name cuda in it")
    return Evidence(name, SILENT, f"{value} lets cuda through")
