"""Algorithms of two levels, pipelines and parameters on real ranks, on nodes that the test makes up."""

import json

import numpy as np
import pytest
from calls import Call
from mpi4py import MPI

import mpicoll
from mpicoll.runtime import private as internals
from mpicoll.runtime.private import private

pytestmark = pytest.mark.mpi
PLACES = [
    lambda rank: 0,
    lambda rank: rank // 2,
    lambda rank: int(rank >= 3),
    lambda rank: (0, 1, 0, 2)[rank % 4],
]
LEVELS = [
    *("torus", "hierarchical", "torus:direct+ring@4", "torus:ring+recursive_doubling", "torus:pat+binomial_tree@3"),
    *("hierarchical:chain+ring@3", "hierarchical:linear+circulant", "torus:swing+double_tree@2"),
]
FLAT = [
    *("ring@3", "chain@5", "binary_tree@2", "double_tree@4", "dual_root@3", "recursive_doubling@2", "rabenseifner@3"),
    *("knomial_tree:2", "knomial_tree:3", "knomial_tree:8@2", "direct@2", "one_shot@3", "chain@1"),
]
TREES = ["chain@4", "binary_tree@3", "knomial_tree:3@2", "linear@2"]


def counts(p: int) -> list[int]:
    return [0, 1, p + 1, 1003]


@pytest.mark.parametrize("comm", [2, 5, 8], indirect=True)
@pytest.mark.parametrize("place", range(len(PLACES)))
def test_two_levels(comm, place):
    private(comm).nodes = tuple(map(PLACES[place], range(comm.size)))
    for count in counts(comm.size):
        call = Call(comm, "allreduce", count, in_place=count % 2 == 0)
        for name in LEVELS:
            call.once(name, turns=(0, 1))
            call.planned(name, turns=(2,))


@pytest.mark.parametrize("comm", [3, 8], indirect=True)
def test_pipelines_and_parameters(comm):
    for count in counts(comm.size):
        for in_place in (False, True):
            call = Call(comm, "allreduce", count, in_place=in_place)
            for name in FLAT[in_place::2] if count < 2 else FLAT:
                call.planned(name, turns=(0, 1))


@pytest.mark.parametrize("comm", [3, 8], indirect=True)
@pytest.mark.parametrize("collective", ["reduce", "bcast"])
def test_pipelined_trees(comm, collective):
    for name in TREES:
        for count in counts(comm.size):
            Call(comm, collective, count, root=count % comm.size).planned(name, turns=(0, 1))


@pytest.mark.parametrize("comm", [4, 8], indirect=True)
def test_factors(comm):
    names = {4: ["2x2", "4"], 8: ["2x4", "4x2", "8", "2x2x2"]}[comm.size]
    for factors in names:
        for pattern in ("radix_k", "recursive_multiplying"):
            for count in counts(comm.size):
                Call(comm, "allreduce", count).planned(f"{pattern}:{factors}", turns=(0, 1))


@pytest.mark.parametrize("comm", [8], indirect=True)
def test_rank_order_on_two_levels(comm):
    keep_left = MPI.Op.Create(lambda a, b, _: np.frombuffer(b, "i4").__setitem__(slice(None), np.frombuffer(a, "i4")))
    x, y = np.full(10, comm.rank, "i4"), np.empty(10, "i4")
    state, name = private(comm), "hierarchical:binomial_tree+recursive_doubling"
    state.nodes = (0, 0, 0, 1, 1, 2, 2, 2)
    mpicoll.allreduce(x, y, keep_left, comm, algorithm=name)
    assert (y == 0).all()
    state.nodes, state.chosen = (0, 1) * 4, {}  # choices are kept: nodes do not change but in a test
    with pytest.raises(ValueError, match="does not keep rank order on 8 ranks"):
        mpicoll.allreduce_init(x, y, keep_left, comm, algorithm=name)
    keep_left.Free()


@pytest.mark.parametrize("comm", [3, 8], indirect=True)
def test_a_tuning_file_decides(comm, tmp_path, monkeypatch):
    rows = [
        {"collective": "allreduce", "size": comm.size, "ranks_per_node": comm.size, "algorithms": [[40, "chain@2"]]}
    ]
    file = {"tuning": 1, "source": "a test", "network": {"alpha": 1.0, "beta": 0.0}, "measured": rows}
    path = tmp_path / "tuning.json"
    path.write_text(json.dumps({**file, "candidates": {"allreduce": ["linear", "one_shot"]}}))
    if comm.rank == 0:  # what rank 0 reads holds for all
        monkeypatch.setenv("MPICOLL_TUNING", str(path))
    for count, runs in ((9, "one_shot"), (10, "chain@2")):
        call = Call(comm, "allreduce", count)
        call.once(turns=(0, 1))
        plan = call.plan()
        assert plan.algorithm == runs
        assert "a test" in plan.why
        plan.free()


@pytest.mark.parametrize("comm", [3], indirect=True)
def test_a_tuning_file_that_makes_no_sense_is_refused_on_all_ranks(comm, tmp_path, monkeypatch):
    if comm.rank == 0:
        monkeypatch.setenv("MPICOLL_TUNING", str(tmp_path / "none.json"))
    x = np.zeros(3)
    with pytest.raises(ValueError, match=r"MPICOLL_TUNING=.*none.json: No such file"):
        mpicoll.allreduce(MPI.IN_PLACE, x, None, comm)
    assert comm.handle not in internals._states


@pytest.mark.parametrize("comm", [4], indirect=True)
def test_a_pipeline_says_its_segments(comm):
    x = np.zeros(1 << 20, "f4")
    plan = mpicoll.allreduce_init(MPI.IN_PLACE, x, None, comm, algorithm="chain")
    assert plan.algorithm.startswith("chain@")
    assert "segments by predicted time" in plan.why
    plan.free()
