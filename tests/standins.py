"""Stand-ins for Slurm's commands and a cluster's machines: jobs run by them with no Slurm."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from launching import finish

ROOT = Path(__file__).parent.parent
JOBS = ROOT / "jobs"
STORED = Path(__file__).parent / "jobs"
SITES = sorted(path.stem for path in (JOBS / "sites").glob("*.env"))
KINDS = ("sweep", "scaling", "gpu", "check")
SCRIPTS = sorted([*JOBS.glob("*.sh"), *(JOBS / "sites").glob("*.env")])
LIMIT_S = 240

# Two ranks a node; the ranks run at once, and what ends last gives the status, as srun has it.
SRUN = """#!/usr/bin/env bash
for word; do case $word in --ntasks=*) n=${word#*=} ;; --ntasks-per-node=*) each=${word#*=} ;; esac; done
while [[ $1 == --* ]]; do shift; done
start=${FAKE_STARTS:-$n} pids=()
for ((r = 0; r < start; r++)); do
    node=h$((FAKE_FIRST ? r >= FAKE_FIRST : r / each)) # $FAKE_FIRST: ranks on the first of two nodes
    SLURM_PROCID=$r SLURM_LOCALID=$((r % each)) SLURM_NTASKS=$n FAKE_NODE=${FAKE_NODE:-$node} "$@" &
    pids+=($!)
done
echo "${pids[@]}" >"$FAKE/pids"
status=0
if [[ $FAKE_STAYS && $* == *mpicoll.bench* ]]; then wait; sleep 50; fi # the launcher hangs after its ranks
for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
exit "$status"
"""
SCANCEL = """#!/usr/bin/env bash
echo "$*" >>"$FAKE/scancel"
kill -TERM $(cat "$FAKE/pids")
"""
# Keeps what it was given; the number of the job is that of the call. It greets first, as some sites' does.
SBATCH = """#!/usr/bin/env bash
n=$(($(ls "$FAKE" | grep -c '^sbatch-.*script$') + 1))
if [ "$n" -gt "${FAKE_JOBS:-99}" ]; then echo "sbatch: error: Invalid account" >&2; exit 1; fi
printf '%s\\n' "$@" >"$FAKE/sbatch-$n.words"
cat >"$FAKE/sbatch-$n.script"
printf '%s\\n' '' 'Welcome to the 2nd Cluster' '3 quotas: OK' "$n;cluster"
"""
# The interpreter of a rank: ranks.py and the bench, as a world of $FAKE_WORLD ranks or of those that were asked for.
PYTHON = """#!/usr/bin/env bash
case "$*" in
    */ranks.py)
        sleep "${FAKE_LATE:-0}"
        echo "mpicoll rank $SLURM_PROCID of ${FAKE_WORLD:-$SLURM_NTASKS} on $FAKE_NODE" ;;
    "-m mpicoll.bench --help") echo "${FAKE_HELP:-}" ;;
    "-m mpicoll.bench "*)
        [ "$SLURM_PROCID" = 0 ] || exit 0
        shift 2
        exec "$FAKE_PYTHON" "$FAKE/bench.py" "$@" ;;
    "-m analysis report --help" | "-m mpicoll doctor --help") exit "${FAKE_BUILT:-2}" ;;
    "-m analysis report "*)
        shift 3
        echo "report on $(printf '%s\\n' "$@" | grep -c 'jsonl$') runs of $2 launches, $4" ;;
    "-m mpicoll doctor --device cpu") echo "doctor was here"; exit "${FAKE_SICK:-0}" ;;
    *) exit 2 ;;
esac
"""
# Rank 0's run file, by the bench's own naming. Launches in $FAKE_CUT stop early, those in $FAKE_WAIT wait for a signal.
BENCH = """
import json, os, signal, sys, time
import mpi4py
mpi4py.rc.initialize = False
from mpicoll.bench.record import named

argv = sys.argv[1:]
launch = argv[argv.index("--launch") + 1]
size = int(os.environ.get("FAKE_WORLD") or os.environ["SLURM_NTASKS"])
this = launch.rsplit("-", 1)[1]
with open(named(argv[argv.index("-J") + 1], size), "x") as file:
    place = os.environ["MPICOLL_PLACE"]
    row = {"record": "run", "argv": argv, "size": size, "ranks": [{"place": place}], "launch": launch}
    print(json.dumps(row, separators=(",", ":")), file=file, flush=True)
    if this in os.environ.get("FAKE_WAIT", "").split():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        open(os.environ["FAKE"] + "/waits", "x").close()
        time.sleep(100)
    if this in os.environ.get("FAKE_CUT", "").split():
        print('{"record":"end","complete":false,"reason":"SIGTERM"}', file=file)
    else:
        print('{"record":"end","complete":true}', file=file)
sys.exit(int(os.environ.get("FAKE_STATUS", "0")))
"""


@pytest.fixture
def cluster(tmp_path):
    """A clone with a login node: stand-ins on PATH, and none of the caller's settings."""
    clone, fake, tools = tmp_path / "100%j of a clone's", tmp_path / "fake", tmp_path / "bin"
    shutil.copytree(JOBS, clone / "jobs")
    fake.mkdir()
    tools.mkdir()
    for name, text in {"srun": SRUN, "scancel": SCANCEL, "sbatch": SBATCH, "python": PYTHON}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    (fake / "bench.py").write_text(BENCH)
    return Cluster(clone, fake, tools)


def clean() -> dict[str, str]:
    """The environment without what a site, Slurm or a launcher sets."""
    ours = re.compile("MPICOLL_|SLURM_|SBATCH_|SRUN_|FAKE|UCX_|OMPI_|PMI|CUDA_")
    return {name: value for name, value in os.environ.items() if not ours.match(name)}


class Cluster:
    def __init__(self, clone: Path, fake: Path, tools: Path) -> None:
        self.clone, self.fake, self.tools = clone, fake, tools
        self.env = clean() | {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "FAKE": str(fake),
            "FAKE_PYTHON": sys.executable,
            "MPICOLL_PYTHON": str(tools / "python"),
            "MPICOLL_LAUNCH": "srun --mpi=pmix",
        }

    def submit(self, *words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        script = self.clone / "jobs" / "submit.sh"
        command = [os.path.relpath(script, cwd) if cwd else str(script), *words]
        return subprocess.run(command, env=self.env | env, cwd=cwd, capture_output=True, text=True, timeout=LIMIT_S)

    def submitted(self) -> list[list[str]]:
        """The words of each sbatch call, in order."""
        count = len(list(self.fake.glob("sbatch-*.words")))
        return [(self.fake / f"sbatch-{n}.words").read_text().splitlines() for n in range(1, count + 1)]

    def start(self, number: int = 1, **env: str) -> subprocess.Popen[str]:
        """Run what call ``number`` submitted as Slurm would, in a session of its own."""
        words = dict(word.partition("=")[::2] for word in self.submitted()[number - 1])
        came = {
            "SLURM_JOB_ID": str(1000 + number),
            "SLURM_JOB_NUM_NODES": words["--nodes"],
            "SLURM_NTASKS": words["--ntasks"],
        }
        return subprocess.Popen(
            ["bash", str(self.fake / f"sbatch-{number}.script")],
            env=self.env | came | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, number: int = 1, **env: str) -> tuple[int, str]:
        return finished(self.start(number, **env))

    def results(self) -> list[Path]:
        return sorted(self.clone.glob("runs/*/*/*.jsonl"))


def finished(job: subprocess.Popen[str]) -> tuple[int, str]:
    out, _ = finish(job, LIMIT_S)
    return job.returncode, out
