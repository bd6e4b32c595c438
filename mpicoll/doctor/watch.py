"""A process beside each rank: it ends the rank when a stage takes too long, and with the rank what the rank started.

MPI may hang inside C with the interpreter locked, where no thread and no handler of the rank's own runs.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

GRACE_S = 2.0  # between SIGTERM and SIGKILL


class Watch:
    """Made before MPI starts and before threads: it forks. ``who`` begins its line."""

    def __init__(self, who: str) -> None:
        rank = os.getpid()
        read, self._write = os.pipe()
        self.guard = os.fork()
        if self.guard == 0:
            try:
                os.close(self._write)
                _guard(read, rank, who)
            finally:
                os._exit(0)
        os.close(read)

    def stage(self, name: str, limit_s: float) -> None:
        """What is done now, and how many seconds it may take."""
        self._say(f"stage {limit_s} {name}")

    def child(self, group: int) -> None:
        """A process group that ends with this rank; 0: it has ended."""
        self._say(f"child {group}")

    def done(self) -> None:
        """Nothing is watched any more."""
        os.close(self._write)
        os.waitpid(self.guard, 0)

    def _say(self, line: str) -> None:
        os.write(self._write, f"{line}\n".encode())


def _guard(read: int, rank: int, who: str) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends when the rank does, whatever ends the rank
    name, limit, late, group, said = "", 0.0, float("inf"), 0, b""
    while True:
        wait = None if late == float("inf") else max(0.0, late - time.monotonic())
        if not select.select([read], [], [], wait)[0]:
            print(f"{who}: no end of {name} within {limit:g} s: stopped", file=sys.stderr, flush=True)
            os.kill(rank, signal.SIGTERM)
            if not select.select([read], [], [], GRACE_S)[0]:
                os.kill(rank, signal.SIGKILL)
            break
        part = os.read(read, 1 << 16)
        if not part:
            break
        *lines, said = (said + part).split(b"\n")
        for line in lines:
            kind, first, *rest = line.decode().split(" ", 2)
            if kind == "stage":
                name, limit = rest[0], float(first)
                late = time.monotonic() + limit
            else:
                group = int(first)
    if group:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            return
