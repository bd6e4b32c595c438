"""Where the buffers of a run lie: in host memory, or on the GPU of each rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mpicoll import hardware
from mpicoll.launcher import local_rank

POISON = 0x7F


class HostMemory:
    """NumPy's arrays."""

    device, index, uuid = "cpu", None, ""

    def place(self, values: np.ndarray) -> Any:
        """A buffer with these values; it may be they."""
        return values

    def read(self, buffer: Any) -> np.ndarray:
        """What is in a buffer."""
        return buffer

    def write(self, buffer: Any, values: np.ndarray) -> None:
        """Put values there, even where a call may only read."""
        flag = buffer.flags.writeable
        buffer.flags.writeable = True
        buffer[:] = values
        buffer.flags.writeable = flag

    def copy(self, into: Any, source: Any) -> None:
        """From buffer to buffer; done when it returns."""
        np.copyto(into, source)

    def poison(self, buffer: Any) -> None:
        """Make what it holds recognisable."""
        buffer.view(np.uint8).fill(POISON)

    def timed(self, run: Callable[[], Any]) -> Callable[[], Any]:
        """A call that has ended when it returns."""
        return run


class DeviceMemory:
    """CuPy's arrays on the GPU of this process. ``uuid`` tells GPUs of one host apart."""

    device = "cuda"

    def __init__(self, local: int) -> None:
        """Made before MPI starts. LookupError: no CuPy, or no GPU; one line with the cure."""
        self.cupy, self.count = _cupy()
        self.choose(local)

    def choose(self, local: int) -> None:
        """Take the GPU of a local rank: in turn through those that this rank sees."""
        self.index = local % self.count
        self.cupy.cuda.Device(self.index).use()
        seen = hardware.gpus().visible
        known = len(seen) == self.count
        self.uuid, self.name = (seen[self.index].uuid, seen[self.index].name) if known else (str(self.index), "")

    def place(self, values: np.ndarray) -> Any:
        """A buffer with these values."""
        buffer = self.cupy.empty(values.shape, values.dtype)
        self.write(buffer, values)
        return buffer

    def read(self, buffer: Any) -> np.ndarray:
        """What is in a buffer, whoever wrote it."""
        self._synchronize()
        return buffer.get()

    def write(self, buffer: Any, values: np.ndarray) -> None:
        """Put values there; done when it returns."""
        if len(values):
            buffer.set(values)
            self._synchronize()

    def copy(self, into: Any, source: Any) -> None:
        """From buffer to buffer; done when it returns."""
        runtime, stream = self.cupy.cuda.runtime, self.cupy.cuda.get_current_stream()
        runtime.memcpyAsync(into.data.ptr, source.data.ptr, source.nbytes, runtime.memcpyDefault, stream.ptr)
        stream.synchronize()

    def poison(self, buffer: Any) -> None:
        """Make what it holds recognisable."""
        self.write(buffer, np.full(buffer.nbytes, POISON, np.uint8).view(buffer.dtype))

    def timed(self, run: Callable[[], Any]) -> Callable[[], Any]:
        """A call that has ended on the GPU too when it returns."""
        synchronize = self._synchronize

        def both() -> None:
            run()
            synchronize()

        return both

    def free_bytes(self) -> int:
        """Memory of the GPU that can be had now."""
        return int(self.cupy.cuda.runtime.memGetInfo()[0])

    def _synchronize(self) -> None:
        self.cupy.cuda.runtime.deviceSynchronize()


Memory = HostMemory | DeviceMemory


def choose(device: str) -> tuple[Memory, str]:
    """The memory of a run, the GPU chosen by the local rank before MPI starts; and why there is none."""
    if device == "cpu":
        return HostMemory(), ""
    try:
        return DeviceMemory((local_rank() or (0, ""))[0]), ""
    except LookupError as error:
        return HostMemory(), error.args[0]


def _cupy() -> tuple[Any, int]:
    gpus = hardware.gpus()
    try:
        import cupy

        count = cupy.cuda.runtime.getDeviceCount()
    except ImportError as error:
        why = f"{gpus.why}, and " if gpus.why else ""
        raise LookupError(
            f"--device cuda: {why}CuPy cannot be imported ({_line(error)}): pip install 'mpicoll[{gpus.extra}]'"
        ) from None
    except Exception as error:  # CuPy's own kinds, which need CuPy to be named
        raise LookupError(f"--device cuda: {gpus.why or 'CuPy finds no GPU'} ({_line(error)})") from None
    if not count:
        raise LookupError(f"--device cuda: {gpus.why or 'CuPy finds no GPU'}")
    return cupy, count


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:160]
