"""calls.Call with its buffers in device memory, filled on a stream of the caller's and read on another one."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
from calls import GUARD, Call


def read(array: Any) -> np.ndarray:
    """What another stream finds, which waits for nobody."""
    other = cupy.cuda.Stream(non_blocking=True)
    found = array.get(stream=other)
    other.synchronize()
    return found


class DeviceCall(Call):
    """The same checks; ``guarded`` and ``send`` are the host's copies."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.there = cupy.empty(len(self.guarded), self.dtype)
        self.sent_there = cupy.empty(len(self.send), self.dtype)

    @property
    def arguments(self) -> tuple[tuple, dict]:
        there = {id(self.send): self.sent_there, id(self.recv): self.there[GUARD : GUARD + self.length]}
        if self.recv is None:
            del there[id(None)]
        args, more = super().arguments
        return tuple(there.get(id(one), one) for one in args), more

    def fill(self, turn: int) -> None:
        super().fill(turn)
        self.there.set(self.guarded, self.stream)
        self.sent_there.set(self.send, self.stream)

    def check(self, turn: int) -> None:
        self.guarded[:] = read(self.there)
        self.send.setflags(write=True)
        self.send[:] = read(self.sent_there)
        super().check(turn)

    def once(self, *args: Any, **kwargs: Any) -> None:
        with self.stream:
            super().once(*args, **kwargs)

    def planned(self, *args: Any, **kwargs: Any) -> None:
        with self.stream:
            super().planned(*args, **kwargs)
