"""What a figure shows is what its words say: runs that are alike, on their nodes, under axes with figures."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from runs import OSU, run_file

pytest.importorskip("pandas")
pytest.importorskip("matplotlib")

import numpy as np
import pandas as pd

from analysis.curves import Curve
from analysis.load import load
from analysis.report.data import MPI, Case, Place, Point, places, split
from analysis.report.lines import scaling as scaling_of
from analysis.report.lines import time as time_of
from analysis.report.maps import residuals, traffic
from analysis.report.style import Look


def test_what_the_times_are(tmp_path):
    files = [run_file(tmp_path / "a.jsonl", 2), str(tmp_path / "osu.txt@2")]
    (tmp_path / "osu.txt").write_text(OSU)
    assert [place.timed for place in places(load(files)).values()] == ["the slowest rank's time", "the mean time"]


def changed(tmp_path, name: str, size: int, **change) -> pd.DataFrame:
    """A launch of which every record is changed so."""
    file = Path(run_file(tmp_path / name, size, sizes=(8, 2097152)))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(line | change) + "\n" for line in lines))
    return load([str(file)])


def test_runs_that_are_not_alike_are_not_one_series(tmp_path):
    """As many ranks on other nodes, or started otherwise, are another case, and only where there are several."""
    two, here = changed(tmp_path, "a", 4), changed(tmp_path, "b", 4, nodes=1, ranks=None, mpi_library=None)
    late = changed(tmp_path, "c", 4, sync="window")
    other = changed(tmp_path, "e", 4, mpi_library="Open MPI v5.0.11")
    frame = pd.concat([changed(tmp_path, "d", 2), two, here, late, other]).reset_index(drop=True)
    cases = split(frame)
    assert [(str(case).partition("sum")[2], list(by_size)) for case, by_size in cases.items()] == [
        ("", [2]),
        (" under MPICH 5.0.2 on 2 nodes", [4]),
        (" on 1 node", [4]),
        (" under MPICH 5.0.2 on 2 nodes started at a common time", [4]),
        (" under Open MPI v5.0.11 on 2 nodes", [4]),
    ]
    where = {str(case).partition("sum")[2]: place.nodes for (case, _), place in places(frame).items()}
    assert where[" under MPICH 5.0.2 on 2 nodes"] == (0, 0, 1, 1)
    assert where[" on 1 node"] == (0, 0, 0, 0)


def test_ranks_that_share_cores_have_no_curve_of_others(tmp_path):
    crowded = [{"rank": r, "host": "a", "node": 0, "cores": [0, 1], "cpu": "a CPU"} for r in range(4)]
    frame = pd.concat([changed(tmp_path, "a", 2), changed(tmp_path, "b", 4, nodes=1, ranks=crowded)])
    assert {size: place.odd for (_, size), place in places(frame.reset_index(drop=True)).items()} == {2: False, 4: True}


def test_traffic_of_two_levels_is_that_on_the_nodes():
    drawn = traffic(Case("allreduce", "", "", False), 8, (0, 0, 1, 1, 2, 2, 3, 3), "torus", 8)
    assert {to for source, to, _ in drawn.rows if source == 0} == {1, 2, 6}
    assert "fastest of ours" in drawn.caption


def test_a_size_is_in_the_octave_that_fit_prints():
    frame = pd.DataFrame(
        {"collective": "allreduce", "algorithm": "ring", "nbytes": [1024, 2000], "residual": [0.1, 0.3]}
    )
    assert residuals(frame).rows == [("ring", "1K", "+0.200")]


def test_a_call_on_one_number_of_ranks_has_no_forecast():
    """Nor has one whose others share cores, which no model holds."""
    case, asked = Case("allreduce", "", "sum", False), []
    by_size = {p: {MPI: [Point(8, 20.0)]} for p in (2, 4)}
    model = SimpleNamespace(curve=lambda *what: asked.append(what) or Curve(*[np.ones(1)] * 3, np.zeros(1, bool)))
    for odd, times in ((True, 0), (False, 10)):
        scaling_of(case, by_size, 8, Look(), model, {(case, p): Place(None, odd and p == 4, "x") for p in (2, 4)})
        assert len(asked) == times


@pytest.mark.parametrize("ranks", [(64, 128), (2048, 4096)])
def test_every_axis_has_figures(ranks):
    """Less than a power of ten on it, one point, more ranks than the forecast goes to."""
    case = Case("allreduce", "", "sum", False)
    by_size = {p: {MPI: [Point(8, 20.0 + i)]} for i, p in enumerate(ranks)}
    for drawn in (
        scaling_of(case, by_size, 8, Look(), None, {(case, p): Place(None, False, "x") for p in ranks}),
        time_of(case, ranks[0], by_size[ranks[0]], Look(), {}, [8.0], "x"),
    ):
        drawn.figure.draw_without_rendering()
        for axis in (drawn.figure.axes[0].xaxis, drawn.figure.axes[0].yaxis):
            low, high = axis.get_view_interval()
            assert [
                t
                for t in axis.get_ticklabels()
                if t.get_text() and low <= t.get_position()[axis.axis_name == "y"] <= high
            ]
