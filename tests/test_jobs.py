"""The Slurm jobs without Slurm: every script read, every dry run compared, and jobs run by a stand-in launcher.

``MPICOLL_REWRITE=1 python -m pytest tests/test_jobs.py`` writes the stored texts in tests/jobs anew.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
JOBS = ROOT / "jobs"
STORED = Path(__file__).parent / "jobs"
SITES = sorted(path.stem for path in (JOBS / "sites").glob("*.env"))
KINDS = ("sweep", "scaling", "gpu", "check")
SCRIPTS = sorted([*JOBS.glob("*.sh"), *(JOBS / "sites").glob("*.env")])
LIMIT_S = 60

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
for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
exit "$status"
"""
SCANCEL = """#!/usr/bin/env bash
echo "$*" >>"$FAKE/scancel"
kill -TERM $(cat "$FAKE/pids")
"""
# Keeps what it was given; the number of the job is that of the call.
SBATCH = """#!/usr/bin/env bash
n=$(($(ls "$FAKE" | grep -c '^sbatch-.*script$') + 1))
if [ "$n" -gt "${FAKE_JOBS:-99}" ]; then echo "sbatch: error: Invalid account" >&2; exit 1; fi
printf '%s\\n' "$@" >"$FAKE/sbatch-$n.words"
cat >"$FAKE/sbatch-$n.script"
echo "$n;cluster"
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
    "-m analysis report "*) shift 3; echo "report on $# runs" ;;
    "-m mpicoll doctor") echo "doctor was here" ;;
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
        time.sleep(30)
    if this in os.environ.get("FAKE_CUT", "").split():
        print('{"record":"end","complete":false,"reason":"SIGTERM"}', file=file)
    else:
        print('{"record":"end","complete":true}', file=file)
sys.exit(int(os.environ.get("FAKE_STATUS", "0")))
"""


@pytest.fixture
def cluster(tmp_path):
    """A clone with a login node: stand-ins on PATH, and none of the caller's settings."""
    clone, fake, tools = tmp_path / "clone", tmp_path / "fake", tmp_path / "bin"
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
    ours = re.compile("MPICOLL_|SLURM_|FAKE|UCX_|OMPI_|PMI|CUDA_VISIBLE")
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

    def submit(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.clone / "jobs" / "submit.sh"), *words]
        return subprocess.run(command, env=self.env | env, capture_output=True, text=True, timeout=LIMIT_S)

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
    try:
        out, _ = job.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        out, _ = job.communicate()
        raise AssertionError(f"no end after {LIMIT_S} s:\n{out}") from None
    return job.returncode, out


# What can be read.


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_bash_reads_every_script(path):
    subprocess.run(["bash", "-n", path], check=True, timeout=LIMIT_S)


@pytest.mark.parametrize("path", [path for path in SCRIPTS if path.suffix == ".env"] + [JOBS / "place.sh"], ids=str)
def test_posix_where_promised(path):
    if not shutil.which("dash"):
        pytest.skip("no dash: apt-get install dash")
    subprocess.run(["dash", "-n", path], check=True, timeout=LIMIT_S)


