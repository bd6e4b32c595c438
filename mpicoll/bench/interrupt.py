"""SIGTERM, SIGINT and SIGUSR1: the run file gets its last line, whatever the main thread is waiting for.

A rank that waits inside MPI runs no Python handler. The C handler of Python, however, writes to a pipe at once, on
whichever thread the signal came, and a thread of ours reads it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from .record import Record

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)  # the last is one that mpirun hands on and lives through
GRACE_S = 3.0  # other ranks leave after rank 0, whom the launcher would kill with the first, before it wrote the line


def watch(rank: int, record: Record) -> None:
    """From now on a signal ends this rank with 128 + its number; rank 0 closes the run file first."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_wait, args=(read, rank, record), daemon=True).start()


def _wait(read: int, rank: int, record: Record) -> None:
    while (number := os.read(read, 1)[0]) not in SIGNALS:
        pass
    if rank == 0:
        name = signal.Signals(number).name
        record.end(False, name)
        print(f"mpicoll.bench: stopped by {name}; what was measured is recorded", file=sys.stderr, flush=True)
    else:
        time.sleep(GRACE_S)
    os._exit(128 + number)
