"""Which algorithm runs: the tuning file and what is chosen by it. Needs NumPy's neighbours, but no message."""

from __future__ import annotations

import json

import pytest

from mpicoll.runtime import tuning
from mpicoll.runtime.select import Call, select
from mpicoll.schedule import COLLECTIVES, Network, algorithms, find, forecast

FLAT = (0,) * 8
PAIRS = (0, 0, 1, 1, 2, 2, 3, 3)
MANY = {
    "tuning": 1,
    "source": "a test",
    "network": {"alpha": 1e-4, "beta": 1e-8, "inner_alpha": 1e-6, "inner_beta": 1e-10},
}


def chosen(nbytes: int, nodes=FLAT, commutes=True, collective="allreduce", known=None, name="auto"):
    return select(name, Call(collective, nodes, nbytes, commutes), known or tuning.default())


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("commutes", [True, False])
def test_auto_finds_something_for_every_call(collective, commutes):
    for nodes in ((0,), (0, 0), (0,) * 7, FLAT, PAIRS, (0, 1, 0, 1, 2), tuple(range(6))):
        for nbytes in (0, 1, 4096, 1 << 20, 1 << 30):
            found, why = chosen(nbytes, nodes, commutes, collective)
            assert commutes or found.keeps_order(len(nodes), nodes)
            assert why.startswith(f"auto: {nbytes} bytes on {len(nodes)} ranks")
            assert "README" in why


def test_auto_takes_what_is_predicted_fastest():
    known = tuning.default()
    for nbytes in (8, 100_000, 1 << 24):
        found, _ = chosen(nbytes)
        times = {
            name: forecast(find("allreduce", name), 8, FLAT, known.network).seconds(nbytes)
            for name in known.candidates["allreduce"]
            if find("allreduce", name).kind != "levels" and not find("allreduce", name).free_segments
        }
        assert times.get(found.name, 0) <= min(times.values())


def test_slow_links_between_nodes_call_for_two_levels():
    known = tuning.parse(MANY)
    found, why = chosen(16 << 20, PAIRS, known=known)
    assert found.name.startswith("torus:")
    assert "a test" in why
    assert not chosen(16 << 20, FLAT, known=known)[0].name.startswith("torus:")


def test_what_is_measured_goes_before_what_is_predicted():
    rows = [
        {"collective": "allreduce", "size": 8, "ranks_per_node": 8, "algorithms": [[1000, "one_shot"], [10, "ring"]]}
    ]
    known = tuning.parse({**MANY, "measured": rows})
    assert chosen(9, known=known)[0].name not in ("one_shot", "ring")
    assert chosen(10, known=known)[0].name == "ring"
    assert chosen(999, known=known)[0].name == "ring"
    assert chosen(1000, known=known)[0].name == "one_shot"
    assert "measured best (a test)" in chosen(1000, known=known)[1]
    assert chosen(1000, PAIRS, known=known)[0].name != "one_shot"
    assert chosen(10, commutes=False, known=known)[0].name != "ring"


def test_what_cannot_run_on_these_ranks_is_passed_over():
    rows = [
        {"collective": "allreduce", "size": 8, "ranks_per_node": 8, "algorithms": [[0, "radix_k:2x3"], [64, "chain"]]}
    ]
    known = tuning.parse({**MANY, "candidates": {"allreduce": ["radix_k:2x2", "ring"]}, "measured": rows})
    assert chosen(8, known=known)[0].name == "ring"
    assert chosen(1 << 24, known=known)[0].name.startswith("chain@")
    assert chosen(8, (0,) * 4, known=known)[0].name == "radix_k:2x2"
    assert chosen(8, (0,) * 5, known=known)[0].name == "ring"
    with pytest.raises(ValueError, match="none of radix_k:2x2 can run"):
        chosen(8, (0,) * 5, known=tuning.parse({**MANY, "candidates": {"allreduce": ["radix_k:2x2"]}}))


