"""The Slurm jobs without Slurm: every script read, every dry run compared, bad input refused.

``MPICOLL_REWRITE=1 python -m pytest tests/test_jobs_texts.py`` writes the stored texts in tests/jobs anew.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest
from standins import JOBS, KINDS, LIMIT_S, ROOT, SCRIPTS, SITES, STORED, clean

ALL_SCRIPTS = [*SCRIPTS, *sorted((ROOT / "tests" / "cluster").glob("*.sh")), ROOT / ".ci" / "run"]


@pytest.mark.parametrize("path", ALL_SCRIPTS, ids=lambda path: path.name)
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
        ["shellcheck", "-x", "-P", "SCRIPTDIR", *ALL_SCRIPTS], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout


def dry(*words: str, **env: str) -> str:
    """A dry run as text: what is printed, what is complained, the status; no path and no date of this machine."""
    command = [str(JOBS / "submit.sh"), "--dry-run", *words]
    done = subprocess.run(command, env=clean() | env, capture_output=True, text=True, timeout=LIMIT_S)
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


@pytest.mark.parametrize("site", SITES)
def test_an_empty_variable_is_none_where_a_value_is_needed(site):
    names = ("LAUNCH", "RANKS_PER_NODE", "CORES_PER_RANK", "GPUS_PER_NODE", "NIC", "HIDE_GPUS", "PYTHON", "RESERVE")
    names += ("TIME", "NODES", "REPEATS", "SECONDS")
    empty = {f"MPICOLL_{name}": "" for name in names}
    assert dry(site, "check", "--account", "project", **empty) == (STORED / f"{site}-check.txt").read_text()


def test_numbers_are_decimal():
    zeros = ("--seconds", "08", "--repeats", "010", "--ranks-per-node", "03", "--cores-per-rank=09", "--nodes=02,010")
    plain = ("--seconds", "8", "--repeats", "10", "--ranks-per-node", "3", "--cores-per-rank=9", "--nodes=2,10")
    as_array = ("generic", "scaling", "--as", "array")
    assert dry(*as_array, *zeros, MPICOLL_RESERVE="090") == dry(*as_array, *plain)


def test_words_may_be_on_more_lines_than_one():
    text = dry(
        *("generic", "check"),
        MPICOLL_EXPORT="A=1\nB=2\tC=*",
        MPICOLL_SBATCH_FLAGS="--exclusive\n --mem=0",
        MPICOLL_LAUNCH="srun\n--mpi=pmix",
    )
    assert "\nEXPORTS=(A=1 B=2 'C=*')\n" in text
    assert " --exclusive --mem=0 " in text
    assert "\nLAUNCH='srun\n--mpi=pmix'\n" in text


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("EXPORT", 'A="x y"', 'y" is not NAME=VALUE'),
        ("EXPORT", "A = 1", "A is not NAME=VALUE"),
        ("HIDE_GPUS", "yes", "MPICOLL_HIDE_GPUS yes: give a whole number from 0 to 1"),
        ("RESERVE", "1m", "MPICOLL_RESERVE 1m"),
        ("SECONDS", "1e3", "--seconds 1e3"),
    ],
)
def test_a_variable_that_makes_no_sense_is_refused_before_anything_is_submitted(cluster, name, value, said):
    done = cluster.submit("generic", "check", **{f"MPICOLL_{name}": value})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr
    assert not cluster.submitted()


def test_an_option_wins_however_a_sites_file_sets_its_values(cluster):
    (cluster.clone / "jobs" / "sites" / "mine.env").write_text("MPICOLL_PARTITION=fixed\nMPICOLL_NODES=4\n")
    assert cluster.submit("mine", "check").returncode == 0
    assert cluster.submit("mine", "check", "-p", "other", "-N", "3").returncode == 0
    assert {"--partition=fixed", "--nodes=4"} <= set(cluster.submitted()[0])
    assert {"--partition=other", "--nodes=3"} <= set(cluster.submitted()[1])


def test_an_account_that_sbatch_has_from_its_own_variable_will_do(cluster):
    done = cluster.submit("perlmutter", "check", SBATCH_ACCOUNT="project")
    assert done.returncode == 0, done.stderr
    assert not any(word.startswith("--account") for word in cluster.submitted()[0])


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


@pytest.mark.parametrize("net", ["0", "255", "999", "077", "7x", "7/../x"])
def test_a_network_that_can_not_be_is_refused(net):
    env = clean() | {"MPICOLL_NET": net}
    script = str(ROOT / "tests" / "cluster" / "hosts.sh")
    done = subprocess.run([script], env=env, capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"hosts.sh: MPICOLL_NET={net}: give a number from 1 to 254\n"


def test_an_old_bash_is_refused(cluster):
    common = cluster.clone / "jobs" / "common.sh"
    common.write_text(common.read_text().replace(">= 404", ">= 9900"))
    done = cluster.submit("generic", "check", "--dry-run")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"submit\.sh: bash \S+: 4\.4 or newer is needed first on PATH\n", done.stderr)


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


def test_what_is_uncertain_says_where_to_look_it_up():
    for path in (JOBS / "sites").glob("*.env"):
        text = path.read_text()
        assert text.count("CHECK") == len(re.findall(r"CHECK: [a-z]", text)), path.name
    assert all("CHECK" in path.read_text() for path in (JOBS / "sites").glob("*.env"))
