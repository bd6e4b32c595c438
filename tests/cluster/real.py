"""A real Slurm for tests: its start and end, jobs submitted through jobs/submit.sh, and what they leave."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NET = "78"  # make cluster has 77: a test leaves a cluster for play alone
STATE = Path(f"/run/mpicoll-slurm{NET}")
NODES, EACH = 4, 2
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")
LIMIT_S = 240  # of any one job, on a busy machine
# Open MPI 5.0's MPI_Init may fall when a rank that is out of it already sends a message (open-mpi/ompi#12495): mostly
# under srun, rarely. A job that shows it says nothing about us, and is submitted again.
FALLEN, TRIES = "ompi_mpi_init", 3


def script(*words: str, limit_s: float = 240) -> subprocess.CompletedProcess[str]:
    """``slurm.sh`` with our network."""
    env = {**os.environ, "MPICOLL_NET": NET}
    return subprocess.run([str(HERE / "slurm.sh"), *words], env=env, capture_output=True, text=True, timeout=limit_s)


def environment(folder: Path) -> dict[str, str]:
    """What ``. STATE/env`` gives a shell, and nothing that this shell had from a site, a launcher or make."""
    ours = re.compile("MPICOLL_|SLURM_|UCX_|OMPI_|PRTE_|PMI|MPIR_")
    plain = {name: value for name, value in os.environ.items() if not ours.match(name)}
    command = ["bash", "-c", f". {STATE}/env && env -0"]
    told = subprocess.run(command, env=plain, capture_output=True, text=True, check=True, timeout=10).stdout
    env = dict(pair.split("=", 1) for pair in told.split("\0") if "=" in pair)
    return env | {"MPICOLL_PYTHON": sys.executable}


@dataclass
class Job:
    """A job as it ended: what ``scontrol`` says, its output, the directory of its submission."""

    number: str
    facts: dict[str, str]
    folder: Path

    @property
    def state(self) -> str:
        return self.facts["JobState"]

    @property
    def status(self) -> int:
        return int(self.facts["ExitCode"].split(":")[0])

    @property
    def said(self) -> str:
        return Path(self.facts["StdOut"]).read_text()


class Slurm:
    """The cluster, and a clone on it."""

    def __init__(self, folder: Path) -> None:
        self.clone, self.env = folder / "clone", environment(folder)
        self.folder: Path | None = None
        self.clone.mkdir()
        shutil.copytree(ROOT / "jobs", self.clone / "jobs")
        for part in ("mpicoll", "analysis"):
            (self.clone / part).symlink_to(ROOT / part)

    def call(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Slurm's as a user of the cluster does."""
        return subprocess.run(
            words, cwd=self.clone, env=self.env | env, capture_output=True, text=True, timeout=180, errors="replace"
        )

    def submit(self, *words: str, **env: str) -> list[str]:
        """The numbers of the jobs of one submission; ``folder`` is theirs."""
        done = self.call(str(self.clone / "jobs" / "submit.sh"), "generic", *words, **env)
        assert done.returncode == 0, done.stderr
        told = re.findall(r"^job (\d+): [\w-]+, (.+)$", done.stdout, re.MULTILINE)
        self.folder = Path(told[0][1])
        return [number for number, _ in told]

    def facts(self, number: str) -> list[dict[str, str]]:
        """Of a job, or of each task of an array."""
        told = self.call("scontrol", "show", "job", "--oneliner", number).stdout
        return [dict(re.findall(r"(\S+?)=(\S*)", line)) for line in told.splitlines() if "JobState" in line]

    def wait(self, number: str, limit_s: float = LIMIT_S) -> list[Job]:
        """The job, or the tasks of an array, when all have ended."""
        folder = self.folder
        assert folder
        until = time.monotonic() + limit_s
        while not (facts := self.facts(number)) or any(one["JobState"] not in ENDED for one in facts):
            outputs = "".join(path.read_text()[-3000:] for path in folder.glob("log/*.out"))
            assert time.monotonic() < until, f"job {number} has not ended in {limit_s} s:\n{facts}\n{outputs}"
            time.sleep(0.3)
        return [Job(number, one, folder) for one in facts]

    def run(self, *words: str, **env: str) -> Job:
        """Submit one job and wait for it."""
        for _ in range(TRIES):
            (number,) = self.submit(*words, **env)
            job = self.wait(number)[0]
            if FALLEN not in job.said:
                break
        return job

    def start(self, *words: str, **env: str) -> str:
        """Submit one job and wait until it has a row; its number."""
        for left in reversed(range(TRIES)):
            (number,) = self.submit(*words, **env)
            try:
                self.until(number, "-p")
                break
            except AssertionError:
                if not left or FALLEN not in self.wait(number)[0].said:
                    raise
        return number

    def until(self, number: str, found: str, record: str = "sample", limit_s: float = LIMIT_S) -> None:
        """Wait until a run file of the submission whose name has ``found`` in it has a row of that kind."""
        until = time.monotonic() + limit_s
        assert self.folder
        row = f'"record":"{record}"'
        while not any(row in path.read_text() for path in self.folder.glob(f"*{found}*.jsonl")):
            states = {one["JobState"] for one in self.facts(number)}
            assert not states <= set(ENDED), f"job {number} ended: {states}"
            assert time.monotonic() < until, f"no row in {limit_s} s"
            time.sleep(0.2)

    def drop(self) -> None:
        """End all jobs, and have all nodes back: the next test starts on an idle cluster."""
        self.call("scancel", "--user=root")
        self.call("scontrol", "update", f"NodeName=h[1-{NODES}]", "State=RESUME")
        until = time.monotonic() + 180
        while self.call("sinfo", "--noheader", "--format=%D", "--states=idle").stdout.strip() != str(NODES):
            assert time.monotonic() < until, self.call("sinfo").stdout
            time.sleep(0.2)


def rows(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a run file."""
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def right(path: Path, nodes: int = NODES, each: int = EACH) -> list[dict[str, Any]]:
    """The rows of a run file after it was seen to be whole and of ``each`` ranks on ``nodes`` hosts."""
    found = rows(path)
    head, *samples, end = found
    ranks = head["ranks"]
    assert head["size"] == len(ranks) == nodes * each
    hosts = Counter(rank["host"] for rank in ranks)
    assert len(hosts) == nodes
    assert set(hosts.values()) == {each}
    assert len({rank["node"] for rank in ranks}) == nodes
    assert all(rank["place"].startswith("GPU none, NIC ") for rank in ranks)
    samples = [row for row in samples if row["record"] == "sample"]
    assert samples
    assert {(row["size"], row["nodes"]) for row in samples} == {(nodes * each, nodes)}
    assert not any(row["wrong"] for row in samples)
    assert end == {"record": "end", "complete": True}
    return samples