def test_a_pipeline_asked_for_by_its_plain_name_gets_its_segments():
    found, why = chosen(16 << 20, name="chain")
    assert found.segments > 1
    assert found.name == f"chain@{found.segments}"
    assert f"{found.segments} segments by predicted time" in why
    found, why = select("chain", Call("allreduce", FLAT, 1 << 20, True), tuning.default(), 1 << 17)
    assert (found.name, why) == ("chain@8", "asked for; 8 segments of 131072 bytes")
    for name in ("chain@1", "chain@3", "direct"):
        assert chosen(16 << 20, name=name) == (find("allreduce", name), "asked for")
    assert chosen(8, name="chain")[0].name == "chain"
    assert chosen(1 << 24, name="ring", collective="allgather")[0].name == "ring"


def test_what_does_not_commute_is_refused_by_name():
    with pytest.raises(ValueError, match="allreduce by ring does not keep rank order on 8 ranks") as caught:
        chosen(8, commutes=False, name="ring")
    assert "recursive_doubling" in str(caught.value)
    leaders = "hierarchical:binomial_tree+recursive_doubling"
    assert chosen(8, PAIRS, commutes=False, name=leaders)[0].name == leaders
    with pytest.raises(ValueError, match="does not keep rank order"):
        chosen(8, (0, 1) * 4, commutes=False, name=leaders)


def test_the_default_names_what_there_is():
    known = tuning.default()
    assert set(known.candidates) == set(COLLECTIVES)
    assert {name.partition(":")[0] for name in known.candidates["allreduce"]} <= set(algorithms("allreduce"))
    assert isinstance(known.network, Network)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tuning": 2}, '"tuning" is 2: this version reads 1'),
        ({"network": {"alpha": 1e-6}}, "lacks beta"),
        ({"network": {"alpha": -1, "beta": 1}}, "alpha is -1"),
        ({"network": {"alpha": "fast", "beta": 1}}, "alpha is 'fast'"),
        ({"network": {"alpha": 1, "beta": 1, "delta": 1}}, "'delta'"),
        ({"network": 7}, '"network" is int'),
        ({"candidates": {"allreduce": ["rung"]}}, "'rung'"),
        ({"candidates": {"scan": ["ring"]}}, "'scan'"),
        ({"candidates": {"allreduce": []}}, "candidates of allreduce"),
        ({"candidates": {"allreduce": ["census"]}}, "census gives each rank other bits"),
        ({"measured": 3}, '"measured" is 3'),
        ({"measured": [{}]}, "lacks algorithms"),
        ({"speed": 1}, "'speed'"),
    ],
)
def test_a_file_that_makes_no_sense_is_named(change, said, tmp_path):
    path = tmp_path / "tuning.json"
    path.write_text(json.dumps({**MANY, **change}))
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - what it says is looked at
        tuning.read(str(path))
    assert said in str(caught.value)
    assert f"MPICOLL_TUNING={path}: " in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"collective": "scan"}, "'scan'"),
        ({"size": 0}, "size is 0"),
        ({"ranks_per_node": "x"}, "ranks_per_node is 'x'"),
        ({"algorithms": [["8", "ring"]]}, "give [bytes, name]"),
        ({"algorithms": [[8, "rung"]]}, "'rung'"),
    ],
)
def test_a_measured_row_that_makes_no_sense_is_named(row, said):
    good = {"collective": "allreduce", "size": 8, "ranks_per_node": 8, "algorithms": [[8, "ring"]]}
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - what it says is looked at
        tuning.parse({**MANY, "measured": [{**good, **row}]})
    assert said in str(caught.value)


def test_a_file_that_is_not_there_or_not_json(tmp_path):
    with pytest.raises(ValueError, match=r"MPICOLL_TUNING=.*No such file"):
        tuning.read(str(tmp_path / "none.json"))
    (tmp_path / "cut.json").write_text('{"tuning": 1, ')
    with pytest.raises(ValueError, match=r"MPICOLL_TUNING=.*cut.json: "):
        tuning.read(str(tmp_path / "cut.json"))
