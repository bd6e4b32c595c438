"""A program bound to buffers: persistent requests, and one flat list of bound calls.

The list is the whole hot loop: start this, wait for that, add those two. It can stop at any wait and go on later, so
that several plans advance together.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from mpi4py import MPI

from .bind import Place
from .ops import Operation
from .prequest import AsPrequest
from .private import Private

_outstanding: list[Plan] = []  # started and not waited for, in whatever thread
UNROLLED = 128  # calls up to which a plan gets a function of its own; the loop's cost no longer shows beyond


class Plan(AsPrequest, partial):
    """A collective that can be run again and again, as MPI 4's persistent ones.

    ``plan()`` is ``plan.start()`` and ``plan.wait()``. ``test()`` advances without blocking and says whether the plan
    is through. Every rank starts its plans on a communicator in the same order. One plan belongs to one thread.

    ``algorithm`` is what runs and ``why`` the reason; ``rounds`` those in which this rank speaks, ``messages`` those
    it sends; ``nbytes`` those of the whole vector; ``transport`` is "direct" (MPI reads the buffers) or "staged" (it
    reads copies in host memory), and ``transport_why`` the reason.

    It is a functools.partial so that calling it stays in C: a ``__call__`` in Python costs half a microsecond a call.
    """

    collective: str
    algorithm: str
    why: str
    rounds: int
    nbytes: int
    size: int
    messages: int
    transport: str
    transport_why: str
    _calls: list[Callable[[], Any]]
    _tests: dict[int, Callable[[], bool]]
    _thread: int  # that started it
    _at: int | None  # the next call; None when not started, and the number of calls when through but not waited for
    _free: weakref.finalize
    _run: Callable[..., Any]
    _check: Callable[[], None] | None  # what a start needs

    def _together(self) -> None:
        """Run while other plans are started: they advance too."""
        self.start()
        self.wait()

    def start(self) -> None:
        """Begin: what needs no waiting is done. RuntimeError: already started, or freed; or its operation is."""
        if self._at is not None:
            raise RuntimeError(f"{self!r} is started already: wait for it first")
        if not self._free.alive:
            _refuse(repr(self))
        if self._check is not None:
            self._check()
        self._at, self._thread = 0, threading.get_ident()
        _outstanding.append(self)
        self._run(self._advance)

    def wait(self) -> None:
        """Finish what was started; other plans that this thread has started advance too. RuntimeError: not started."""
        if self._at is None:
            raise RuntimeError(f"{self!r} is not started")
        if _outstanding == [self]:
            _outstanding.remove(self)  # this one alone: another thread may have added its own by now
            self._run(_loop, self._calls[self._at :])
            self._at = None
            return
        while not self.test():
            os.sched_yield()

    def test(self) -> bool:
        """Advance as far as it goes without blocking, all plans of this thread; whether this one is through."""
        if self._at is None:
            raise RuntimeError(f"{self!r} is not started")
        here = threading.get_ident()
        for plan in tuple(_outstanding):
            if plan is self or plan._thread == here:  # what another thread has started is its own to advance
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


def make_plan(
    private: Private,
    place: Place,
    operation: Operation | None,
    tag: int,
    keep: Any,
    around: tuple[list, list] = ([], []),
    **facts: Any,
) -> Plan:
    """Bind the steps of a place, with local calls before and after; ``facts`` become the plan's attributes.

    ``keep`` is kept alive with it.
    """
    binder = place.binder(private.comm, operation, tag)
    calls, tests = binder.bind(place.steps)
    check = operation.live if operation is not None and operation.user is not None else None
    before = [*([check] if check else []), *around[0]]
    calls = [*before, *calls, *around[1]]
    tests = {len(before) + at: test for at, test in tests.items()}
    run, resume = place.runners(operation)
    itself: list[weakref.ref[Plan]] = []  # weakly: a plan that nobody holds frees its requests at once
    plan = Plan(run, _bound(calls, lambda: itself[0]()._together()))  # type: ignore[union-attr]
    itself.append(weakref.ref(plan))
    vars(plan).update(facts, size=private.size, messages=binder.sends, _keep=(keep, place.keep))
    vars(plan).update(transport=place.transport.name, transport_why=place.transport.why)
    plan._calls, plan._tests, plan._at = calls, tests, None
    plan._run, plan._check = resume, check
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


def _release(requests: list[MPI.Prequest], live: set[int], tag: int) -> None:
    live.discard(tag)
    if MPI.Is_finalized():
        return
    for request in requests:
        request.Free()
    requests.clear()
