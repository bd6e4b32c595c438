"""The MPI library that this process has loaded: its path, its functions and its variables, through ctypes."""

from __future__ import annotations

import ctypes
from functools import cache

from mpi4py import MPI


class _Found(ctypes.Structure):
    """Dl_info of dladdr(3)."""

    _fields_ = (
        ("path", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


@cache
def library() -> ctypes.CDLL:
    """Finds the functions of the library that mpi4py calls, however that library is named."""
    return ctypes.CDLL(MPI.__file__)  # symbols are looked up in what mpi4py's module needs, too


@cache
def path() -> str:
    """Where that library is; empty where the system cannot tell."""
    found = _Found()
    try:
        address = ctypes.cast(library().MPI_Get_version, ctypes.c_void_p)
        told = ctypes.CDLL(None).dladdr(address, ctypes.byref(found))
    except (AttributeError, OSError):
        return ""
    return (found.path or b"").decode(errors="replace") if told else ""


def vendor() -> str:
    """The library's name and version, as far as its first line tells."""
    text = MPI.Get_library_version().split("\0")[0].split("\n")[0].split(",")[0]
    return " ".join(text.split()).replace("Version: ", "")


def flag(name: str) -> bool | None:
    """A variable of the library of C type bool; None where it has none of that name."""
    try:
        return bool(ctypes.c_bool.in_dll(library(), name).value)
    except ValueError:
        return None


def raw(name: str, nbytes: int) -> bytes:
    """The first bytes of a variable of the library; empty where it has none of that name."""
    try:
        return (ctypes.c_char * nbytes).in_dll(library(), name).raw
    except ValueError:
        return b""


def mapped(part: str) -> list[str]:
    """Paths of the shared objects of this process whose file name contains ``part``."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
        paths = {words[5].strip() for line in lines if len(words := line.split(None, 5)) == 6}
    return sorted(path for path in paths if part in path.rpartition("/")[2])