def test_shellcheck():
    if not shutil.which("shellcheck"):
        pytest.skip("no shellcheck: apt-get install shellcheck")
    done = subprocess.run(
        ["shellcheck", "-x", "-P", "SCRIPTDIR", *SCRIPTS], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout


def dry(*words: str) -> str:
    """A dry run as text: what is printed, what is complained, the status; no path and no date of this machine."""
    command = [str(JOBS / "submit.sh"), "--dry-run", *words]
    done = subprocess.run(command, env=clean(), capture_output=True, text=True, timeout=LIMIT_S)
    text = done.stdout + done.stderr + f"exit status {done.returncode}\n"
    return re.sub(r"\d{8}T\d{6}", "DATE", text.replace(str(ROOT), "/CLONE"))


def compare(name: str, text: str) -> None:
    path = STORED / f"{name}.txt"
    if os.environ.get("MPICOLL_REWRITE"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("site", SITES)
def test_dry_run_of_every_site_and_kind(site, kind):
    text = dry(site, kind, "--account", "project")
    compare(f"{site}-{kind}", text)
    for script in re.findall(r"<<'END'\n(.*?)\nEND\n", text, re.DOTALL):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True, timeout=LIMIT_S)


def test_dry_run_of_an_array_and_of_every_option():
    every = ("-p", "short", "-q", "debug", "-C", "a100&ib", "-t", "1:30:00", "--nodes=1,3", "--ranks-per-node=3")
    more = (
        "--cores-per-rank=4",
        "--gpus-per-node=2",
        "--repeats",
        "2",
        "--seconds",
        "9",
        "--python",
        "/opt/it's/python",
    )
    compare("options", dry("generic", "scaling", "-A", "p", *every, *more, "--as", "array", "--", "--op", "max", "a b"))


def test_stored_texts_are_those_that_are_compared():
    assert {path.stem for path in STORED.iterdir()} == {f"{s}-{k}" for s in SITES for k in KINDS} | {"options"}


def test_a_dry_run_leaves_nothing(cluster):
    assert cluster.submit("generic", "scaling", "--dry-run").returncode == 0
    assert not cluster.submitted()
    assert not (cluster.clone / "runs").exists()


def test_gpus_are_never_hidden_by_default():
    for path in STORED.iterdir():
        text = path.read_text()
        assert "gpus-per-task" not in text
        assert "closest" not in text
        assert "HIDE_GPUS=1" not in text


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((), "generic"),
        (("nowhere", "sweep"), "nowhere"),
        (("../sites/generic", "sweep"), "../sites/generic"),
        (("generic",), "sweep, scaling, gpu, check"),
        (("generic", "swoop"), "swoop"),
        (("generic", "sweep", "more"), "more"),
        (("generic", "sweep", "--node", "2"), "--node"),
        (("generic", "sweep", "--nodes"), "--nodes"),
        (("generic", "sweep", "--account", "--dry-run"), "--account"),
        (("generic", "sweep", "--nodes", "0"), "--nodes 0"),
        (("generic", "sweep", "--nodes", "two"), "--nodes two"),
        (("generic", "sweep", "--nodes", "2,4"), "scaling"),
        (("generic", "scaling", "--nodes", "4,2"), "rising"),
        (("generic", "scaling", "--nodes", "2,2"), "rising"),
        (("generic", "scaling", "--nodes", "2,"), "2,4,8"),
        (("generic", "scaling", "--as", "tree"), "chain or array"),
        (("generic", "sweep", "--as", "array"), "scaling"),
        (("generic", "sweep", "--repeats", "0"), "--repeats 0"),
        (("generic", "sweep", "--seconds", "1.5"), "--seconds 1.5"),
        (("generic", "sweep", "--ranks-per-node", "99999999999"), "--ranks-per-node"),
        (("generic", "sweep", "--nodes", "1", "--ranks-per-node", "1"), "one rank"),
        (("generic", "sweep", "--time", "soon"), "--time soon"),
        (("generic", "sweep", "--time", "10"), "at least"),
        (("generic", "gpu"), "--gpus-per-node"),
        (("generic", "gpu", "--gpus-per-node", "2"), "no device buffers"),
        (("frontier", "gpu", "-A", "p"), "AMD"),
        (("perlmutter", "sweep"), "--account"),
        (("generic", "sweep", "--python", "/no/python"), "/no/python"),
    ],
)
def test_what_makes_no_sense_is_one_line_before_anything_is_submitted(cluster, words, named):
    done = cluster.submit(*words)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert named in done.stderr
    assert not done.stdout
    assert not cluster.submitted()
    assert not (cluster.clone / "runs").exists()


