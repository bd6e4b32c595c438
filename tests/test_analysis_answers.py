"""What is made of a fit: predictions with intervals, verdicts, and the textbook's forms for a library's runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("scipy")
pytest.importorskip("pandas")

from made import TRUE, TWO, made, model
from test_analysis_fit import FEW, run_file

from analysis.__main__ import main
from analysis.cells import blocks, gather, series_of
from analysis.curves import Curves
from analysis.fit import fit_table
from analysis.forms import ALLREDUCE, fit_form
from analysis.held import held_out
from analysis.joint import fit_cells
from analysis.predict import predict
from analysis.verdict import judge
from mpicoll.schedule import Network, find, price


@pytest.fixture(scope="module")
def fit():
    return fit_table(*made(TRUE, FEW, (2, 4, 8), noise=0.03, launches=3, calibrated=True), draws=50, holding=False)


@pytest.fixture(scope="module")
def two_levels():
    names = ["ring", "torus", "hierarchical", "rabenseifner", "direct", "one_shot"]
    return fit_table(*made(TWO, names, (4, 8, 12), per_node=2), draws=0, holding=False)


@settings(max_examples=20)
@given(
    name=st.sampled_from([*FEW, "circulant", "chain@3"]),
    size=st.integers(2, 16),
    nbytes=st.lists(st.integers(1, 1 << 30), min_size=1, max_size=5),
)
def test_predictions_are_near_the_truth_and_inside_their_interval(fit, name, size, nbytes):
    found = predict(fit, "allreduce", name, size, nbytes)
    frame = pd.DataFrame({"collective": "allreduce", "algorithm": name, "size": size, "nodes": 1, "nbytes": nbytes})
    truth = model(TRUE)
    rows = truth.matrix(series_of(frame.assign(placement=None)))
    assert found.seconds == pytest.approx(rows @ truth.theta, rel=0.25)
    assert (found.low <= found.seconds).all()
    assert (found.seconds <= found.high).all()
    order = np.argsort(nbytes)
    assert (np.diff(found.seconds[order]) >= 0).all()


def test_extrapolated_past_twice_the_range(fit):
    least, most = fit.cells["nbytes"].min(), fit.cells["nbytes"].max()
    found = predict(fit, "allreduce", "ring", 8, [least // 4, least // 2, most, 2 * most, 2 * most + 1])
    assert found.extrapolated.tolist() == [True, False, False, False, True]
    assert predict(fit, "allreduce", "ring", 16, 8).extrapolated.tolist() == [False]
    assert predict(fit, "allreduce", "ring", 17, 8).extrapolated.tolist() == [True]


def test_nodes_decide(two_levels):
    inside, across = (
        predict(two_levels, "allreduce", "ring", nodes, 1 << 20).seconds[0] for nodes in ((0,) * 4, (0, 1, 2, 3))
    )
    assert across > 5 * inside
    # A bare number of ranks lies on as many a node as the runs had.
    assert predict(two_levels, "allreduce", "ring", 2, 1 << 20).seconds[0] < across / 5
    blocks = predict(two_levels, "allreduce", "torus", (0, 0, 1, 1), 1 << 20).seconds
    assert predict(two_levels, "allreduce", "torus", 4, 1 << 20).seconds == pytest.approx(blocks)


def test_predict_refuses(fit):
    for arguments, word in (
        (("allreduce", "rung", 4, 8), "'rung'"),
        (("allreduce", "ring", 1, 8), "1 ranks"),
        (("allreduce", "ring", 4, 0), "without bytes"),
        (("allreduce", "mpi:default", 4, 8), "not in the runs"),
    ):
        with pytest.raises(ValueError, match=word):
            predict(fit, *arguments)


@pytest.mark.parametrize(("factor", "word", "status"), [(1, "normal", 0), (2, "slow", 1), (0.5, "fast", 3)])
def test_verdicts(fit, factor, word, status):
    new, _ = made(TRUE, FEW, (4,), noise=0.03, seed=9)
    found = judge(fit, new.assign(time_us=new["time_us"] * factor))
    assert (found.word, found.status) == (word, status)
    assert len(found.cells) == len(new)
    assert (found.cells["ratio"] / factor).median() == pytest.approx(1, abs=0.05)


def test_one_slow_algorithm_is_found(fit):
    new, _ = made(TRUE, FEW, (4,), noise=0.03, seed=9)
    new.loc[new["algorithm"] == "direct", "time_us"] *= 3
    found = judge(fit, new)
    assert found.word == "slow"
    slow = found.cells.loc[found.cells["verdict"] == "slow", "algorithm"].value_counts()
    assert slow["direct"] == 9
    assert slow.drop("direct").sum() <= 3
    assert judge(fit, new.assign(library="nccl", call=None)).word == "unknown"


def library(form, ranks, theta, sizes, noise=0.0):
    """Runs of a library that uses one form below its switch and maybe another above."""
    rows = [
        (p, n, 1e6 * (theta[0] + a * theta[1] + b * n * theta[2]))
        for p in ranks
        for n in sizes
        for a, b in [ALLREDUCE[form](p)]
    ]
    frame = pd.DataFrame(rows, columns=["size", "nbytes", "time_us"])
    frame["time_us"] *= np.exp(np.random.default_rng(1).normal(0, noise, len(frame)))
    fixed = {"collective": "allreduce", "library": "mpi", "algorithm": "default", "launch": 0, "call": None}
    return frame.assign(**fixed, nodes=pd.NA, low_us=np.nan, high_us=np.nan, file="made")


@pytest.mark.parametrize("form", ["ring", "recursive doubling", "halving and doubling"])
def test_the_form_that_was_used_fits_best(form):
    table = library(form, (4, 8, 16, 32), (2e-6, 3e-6, 1e-9), [8 << i for i in range(20)])
    found = fit_table(table, draws=0)
    form_fit = found.forms["allreduce", "mpi:default"]
    assert [piece.form for piece in form_fit.pieces] == [form]
    assert min(form_fit.whole, key=form_fit.whole.get) == form
    assert form_fit.pieces[0].theta == pytest.approx([2e-6, 3e-6, 1e-9], rel=1e-4)
    truth = library(form, (64,), (2e-6, 3e-6, 1e-9), [1 << 20])["time_us"][0] * 1e-6
    assert predict(found, "allreduce", "mpi:default", 64, 1 << 20).seconds == pytest.approx([truth], rel=1e-3)


def test_a_switch_is_named_and_one_size_of_ranks_is_said():
    small = library("recursive doubling", (8, 16, 64), (0, 3e-6, 1e-9), [8 << i for i in range(12)], 0.02)
    large = library("halving and doubling", (8, 16, 64), (2e-5, 3e-6, 3e-10), [8 << i for i in range(12, 22)], 0.02)
    form = fit_table(pd.concat([small, large]), draws=20).forms["allreduce", "mpi:default"]
    assert [piece.form for piece in form.pieces] == ["recursive doubling", "halving and doubling"]
    assert form.notes[0] == "not one line: the library switches between 16384 and 32768 bytes"
    one = fit_form(gather(small[small["size"] == 8]), 0, 1)
    assert one.notes[0].startswith("one number of ranks: all forms draw the same line")


def test_held_out_errors_are_those_of_cells_not_seen(monkeypatch):
    table, calibrations = made(TRUE, FEW, (2, 4, 8), calibrated=True)
    table.loc[table["algorithm"] == "direct", "time_us"] *= 2
    cells = gather(pd.concat([table, calibrations]))
    whole = fit_cells(cells.series, cells.seconds, cells.errors)
    found = held_out(cells, whole)
    assert set(found["how"]) == {"algorithm", "size", "octaves"}
    of = found[found["how"] == "algorithm"].groupby("left_out")["error"].median()
    assert of["direct"] == pytest.approx(1, abs=0.05)
    assert abs(of["ring"]) < 0.1
    assert (found[found["how"] == "size"].shape[0]) == len(table) // 3
    monkeypatch.setattr("analysis.held.MANY", 10)
    quick = held_out(cells, whole)
    assert quick["error"].to_numpy() == pytest.approx(found["error"].to_numpy(), abs=0.02)


def test_never_pooled_with_ranks_that_share_cores():
    table, _ = made(TRUE, FEW, (2, 4))
    crowded = made(TRUE, FEW, (8,))[0]
    crowded["time_us"] *= 100
    both = pd.concat([table.assign(crowded=False), crowded.assign(crowded=True)]).astype({"crowded": "boolean"})
    found = fit_table(both, draws=0, holding=False)
    assert found.network.alpha == pytest.approx(TRUE["alpha"], rel=1e-6)
    assert "54 rows of more ranks than cores are left out" in found.notes[0]


def test_a_librarys_calls_are_not_pooled_with_ranks_that_share_cores():
    """The form of the calls that had their cores is what it is without the others."""
    alone = library("ring", (4, 8), (2e-6, 3e-6, 1e-9), [8 << i for i in range(12)])
    others = alone.assign(time_us=1e3 * alone["time_us"], size=2 * alone["size"])
    both = pd.concat([alone.assign(crowded=False), others.assign(crowded=True)]).astype({"crowded": "boolean"})
    one, two = (next(iter(fit_table(rows, draws=0).forms.values())) for rows in (alone, both))
    assert [list(piece.theta) for piece in one.pieces] == [list(piece.theta) for piece in two.pieces]
    assert "more ranks than cores are left out" in two.notes[0]


@pytest.mark.parametrize("per_node", [2, 64])
@pytest.mark.parametrize("name", ["rabenseifner", "recursive_doubling", "binomial_tree", "ring"])
def test_the_forecast_is_that_of_ranks_on_their_nodes(name, per_node):
    """With messages inside nodes as cheap as they are, also on so many ranks that a look at all messages takes long."""
    network = Network(2e-5, 1e-9, 8e-11, 7e-7, inner=(2e-6, 5e-11))
    size = 1024 if name != "ring" else 128  # whose schedule is the same on any, and long to price
    fit = fit_table(made(TWO, FEW, (4, 8), per_node=2)[0], draws=0, holding=False)
    fit = replace(fit, model=model(TWO))
    nodes = blocks(size, size // per_node)
    expected = price(find("allreduce", name).schedule(size, nodes=nodes), network, 1 << 23, nodes).seconds
    made_of = Curves(fit).curve("allreduce", name, size, nodes, [1 << 23]).time_us[0] * 1e-6
    assert made_of == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("sync", ("barrier", "window")),
        ("mpi_library", ("MPICH 5.0.2", "Open MPI v5.0.11")),
        ("device", ("cpu", "cuda")),
    ],
)
def test_what_differs_in_more_than_its_cells_is_never_pooled(column, values):
    table = pd.concat([made(TRUE, FEW, (2,))[0].assign(**{column: value}, launch=i) for i, value in enumerate(values)])
    with pytest.raises(ValueError, match=f"{values[0]} and {values[1]}: .*one kind at a time"):
        fit_table(table, draws=0, holding=False)
    assert fit_table(table[table["launch"] == 0].assign(launch=0), draws=0, holding=False).model


def test_commands(tmp_path, capsys):
    runs = [run_file(tmp_path / f"{i}.jsonl", TRUE, i) for i in range(2)]
    assert main(["predict", *runs, "--ranks", "64", "--bytes", "8,1M", "--algorithms", "ring,chain@4"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 6
    assert all(line.endswith("extrapolated") for line in said[2:])
    same = run_file(tmp_path / "same.jsonl", TRUE, 7)
    assert main(["verdict", *runs, "--new", same]) == 0
    slow = run_file(tmp_path / "slow.jsonl", {name: 2 * value for name, value in TRUE.items()}, 7)
    assert main(["verdict", *runs, "--new", slow]) == 1
    assert "slow: of" in capsys.readouterr().out
    assert main(["predict", *runs, "--ranks", "4", "--bytes", "8", "--collective", "bcast"]) == 2
    assert "no bcast in these runs: --collective allreduce, or" in capsys.readouterr().err
    for bad in (["--bytes", "8X"], ["--bytes", "0"], ["--bytes", "8", "--ranks", "1"]):
        with pytest.raises(SystemExit, match="2"):
            main(["predict", *runs, "--ranks", "4", *bad])
    capsys.readouterr()
    assert main(["predict", *runs, "--ranks", "4", "--bytes", "8", "--algorithms", "rung"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_wrong_result_is_never_normal(tmp_path, capsys):
    old, new = run_file(tmp_path / "old.jsonl", TRUE, 0), run_file(tmp_path / "new.jsonl", TRUE, 7)
    assert main(["verdict", old, "--new", new]) == 0
    text = (tmp_path / "new.jsonl").read_text()
    (tmp_path / "new.jsonl").write_text(text.replace('"wrong": 0', '"wrong": 5', 3))
    assert main(["verdict", old, "--new", new]) == 4
    assert f"wrong: 3 rows of {new} failed their check" in capsys.readouterr().out
    assert main(["fit", new]) == 0
    assert f"note: 3 rows of {new} failed their check" in capsys.readouterr().out


def test_ranks_behind_the_name_and_nodes_beside(tmp_path, capsys):
    for p in (4, 8):
        rows = "\n".join(f"{8 << i} {5.0 * p + (8 << i) / 1e3}" for i in range(10))
        (tmp_path / f"osu-{p}").write_text(f"# OSU MPI Allreduce Latency Test v7.3\n# Size  Avg Latency(us)\n{rows}\n")
    names = [f"{tmp_path}/osu-{p}@{p}" for p in (4, 8)]
    assert main(["fit", *names, "--per-node", "2"]) == 0
    assert "4, 8 ranks" in capsys.readouterr().out
    assert main(["fit", *names, "--size", "4"]) == 2
    assert "--size 4, and this says 8 ranks" in capsys.readouterr().err
    assert main(["fit", names[0].partition("@")[0]]) == 2
    assert "give --size P" in capsys.readouterr().err


def test_the_wheel_holds_no_analysis():
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text()
    assert text.partition("[tool.hatch.build.targets.wheel]")[2].split("\n")[1] == 'packages = ["mpicoll"]'
