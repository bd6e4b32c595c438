"""The model, the combinators and the registry."""

from itertools import pairwise

import pytest

import mpicoll
from mpicoll.schedule import (
    COLLECTIVES,
    Recv,
    Round,
    Schedule,
    Send,
    algorithm,
    algorithms,
    bounds,
    find,
    fold,
    forward,
    power_of_two,
    registry,
    renumber,
    reverse,
    then,
    verify,
)

ALLGATHER_OF_TWO = Schedule(
    "allgather", "swap", 2, 2, lambda rank: [Round([Send(1 - rank, [rank])], [Recv(1 - rank, [1 - rank])])]
)


@pytest.mark.parametrize("count", [0, 1, 2, 6, 7, 8, 1000, 10007])
@pytest.mark.parametrize("chunks", [1, 2, 3, 7, 8])
def test_bounds_are_balanced_and_the_first_are_longer(count, chunks):
    edges = bounds(count, chunks)
    lengths = [b - a for a, b in pairwise(edges)]
    assert edges[0] == 0
    assert edges[-1] == count
    assert len(lengths) == chunks
    assert lengths == sorted([count // chunks + (i < count % chunks) for i in range(chunks)], reverse=True)


def test_power_of_two():
    assert [n for n in range(1, 70) if power_of_two(n)] == [1, 2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_inputs_and_outputs(collective):
    schedule = Schedule(collective, "none", 3, 3, lambda rank: [], 2)
    whole, nothing = [0, 1, 2], []
    begin, end = {
        "allreduce": ([whole] * 3, [whole] * 3),
        "reduce_scatter": ([whole] * 3, [[0], [1], [2]]),
        "allgather": ([[0], [1], [2]], [whole] * 3),
        "reduce": ([whole] * 3, [nothing, nothing, whole]),
        "bcast": ([nothing, nothing, whole], [whole] * 3),
    }[collective]
    assert [list(schedule.inputs(rank)) for rank in range(3)] == begin
    assert [list(schedule.outputs(rank)) for rank in range(3)] == end


def test_reverse_turns_sends_into_reductions_last_round_first():
    hops = [[Round([Send(1, [0])]), Round([Send(2, [0])])], [Round([], [Recv(0, [0])]), Round()]]
    hops.append([Round(), Round([], [Recv(0, [0])])])
    mirrored = reverse(Schedule("bcast", "hops", 3, 1, lambda rank: hops[rank]))
    assert mirrored.collective == "reduce"
    assert mirrored.program(0) == [Round([], [Recv(2, [0], True)]), Round([], [Recv(1, [0], True)])]
    assert mirrored.program(1) == [Round([], []), Round([Send(0, [0])], [])]


def test_reverse_refuses_reductions():
    reducing = reverse(ALLGATHER_OF_TWO).but(collective="allgather")
    with pytest.raises(ValueError, match="swap reduces"):
        reverse(reducing).program(0)


def test_then_runs_one_after_the_other_and_refuses_what_does_not_fit():
    both = then(reverse(ALLGATHER_OF_TWO), ALLGATHER_OF_TWO, "allreduce")
    assert both.program(1) == reverse(ALLGATHER_OF_TWO).program(1) + ALLGATHER_OF_TWO.program(1)
    assert verify(both).ok
    for other in (ALLGATHER_OF_TWO.but(size=3), ALLGATHER_OF_TWO.but(chunks=4)):
        with pytest.raises(ValueError, match="differ in ranks or chunks"):
            then(ALLGATHER_OF_TWO, other, "allreduce")


def test_renumber_maps_one_chunk_to_many():
    wide = renumber(ALLGATHER_OF_TWO, 4, lambda c: (2 * c, 2 * c + 1))
    assert wide.chunks == 4
    assert wide.program(0) == [Round([Send(1, [0, 1])], [Recv(1, [2, 3])])]


@pytest.mark.parametrize(("size", "inner"), [(3, 2), (5, 4), (6, 4), (7, 4), (7, 5), (8, 8)])
def test_fold_keeps_rank_order_and_leaves_nobody_out(size, inner):
    whole = find("allreduce", "one_shot").schedule(inner)
    report = verify(fold(whole, size, everyone_owns=False))
    assert report.ok, report
    assert report.in_order
    assert report.identical
    gathered = find("allgather", "direct").schedule(inner)
    assert verify(fold(gathered, size, everyone_owns=True)).ok


@pytest.mark.parametrize(("size", "inner"), [(5, 2), (9, 4), (3, 4)])
def test_fold_refuses_a_size_out_of_reach(size, inner):
    with pytest.raises(ValueError, match=f"{size} ranks do not fold into {inner}"):
        fold(find("allreduce", "one_shot").schedule(inner), size, everyone_owns=False)


def test_forward_hands_a_reduce_on():
    to_zero = find("reduce", "linear").schedule(4)
    assert forward(to_zero, 0) is to_zero
    report = verify(forward(to_zero, 2))
    assert report.ok
    assert report.in_order
    assert report.schedule.root == 2


def test_unknown_names_list_what_there_is():
    with pytest.raises(ValueError, match="no collective 'scan'; there are allreduce, reduce_scatter"):
        algorithms("scan")
    with pytest.raises(ValueError, match=f"'rign'; there are {', '.join(algorithms('allreduce'))}$"):
        find("allreduce", "rign")
    with pytest.raises(ValueError, match="bcast has no algorithm 'ring'"):
        mpicoll.schedule("bcast", "ring", size=4)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_sizes_and_roots_out_of_range_raise(collective):
    for entry in algorithms(collective).values():
        for size in (0, -1):
            with pytest.raises(ValueError, match=f"size {size}: "):
                entry.schedule(size)
        for root in (-1, 4):
            with pytest.raises(ValueError, match=rf"root {root} is not one of the ranks 0\.\.3"):
                entry.schedule(4, root)


def test_the_packages_can_be_called():
    assert {"binomial_tree", "linear"} <= set(mpicoll.algorithms("bcast"))
    assert mpicoll.schedule("allreduce", "ring", size=4).size == 4
    assert all(entry.summary for name in COLLECTIVES for entry in mpicoll.algorithms(name).values())


@pytest.fixture
def handed_on(monkeypatch):
    """One new decorated function, and nothing else."""
    algorithms("allreduce")  # so that what is loaded is loaded before the copy
    monkeypatch.setattr(registry, "_table", dict(registry._table))

    @algorithm("bcast", ordered=True)
    def handed_on(rank, size, root):
        """From each rank to the next."""
        place = (rank - root) % size
        for step in range(size - 1):
            yield Round(
                [Send((rank + 1) % size, [0])] if place == step else [],
                [Recv((rank - 1) % size, [0])] if place == step + 1 else [],
            )

    return handed_on


def test_one_new_function_is_enough(handed_on):
    for collective in ("bcast", "reduce", "allreduce"):
        assert "handed_on" in mpicoll.algorithms(collective)
        for size in (1, 2, 5, 8):
            for root in (0, size - 1):
                report = verify(mpicoll.schedule(collective, "handed_on", size, root))
                assert report.ok, report
    assert "handed_on" not in mpicoll.algorithms("allgather")
    assert mpicoll.algorithms("reduce")["handed_on"].summary == "From each rank to the next."


def test_a_name_that_is_taken_raises(handed_on):
    with pytest.raises(ValueError, match="bcast 'handed_on' is registered twice"):
        algorithm("bcast")(handed_on)
    with pytest.raises(ValueError, match="allreduce 'ring' is registered twice"):
        algorithm("allreduce", name="ring")(handed_on)
    with pytest.raises(ValueError, match="allreduce 'rabenseifner' is registered twice"):
        algorithm("allgather", name="other", allreduce="rabenseifner")(handed_on)


def test_the_new_function_is_gone_again():
    with pytest.raises(ValueError, match="no algorithm 'handed_on'"):
        find("bcast", "handed_on")