def test_help_names_every_option():
    done = subprocess.run([JOBS / "submit.sh", "--help"], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0
    options = set(re.findall(r"^        (?:-\w \| )?(--[a-z-]+)\)", (JOBS / "submit.sh").read_text(), re.MULTILINE))
    assert len(options) > 10
    assert {option for option in options if option not in done.stdout} <= {"--help"}


def test_the_readme_has_every_variable():
    read = set()
    for path in SCRIPTS:
        read |= set(re.findall(r"MPICOLL_[A-Z_]+", path.read_text()))
    assert {name for name in read if f"`{name}" not in (JOBS / "README.md").read_text()} == set()


# What a job does.


def test_a_job_runs_whole_launches_and_says_how_many(cluster):
    done = cluster.submit("generic", "sweep", "--repeats", "3", "--seconds", "5", "--", "-e", "1K")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("job 1: ")
    status, out = cluster.run()
    assert status == 0, out
    assert "3 of 3 launches on 4 ranks, 2 nodes" in out
    assert len(cluster.results()) == 3
    assert all("-1001-p4" in path.name for path in cluster.results())
    text = cluster.results()[0].read_text()
    assert '"-e","1K","--max-time","5"' in text
    assert '"place":"GPU ' in text
    assert out.count("mpicoll place: ") == 4  # printed once, though every launch goes through it


def test_two_submissions_in_one_second_have_two_directories(cluster):
    for _ in range(3):
        assert cluster.submit("generic", "check").returncode == 0
    assert len(list((cluster.clone / "runs" / "generic").iterdir())) == 3


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"FAKE_STARTS": "6"}, "6 of 8 ranks came"),
        ({"FAKE_WORLD": "1"}, "8 worlds of one rank"),
        ({"FAKE_WORLD": "4"}, "in a world of 4"),
        ({"FAKE_NODE": "h0"}, "on 1 nodes, 4 were asked for"),
        ({"SLURM_JOB_NUM_NODES": "3"}, "3 nodes came, 4 were asked for"),
        ({"SLURM_NTASKS": "6"}, "6 ranks are allowed, 8 were asked for"),
        ({"SLURM_JOB_ID": ""}, "jobs/submit.sh"),
    ],
)
def test_ranks_that_are_not_those_asked_for_stop_the_job(cluster, env, said):
    assert cluster.submit("generic", "check", "--nodes", "4").returncode == 0
    status, out = cluster.run(**env)
    assert status == 2
    assert said in out
    assert not cluster.results()


def test_modules_are_loaded_in_order_or_the_job_says_which_is_missing(cluster):
    module = 'module() { case $1 in load) [ "$2" != gone ] && echo "loaded $2" ;; esac; }; export -f module; exec "$@"'
    assert cluster.submit("generic", "check", "--seconds", "1", MPICOLL_MODULES="gcc ompi/5").returncode == 0
    words = ["bash", "-c", module, "bash", "env"]
    env = subprocess.run(words, env=clean(), capture_output=True, text=True, timeout=LIMIT_S).stdout
    name, body = re.search(r"^(BASH_FUNC_module\S*?)=(.*?^\})", env, re.MULTILINE | re.DOTALL).groups()
    status, out = cluster.run(**{name: body})
    assert status == 0, out
    assert out.index("loaded gcc") < out.index("loaded ompi/5")
    assert cluster.submit("generic", "check", MPICOLL_MODULES="gone gcc").returncode == 0
    status, out = cluster.run(2, **{name: body})
    assert status == 2
    assert "module load gone failed" in out
    assert "loaded gcc" not in out


def test_ranks_that_wait_for_each_other_are_given_up(cluster):
    assert cluster.submit("generic", "check").returncode == 0
    script = cluster.fake / "sbatch-1.script"
    script.write_text(script.read_text().replace("START_LIMIT=300", "START_LIMIT=1"))
    status, out = cluster.run(FAKE_LATE="20")
    assert status == 2
    assert "no start within 1 s (0 of 4 ranks came)" in out


def test_uneven_ranks_a_node_are_said_and_run(cluster):
    words = ("generic", "check", "--ranks-per-node", "4", "--seconds", "1")
    assert cluster.submit(*words).returncode == 0
    status, out = cluster.run(FAKE_FIRST="3")
    assert status == 0, out
    assert "uneven: 3 5 ranks a node, not 4" in out
    assert "1 of 1 launches on 8 ranks, 2 nodes" in out


def test_what_sbatch_refuses_is_said_with_its_line(cluster):
    done = cluster.submit("generic", "scaling", FAKE_JOBS="1")
    assert done.returncode == 1
    assert "Invalid account" in done.stderr
    assert "sbatch refused: sbatch --parsable --job-name=mpicoll-scaling-p8" in done.stderr
    assert done.stdout.startswith("job 1: ")  # this one is in the queue


def test_a_launcher_that_is_not_there(cluster):
    assert cluster.submit("generic", "check", MPICOLL_LAUNCH="sruun").returncode == 0
    status, out = cluster.run()
    assert status == 2
    assert "no sruun on PATH" in out


def test_launches_that_stop_early_are_counted(cluster):
    assert cluster.submit("generic", "sweep", "--repeats", "5", "--seconds", "1").returncode == 0
    status, out = cluster.run(FAKE_CUT="2 4")
    assert status == 1
    assert "3 of 5 launches on 4 ranks" in out
    assert len(cluster.results()) == 5


