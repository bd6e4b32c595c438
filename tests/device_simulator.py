"""The simulator with a device in each rank: what is launched is through as late as may be, at a Sync that waits for it.

The caller's own kernels are late too: the buffers hold poison until Enter is through.
"""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np
from simulator import POISON, BrokenError, Simulator

from mpicoll.runtime.steps import MIRRORS, RECVBUF, SENDBUF, Enter, Lowered, Step, Sync


class DeviceSimulator(Simulator):
    """As Simulator; steps that are launched wait in a queue of their rank."""

    def __init__(self, combine) -> None:
        super().__init__(combine)
        self.queues: dict[int, deque[tuple[int, Step]]] = defaultdict(deque)
        self.handed: list[list[np.ndarray]] = []

    def add(self, lowered: Lowered, send: np.ndarray | None, recv: np.ndarray | None, work: int) -> None:
        super().add(lowered, send, recv, work)
        memories = self.ranks[-1].memories
        self.handed.append([memories[SENDBUF].copy(), memories[RECVBUF].copy()])
        memories += [np.full_like(memory, POISON) for memory in memories[:MIRRORS]]
        for memory in (SENDBUF, RECVBUF):
            memories[memory][:] = POISON

    def run(self) -> None:
        super().run()
        for r, queue in self.queues.items():
            if queue:
                raise BrokenError(f"rank {r} returns while {queue[0][1]} may still run")

    def _launch(self, r: int, step: Step) -> None:
        if not isinstance(step, Sync):
            self.queues[r].append((self.ranks[r].at, step))
            return
        queue = self.queues[r]
        while queue and queue[0][0] <= step.step:
            self._compute(r, queue.popleft()[1])

    def _compute(self, r: int, step: Step) -> None:
        super()._compute(r, step)
        if isinstance(step, Enter):
            for memory in (SENDBUF, RECVBUF):
                self.ranks[r].memories[memory][:] = self.handed[r][memory]
