"""The run file: JSON Lines, flushed row by row, usable up to its last whole line after a kill."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from argparse import Namespace
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any, TextIO

from mpicoll.statistics import rounded

from .calibrate import Calibration
from .case import Case
from .machine import Machine, environment, source, versions
from .measure import Sample
from .views import figures

SCHEMA = 1


class Record:
    """A run file that is being written, or nothing when there is none. Only the rank that ``writes`` has one."""

    def __init__(self, options: Namespace, machine: Machine, timer_us: float, writes: bool) -> None:
        self.options, self.node_count = options, machine.node_count
        size = len(machine.hosts)
        self.lock = threading.Lock()  # a signal ends the file from another thread
        self.file: TextIO | None = None
        if options.json and writes:
            revision = source()  # before the file is there, which may lie in the tree
            self.path = named(options.json, size)
            self.file = open(self.path, "x", encoding="utf-8")  # noqa: SIM115
            self.write(
                record="run",
                schema=SCHEMA,
                time=datetime.now(timezone.utc).isoformat(timespec="seconds"),
                argv=options.argv,
                versions=versions(),
                source=revision,
                mpi_library=machine.library,
                size=size,
                ranks=[{"rank": rank, **facts} for rank, facts in enumerate(machine.facts())],
                launcher=environment(),
                platform=sys.platform,
                kernel=os.uname().release,
                sync=options.sync,
                arrival_skew={str(rank): seconds * 1e6 for rank, seconds in options.arrival_skew.items()},
                launch=options.launch,
                timer_us=round(timer_us, 4),
                seed=options.seed,
            )

    def write(self, **fields: Any) -> None:
        """One line."""
        with self.lock:
            if self.file:
                self.file.write(json.dumps(fields, separators=(",", ":")) + "\n")
                self.file.flush()

    def calibrations(self, found: Sequence[Calibration]) -> None:
        """What the machine can do."""
        for one in found:
            self.write(
                record="calibration",
                kind=one.kind,
                level=one.level,
                nbytes=one.nbytes,
                times_us=[round(t, 3) for t in one.times_us.tolist()],
                median_us=rounded(one.median_us),
            )

    def samples(self, case: Case, samples: Sequence[Sample]) -> None:
        """The cells of one row; a cell that did not run says why."""
        for sample in samples if self.file else ():
            cell = sample.cell
            self.write(
                record="sample",
                collective=case.collective,
                library=cell.library,
                algorithm=cell.runs or cell.algorithm,
                asked=cell.algorithm,
                reason=cell.reason or None,
                size=case.comm.size,
                nodes=self.node_count,
                root=case.root,
                dtype=case.dtype.name,
                op=case.op,
                count=case.count,
                nbytes=case.nbytes,
                in_place=case.in_place,
                device=case.memory.device,
                transport=cell.transport,
                slower_than_staged=sample.slower,
                segment_bytes=cell.segment_bytes,
                call=cell.call,
                sync=self.options.sync,
                launch=self.options.launch,
                rounds=cell.rounds,
                times_us=[round(t, 3) for t in sample.times_us.tolist()],
                **figures(case, sample),
                wrong=sample.wrong,
                late_starts=sample.late,
                sync_error_us=rounded(sample.sync_error_us),
                skipped=cell.why or None,
            )

    def end(self, complete: bool, reason: str | None = None) -> None:
        """The run came to its end, or was stopped; what comes later is not written."""
        self.write(record="end", complete=complete, **({"reason": reason} if reason else {}))
        with self.lock:
            if self.file:
                self.file.close()
                self.file = None


def named(path: str, size: int) -> str:
    """The file to write: in a directory one named by host, date, job and ranks; never one that exists."""
    if not os.path.isdir(path):
        return path
    job = next((os.environ[name] for name in ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID") if name in os.environ), "")
    array = os.environ.get("SLURM_ARRAY_TASK_ID", "")
    now = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S")
    parts = [socket.gethostname(), now, *filter(None, (job, array)), f"p{size}"]
    stem = os.path.join(path, "-".join(parts))
    tries = (f"{stem}{f'-{i}' if i else ''}.jsonl" for i in range(1000))
    return next((found for found in tries if not os.path.exists(found)), stem)
