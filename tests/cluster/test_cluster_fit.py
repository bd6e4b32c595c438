"""From jobs on a real Slurm to answers: the links' rate is found again, and what suits slow links is recommended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from real import right, script

# Links this slow hide the machine's noise: the one test that may look at time.
RATES = (200, 100)  # Mbit/s
SWEEP = (
    *("sweep", "--nodes", "4", "--repeats", "1", "--", "-b", "64K", "-e", "1M", "-f", "4", "-n", "8", "-w", "1"),
    # Against the torus of two levels: two that send at least twice as much between the nodes. Rabenseifner's meets the
    # rank beside it first and so sends no more than the torus; the ring sends a sixth more: noise can hide that.
    *("--algorithms", "torus,halving_doubling,recursive_doubling", "--baselines", "none"),
)


@pytest.fixture
def rate(slurm):
    yield lambda mbit: script("rate", f"{mbit}mbit").check_returncode()
    script("rate", "1gbit").check_returncode()


def analysis(slurm, *words: str) -> str:
    done = slurm.call(slurm.env["MPICOLL_PYTHON"], "-m", "analysis", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_half_the_rate_is_twice_the_beta(slurm, rate, tmp_path):
    betas = []
    for mbit in RATES:
        rate(mbit)
        job = slurm.run(*SWEEP)
        assert job.state == "COMPLETED", job.said
        right(next(job.folder.glob("*.jsonl")))
        fitted = json.loads(analysis(slurm, "fit", "--json", str(job.folder)))
        assert fitted["levels"]
        betas.append(fitted["parameters"]["beta"]["value"])
        # No link is faster than it was made.
        assert betas[-1] > 0.8 * 8 / (mbit * 1e6)
    assert 1.7 <= betas[1] / betas[0] <= 2.3
    advice = tmp_path / "tuning.json"
    analysis(slurm, "recommend", str(job.folder), "--to", str(advice))
    (row,) = json.loads(Path(advice).read_text())["measured"]
    assert (row["size"], row["ranks_per_node"]) == (8, 2)
    assert row["algorithms"][-1][1].startswith("torus")  # two levels: nodes and the network
