"""The steps of a device, direct and staged: right however late it is, and each wait for it is needed."""

import random

import numpy as np
import pytest
from device_simulator import DeviceSimulator
from hypothesis import given
from hypothesis import strategies as st
from lowering import ALL, Call
from simulator import BrokenError

from mpicoll.runtime import cut
from mpicoll.runtime.fence import fence
from mpicoll.runtime.stage import _Held, stage
from mpicoll.runtime.steps import MIRRORS, Combine, Copy, Lowered, Slice, Start, Sync, Wait

TRANSPORTS = {"direct": list, "staged": stage}


Handed = tuple[Lowered, np.ndarray | None, np.ndarray | None, int]


def programs(call: Call, transport: str) -> list[Handed]:
    """Of each rank what the simulator takes."""
    found = []
    for rank in range(call.size):
        one, *buffers = call.lowered(rank)
        found.append((Lowered(fence(TRANSPORTS[transport](one.steps)), one.scratch), *buffers))
    return found


def run(call: Call, handed: list[Handed]) -> None:
    simulator = DeviceSimulator(np.add)
    for one in handed:
        simulator.add(*one)
    simulator.run()
    for rank in range(call.size):
        result = call.expected(rank)
        assert np.array_equal(simulator.recvbuf(rank)[0, : len(result)], result), f"rank {rank} of {call}"


@pytest.fixture(params=[False, True], ids=["whole", "cut"])
def small_segments(request, monkeypatch):
    """Nothing is small, so that all of it is cut; or all is whole."""
    if request.param:
        monkeypatch.setattr(cut, "WHOLE_SEGMENTS", 1)
        monkeypatch.setattr(cut, "EAGER_BYTES", 0)
        monkeypatch.setattr(cut, "PACK_BYTES", 64)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("collective", "name"), ALL)
def test_right_however_late_the_device_is(collective, name, transport, small_segments):
    rooted = collective in ("reduce", "bcast")
    for size in (1, 2, 3, 6):
        call = Call(collective, name, size, 61, root=(size - 1) * rooted, segment=24)
        call = call.but(in_place=size % 2 == 0 and collective != "bcast")
        run(call, programs(call, transport))


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(("collective", "name"), ALL)
def test_every_wait_for_the_device_is_needed(collective, name, transport, small_segments):
    call = Call(collective, name, 4, 61, segment=24)
    sound = programs(call, transport)
    places = [(r, i) for r, one in enumerate(sound) for i, step in enumerate(one[0].steps) if isinstance(step, Sync)]
    assert len(places) >= call.size
    for rank, place in random.Random(0).sample(places, min(6, len(places))):
        broken = list(sound)
        steps = list(sound[rank][0].steps)
        steps[place] = Sync(-1)
        broken[rank] = (Lowered(steps, sound[rank][0].scratch), *sound[rank][1:])
        with pytest.raises((BrokenError, AssertionError)):
            run(call, broken)


def test_what_only_passes_through_is_not_copied_down_again():
    # In a ring's allgather all but the own chunk is passed on as it came: one copy down in all.
    call = Call("allgather", "ring", 6, 600)
    for one, *_ in programs(call, "staged"):
        down = [step for step in one.steps if isinstance(step, Copy) and step.target.memory >= MIRRORS]
        assert len(down) == 1


def test_messages_that_leave_together_are_copied_down_in_a_row():
    a, b = Slice(1, 0, 4), Slice(1, 4, 8)
    staged = stage([Start(True, 1, a), Start(True, 1, b), Wait(0), Wait(1)])
    assert [type(step) for step in staged] == [Copy, Copy, Start, Start, Wait, Wait]
    assert [step.step for step in fence(staged) if isinstance(step, Sync)] == [1, 2]


def test_the_mirror_forgets_what_the_device_writes():
    a, scratch = Slice(1, 0, 8), Slice(3, 0, 8)
    steps = [Start(True, 1, a), Wait(0), Combine(a, scratch, Slice(1, 2, 4)), Start(True, 1, a), Wait(3)]
    down = [step for step in stage(steps) if isinstance(step, Copy)]
    assert down == [Copy(a, a.mirror()), Copy(Slice(1, 2, 4), Slice(1, 2, 4).mirror())]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12), st.booleans()), max_size=25))
def test_what_the_mirror_holds(changes):
    held, known = _Held(), np.zeros(50, bool)
    for start, length, value in changes:
        held.set(start, start + length, value)
        known[start : start + length] = value
        assert held.ends == sorted(set(held.ends))
        for a, b in ((0, 50), (start, start + length), (start + 1, start + 2)):
            gone = np.ones(50, bool)
            for lo, hi in held.missing(a, b):
                gone[lo:hi] = False
            assert (~gone == (~known & (np.arange(50) >= a) & (np.arange(50) < b))).all()
