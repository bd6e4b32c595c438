"""Plans: their life, two at a time, and the cache of those that one-shot calls make."""

import gc
import threading
import weakref

import numpy as np
import pytest
from calls import ALL, KINDS, Call
from mpi4py import MPI

import mpicoll
from mpicoll.runtime.private import CACHED_PLANS, private

pytestmark = pytest.mark.mpi

some = pytest.mark.parametrize("comm", [1, 3, 8], indirect=True)


def total(comm) -> int:
    return comm.size * (comm.size + 1) // 2


@some
@pytest.mark.parametrize(("collective", "name"), [pair for pair in ALL if pair[1] in KINDS])
def test_start_and_wait_and_test(comm, collective, name):
    call = Call(comm, collective, 1000, root=comm.size - 1)
    call.fill(0)
    plan = call.plan(name)
    assert (plan.algorithm, plan.collective, plan.size) == (name, collective, comm.size)
    for turn in range(4):
        call.fill(turn)
        plan.start()
        if turn % 2:
            plan.wait()
        else:
            while not plan.test():
                pass
        call.check(turn)
    plan.free()


@some
def test_a_plan_out_of_turn(comm):
    x = np.ones(4)
    plan = mpicoll.allreduce_init(MPI.IN_PLACE, x, None, comm)
    for call in (plan.wait, plan.test):
        with pytest.raises(RuntimeError, match=r"<allreduce plan: .*> is not started"):
            call()
    plan.start()
    # However soon the messages come: what was started is waited for first, as MPI's persistent collectives want it.
    for call, said in ((plan.start, "started already"), (plan, "started already"), (plan.free, "is started")):
        with pytest.raises(RuntimeError, match=said):
            call()
    plan.wait()
    with pytest.raises(RuntimeError, match="is not started"):
        plan.wait()
    plan.free()
    for call in (plan, plan.start):
        with pytest.raises(RuntimeError, match=r"<allreduce plan: .*> is freed"):
            call()
    plan.free()
    assert (x == comm.size).all()


@some
@pytest.mark.parametrize("algorithm", KINDS)
def test_two_plans_waited_for_in_different_order(comm, algorithm):
    x, y = np.empty(30_000), np.empty(30_000)
    plans = [mpicoll.allreduce_init(MPI.IN_PLACE, v, None, comm, algorithm=algorithm) for v in (x, y)]
    for turn in range(3):
        x[:], y[:] = comm.rank + 1, 10 * (comm.rank + 1) + turn
        for plan in plans:
            plan.start()
        for plan in plans if comm.rank % 2 else plans[::-1]:
            plan.wait()
        assert (x == total(comm)).all()
        assert (y == 10 * total(comm) + turn * comm.size).all()
    for plan in plans:
        plan.free()


@some
def test_a_call_while_a_plan_is_under_way(comm):
    x, y, z = np.full(20_000, comm.rank + 1.0), np.empty(20_000), np.full(50, comm.rank + 1.0)
    plan = mpicoll.allreduce_init(x, y, None, comm, algorithm="ring")
    other = mpicoll.allreduce_init(MPI.IN_PLACE, z, None, comm, algorithm="ring")
    plan.start()
    other()
    mpicoll.allreduce(MPI.IN_PLACE, z, MPI.MAX, comm)
    plan.wait()
    assert (y == total(comm)).all()
    assert (z == total(comm)).all()
    plan.free()
    other.free()


@some
def test_plans_on_two_communicators(comm):
    other = comm.Dup()
    x, y = np.full(9, comm.rank + 1.0), np.full(9, comm.rank + 1.0)
    first = mpicoll.allreduce_init(MPI.IN_PLACE, x, None, comm)
    second = mpicoll.allreduce_init(MPI.IN_PLACE, y, MPI.MAX, other)
    for plan in (first, second):
        plan.start()
    for plan in (second, first) if comm.rank else (first, second):
        plan.wait()
    assert (x == total(comm)).all()
    assert (y == comm.size).all()
    first.free()
    second.free()
    other.Free()


@some
def test_a_plan_keeps_its_arrays_and_a_cached_one_does_not(comm):
    x, y = np.full(100, comm.rank + 1.0), np.empty(100)
    dead = weakref.ref(x), weakref.ref(y)
    mpicoll.allreduce(x, y, None, comm)
    del x, y
    gc.collect()
    assert [ref() for ref in dead] == [None, None]
    x, y = np.full(100, comm.rank + 1.0), np.empty(100)
    alive = weakref.ref(x)
    plan = mpicoll.allreduce_init(x, y, None, comm)
    del x
    gc.collect()
    assert alive() is not None
    plan()
    assert (y == total(comm)).all()
    plan.free()
    del plan
    gc.collect()
    assert alive() is None


