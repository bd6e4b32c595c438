"""Parameters come back from times that the model itself made, and what cannot be told is said."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("scipy")
pytest.importorskip("pandas")

from made import SIZES, TRUE, TWO, made, model

from analysis.__main__ import main
from analysis.fit import fit_table
from analysis.model import COLUMNS, Breaks, Series
from analysis.walk import Costs, counts, look
from mpicoll.runtime import tuning as runtime
from mpicoll.schedule import Network, algorithms, find, price

FEW = ["ring", "rabenseifner", "direct", "binomial_tree", "recursive_doubling", "one_shot"]


def values(found):
    return {p.name: p.value for p in found.parameters if p.value > 1e-15}  # 0 but for rounding


def fitted(*args, **kwargs):
    """Without draws and without what was held out: a fit of one moment."""
    return fit_table(*made(*args, **kwargs), draws=0, holding=False)


def names_of(notes):
    return [text.partition(":")[0] for text in notes]


def test_all_algorithms_give_the_parameters_back():
    found = fitted(TRUE)
    assert values(found) == pytest.approx(TRUE, rel=1e-6)
    assert set(found.cells["algorithm"]) == set(algorithms("allreduce"))
    assert found.notes == ("per_call: not determined by these sizes (it explains at most 0% of a time)",)
    assert found.cells["residual"].abs().max() < 1e-6


# One rank more than a power of two folds, a prime does not divide, and the largest is 64.
@pytest.mark.parametrize("ranks", [(5, 17), (33,), (64,)])
def test_all_algorithms_at_larger_sizes(ranks):
    assert values(fitted(TRUE, ranks=ranks, sizes=SIZES[::3])) == pytest.approx(TRUE, rel=1e-6)


def test_two_levels():
    names = ["ring", "torus", "hierarchical", "rabenseifner", "direct", "binomial_tree", "one_shot"]
    found = fitted(TWO, names, (4, 8, 12), per_node=2)
    assert values(found) == pytest.approx(TWO, rel=1e-6)
    assert found.network.inner == pytest.approx((2e-6, 5e-11), rel=1e-6)


@pytest.mark.parametrize("collective", ["reduce_scatter", "allgather", "reduce", "bcast"])
def test_other_collectives(collective):
    found = fitted(TRUE, ranks=(4, 7), collective=collective, calibrated=True)
    assert values(found) == pytest.approx(TRUE, rel=1e-6)


@settings(max_examples=25)
@given(
    name=st.sampled_from([*algorithms("allreduce"), "chain@3", "torus:direct+ring@2"]),
    size=st.integers(2, 12),
    per_node=st.none() | st.integers(1, 4),
    cyclic=st.booleans(),
    exponents=st.lists(st.integers(-8, -4), min_size=4, max_size=4),
)
def test_the_walk_is_that_of_the_price(name, size, per_node, cyclic, exponents):
    nodes = None if per_node is None else tuple(r % per_node if cyclic else r // per_node for r in range(size))
    a, b, c, d = (10.0**e for e in exponents)
    network = Network(a, b / 1e3, c / 1e3, d, inner=None if nodes is None else (b, a / 1e4))
    (alpha, inner_alpha), (beta, inner_beta) = zip(*network.levels)
    costs = Costs((alpha, alpha, inner_alpha, inner_alpha), (beta, beta, inner_beta, inner_beta), c / 1e3, d)
    try:
        schedule = find("allreduce", name).schedule(size, nodes=nodes)
    except ValueError:
        return
    programs = schedule.programs()
    expected = [price(schedule, network, n, nodes, programs).seconds for n in SIZES]
    assert counts(look("allreduce", name, size, nodes), np.array(SIZES), costs) @ costs.array == pytest.approx(expected)


@pytest.mark.parametrize("name", ["torus", "hierarchical", "ring"])
@pytest.mark.parametrize("nodes", [None, (0, 0, 0, 0), (0, 1, 2, 3), (0, 0, 1, 1)])
def test_one_level_of_the_schedule_that_ran(name, nodes):
    """What an algorithm does on its nodes it does, also where alpha and beta are the same inside and across."""
    network = Network(3e-6, 2e-10, 8e-11, 7e-7)
    schedule = find("allreduce", name).schedule(4, nodes=nodes)
    series = Series("allreduce", name, 4, nodes, np.array(SIZES, float), np.arange(len(SIZES)))
    expected = [price(schedule, network, n).seconds for n in SIZES]
    assert model(TRUE).rows(series) @ model(TRUE).theta == pytest.approx(expected)


def test_the_protocol_switches():
    theta = TRUE | {"long_alpha": 9e-6, "long_beta": 1e-10}
    found = fitted(theta, FEW, sizes=[8 << i for i in range(20)], breaks=Breaks(switch=8192.0))
    assert found.model.breaks == Breaks(switch=8192.0)
    assert values(found) == pytest.approx(theta, rel=1e-6)


def test_a_cache_ends():
    theta = TRUE | {"beyond": 1e-10}
    found = fitted(theta, FEW, sizes=[8 << i for i in range(22)], breaks=Breaks(cache=float(1 << 20)))
    assert found.model.breaks == Breaks(cache=float(1 << 20))
    assert values(found) == pytest.approx(theta, rel=1e-6)


def test_no_break_is_seen_in_noise():
    for seed in range(3):
        found = fitted(TRUE, FEW, sizes=[8 << i for i in range(20)], noise=0.05, seed=seed)
        assert found.model.breaks == Breaks()


def test_noise_and_outliers():
    table, calibrations = made(TRUE, FEW, calibrated=True, noise=0.05, seed=3)
    found = values(fit_table(table, calibrations, draws=0, holding=False))
    assert {name: found[name] for name in TRUE} == pytest.approx(TRUE, rel=0.08)
    table.loc[::40, "time_us"] *= 50
    found = values(fit_table(table, calibrations, draws=0, holding=False))
    assert {name: found[name] for name in TRUE} == pytest.approx(TRUE, rel=0.1)


def test_the_draws_are_seeded_and_hold_the_truth():
    few = made(TRUE, FEW, noise=0.05, seed=4, calibrated=True, launches=3)
    one, again, other = (fit_table(*few, draws=6, seed=seed, holding=False).draws for seed in (1, 1, 2))
    assert (one == again).all()
    assert (one != other).any()
    every = made(TRUE, noise=0.05, seed=4, calibrated=True, launches=3)
    for p in fit_table(*every, draws=60, holding=False).parameters:
        truth = TRUE.get(p.name, 0.0)
        assert 0.9 * p.low <= truth <= 1.1 * p.high or p.name == "local"


def test_what_cannot_be_told_is_said():
    large = fitted(TRUE, ["ring", "direct", "bruck"], (4,), sizes=[1 << 28, 1 << 29])
    assert any(text.startswith("alpha: not determined by these sizes") for text in large.notes)
    assert not {p.name: p.determined for p in large.parameters}["alpha"]
    one = fitted(TRUE, ["ring"], (4,))
    assert names_of(one.notes[:3]) == ["per_call", "gamma", "per_round"]
    assert one.notes[3].startswith("one algorithm only (ring)")
    assert "cannot be told from beta, which stands for it" in one.notes[1]
    # What stands for all takes all: the sums are right.
    found = values(one)
    assert found["alpha"] == pytest.approx(TRUE["alpha"] + TRUE["per_round"])
    assert found["beta"] == pytest.approx(TRUE["beta"] + TRUE["gamma"] / 2)


def test_too_little_to_be_sure_of(recwarn):
    """What nothing can contradict is not said with certainty."""
    one = fit_table(made(TRUE, ["ring"], (4,), noise=0.05)[0], draws=50)
    interval = {p.name: p.high - p.low for p in one.parameters}
    assert interval["alpha"] > 0.01 * values(one)["alpha"]
    assert interval["beta"] > 0.01 * values(one)["beta"]
    assert {p.name: p.figures for p in one.parameters}["gamma"] == ("-", "-", "-")
    small = fitted(TRUE, ["ring", "direct", "binomial_tree"], (4,), sizes=[1024])
    assert "one size only (1024 bytes): messages and bytes are told by algorithms alone" in small.notes
    assert any(note.startswith("3 cells for 3 parameters") for note in small.notes)
    fit_table(made(TRUE, ["ring"], (4,))[0], draws=50)
    assert not recwarn.list


def test_launches_that_contradict_each_other_are_named():
    table, _ = made(TRUE, ["ring", "direct"], (4,), launches=3, noise=0.02)
    assert not [note for note in fit_table(table, draws=9).notes if "contradict" in note]
    table.loc[table["launch"] == 1, "time_us"] *= 3
    said = [note for note in fit_table(table, draws=9).notes if "contradict" in note]
    assert len(said) == 1
    assert said[0].startswith(("launch 2 takes 2.9", "launch 2 takes 3.0"))


def test_an_unknown_algorithm_is_left_out_and_said():
    table, _ = made(TRUE, ["ring", "direct", "binomial_tree"])
    table.loc[table["algorithm"] == "direct", "algorithm"] = "of_tomorrow"
    found = fit_table(table, draws=9)
    assert "36 rows are left out: allreduce has no algorithm 'of_tomorrow'" in found.notes
    assert values(found)["beta"] == pytest.approx(TRUE["beta"] + TRUE["gamma"] / 2)


def test_bad_input():
    empty, _ = made(TRUE, [])
    with pytest.raises(ValueError, match="no row"):
        fit_table(empty)
    with pytest.raises(ValueError, match="not above 0"):
        fit_table(made(TRUE, ["ring"])[0].assign(time_us=0.0))
    with pytest.raises(ValueError, match="p = 1"):
        fit_table(made(TRUE, ["ring"], (2,))[0].assign(size=1, time_us=1.0))
    with pytest.raises(ValueError, match="'rung'"):
        fit_table(made(TRUE, ["ring"])[0].assign(algorithm="rung"))
    with pytest.raises(ValueError, match="give --size"):
        fit_table(made(TRUE, ["ring"])[0].assign(size=None))


def run_file(path, theta, launch=0, names=("ring", "direct", "recursive_doubling", "one_shot"), breaks=Breaks()):  # noqa: B008
    """A run file as the bench writes it, its times made by the model."""
    lines = ['{"record":"run","schema":1,"size":4}']
    table, calibrations = made(theta, names, (4,), calibrated=True, breaks=breaks)
    random = np.random.default_rng(launch)
    for cell in [*calibrations.itertuples(), *table.itertuples()]:
        each = (cell.time_us * np.exp(random.normal(0, 0.02, 15))).round(4).tolist()
        if cell.collective == "calibration":
            kind, level = cell.algorithm.split()
            row = {"record": "calibration", "kind": kind, "level": level, "nbytes": cell.nbytes, "times_us": each}
        else:
            row = {"record": "sample", "collective": "allreduce", "library": "mpicoll", "algorithm": cell.algorithm}
            row |= {"size": 4, "nodes": 1, "dtype": "float32", "op": "sum", "count": cell.nbytes // 4, "call": "plan"}
            row |= {"nbytes": cell.nbytes, "in_place": True, "times_us": each, "median_us": float(np.median(each))}
            row |= {"wrong": 0, "launch": None, "sync": "barrier", "root": 0}
        lines.append(json.dumps(row))
    path.write_text("\n".join([*lines, '{"record":"end","complete":true}']) + "\n")
    return str(path)


def test_fit_and_recommend_from_run_files(tmp_path, capsys):
    runs = [run_file(tmp_path / f"{i}.jsonl", TRUE, i) for i in range(3)]
    assert main(["fit", *runs]) == 0
    said = capsys.readouterr().out
    assert "held out, all: " in said
    assert main(["fit", *runs, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    for name in ("alpha", "beta", "gamma"):
        assert document["parameters"][name]["value"] == pytest.approx(TRUE[name], rel=0.1)
    written = tmp_path / "tuning.json"
    assert main(["recommend", *runs[:2], "--score", runs[2], "--to", str(written)]) == 0
    assert "allreduce, 4 ranks, 4 a node: from 0 " in capsys.readouterr().out
    assert runtime.read(str(written)).network.alpha == pytest.approx(TRUE["alpha"], rel=0.1)
    assert main(["recommend", *runs, "--to", str(written)]) == 2
    assert str(written) in capsys.readouterr().err
    (tmp_path / "cut.jsonl").write_text("{")
    assert main(["fit", str(tmp_path / "cut.jsonl")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_tuning_file_never_makes_bytes_free(tmp_path, capsys):
    """Its one line stands for all sizes: not that of the short messages alone, whose bytes cost next to nothing."""
    theta = {"alpha": 3e-6, "per_round": 7e-7, "long_alpha": 2e-5, "long_beta": 2e-10, "gamma": 8e-11}
    run = run_file(tmp_path / "a.jsonl", theta, breaks=Breaks(switch=4096.0))
    assert main(["fit", run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parameters"]["beta"]["value"] < 1e-10
    assert main(["recommend", run, "--to", str(tmp_path / "t.json")]) == 0
    assert runtime.read(str(tmp_path / "t.json")).network.beta == pytest.approx(2e-10, rel=0.3)
    free = run_file(tmp_path / "free.jsonl", {"alpha": 3e-6})
    assert main(["recommend", free, "--to", str(tmp_path / "free.json")]) == 2
    assert "all bytes would be free" in capsys.readouterr().err
    assert not (tmp_path / "free.json").exists()


def test_the_columns_are_named():
    assert COLUMNS[:3] == ("per_call", "alpha", "beta")
