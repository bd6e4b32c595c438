"""Every algorithm of every collective at the awkward counts, in place and not; at once and as a plan in turn.

Of each algorithm at each count one of in place and not is a one-shot call and the other a plan: both ways have one
lowering, and the simulator's tests run it on all of them.
"""

import pytest
from calls import ALL, Call

from mpicoll.schedule import COLLECTIVES

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_counts(comm, collective):
    p = comm.size
    for i, count in enumerate(sorted({0, 1, p - 1, p, p + 1, 1000, 10007})):
        for in_place in (False, True) if collective != "bcast" else (False,):
            call = Call(comm, collective, count, in_place=in_place, root=(count + in_place) % p)
            for j, name in enumerate(name for of, name in ALL if of == collective):
                if (i + j + in_place) % 2 or collective == "bcast":
                    call.once(name)
                if not (i + j + in_place) % 2 or collective == "bcast":
                    call.planned(name, turns=(1, 2))


@pytest.mark.parametrize("collective", ["allgather", "reduce_scatter"])
def test_chunks_as_the_caller_counts_them(comm, collective):
    p = comm.size
    for i, counts in enumerate(([0] * p, [5 * (r == p - 1) for r in range(p)], [(3 * r + 1) % 5 for r in range(p)])):
        for j, name in enumerate(name for of, name in ALL if of == collective):
            for in_place in (False, True):
                call = Call(comm, collective, sum(counts), in_place=in_place, counts=counts)
                if (i + j + in_place) % 2:
                    call.once(name)
                else:
                    call.planned(name, turns=(1,))


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_auto(comm, collective):
    for count in (0, 1, 1000, 10007, 200_003):
        call = Call(comm, collective, count)
        call.once(turns=(0, 1))
        plan = call.plan()
        assert plan.algorithm.partition("@")[0].partition(":")[0] in [name for of, name in ALL if of == collective]
        assert plan.why.startswith("auto: ")
        plan.free()


@pytest.mark.parametrize("comm", [3, 8], indirect=True)
@pytest.mark.parametrize("collective", ["allreduce", "reduce"])
def test_dirty_receive_buffers_around_two_kilobytes(comm, collective):
    for name in [name for of, name in ALL if of == collective]:
        for count in (511, 512, 513, 514):  # FIELD_REPORTS A9
            Call(comm, collective, count, dtype="i4").once(name)
