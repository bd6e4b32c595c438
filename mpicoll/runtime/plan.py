"""A program bound to buffers: persistent requests, and one flat list of bound calls.

The list is the whole hot loop: start this, wait for that, add those two. It can stop at any wait and go on later, so
that several plans advance together.
"""

from __future__ import annotations

import contextvars
import os
import weakref
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from mpi4py import MPI

from .ops import Operation
from .private import Private
from .steps import RECVBUF, SCRATCH, SENDBUF, WORK, Combine, Copy, Final, Slice, Start, Step, Wait

_outstanding: list[Plan] = []  # started and not waited for
UNROLLED = 128  # calls up to which a plan gets a function of its own; the loop's cost no longer shows beyond


class Plan(partial):
    """A collective that can be run again and again, as MPI 4's persistent ones.

    ``plan()`` is ``plan.start()`` and ``plan.wait()``. ``test()`` advances without blocking and says whether the plan
    is through. Every rank starts its plans on a communicator in the same order. One plan belongs to one thread.

    ``algorithm`` is what runs and ``why`` the reason; ``rounds`` those in which this rank speaks, ``messages`` those
    it sends; ``nbytes`` those of the whole vector.

    It is a functools.partial so that calling it stays in C: a ``__call__`` in Python costs half a microsecond a call.
    """

    collective: str
    algorithm: str
    why: str
    rounds: int
    nbytes: int
    size: int
    messages: int
    _calls: list[Callable[[], Any]]
    _tests: dict[int, Callable[[], bool]]
    _at: int | None  # the next call; None when not started, and the number of calls when through but not waited for
    _free: weakref.finalize
    _run: Callable[..., Any]

    def _together(self) -> None:
        """Run while other plans are started: they advance too."""
        self.start()
        self.wait()

    def start(self) -> None:
        """Begin: what needs no waiting is done. RuntimeError: already started, or freed."""
        if self._at is not None:
            raise RuntimeError(f"{self!r} is started already: wait for it first")
        if not self._free.alive:
            _refuse(repr(self))
        self._at = 0
        _outstanding.append(self)
        self._run(self._advance)

    def wait(self) -> None:
        """Finish what was started; other plans that are started advance too. RuntimeError: not started."""
        if self._at is None:
            raise RuntimeError(f"{self!r} is not started")
        if _outstanding == [self]:
            _outstanding.clear()
            self._run(_loop, self._calls[self._at :])
            self._at = None
            return
        while not self.test():
            os.sched_yield()

    def test(self) -> bool:
        """Advance as far as it goes without blocking, all started plans; whether this one is through."""
        if self._at is None:
            raise RuntimeError(f"{self!r} is not started")
        for plan in tuple(_outstanding):
            plan._run(plan._advance)
        if self._at < len(self._calls):
            return False
        self._at = None
        _outstanding.remove(self)
        return True

    def free(self) -> None:
        """Free the requests; local. RuntimeError: started and not waited for."""
        if self._at is not None:
            raise RuntimeError(f"{self!r} is started: wait for it first")
        self._discard()

    def _discard(self) -> None:
        """Free the requests, started or not: after its communicator nobody can wait for a plan any more."""
        self._free()
        self.__setstate__((partial(_refuse, repr(self)), (), {}, vars(self)))  # type: ignore[attr-defined]
        if self._at is not None:
            self._at = None
            _outstanding.remove(self)

    def _advance(self) -> None:
        at, calls, tests = self._at or 0, self._calls, self._tests
        while at < len(calls):
            test = tests.get(at)
            if test is None:
                calls[at]()
            elif not test():
                self._at = at
                return
            at += 1
        self._at = at

    def __repr__(self) -> str:
        return f"<{self.collective} plan: {self.algorithm}, {self.size} ranks, {self.nbytes} bytes>"


