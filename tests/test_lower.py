"""Every algorithm lowered and run by the simulator: right, free of races and deadlocks, sendbuf never written."""

import pytest
from lowering import ALL, Call

from mpicoll.runtime import cut
from mpicoll.schedule import REDUCING, find

SIZES = range(1, 10)


def roots(collective: str, size: int) -> list[int]:
    return sorted({0, size - 1}) if collective in ("reduce", "bcast") else [0]


def variants(call: Call):
    """In place and not, the roots that there are, and in rank order where the algorithm keeps it."""
    entry = find(call.collective, call.algorithm)
    orders = [False]
    if call.collective in REDUCING and entry.keeps_order(call.size):
        orders = [False, True] if call.count > 30 else [True]  # what is right in rank order is right in any
    for root in roots(call.collective, call.size):
        for in_place in (False, True) if call.collective != "bcast" else (False,):
            for ordered in orders:
                yield call.but(root=root, in_place=in_place, ordered=ordered)


@pytest.mark.parametrize(("collective", "name"), ALL)
@pytest.mark.parametrize("size", SIZES)
def test_counts(collective, name, size):
    for count in sorted({0, 1, size - 1, size + 1, 37}):
        for call in variants(Call(collective, name, size, count)):
            call.simulate()


@pytest.mark.parametrize(("collective", "name"), ALL)
@pytest.mark.parametrize("segments", [2, 3, 7])
def test_segments(collective, name, segments, monkeypatch):
    # Segmentation must not change a result (FIELD_REPORTS A3); nothing is small, so that all of it is cut. Whole ones
    # are in the other tests.
    monkeypatch.setattr(cut, "WHOLE_SEGMENTS", 1)
    monkeypatch.setattr(cut, "EAGER_BYTES", 0)
    for size in (3, 8):
        chunks = find(collective, name).schedule(size).chunks
        chunk = 1000 // chunks
        segment = -(-chunk // segments)
        while chunk % segment == 0:  # the last one is to be ragged
            segment += 1
        assert -(-chunk // segment) == segments, "the sizes above give this number of segments"
        for i, call in enumerate(variants(Call(collective, name, size, 1000, segment=8 * segment))):
            monkeypatch.setattr(cut, "PACK_BYTES", (0, 64, 1 << 16)[i % 3])
            call.simulate()


@pytest.mark.parametrize(("eager", "pack"), [(0, 0), (64, 1 << 20), (1 << 20, 64)])
@pytest.mark.parametrize("collective", ["allgather", "reduce_scatter", "allreduce"])
def test_thresholds(collective, eager, pack, monkeypatch):
    monkeypatch.setattr(cut, "EAGER_BYTES", eager)
    monkeypatch.setattr(cut, "PACK_BYTES", pack)
    for name in [name for of, name in ALL if of == collective]:
        for size in (4, 7):
            for call in variants(Call(collective, name, size, 50)):
                call.simulate()


@pytest.mark.parametrize("limit", [8, 56, 800])
def test_messages_beyond_the_limit_of_mpi_are_split(limit, monkeypatch):
    monkeypatch.setattr(cut, "LIMIT_BYTES", limit)
    monkeypatch.setattr(cut, "PACK_BYTES", 0)  # packed ones stay below any real limit
    for collective, name in ALL:
        for size in (2, 3, 4):
            call = Call(collective, name, size, 61)
            for steps in call.simulate():
                sent = [step.at.stop - step.at.start for step in steps if hasattr(step, "sends")]
                assert max(sent, default=0) <= limit // 8


@pytest.mark.parametrize("name", ["ring", "direct", "rabenseifner", "recursive_doubling"])
def test_out_of_place_costs_no_copy(name):
    for size in range(2, 10):
        for count in (size + 1, 1000):
            assert Call("allreduce", name, size, count).copies() == 0, (size, count)
            assert Call("allreduce", name, size, count, in_place=True).copies() == 0, (size, count)


def test_a_rank_alone_copies_once():
    for collective, name in ALL:
        most = 0 if collective == "bcast" else find(collective, name).schedule(1).chunks
        assert (most > 0) <= Call(collective, name, 1, 10).copies() <= most
        assert Call(collective, name, 1, 10, in_place=True).copies() == 0


UNEVEN = [(3, 0, 5), (0, 0, 0), (0, 0, 7), (1, 9, 2), (4, 4, 4, 0, 1), (0, 5, 0, 0, 2, 30, 1), (2, 0, 0, 1, 1, 1, 1, 9)]


@pytest.mark.parametrize("counts", UNEVEN, ids=str)
@pytest.mark.parametrize("collective", ["allgather", "reduce_scatter"])
def test_chunks_as_the_caller_counts_them(collective, counts, monkeypatch):
    for name in [name for of, name in ALL if of == collective]:
        for pack in (0, 1 << 16):
            monkeypatch.setattr(cut, "PACK_BYTES", pack)
            for call in variants(Call(collective, name, len(counts), sum(counts), counts=counts)):
                call.simulate()


def test_scratch_stays_small():
    # FIELD_REPORTS A6: peak temporary memory is a small multiple of the vector, and two segments where it streams.
    for name in ("recursive_doubling", "binomial_tree", "linear", "rabenseifner", "ring", "direct"):
        for size in (2, 5, 8):
            lowered = [Call("allreduce", name, size, 1000, in_place=True).lowered(r)[0] for r in range(size)]
            assert max(one.scratch for one in lowered) <= 1000
    call = Call("allreduce", "recursive_doubling", 4, 100_000, in_place=True, segment=8000)
    assert max(call.lowered(rank)[0].scratch for rank in range(4)) == 2 * 1000
