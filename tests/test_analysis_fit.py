"""Parameters come back from times that the model itself made, and what cannot be told is said."""

from __future__ import annotations

import json

import numpy as np
import pytest

from analysis.__main__ import main
from analysis.fit import bootstrap, fit
from analysis.model import COLUMNS, Case, network, row
from mpicoll.runtime import tuning as runtime
from mpicoll.schedule import algorithms

TRUE = np.array([3e-6, 2e-10, 8e-11, 7e-7, 0, 0])
TWO = np.array([2e-5, 1e-9, 8e-11, 7e-7, 2e-6, 5e-11])
SIZES = [8 << (3 * i) for i in range(9)]
NAMES = list(algorithms("allreduce"))


def made(
    theta: np.ndarray, names=NAMES, ranks=(3, 4, 7, 8), nodes=None, sizes=SIZES, collective="allreduce", calibrated=True
):
    """Cells and their times without noise."""
    levels = nodes is not None
    cases = [
        Case(collective, name, p, float(n), tuple(r // nodes for r in range(p)) if levels else None)
        for name in names
        for p in ranks
        for n in sizes
    ]
    net = network(theta, levels)
    # A local reduction, which tells gamma from beta: most algorithms reduce half of what they send.
    cases += [Case("calibration", "reduce", 2, float(n)) for n in sizes] if calibrated else []
    return cases, np.array([row(case, net) @ theta for case in cases])


def test_all_algorithms_give_the_parameters_back():
    found = fit(*made(TRUE, calibrated=False))
    assert found.theta[:4] == pytest.approx(TRUE[:4], rel=1e-6)
    assert found.said == ()
    assert np.abs(found.residuals).max() < 1e-6


@pytest.mark.parametrize("p", [16, 33, 64])
def test_at_larger_sizes(p):
    found = fit(*made(TRUE, ["ring", "rabenseifner", "direct", "binomial_tree", "double_tree"], (p,), sizes=SIZES[::2]))
    assert found.theta[:4] == pytest.approx(TRUE[:4], rel=1e-6)


def test_two_levels():
    names = ["ring", "torus", "hierarchical", "rabenseifner", "direct", "binomial_tree", "one_shot"]
    found = fit(*made(TWO, names, (4, 8, 12), nodes=2))
    assert found.theta == pytest.approx(TWO, rel=1e-6)


@pytest.mark.parametrize("collective", ["reduce_scatter", "allgather", "reduce", "bcast"])
def test_other_collectives(collective):
    cases, times = made(TRUE, list(algorithms(collective)), (4, 7), collective=collective)
    found = fit(cases, times)
    assert found.theta[:4] == pytest.approx(TRUE[:4], rel=1e-6)


def test_noise_and_outliers():
    cases, times = made(TRUE, ["ring", "rabenseifner", "direct", "binomial_tree", "recursive_doubling", "one_shot"])
    random = np.random.default_rng(3)
    noisy = times * np.exp(random.normal(0, 0.05, len(times)))
    assert fit(cases, noisy).theta[:4] == pytest.approx(TRUE[:4], rel=0.05)
    noisy[::40] *= 50
    assert fit(cases, noisy).theta[:4] == pytest.approx(TRUE[:4], rel=0.08)


def test_intervals_hold_the_truth_as_often_as_they_say():
    cases, times = made(TRUE, ["ring", "rabenseifner", "direct", "recursive_doubling", "one_shot"])
    groups = [(case.algorithm, case.size, case.nbytes) for case in cases]
    random = np.random.default_rng(4)
    held = 0
    for _ in range(20):
        noisy = times * np.exp(random.normal(0, 0.05, len(times)))
        low, high = bootstrap(cases, noisy, groups, draws=100)
        held += ((low[:4] <= TRUE[:4]) & (TRUE[:4] <= high[:4])).sum()
    assert 68 <= held <= 80  # of 80: 95 % would be 76
    again = bootstrap(cases, noisy, groups, draws=100)
    assert (again == [low, high]).all()


def test_what_cannot_be_told_is_said():
    large = fit(*made(TRUE, sizes=[1 << 28, 1 << 29], ranks=(4,), names=["ring", "direct", "bruck"], calibrated=False))
    assert any(text.startswith("alpha: not determined by these sizes") for text in large.said)
    one = fit(*made(TRUE, ["ring"], (4,), calibrated=False))
    assert [text.partition(":")[0] for text in one.said] == [
        "alpha and per_round cannot be told apart",
        "beta and gamma cannot be told apart",
    ]


def test_bad_input():
    with pytest.raises(ValueError, match="0 cells"):
        fit([], np.array([]))
    with pytest.raises(ValueError, match="not above 0"):
        fit([Case("allreduce", "ring", 4, 8.0)], np.array([0.0]))
    with pytest.raises(ValueError, match="one rank"):
        fit([Case("allreduce", "ring", 1, 8.0)], np.array([1.0]))
    with pytest.raises(ValueError, match="calibration 'sing'"):
        fit([Case("calibration", "sing", 2, 8.0)], np.array([1.0]))
    with pytest.raises(ValueError, match="'rung'"):
        fit([Case("allreduce", "rung", 4, 8.0)], np.array([1.0]))


def run_file(path, theta, launch=0):
    """A run file as the bench writes it, its times made by the model."""
    lines = ['{"record":"run","schema":1,"size":4}']
    cases, times = made(theta, ["ring", "direct", "recursive_doubling", "one_shot"], (4,), calibrated=False)
    random = np.random.default_rng(launch)
    for case, seconds in zip(cases, times):
        each = (seconds * 1e6 * np.exp(random.normal(0, 0.02, 15))).tolist()
        row = {"record": "sample", "collective": case.collective, "library": "mpicoll", "algorithm": case.algorithm}
        row |= {"size": 4, "nodes": 1, "dtype": "float32", "op": "sum", "count": int(case.nbytes) // 4, "call": "plan"}
        row |= {"nbytes": int(case.nbytes), "in_place": True, "times_us": each, "median_us": float(np.median(each))}
        lines.append(json.dumps(row | {"wrong": 0, "launch": None, "sync": "barrier", "root": 0}))
    path.write_text("\n".join([*lines, '{"record":"end","complete":true}']) + "\n")
    return str(path)


def test_fit_and_recommend_from_run_files(tmp_path, capsys):
    runs = [run_file(tmp_path / f"{i}.jsonl", TRUE, i) for i in range(3)]
    assert main(["fit", *runs]) == 0
    said = capsys.readouterr().out.splitlines()
    found = [float(line.split()[1]) for line in said[1:5]]
    assert found == pytest.approx(TRUE[:4], rel=0.05)
    assert "off by" in " ".join(said)
    written = tmp_path / "tuning.json"
    assert main(["recommend", *runs[:2], "--score", runs[2], "--to", str(written)]) == 0
    assert "allreduce, 4 ranks, 4 a node: from 0 " in capsys.readouterr().out
    assert runtime.read(str(written)).network.alpha == pytest.approx(TRUE[0], rel=0.05)
    assert main(["recommend", *runs, "--to", str(written)]) == 2
    assert str(written) in capsys.readouterr().err
    (tmp_path / "cut.jsonl").write_text("{")
    assert main(["fit", str(tmp_path / "cut.jsonl")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_columns_are_named():
    assert COLUMNS[:4] == ("alpha", "beta", "gamma", "per_round")
