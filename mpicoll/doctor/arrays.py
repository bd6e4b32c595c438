"""Buffers to try messages on, in host memory or on one GPU. A GPU is asked as little as can be."""

from __future__ import annotations

from typing import Any

import numpy as np


class Host:
    """NumPy's arrays."""

    name = "host"

    def make(self, values: np.ndarray) -> Any:
        """A buffer with these values."""
        return values.copy()

    def read(self, buffer: Any) -> np.ndarray:
        """What is in it."""
        return buffer

    def ready(self) -> None:
        """Return when MPI may read what was made."""


class Device:
    """CuPy's arrays on the GPU of an index, which becomes the one of this process."""

    name = "device"

    def __init__(self, index: int) -> None:
        import cupy

        self.cupy = cupy
        cupy.cuda.Device(index).use()

    def make(self, values: np.ndarray) -> Any:
        """A buffer with these values."""
        buffer = self.cupy.empty(values.shape, values.dtype)
        buffer.set(values)
        return buffer

    def read(self, buffer: Any) -> np.ndarray:
        """What is in it."""
        return buffer.get()

    def ready(self) -> None:
        """Return when MPI may read what was made: it asks no stream."""
        self.cupy.cuda.Device().synchronize()