def test_a_wrong_result_fails_the_job(cluster):
    assert cluster.submit("generic", "sweep", "--repeats", "2", "--seconds", "1").returncode == 0
    status, out = cluster.run(FAKE_STATUS="1")
    assert status == 1
    assert "2 of 2 launches" in out
    assert "a wrong result" in out


def test_near_the_time_limit_the_ranks_end_and_no_launch_follows(cluster):
    assert cluster.submit("generic", "sweep", "--repeats", "4", "--seconds", "1").returncode == 0
    job = cluster.start(FAKE_WAIT="2")
    until = time.monotonic() + LIMIT_S / 2
    while not (cluster.fake / "waits").exists() and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(job.pid, signal.SIGTERM)  # Slurm's --signal=B:TERM: this script alone
    status, out = finished(job)
    assert status == 1
    assert "1 of 4 launches" in out
    assert len(cluster.results()) == 2
    assert (cluster.fake / "scancel").read_text() == "--signal=TERM 1001\n"


def test_array_tasks_at_once_leave_each_other_alone(cluster):
    done = cluster.submit("generic", "scaling", "--nodes=1,2", "--as", "array", "--repeats", "3", "--seconds", "1")
    assert done.returncode == 0, done.stderr
    words = cluster.submitted()[0]
    assert {"--array=1,2", "--nodes=2", "--ntasks=4"} <= set(words)
    assert any(word.endswith("/%x-%A_%a.out") for word in words)
    # In one second, on one host, with one job number: only the index and the ranks differ.
    jobs = [cluster.start(SLURM_ARRAY_JOB_ID="1001", SLURM_ARRAY_TASK_ID=n) for n in ("1", "2")]
    for job, ranks in zip(jobs, (2, 4)):
        status, out = finished(job)
        assert status == 0, out
        assert f"3 of 3 launches on {ranks} ranks" in out
    assert len(cluster.results()) == 6
    folder = cluster.results()[0].parent
    for ranks, nodes in ((2, 1), (4, 2)):
        assert len(list(folder.glob(f"*-1001-{nodes}-p{ranks}*.jsonl"))) == 3
        assert (folder / f"facts-1001_{nodes}-p{ranks}.txt").exists()


def test_a_scaling_run_is_a_chain_and_is_collected(cluster):
    done = cluster.submit("generic", "scaling", "--nodes", "1,2", "--repeats", "2", "--seconds", "1")
    assert done.returncode == 0, done.stderr
    first, second, third = cluster.submitted()
    assert not any(word.startswith("--dependency") for word in first)
    assert "--dependency=afterany:1" in second
    assert "--dependency=afterany:1:2" in third
    assert cluster.run(1)[0] == 0
    assert cluster.run(2, FAKE_CUT="1")[0] == 1
    status, out = cluster.run(3)
    assert status == 1
    assert "p = 2: 2 of 2 launches" in out
    assert "p = 4: 1 of 2 launches" in out
    assert "this version has no report" in out
    status, out = cluster.run(3, FAKE_BUILT="0")
    assert status == 1  # a launch is missing
    assert "report on 4 runs" in out


def test_gpu_stops_where_there_are_no_device_buffers(cluster):
    words = ("generic", "gpu", "--gpus-per-node", "2", "--repeats", "1", "--seconds", "1")
    assert cluster.submit(*words, FAKE_HELP="--device cpu|cuda").returncode == 0
    status, out = cluster.run()
    assert status == 2
    assert "no device buffers" in out
    assert not cluster.results()
    status, out = cluster.run(FAKE_HELP="--device cpu|cuda")
    assert status == 0, out
    assert '"--device","cuda"' in cluster.results()[0].read_text()


def test_check_asks_the_doctor_where_there_is_one(cluster):
    assert cluster.submit("generic", "check", "--seconds", "1").returncode == 0
    status, out = cluster.run()
    assert status == 0, out
    assert "this version has no doctor" in out
    status, out = cluster.run(FAKE_BUILT="0")
    assert status == 0, out
    assert "doctor was here" in out


