"""The run file: JSON Lines, flushed row by row, usable up to its last whole line after a kill."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any, TextIO

from .case import Case
from .machine import Machine, launcher_variables, versions
from .measure import Sample
from .table import busbw_factor

SCHEMA = 1


class Record:
    """A run file that is being written, or nothing when there is none. Rank 0 alone has one."""

    def __init__(self, path: str | None, options: Namespace, machine: Machine) -> None:
        self.file: TextIO | None = open(path, "x", encoding="utf-8") if path else None  # noqa: SIM115
        self.options, self.machine = options, machine
        self.write(
            record="run",
            schema=SCHEMA,
            time=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            argv=options.argv,
            versions=versions(),
            mpi_library=machine.library,
            size=len(machine.hosts),
            ranks=[
                {"rank": r, "host": host, "node": node, "cores": cores}
                for r, (host, node, cores) in enumerate(zip(machine.hosts, machine.nodes, machine.cores))
            ],
            launcher=launcher_variables(),
            platform=sys.platform,
            sync="barrier",
            seed=options.seed,
        )

    def write(self, **fields: Any) -> None:
        """One line."""
        if self.file:
            self.file.write(json.dumps(fields, separators=(",", ":")) + "\n")
            self.file.flush()

    def samples(self, case: Case, samples: Sequence[Sample], segment_bytes: int) -> None:
        """The cells of one row; a cell that did not run says why."""
        size = case.comm.size
        for sample in samples:
            cell, median = sample.cell, sample.median_us
            algbw = case.nbytes / median / 1e3 if median else None
            self.write(
                record="sample",
                collective=case.collective,
                library=cell.library,
                algorithm=cell.runs or cell.algorithm,
                asked=cell.algorithm,
                reason=cell.reason or None,
                size=size,
                nodes=self.machine.node_count,
                dtype=case.dtype.name,
                op=case.op if case.collective not in ("allgather", "bcast") else None,
                root=case.root if case.collective in ("reduce", "bcast") else None,
                count=case.count,
                nbytes=case.nbytes,
                in_place=case.in_place,
                device="cpu",
                transport="direct",
                segment_bytes=segment_bytes if cell.library == "mpicoll" else None,
                call=cell.call,
                sync="barrier",
                launch=None,
                rounds=cell.rounds,
                times_us=[round(t, 3) for t in sample.times_us.tolist()],
                median_us=_rounded(median),
                p99_us=_rounded(sample.p99_us),
                algbw_GBps=_rounded(algbw),
                busbw_GBps=_rounded(None if algbw is None else algbw * busbw_factor(case.collective, size)),
                wrong=sample.wrong,
                skipped=cell.why or None,
            )

    def end(self) -> None:
        """The run came to its end."""
        self.write(record="end", complete=True)
        if self.file:
            self.file.close()


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
