"""Properties of the lowering on generated calls, and that the simulator itself sees what it is there for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowering import ALL, Call
from simulator import POISON, BrokenError, Simulator

from mpicoll.runtime import cut
from mpicoll.runtime.steps import RECVBUF, SCRATCH, SENDBUF, Combine, Copy, Lowered, Slice, Start, Wait
from mpicoll.schedule import REDUCING, find


@st.composite
def calls(draw) -> Call:
    collective, name = draw(st.sampled_from(ALL))
    size = draw(st.integers(1, 9))
    counts = None
    if collective in ("allgather", "reduce_scatter") and draw(st.booleans()):
        counts = tuple(draw(st.lists(st.integers(0, 40), min_size=size, max_size=size)))
    return Call(
        collective,
        name,
        size,
        count=draw(st.integers(0, 300)) if counts is None else sum(counts),
        in_place=collective != "bcast" and draw(st.booleans()),
        root=draw(st.integers(0, size - 1)) if collective in ("reduce", "bcast") else 0,
        ordered=collective in REDUCING and find(collective, name).keeps_order(size) and draw(st.booleans()),
        counts=counts,
        segment=draw(st.integers(1, 1000)),
    )


@given(
    calls(),
    st.integers(1, 4),
    st.sampled_from([0, 16, 100, 1 << 16]),
    st.sampled_from([0, 16, 100, 1 << 12]),
    st.sampled_from([8, 40, 1 << 30]),
)
def test_any_call_is_right(call, whole, pack, eager, limit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cut, "WHOLE_SEGMENTS", whole)
        patch.setattr(cut, "PACK_BYTES", pack)
        patch.setattr(cut, "EAGER_BYTES", eager)
        patch.setattr(cut, "LIMIT_BYTES", limit)
        call.simulate()


@st.composite
def cuts(draw) -> tuple[list[int], list[int]]:
    lengths = draw(st.lists(st.integers(0, 20), min_size=1, max_size=10))
    chunks = draw(st.permutations(range(len(lengths))))
    return [0, *np.cumsum(lengths).tolist()], chunks[: draw(st.integers(0, len(chunks)))]


@given(cuts(), st.integers(1, 64), st.integers(1, 16))
def test_messages_cover_the_chunks_once_and_in_order(cut_of, segment_bytes, itemsize):
    edges, chunks = cut_of
    cutter = cut.Cutter(edges, itemsize, segment_bytes)
    wanted = [i for c in chunks for i in range(edges[c], edges[c + 1])]
    for ranges in ([cutter.ranges(chunks)], cutter.messages(chunks)):
        assert [i for message in ranges for lo, hi in message for i in range(lo, hi)] == wanted
        assert all(lo < hi for message in ranges for lo, hi in message)
    assert all(b[0] != a[1] for a, b in zip(cutter.ranges(chunks), cutter.ranges(chunks)[1:], strict=False))


def test_a_long_message_is_cut_and_a_shorter_one_is_not():
    cutter = cut.Cutter([0, 1000], 4, segment_bytes=400)
    assert cutter.messages([0]) == [[(lo, lo + 100)] for lo in range(0, 1000, 100)]
    assert cut.Cutter([0, 400], 4, segment_bytes=400).messages([0]) == [[(0, 400)]]
    assert cut.Cutter([0, 0], 4).messages([0]) == []


def test_apart_is_packed_when_small():
    edges = [0, 10, 20, 30]
    assert cut.Cutter(edges, 4).messages([0, 2]) == [[(0, 10), (20, 30)]]
    large = [edge * cut.PACK_BYTES for edge in edges]
    assert len(cut.Cutter(large, 4).messages([0, 2])) == 2


# -- the simulator -----------------------------------------------------------------------------------------------------


def recv(lo, hi):
    return Slice(RECVBUF, lo, hi)


def run(*programs, scratch=8):
    simulator = Simulator(np.add)
    for steps in programs:
        simulator.add(Lowered(list(steps), scratch), np.arange(4), np.arange(4), 0)
    simulator.run()
    return simulator


def test_what_is_sound_runs():
    swap = [
        [Start(False, 1 - r, Slice(SCRATCH, 0, 4)), Start(True, 1 - r, recv(0, 4)), Wait(0), Wait(1)] for r in range(2)
    ]
    both = [[*steps, Combine(Slice(SCRATCH, 0, 4), recv(0, 4), recv(0, 4))] for steps in swap]
    assert run(*both).recvbuf(0)[0].tolist() == [0, 2, 4, 6]


SEND, TAKE = Start(True, 1, recv(0, 4)), Start(False, 0, recv(0, 4))
RACES = {
    "written while it is sent": ([SEND, Copy(recv(1, 2), recv(0, 1)), Wait(0)], [TAKE, Wait(0)], "still uses"),
    "read before it came": ([SEND, Wait(0)], [TAKE, Copy(recv(3, 4), Slice(SCRATCH, 0, 1)), Wait(0)], "may still fill"),
    "sent before it came": ([SEND, Wait(0)], [TAKE, Start(True, 0, recv(0, 1)), Wait(0)], "may still fill"),
    "two receives in one place": ([SEND, Wait(0)], [TAKE, TAKE, Wait(0)], "still uses"),
    "never written": ([Copy(Slice(SCRATCH, 0, 1), recv(0, 1))], [], "nothing was written"),
    "the sendbuf is written": ([Copy(recv(0, 1), Slice(SENDBUF, 0, 1))], [], "sendbuf"),
    "outside": ([Copy(recv(0, 2), recv(3, 5))], [], "outside"),
    "another length": ([SEND, Wait(0)], [Start(False, 0, recv(0, 3)), Wait(0)], "elements at one end"),
    "nobody receives": ([SEND, Wait(0)], [], "deadlock"),
    "rendezvous": (
        [SEND, Wait(0), Start(False, 1, recv(0, 4)), Wait(2)],
        [Start(True, 0, recv(0, 4)), Wait(0), TAKE, Wait(2)],
        "deadlock",
    ),
    "not waited for": ([SEND], [TAKE, Wait(0)], "not waited for"),
    "waited for twice": ([SEND, Wait(0), Wait(0)], [TAKE, Wait(0)], "not under way"),
}


@pytest.mark.parametrize(("first", "second", "said"), RACES.values(), ids=RACES)
def test_the_simulator_sees(first, second, said):
    with pytest.raises(BrokenError, match=said):
        run(first, second)


def test_poison_is_no_value():
    assert POISON < 0 <= min(Call("allreduce", "ring", 2, 50).expected(0))
