"""What belongs to a communicator: a private duplicate, its tags, its configuration, the cache of one-shot plans.

One duplicate a communicator, made at the first call on it, kept as its attribute and freed with it. Everything on it
happens in the same order on all ranks.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np
from mpi4py import MPI

from . import select, tuning
from .memory import shown
from .transport import TRANSPORTS, Decision, decide

if TYPE_CHECKING:
    from mpicoll.schedule import Algorithm

    from .plan import Plan
    from .select import Call
    from .steps import Lowered

ONE_SHOT_TAG = 0  # one-shot calls end before they return and come in one order: one tag does for all of them
CACHED_PLANS = 128
IN_DOUBT = Decision("staged", "nothing was asked")
_states: dict[int, Private] = {}
_keyval = MPI.KEYVAL_INVALID


@dataclass(frozen=True)
class Config:
    """What is configured; rank 0 reads it once a communicator and tells the others, so that ranks never differ."""

    segment_bytes: int | None = None
    tuning: tuning.Tuning = field(default_factory=tuning.default)
    check: bool = False
    debug: bool = False
    transport: Decision | str = IN_DOUBT  # of device memory; or why what was asked for cannot be

    @staticmethod
    def from_environment() -> Config:
        """MPICOLL_SEGMENT_BYTES, _TUNING, _CHECK, _DEBUG, _TRANSPORT. ValueError names the variable."""
        text = os.environ.get("MPICOLL_SEGMENT_BYTES", "")
        if text and (not text.isdecimal() or int(text) < 1):
            raise ValueError(f"MPICOLL_SEGMENT_BYTES is {text!r}: give a number of bytes, at least 1")
        check = os.environ.get("MPICOLL_CHECK", "0")
        if check not in ("", "0", "1"):
            raise ValueError(f"MPICOLL_CHECK is {check!r}: give 0 or 1")
        path = os.environ.get("MPICOLL_TUNING", "")
        return Config(
            int(text) if text else None,
            tuning.read(path) if path else tuning.default(),
            check == "1",
            os.environ.get("MPICOLL_DEBUG", "").lower() == "info",
            _transport(os.environ.get("MPICOLL_TRANSPORT", "") or "auto"),
        )


def _transport(asked: str) -> Decision | str:
    if asked not in TRANSPORTS:
        raise ValueError(f"MPICOLL_TRANSPORT is {asked!r}: give {', '.join(TRANSPORTS)}")
    try:
        return decide(asked)
    except ValueError as error:  # it matters only to who has device memory
        return str(error)


class Private:
    """The private side of one communicator."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm = MPI.Intracomm(comm).Dup()
        self.rank, self.size = self.comm.rank, self.comm.size
        # A rank whose own part failed must not leave the others waiting: the error itself is what is told.
        config: Config | Exception | None = None
        if self.rank == 0:
            try:
                config = Config.from_environment()
            except Exception as error:
                config = error
        config = self.comm.bcast(config)
        if not isinstance(config, Config):
            self.comm.Free()
            raise config or ValueError("rank 0 told no configuration")
        self.config = config
        self.nodes = nodes_of(self.comm)
        self.cache: dict[Any, Plan] = {}
        self.lowered: dict[Any, Lowered] = {}
        self.chosen: dict[Any, tuple[Algorithm, str]] = {}
        self.plans: WeakSet[Plan] = WeakSet()
        self.live: set[int] = set()
        self.tag_limit = self.comm.Get_attr(MPI.TAG_UB) or 32767
        self.next_tag = ONE_SHOT_TAG + 1
        self.wrapped = False
        self.devices: dict[int, Any] = {}  # what one-shot plans share on each
        self._scratch = np.empty(0, np.uint8)

    @cached_property
    def alone(self) -> MPI.Intracomm:
        """A communicator of this rank by itself, for what it packs.

        On a communicator of several ranks MPICH unpacks a long message to oneself by segments, and fails where the end
        of one lies within an element.
        """
        return MPI.COMM_SELF.Dup()

    def scratch(self, nbytes: int) -> np.ndarray:
        """Memory that one-shot plans share, since only one of them runs at a time; it only grows."""
        if len(self._scratch) < nbytes:
            self.forget()
            self._scratch = np.empty(0, np.uint8)
            self._scratch = np.empty(nbytes, np.uint8)
        return self._scratch[:nbytes]

    def forget(self) -> None:
        """Give up the cached plans: each keeps the memory it was made with, and the sizes of many would add up."""
        while self.cache:
            self.cache.popitem()[1].free()

    def keep(self, key: Any, plan: Plan) -> None:
        """Cache a one-shot plan; the oldest goes, and is made again if it is still in use."""
        self.cache[key] = plan
        if len(self.cache) > CACHED_PLANS:
            self.cache.pop(next(iter(self.cache))).free()

    def select(self, name: str, call: Call) -> tuple[Algorithm, str]:
        """As ``select.select``, which takes longer than all else in making a plan; the oldest choices go."""
        key = name, call.collective, call.nbytes, call.commutes
        if key not in self.chosen:
            self.chosen[key] = select.select(name, call, self.config.tuning, self.config.segment_bytes)
            if len(self.chosen) > CACHED_PLANS:
                self.chosen.pop(next(iter(self.chosen)))
        return self.chosen[key]

    def remember(self, key: Any, lowered: Lowered) -> None:
        """Keep the steps of a call for other buffers of the same kind; the oldest go."""
        self.lowered[key] = lowered
        if len(self.lowered) > CACHED_PLANS:
            self.lowered.pop(next(iter(self.lowered)))

    def tag(self) -> int:
        """Agree on a tag that no live plan has, on any rank. Collective; costs messages only after a wrap."""
        while True:
            tag = self.next_tag
            self.next_tag = tag + 1 if tag < self.tag_limit else ONE_SHOT_TAG + 1
            self.wrapped |= self.next_tag <= tag
            if not self.wrapped or not self.comm.allreduce(tag in self.live, MPI.LOR):
                self.live.add(tag)
                return tag

    def free(self) -> None:
        """Free every plan and the duplicate. Collective."""
        for plan in list(self.plans):
            plan._discard()
        self.cache.clear()
        self.devices.clear()
        self.comm.Free()
        if "alone" in vars(self):
            self.alone.Free()


