"""Communicators come, are used and go; the user's messages and ours do not meet."""

import numpy as np
import pytest
from calls import KINDS, Call
from mpi4py import MPI

import mpicoll
from mpicoll.runtime import cut
from mpicoll.runtime.private import _states, private

pytestmark = pytest.mark.mpi

some = pytest.mark.parametrize("comm", [1, 3, 8], indirect=True)


def total(comm) -> int:
    return comm.size * (comm.size + 1) // 2


@pytest.mark.parametrize("comm", [4], indirect=True)
def test_hundreds_of_communicators(comm):
    # FIELD_REPORTS H4: a duplicate that is not freed runs out after 2048 of them; three are made and freed a turn.
    before = len(_states)
    x = np.full(5, 1.0)
    for turn in range(320):
        half = comm.Split(comm.rank % 2)
        mpicoll.allreduce(x, y := np.empty(5), None, half)
        plan = mpicoll.allreduce_init(x, np.empty(5), None, half) if turn % 50 == 0 else None
        duplicate = private(half).comm
        half.Free()
        assert duplicate == MPI.COMM_NULL, "freed with its communicator"
        assert (y == 2).all()
        if plan is not None:
            with pytest.raises(RuntimeError, match="is freed"):
                plan()
    assert len(_states) == before


@pytest.mark.parametrize("comm", [4], indirect=True)
def test_a_communicator_that_is_freed_under_a_started_plan(comm):
    half = comm.Split(comm.rank % 2)
    plan = mpicoll.allreduce_init(np.ones(5), np.empty(5), None, half)
    plan.start()
    comm.Barrier()
    half.Free()
    for way in (plan, plan.start):
        with pytest.raises(RuntimeError, match="is freed"):
            way()
    with pytest.raises(RuntimeError, match="is not started"):
        plan.wait()
    mpicoll.allreduce(np.ones(5), y := np.empty(5), None, comm)
    assert (y == 4).all()


@some
def test_one_duplicate_a_communicator(comm):
    first = private(comm)
    for _ in range(20):
        mpicoll.allreduce(np.ones(3), np.empty(3), None, comm)
        mpicoll.bcast_init(np.ones(3), 0, comm).free()
    assert private(comm) is first
    assert first.comm.handle != comm.handle
    again = MPI.Intracomm.fromhandle(comm.handle)  # another object for the same communicator
    assert private(again) is first


@some
def test_the_users_own_receive_is_not_eaten(comm):
    box = np.full(3, -1.0)
    request = comm.Irecv(box, MPI.ANY_SOURCE, MPI.ANY_TAG)
    for name in KINDS:
        Call(comm, "allreduce", 3, dtype="f8").once(name)
    assert not request.Test()
    comm.Barrier()
    comm.Send(np.full(3, 7.0), (comm.rank + 1) % comm.size, 0)
    request.Wait()
    assert (box == 7).all()


@some
def test_a_users_message_under_way_is_not_taken(comm):
    request = comm.Isend(np.full(3, 7.0), (comm.rank + 1) % comm.size, 0)
    Call(comm, "allreduce", 3, dtype="f8").once("ring")
    box = np.empty(3)
    comm.Recv(box, MPI.ANY_SOURCE, 0)
    request.Wait()
    assert (box == 7).all()


def plans(comm, number: int) -> tuple[list[mpicoll.Plan], list[int]]:
    """New plans of the sum of rank + 1, and their tags."""
    made, tags, state = [], [], private(comm)
    for _ in range(number):
        before = set(state.live)
        made.append(mpicoll.allreduce_init(np.full(9, comm.rank + 1.0), np.empty(9), None, comm))
        tags += state.live - before
    return made, tags