def test_this_version_is_asked_what_it_has():
    """The stand-in's answers are those of the real commands."""
    ask = '. jobs/common.sh; has_cuda "$0"; echo $?; has "$0" mpicoll doctor; echo $?; has "$0" mpicoll list; echo $?'
    done = subprocess.run(
        ["bash", "-c", ask, sys.executable], cwd=ROOT, env=clean(), capture_output=True, text=True, timeout=LIMIT_S
    )
    cuda, doctor, listed = done.stdout.split()
    help = subprocess.run(
        [sys.executable, "-m", "mpicoll.bench", "--help"], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert (cuda == "0") == ("--device" in help.stdout)
    assert doctor in ("0", "1", "2")
    assert listed == "0"


# Where ranks are put.

# Four GPUs on two sides of a node; NIC2 carries Ethernet.
TOPO = """\
\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tNIC2\tNIC3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV4\tNV4\tNV4\tPXB\tSYS\tNODE\tPXB\t0-15\t0\t\tN/A
GPU1\tNV4\t X \tNV4\tNV4\tPXB\tSYS\tNODE\tPXB\t0-15\t0\t\tN/A
GPU2\tNV4\tNV4\t X \tNV4\tSYS\tPIX\tPIX\tSYS\t16-31\t1\t\tN/A
GPU3\tNV4\tNV4\tNV4\t X \tSYS\tNODE\tPIX\tSYS\t16-31\t1\t\tN/A
NIC0\tPXB\tPXB\tSYS\tSYS\t X \tSYS\tSYS\tPXB
NIC1\tSYS\tSYS\tPIX\tNODE\tSYS\t X \tNODE\tSYS
NIC2\tNODE\tNODE\tPIX\tPIX\tSYS\tNODE\t X \tSYS
NIC3\tPXB\tPXB\tSYS\tSYS\tPXB\tSYS\tSYS\t X

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_3
  NIC2: mlx5_bond_0
  NIC3: mlx5_1
"""
OLD_TOPO = """\
        GPU0    GPU1    mlx5_0  mlx5_1  CPU Affinity
GPU0     X      NV1     SYS     PHB     0-9
GPU1    NV1      X      NODE    SYS     10-19
mlx5_0  SYS     NODE     X      SYS
mlx5_1  PHB     SYS     SYS      X
"""


class Node:
    """A node as place.sh sees it: nvidia-smi, and a tree in place of /sys."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sys = folder, folder / "sys"
        (self.sys / "class").mkdir(parents=True)

    def gpus(self, count: int, topo: str) -> None:
        (self.folder / "topo").write_text(topo)
        listed = "".join(f"GPU {n}: NVIDIA A100 (UUID: GPU-{n})\\n" for n in range(count))
        tool = self.folder / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\ncase $1 in -L) printf '{listed}' ;; *) cat '{self.folder}/topo' ;; esac\n")
        tool.chmod(0o755)

    def card(self, name: str, *, up: bool = True, layer: str = "InfiniBand", numa: int = 0, port: int = 1) -> None:
        place = self.sys / "class" / "infiniband" / name / "ports" / str(port)
        place.mkdir(parents=True)
        (place / "state").write_text("4: ACTIVE\n" if up else "1: DOWN\n")
        (place / "link_layer").write_text(layer + "\n")
        device = place.parent.parent / "device"
        device.mkdir(exist_ok=True)
        (device / "numa_node").write_text(f"{numa}\n")

    def core_on(self, numa: int) -> None:
        for core in range(os.cpu_count() or 1):
            (self.sys / "devices" / "system" / "cpu" / f"cpu{core}" / f"node{numa}").mkdir(parents=True)

    def choice(self, local: int, shell: str = "sh", **env: str) -> tuple[str, str]:
        """UCX_NET_DEVICES and the words of the record, for a local rank."""
        settings = clean() | {"PATH": f"{self.folder}:{os.environ['PATH']}", "MPICOLL_SYSFS": str(self.sys)}
        command = [shell, str(JOBS / "place.sh"), "sh", "-c", 'echo "${UCX_NET_DEVICES-}"; echo "$MPICOLL_PLACE"']
        done = subprocess.run(
            command,
            env=settings | {"SLURM_LOCALID": str(local)} | env,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        nic, place = done.stdout.splitlines()
        return nic, place


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_each_rank_has_the_card_nearest_to_its_gpu(node):
    node.gpus(4, TOPO)
    for name, layer in {"mlx5_0": "InfiniBand", "mlx5_1": "InfiniBand", "mlx5_3": "InfiniBand"}.items():
        node.card(name, layer=layer)
    node.card("mlx5_bond_0", layer="Ethernet")
    # 0 and 1 share two equally near cards and take one each; the nearest to 3 is Ethernet, so the next one.
    assert [node.choice(n)[0] for n in range(5)] == ["mlx5_0:1", "mlx5_1:1", "mlx5_3:1", "mlx5_3:1", "mlx5_0:1"]
    assert node.choice(3)[1] == "GPU 3, NIC mlx5_3:1 (NODE in nvidia-smi topo)"
    assert node.choice(2, CUDA_VISIBLE_DEVICES="3,2,1,0")[1].startswith("GPU 1, NIC mlx5_1:1")
    assert node.choice(1, CUDA_VISIBLE_DEVICES="GPU-7,GPU-8")[1].startswith("GPU 1, ")


def test_every_shell_reads_the_matrix_alike(node):
    node.gpus(2, OLD_TOPO)
    for shell in filter(shutil.which, ("sh", "dash", "bash")):
        assert node.choice(0, shell) == ("mlx5_1:1", "GPU 0, NIC mlx5_1:1 (PHB in nvidia-smi topo)")
        assert node.choice(1, shell)[0] == "mlx5_0:1"


def test_a_card_that_is_down_is_passed_over(node):
    node.gpus(2, OLD_TOPO)
    node.card("mlx5_1", up=False)
    node.card("mlx5_0", port=2)
    assert node.choice(0)[0] == "mlx5_0:2"


def test_without_a_gpu_the_numa_node_decides(node):
    node.core_on(1)
    for n, name in enumerate(("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")):
        node.card(name, numa=n // 2)
    assert [node.choice(n)[0] for n in range(3)] == ["mlx5_2:1", "mlx5_3:1", "mlx5_2:1"]
    assert node.choice(0)[1] == "GPU none, NIC mlx5_2:1 (NUMA node 1)"


def test_without_infiniband_nothing_is_chosen(node):
    assert node.choice(0) == ("", "GPU none, NIC not chosen (no InfiniBand card found)")
    node.card("mlx5_0", up=False)
    assert node.choice(0)[1] == "GPU none, NIC not chosen (no card has an active port)"


def test_a_site_can_choose_or_leave_it(node):
    node.card("mlx5_0")
    by_hand = {"MPICOLL_NIC": "mlx5_4:1 mlx5_5:1"}
    assert [node.choice(n, **by_hand)[0] for n in range(3)] == ["mlx5_4:1", "mlx5_5:1", "mlx5_4:1"]
    assert node.choice(0, MPICOLL_NIC="none") == ("", "GPU none, NIC not chosen (MPICOLL_NIC=none)")
    assert node.choice(0, UCX_NET_DEVICES="eth0")[1] == "GPU none, NIC eth0 (UCX_NET_DEVICES was set)"


def test_under_mpirun_the_launchers_rank_counts_not_that_of_slurms_daemon(node):
    by_hand = {"MPICOLL_NIC": "a:1 b:1 c:1"}
    assert node.choice(0, OMPI_COMM_WORLD_LOCAL_RANK="2", **by_hand)[0] == "c:1"
    assert node.choice(0, MPI_LOCALRANKID="1", **by_hand)[0] == "b:1"
    for own in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"):
        env = clean() | {"SLURM_PROCID": "0"} | {own: "5"}
        words = ["sh", str(JOBS / "place.sh")]
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=LIMIT_S)
        assert " rank 5, " in done.stderr


def test_gpus_are_hidden_only_when_asked(node):
    node.gpus(2, OLD_TOPO)
    show = ["sh", str(JOBS / "place.sh"), "sh", "-c", 'echo "${CUDA_VISIBLE_DEVICES-all}"']
    settings = clean() | {"PATH": f"{node.folder}:{os.environ['PATH']}", "SLURM_LOCALID": "1"}
    for hide, seen in (("0", "all"), ("1", "1")):
        env = settings | {"MPICOLL_HIDE_GPUS": hide}
        assert subprocess.check_output(show, env=env, text=True, timeout=LIMIT_S).strip() == seen


def test_place_runs_the_command_as_it_is_and_prints_when_asked(node):
    words = ["sh", str(JOBS / "place.sh"), "sh", "-c", 'printf "<%s>" "$@"; exit 7', "sh", "a b", "*", ""]
    done = subprocess.run(
        words, env=clean() | {"MPICOLL_PLACE_SAY": "1"}, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 7
    assert done.stdout == "<a b><*><>"
    assert done.stderr.startswith("mpicoll place: ")
    assert shlex.split(done.stderr)