def nodes_of(comm: MPI.Intracomm) -> tuple[int, ...]:
    """The node of each rank: 0, 1, ... in the order of their first ranks. Collective."""
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    first = node.bcast(comm.rank)
    node.Free()
    firsts = comm.allgather(first)
    number = {leader: i for i, leader in enumerate(dict.fromkeys(firsts))}
    return tuple(number[leader] for leader in firsts)


def private(comm: Any) -> Private:
    """The private side of a communicator (None: MPI.COMM_WORLD); collective at the first call on it.

    TypeError: not a communicator. ValueError: null or freed, or an intercommunicator.
    """
    comm = MPI.COMM_WORLD if comm is None else comm
    if not isinstance(comm, MPI.Comm):
        raise TypeError(f"comm is {shown(comm)}: pass an mpi4py.MPI.Intracomm such as MPI.COMM_WORLD")
    if comm == MPI.COMM_NULL:
        raise ValueError("comm is MPI.COMM_NULL or was freed: pass a live communicator")
    known = _states.get(comm.handle)
    if known is not None:
        return known
    if comm.Is_inter():
        raise ValueError("comm is an intercommunicator: pass an intracommunicator, for example comm.Merge()")
    global _keyval
    if _keyval == MPI.KEYVAL_INVALID:
        _keyval = MPI.Comm.Create_keyval(delete_fn=_forget)
    state = Private(comm)  # type: ignore[arg-type]
    comm.Set_attr(_keyval, state)
    _states[comm.handle] = state
    return state


def _forget(comm: MPI.Comm, keyval: int, state: Private) -> None:
    """The communicator is being freed, on all its ranks: so is its private side."""
    _states.pop(comm.handle, None)
    state.free()