@some
def test_tags_wrap_and_skip_those_in_use(comm):
    state = private(comm)
    held, tags = plans(comm, 3)
    assert tags == [1, 2, 3]
    state.next_tag = state.tag_limit - 1
    made, tags = plans(comm, 4)
    assert tags == [state.tag_limit - 1, state.tag_limit, 4, 5]
    for plan in (*held, *made):
        plan.start()
    for plan in (*made, *held) if comm.rank % 2 else (*held, *made):
        plan.wait()
    for plan in held:
        plan.free()
    state.next_tag = state.tag_limit
    more, tags = plans(comm, 3)
    assert tags == [1, 2, 3]  # the limit itself is still in use
    for plan in (*made, *more):
        plan()
        plan.free()


@some
def test_a_tag_that_only_one_rank_still_holds_is_skipped(comm):
    state = private(comm)
    (first, second), _ = plans(comm, 2)
    if comm.rank:
        first.free()
    state.next_tag = state.tag_limit
    assert plans(comm, 2)[1] == [state.tag_limit, 3]
    second.free()


@some
def test_a_low_limit_of_tags(comm):
    state = private(comm)
    state.tag_limit = 40
    for turn in range(90):
        (plan,), tags = plans(comm, 1)
        assert tags == [turn % 40 + 1]
        plan()
        plan.free()


@some
@pytest.mark.parametrize("limit", [8, 200])
def test_messages_beyond_the_limit_of_mpi(comm, limit, monkeypatch):
    monkeypatch.setattr(cut, "LIMIT_BYTES", limit)  # FIELD_REPORTS C4, C6
    for name in KINDS:
        for in_place in (False, True):
            call = Call(comm, "allreduce", 2007 if limit > 8 else 51, in_place=in_place)
            call.planned(name, turns=(1,))


@some
@pytest.mark.parametrize("segments", [1, 2, 3, 7])
def test_segments(comm, segments, monkeypatch):
    monkeypatch.setattr(cut, "WHOLE_SEGMENTS", 1)
    monkeypatch.setattr(cut, "EAGER_BYTES", 0)
    count = 7001
    monkeypatch.setenv("MPICOLL_SEGMENT_BYTES", str(4 * (-(-count // comm.size) // segments + 1)))
    for name in KINDS:
        for in_place in (False, True):
            call = Call(comm, "allreduce", count, in_place=in_place)
            (call.planned if in_place else call.once)(name, turns=(0, 1))
    assert private(comm).config.segment_bytes == int(4 * (-(-count // comm.size) // segments + 1))


@some
def test_cartesian(comm):
    grid = comm.Create_cart([comm.size], periods=[True], reorder=False)
    x = np.full(3, comm.rank + 1.0)
    mpicoll.allreduce(MPI.IN_PLACE, x, None, grid)
    assert (x == total(comm)).all()
    mpicoll.allreduce_init(MPI.IN_PLACE, x, MPI.MAX, grid)()
    assert (x == total(comm)).all()
    grid.Free()


@some
def test_ranks_in_another_order(comm):
    back = comm.Split(0, -comm.rank)
    x = np.full(2, back.rank)
    y = np.empty(2 * back.size, x.dtype)
    mpicoll.allgather(x, y, back)
    assert (y == np.repeat(np.arange(back.size), 2)).all()
    back.Free()


def test_the_default_is_the_world():
    x = np.full(3, MPI.COMM_WORLD.rank + 1.0)
    mpicoll.allreduce(MPI.IN_PLACE, x)
    assert (x == total(MPI.COMM_WORLD)).all()
    mpicoll.allreduce(MPI.IN_PLACE, x, None, MPI.COMM_SELF)
    assert (x == total(MPI.COMM_WORLD)).all()


@some
def test_debugging_says_what_runs_and_why(comm, capfd, monkeypatch):
    monkeypatch.setenv("MPICOLL_DEBUG", "info")
    mpicoll.allreduce(np.ones(4), np.empty(4), None, comm, algorithm="ring")
    said = capfd.readouterr().err
    assert f"mpicoll: rank {comm.rank} of {comm.size} on " in said
    assert "allreduce of 32 bytes by ring (asked for)" in said
