"""What all memory that a caller hands in comes down to: a vector at an address."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from mpi4py import MPI

from .derived import Packing

HOW = "pass an array, or [data, count, datatype] as mpi4py takes it"


@dataclass(frozen=True)
class Flat:
    """Contiguous memory seen as a vector: where, how many of what, and in which order a matrix lies in it.

    What a spelling adds: ``per``, of these elements, how many one of the caller's is; ``datatype``, what a user's
    operation is told; ``packing``, if this is packed memory; ``counts`` and ``displs`` of the ranks' chunks (displs
    None: one behind the other).
    """

    address: int
    count: int
    dtype: np.dtype
    order: str
    owner: Any
    device: int | None = None  # the GPU whose memory it is; None: the host's
    writable: bool = True
    per: int = 1
    datatype: MPI.Datatype | None = None
    packing: Packing | None = None
    counts: tuple[int, ...] | None = None
    displs: tuple[int, ...] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the vector."""
        return self.count * self.dtype.itemsize

    @property
    def region(self) -> tuple[int, int]:
        """Where the caller's memory begins and ends."""
        return self.packing.region if self.packing else (self.address, self.address + self.nbytes)

    def part(self, start: int, count: int) -> Flat:
        """``count`` elements from element ``start`` on, as a vector of their own."""
        return replace(self, address=self.address + start * self.dtype.itemsize, count=count, counts=None, displs=None)

    def array(self, readonly: bool = False) -> np.ndarray:
        """Host memory as a one-dimensional array that does not keep the caller's object alive."""
        if not self.nbytes:
            return np.empty(0, self.dtype)
        raw = MPI.memory.fromaddress(self.address, self.nbytes, readonly)
        return np.asarray(raw, np.uint8).view(self.dtype)


def shown(value: Any) -> str:
    """A value that a caller handed in, in a line of its own, cut where it is long. Never raises."""
    try:
        text = " ".join(repr(value).split())
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:97]}..."


def say(buffer: Any) -> str:
    """What was handed in, in words."""
    for name in ("IN_PLACE", "BOTTOM"):
        if buffer is getattr(MPI, name):
            return f"MPI.{name}"
    return repr(buffer) if buffer is None else f"a {type(buffer).__name__}"
