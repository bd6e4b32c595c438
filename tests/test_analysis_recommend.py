"""The tuning file that comes of measured times."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.recommend import recommend, tuning
from mpicoll.runtime import tuning as runtime
from mpicoll.runtime.select import Call, select
from mpicoll.schedule import Network


def frame(times: dict[str, list[float]], size: int = 8, nodes: int = 2, launches: int = 1) -> pd.DataFrame:
    rows = [
        ("allreduce", name, size, nodes, 8 << (3 * i), t)
        for name, column in times.items()
        for i, t in enumerate(column)
        for _ in range(launches)
    ]
    return pd.DataFrame(rows, columns=["collective", "algorithm", "size", "nodes", "nbytes", "time_us"])


def test_the_best_with_few_changes():
    times = {"ring": [9, 9, 5, 5.2, 50], "one_shot": [1, 1, 5.2, 5, 80], "direct": [2, 0.98, 9, 5.1, 60]}
    advice = recommend(frame(times))
    # one_shot stays where it is within 5 % of the best, and ring comes when it no longer is.
    assert advice.measured == [
        {"collective": "allreduce", "size": 8, "ranks_per_node": 4, "algorithms": [[0, "one_shot"], [32768, "ring"]]}
    ]
    assert advice.regret == pytest.approx([0, 1 / 0.98 - 1, 0.04, 0, 0])
    assert "mean 1.2%" in advice.summary


def test_another_launch_scores():
    picked, scored = frame({"ring": [1.0], "direct": [2.0]}), frame({"ring": [3.0], "direct": [2.0]})
    assert recommend(picked, scored).regret == pytest.approx([0.5])


def test_census_is_never_recommended():
    advice = recommend(frame({"census": [1.0, 1.0], "ring": [5.0, 5.0]}))
    assert advice.measured[0]["algorithms"] == [[0, "ring"]]
    assert not recommend(frame({"census": [1.0]})).measured


def test_what_cannot_be_told_apart_is_kept_and_no_regret():
    times = {"ring": [5.0, 6.0, 9.0], "direct": [9.0, 5.0, 5.0]}
    wide = frame(times).assign(low_us=lambda f: f["time_us"] - 1, high_us=lambda f: f["time_us"] + 1)
    advice = recommend(wide)
    assert [nbytes for nbytes, _ in advice.measured[0]["algorithms"]] == [0, 8 << 6]
    assert advice.regret.tolist() == [0, 0, 0]
    narrow = wide.assign(low_us=wide["time_us"], high_us=wide["time_us"])
    assert [nbytes for nbytes, _ in recommend(narrow).measured[0]["algorithms"]] == [0, 8 << 3]


def test_the_runtime_follows_it():
    advice = recommend(frame({"ring": [9, 5], "chain@2": [1, 9]}))
    network = Network(2e-6, 1e-9, inner=(1e-6, 1e-10))
    known = runtime.parse(tuning(advice, network, "a test"))
    assert known.network == network
    nodes = (0, 0, 0, 0, 1, 1, 1, 1)
    assert select("auto", Call("allreduce", nodes, 8, True), known)[0].name == "chain@2"
    assert select("auto", Call("allreduce", nodes, 64, True), known)[0].name.startswith("ring")
    assert "a test" in select("auto", Call("allreduce", nodes, 64, True), known)[1]


def test_launches_are_medians():
    launches = pd.concat([frame({"ring": [t], "direct": [4.0]}) for t in (1.0, 9.0, 9.0)])
    assert recommend(launches).measured[0]["algorithms"] == [[0, "direct"]]


def test_like_is_compared_with_like():
    """A type or place of the result that only some were timed with does not count against them, nor for them."""
    both = frame({"ring": [5.0], "direct": [4.0]}).assign(dtype="float32", in_place=True)
    slow = frame({"direct": [90.0]}).assign(dtype="float64", in_place=True)
    fast = frame({"ring": [1.0]}).assign(dtype="float32", in_place=False)
    for more in (slow, fast):
        assert recommend(pd.concat([both, more])).measured[0]["algorithms"] == [[0, "direct"]]


def test_bad_input():
    with pytest.raises(ValueError, match="lack time_us"):
        recommend(frame({"ring": [1.0]}).drop(columns="time_us"))
    empty = recommend(frame({}))
    assert empty.measured == []
    assert empty.summary == "nothing was measured"
    assert np.array_equal(empty.regret, [])
