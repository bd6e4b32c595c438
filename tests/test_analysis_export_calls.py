"""Rules are made from times of the very call that they are for, like compared with like."""

from __future__ import annotations

import pytest

pytest.importorskip("pandas")

import pandas as pd

from analysis.export.advice import DEFAULT, Rule, measured
from analysis.export.command import named
from analysis.export.names import OPENMPI
from analysis.export.recheck import BENCH, CONTROL
from mpicoll.schedule import algorithms


def test_what_a_rule_cannot_tell_is_compared_like_with_like():
    """In place and out of place in one launch: faster in one of them alone is not surely faster."""
    rows = [(False, "default", 10.0), (True, "default", 10.0), (False, "ring", 20.0), (True, "ring", 5.0)]
    frame = pd.DataFrame(rows, columns=["in_place", "algorithm", "time_us"])
    frame = frame.assign(
        nbytes=8, launch=0, dtype="float32", op="sum", low_us=frame["time_us"], high_us=frame["time_us"]
    )
    for turned in (frame, frame.iloc[::-1]):
        assert measured(turned) == (Rule(0, DEFAULT),)
    frame["time_us"] = frame["low_us"] = frame["high_us"] = [10.0, 10.0, 4.0, 5.0]
    assert measured(frame) == (Rule(0, "ring"),)


@pytest.mark.parametrize(
    ("collective", "count", "in_place", "call"),
    [
        ("reduce_scatter", 8, False, "reduce_scatter_block"),
        ("reduce_scatter", 9, False, "reduce_scatter"),
        ("reduce_scatter", 8, True, "reduce_scatter"),
        ("allgather", 8, False, "allgather"),
        ("allgather", 9, False, None),
        ("allreduce", 9, True, "allreduce"),
    ],
)
def test_rules_are_for_the_call_that_was_timed(collective, count, in_place, call):
    """Our bench takes reduce_scatter_block or reduce_scatter, allgather or allgatherv: each has rules of its own."""
    name = {"allreduce": "ring", "allgather": "ring"}.get(collective, "recursive_halving")
    row = {"kind": "ours", "library": "mpi", "call": "call", "collective": collective, "algorithm": name}
    frame = pd.DataFrame([row | {"size": 4, "count": count, "in_place": in_place}])
    frame = frame.astype({"size": "Int64", "count": "Int64", "in_place": "boolean"})
    assert named(frame, "openmpi5")["collective"].tolist() == [call] * (call is not None)
    assert set(CONTROL) >= set(OPENMPI)
    assert all(CONTROL[c] in algorithms(BENCH.get(c, (c,))[0]) for c in OPENMPI)
