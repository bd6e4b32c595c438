"""Steps -> bound calls and persistent requests; and the place where they run when the buffers are in host memory."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from mpi4py import MPI

from .ops import Operation
from .steps import RECVBUF, SCRATCH, SENDBUF, WORK, Combine, Copy, Final, Slice, Start, Step, Wait
from .transport import Decision

Call = Callable[[], Any]
HOST = Decision("direct", "the buffers are in host memory")


class Place(Protocol):
    """Where the steps of a plan run. ``keep`` is kept alive with the plan."""

    steps: Sequence[Step]
    transport: Decision
    keep: Any

    def binder(self, comm: MPI.Intracomm, operation: Operation | None, tag: int) -> Binder:
        """What binds the steps."""

    def runners(self, operation: Operation | None) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """What runs the whole plan, and what runs a part of it while other plans may be running."""


class Binder:
    """Makes the calls and the requests of a list of steps; what depends on the kind of memory is in subclasses."""

    def __init__(self, comm: MPI.Intracomm, operation: Operation | None, tag: int) -> None:
        self.comm, self.operation, self.tag = comm, operation, tag
        self.requests: list[MPI.Prequest] = []
        self.sends = 0

    def bind(self, steps: Sequence[Step]) -> tuple[list[Call], dict[int, Callable[[], bool]]]:
        """The calls, and at the place of each wait the test that stands for it."""
        calls: list[Call] = []
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
                calls.append(self.operation.combine(*map(self.array, step)))
            elif isinstance(step, Copy):
                calls.append(self.copy(step))
            elif isinstance(step, Final):
                if average:
                    calls.append(self.divide(step))
            else:
                self.other(step, calls, tests)
            self.after(number, calls)
        return calls, tests

    def _message(self, step: Start) -> MPI.Prequest:
        make = self.comm.Send_init if step.sends else self.comm.Recv_init
        self.sends += step.sends
        request = make([self.data(step.at), MPI.BYTE], step.peer, self.tag)
        self.requests.append(request)
        return request

    def array(self, at: Slice) -> Any:
        """Elements as an array that ``operation.combine`` takes."""
        raise NotImplementedError

    def data(self, at: Slice) -> Any:
        """The bytes of a message, as mpi4py takes them."""
        raise NotImplementedError

    def copy(self, step: Copy) -> Call:
        """The call that copies."""
        raise NotImplementedError

    def divide(self, step: Final) -> Call:
        """The call that makes a sum an average."""
        raise NotImplementedError

    def other(self, step: Step, calls: list[Call], tests: dict[int, Callable[[], bool]]) -> None:
        """Steps that only some kinds of memory have."""
        raise NotImplementedError(f"{step} on the host")

    def after(self, number: int, calls: list[Call]) -> None:
        """What must follow step ``number``."""


class HostPlace:
    """NumPy arrays: of the caller (None: there is none), of working memory and of scratch."""

    transport = HOST

    def __init__(
        self,
        steps: Sequence[Step],
        sendbuf: np.ndarray | None,
        recvbuf: np.ndarray | None,
        work: np.ndarray,
        scratch: np.ndarray,
    ) -> None:
        empty = work[:0]
        self.steps, self.keep = steps, None
        self.memories = {
            SENDBUF: empty if sendbuf is None else sendbuf,
            RECVBUF: empty if recvbuf is None else recvbuf,
            WORK: work,
            SCRATCH: scratch,
        }

    def binder(self, comm: MPI.Intracomm, operation: Operation | None, tag: int) -> Binder:
        """As Place."""
        return _HostBinder(comm, operation, tag, self.memories)

    def runners(self, operation: Operation | None) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """As Place. In a context of its own NumPy ignores overflow and NaN.

        A warning turned error would stop one rank in mid-message.
        """
        context = contextvars.copy_context()
        if operation is not None and operation.quiet:
            context.run(_ignore)
        # A context is entered once at a time: a call may find others started, and start.
        return context.run, context.copy().run


class _HostBinder(Binder):
    def __init__(
        self, comm: MPI.Intracomm, operation: Operation | None, tag: int, memories: dict[int, np.ndarray]
    ) -> None:
        super().__init__(comm, operation, tag)
        self.memories = memories
        self.raw = {name: array.view(np.uint8) for name, array in memories.items()}

    def array(self, at: Slice) -> np.ndarray:
        return self.memories[at.memory][at.start : at.stop]

    def data(self, at: Slice) -> np.ndarray:
        itemsize = self.memories[at.memory].itemsize
        return self.raw[at.memory][at.start * itemsize : at.stop * itemsize]

    def copy(self, step: Copy) -> Call:
        source, target = self.array(step.source), self.array(step.target)
        return lambda: np.copyto(target, source)

    def divide(self, step: Final) -> Call:
        array, size = self.array(step.at), self.comm.size
        return lambda: np.true_divide(array, size, out=array, casting="unsafe")


def _ignore() -> None:
    np.seterr(all="ignore")