@some
def test_memory_that_comes_again_as_another_array(comm):
    # An allocator hands out freed addresses again: as another dtype, order, or read-only, the old plan is not it.
    raw = np.zeros(96, np.uint8)
    for dtype in ("f4", "i4", "f8", "i8", "u4", "f4"):
        x = raw.view(dtype)
        x[:] = comm.rank + 1
        mpicoll.allreduce(MPI.IN_PLACE, x, None, comm)
        assert (x == total(comm)).all(), dtype
        mpicoll.allreduce(MPI.IN_PLACE, x[:3], None, comm)
        assert (x[:3] == total(comm) * comm.size).all()
    x.setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        mpicoll.allreduce(MPI.IN_PLACE, x, None, comm)
    y = raw.view("f8")[::2]
    with pytest.raises(ValueError, match="not contiguous"):
        mpicoll.allreduce(MPI.IN_PLACE, y, None, comm)


@some
def test_many_short_lived_arrays(comm):
    for i in range(200):
        x = np.full(64 + i % 3, comm.rank + 1.0)
        mpicoll.allreduce(MPI.IN_PLACE, x, None, comm)
        assert (x == total(comm)).all()
        del x


@pytest.mark.parametrize("comm", [1, 3], indirect=True)
def test_what_one_shot_calls_share_is_held_once(comm):
    mpicoll.allreduce(np.ones(100), np.empty(100), comm=comm, algorithm="direct")
    for count in (1000, 3000, 9000):
        before = weakref.ref(private(comm)._scratch)
        x, y = np.full(count, comm.rank + 1.0), np.empty(count)
        mpicoll.allreduce(x, y, comm=comm, algorithm="direct")
        assert (y == total(comm)).all()
        gc.collect()
        assert before() is None or before() is private(comm)._scratch


@some
def test_the_cache_is_bounded_and_what_was_evicted_works(comm):
    # The longest first: scratch that is outgrown takes the cached plans with it.
    arrays = [np.empty(count) for count in range(CACHED_PLANS + 20, 0, -1)]
    for again in (arrays, arrays[:40]):  # in order of use, so that those of the second turn were all evicted
        for x in again:
            x[:] = comm.rank + 1
            mpicoll.allreduce(MPI.IN_PLACE, x, None, comm)
            assert (x == total(comm)).all()
    cache = private(comm).cache
    assert len(cache) == CACHED_PLANS
    hit = next(reversed(cache.values()))
    mpicoll.allreduce(MPI.IN_PLACE, arrays[39], None, comm)
    assert next(reversed(cache.values())) is hit


@some
def test_other_arguments_on_the_same_memory_are_other_plans(comm):
    x, y = np.full(8, comm.rank + 1.0), np.empty(8)
    for op, expected in ((MPI.SUM, total(comm)), (MPI.MAX, comm.size), (MPI.MIN, 1), (None, total(comm))):
        for algorithm in ("ring", "direct", "auto"):
            mpicoll.allreduce(x, y, op, comm, algorithm=algorithm)
            assert (y == expected).all()
    for root in range(comm.size):
        y.fill(0)
        mpicoll.reduce(x, y, None, root, comm)
        assert (y == (total(comm) if comm.rank == root else 0)).all()
        z = x.copy()
        y[:] = x
        mpicoll.bcast(y, root, comm)
        assert (y == root + 1).all()
        assert (z == x).all()


@some
def test_many_plans_made_and_freed(comm):
    x = np.ones(8)
    for _ in range(150):
        mpicoll.allreduce_init(x, np.empty(8), None, comm).free()
    for _ in range(50):
        mpicoll.allreduce_init(x, np.empty(8), None, comm)  # and dropped
    gc.collect()
    assert len(private(comm).plans) == 0
    assert not private(comm).live


@pytest.mark.skipif(MPI.Query_thread() < MPI.THREAD_MULTIPLE, reason="this MPI was not started for several threads")
@pytest.mark.parametrize("comm", [3], indirect=True)
def test_threads_with_plans_of_their_own(comm):
    """A thread drives what it has started, and nothing of another's; one-shot calls beside them too."""
    wrong: list[str] = []

    def run(own, planned):
        x, y = np.zeros(3000), np.empty(3000)
        plan = mpicoll.allreduce_init(x, y, comm=own) if planned else lambda: mpicoll.allreduce(x, y, comm=own)
        for turn in range(60):
            x[:] = turn
            if planned:
                plan.start()
                plan.wait()
            else:
                plan()
            if not (y == turn * comm.size).all():
                wrong.append(f"turn {turn}")

    comms = [comm.Dup() for _ in range(3)]
    threads = [threading.Thread(target=run, args=(own, i < 2)) for i, own in enumerate(comms)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for own in comms:
        own.Free()
    assert not wrong