class _Binder:
    """Makes the calls and the requests of a list of steps."""

    def __init__(
        self, comm: MPI.Intracomm, memories: dict[int, np.ndarray], operation: Operation | None, tag: int
    ) -> None:
        self.comm, self.operation, self.tag = comm, operation, tag
        self.memories = memories
        self.raw = {name: array.view(np.uint8) for name, array in memories.items()}
        self.requests: list[MPI.Prequest] = []
        self.sends = 0

    def bind(self, steps: Sequence[Step]) -> tuple[list[Callable[[], Any]], dict[int, Callable[[], bool]]]:
        """The calls, and at the place of each wait the test that stands for it."""
        calls: list[Callable[[], Any]] = []
        tests: dict[int, Callable[[], bool]] = {}
        by_step: dict[int, MPI.Prequest] = {}
        average = self.operation is not None and self.operation.average
        for number, step in enumerate(steps):
            if isinstance(step, Start):
                by_step[number] = request = self._message(step)
                calls.append(request.Start)
            elif isinstance(step, Wait):
                tests[len(calls)] = by_step[step.request].Test
                calls.append(by_step[step.request].Wait)
            elif isinstance(step, Combine):
                assert self.operation is not None
                calls.append(self.operation.combine(*map(self._array, step)))
            elif isinstance(step, Copy):
                calls.append(_copy(self._array(step.source), self._array(step.target)))
            elif isinstance(step, Final) and average:
                calls.append(_divide(self._array(step.at), self.comm.size))
        return calls, tests

    def _array(self, at: Slice) -> np.ndarray:
        return self.memories[at.memory][at.start : at.stop]

    def _message(self, step: Start) -> MPI.Prequest:
        itemsize = self.memories[step.at.memory].itemsize
        data = self.raw[step.at.memory][step.at.start * itemsize : step.at.stop * itemsize]
        make = self.comm.Send_init if step.sends else self.comm.Recv_init
        self.sends += step.sends
        request = make([data, MPI.BYTE], step.peer, self.tag)
        self.requests.append(request)
        return request


def make_plan(
    private: Private,
    steps: Sequence[Step],
    memories: dict[int, np.ndarray],
    operation: Operation | None,
    tag: int,
    keep: Any,
    **facts: Any,
) -> Plan:
    """Bind steps to memories. ``keep`` is kept alive with the plan; ``facts`` become its attributes."""
    binder = _Binder(private.comm, memories, operation, tag)
    calls, tests = binder.bind(steps)
    # In a context of its own NumPy ignores overflow and NaN: a warning turned error would stop one rank in mid-message.
    context = contextvars.copy_context()
    if operation is not None and operation.quiet:
        context.run(_ignore)
    itself: list[weakref.ref[Plan]] = []  # weakly: a plan that nobody holds frees its requests at once
    plan = Plan(context.run, _bound(calls, lambda: itself[0]()._together()))  # type: ignore[union-attr]
    itself.append(weakref.ref(plan))
    vars(plan).update(facts, size=private.size, messages=binder.sends, _keep=keep)
    plan._calls, plan._tests, plan._at = calls, tests, None
    plan._run = context.copy().run  # a context is entered once at a time: a call may find others started, and start
    plan._free = weakref.finalize(plan, _release, binder.requests, private.live, tag)
    private.plans.add(plan)
    return plan


def _bound(calls: list[Callable[[], Any]], together: Callable[[], None]) -> Callable[[], None]:
    """The hot loop: all calls in a row; ``together`` instead when other plans are started."""
    if len(calls) <= UNROLLED:
        return _unrolled(len(calls))(_outstanding, together, *calls)

    def run() -> None:
        if _outstanding:
            together()
        else:
            _loop(calls)

    return run


@cache
def _unrolled(n: int) -> Callable[..., Callable[[], None]]:
    """A maker of functions that make n calls: each call has its own place in the code, where Python specialises it."""
    names = [f"call{i}" for i in range(n)]
    lines = [f"def make({', '.join(['outstanding', 'together', *names])}):"]
    lines += [" def run():", "  if outstanding:", "   return together()", *(f"  {name}()" for name in names)]
    scope: dict[str, Any] = {}
    exec("\n".join([*lines, " return run"]), scope)
    return scope["make"]


def _refuse(plan: str) -> None:
    raise RuntimeError(f"{plan} is freed")


def _loop(calls: Sequence[Callable[[], Any]]) -> None:
    for call in calls:
        call()


def _ignore() -> None:
    np.seterr(all="ignore")


def _copy(source: np.ndarray, target: np.ndarray) -> Callable[[], None]:
    return lambda: np.copyto(target, source)


def _divide(array: np.ndarray, size: int) -> Callable[[], Any]:
    return lambda: np.true_divide(array, size, out=array, casting="unsafe")


def _release(requests: list[MPI.Prequest], live: set[int], tag: int) -> None:
    live.discard(tag)
    if MPI.Is_finalized():
        return
    for request in requests:
        request.Free()
    requests.clear()


def memories(
    sendbuf: np.ndarray | None, recvbuf: np.ndarray | None, work: np.ndarray, scratch: np.ndarray
) -> dict[int, np.ndarray]:
    """The four memories that steps name."""
    empty = work[:0]
    return {
        SENDBUF: empty if sendbuf is None else sendbuf,
        RECVBUF: empty if recvbuf is None else recvbuf,
        WORK: work,
        SCRATCH: scratch,
    }
