"""A communicator whose collectives are ours: a program that uses mpi4py changes one line."""

# mypy: disable-error-code="override"
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mpi4py import MPI

from mpicoll.schedule import COLLECTIVES, find

from .agree import agree
from .api import _once, _plan
from .buffers import flat
from .memory import shown
from .plan import Plan
from .private import private
from .problem import EQUAL, KEEPING, Arguments
from .spelling import Spelling, parse

_IN_PLACE = MPI.IN_PLACE
_PREDEFINED = {"COMM_WORLD": MPI.COMM_WORLD, "COMM_SELF": MPI.COMM_SELF}


class Comm(MPI.Intracomm):
    """An MPI.Intracomm whose Allreduce, Reduce, Bcast, Allgather(v), Reduce_scatter(_block) and ``..._init`` are ours.

    They take what mpi4py's take: the same arguments, every spelling of host memory, None for MPI.IN_PLACE. The
    ``_init`` forms give a Plan, which has Start, Wait, Test and Free. ``algorithm`` is a name for all collectives that
    it is called for, or one for each as in ``{"allreduce": "ring", "bcast": "chain"}``; those not named are "auto".
    It is the same communicator, not a copy: freeing it frees the one it was made from. Dup, Clone, Split, Create and
    their kin give a Comm with the same algorithms; Cartesian and graph communicators are mpi4py's own.

    Left to the MPI library, under mpi4py's own names: the other collectives (Gather, Scatter, Alltoall, Scan, Exscan,
    Barrier, the neighbours'), the nonblocking ones (Iallreduce, ...), those in lower case, and intercommunicators.

    Refused, where mpi4py goes on or leaves it to MPI: memory that is not contiguous; spellings that reach beyond their
    memory; sendbuf and recvbuf that overlap in part, lie in different orders or differ in dtype; chunks of a recvbuf
    that overlap; reductions of derived datatypes with gaps, and MPI.SUM and its like on one of several basic types;
    derived datatypes, and Reduce_scatter(_block) with MPI.IN_PLACE, in GPU memory. MPI.Prequest.Startall and
    MPI.Request.Waitall do not take plans.
    """

    algorithm: dict[str, str]

    def __new__(cls, comm: MPI.Intracomm | None = None, algorithm: str | Mapping[str, str] = "auto") -> Comm:
        """TypeError, ValueError: no intracommunicator, or no algorithm of that name."""
        if comm is not None and not isinstance(comm, MPI.Comm):
            raise TypeError(f"comm is {shown(comm)}: pass an mpi4py.MPI.Intracomm such as MPI.COMM_WORLD")
        if comm and comm.Is_inter():
            raise ValueError("comm is an intercommunicator: pass an intracommunicator, for example comm.Merge()")
        self = super().__new__(cls, comm)
        self.algorithm = _names(algorithm)
        return self

    # -- reductions --------------------------------------------------------------------------------------------------

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Any = MPI.SUM) -> None:
        """As MPI.Comm.Allreduce."""
        sendbuf = _IN_PLACE if sendbuf is None else sendbuf
        _once("allreduce", sendbuf, recvbuf, op, 0, self, self.algorithm["allreduce"])

    def Allreduce_init(self, sendbuf: Any, recvbuf: Any, op: Any = MPI.SUM, info: Any = MPI.INFO_NULL) -> Plan:
        """As MPI.Comm.Allreduce_init; ``info`` has no effect."""
        return self._init("allreduce", sendbuf, recvbuf, op)

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Any = MPI.SUM, root: int = 0) -> None:
        """As MPI.Comm.Reduce."""
        sendbuf = _IN_PLACE if sendbuf is None else sendbuf
        _once("reduce", sendbuf, recvbuf, op, root, self, self.algorithm["reduce"])

    def Reduce_init(
        self, sendbuf: Any, recvbuf: Any, op: Any = MPI.SUM, root: int = 0, info: Any = MPI.INFO_NULL
    ) -> Plan:
        """As MPI.Comm.Reduce_init; ``info`` has no effect."""
        return self._init("reduce", sendbuf, recvbuf, op, root)

    def Reduce_scatter(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Any = MPI.SUM
    ) -> None:
        """As MPI.Comm.Reduce_scatter; without ``recvcounts`` the ranks tell each other theirs, at each call."""
        sendbuf = KEEPING if sendbuf is None or sendbuf is _IN_PLACE else sendbuf
        counts = self._counts(sendbuf, recvbuf, op) if recvcounts is None else recvcounts
        _once("reduce_scatter", sendbuf, recvbuf, op, 0, self, self.algorithm["reduce_scatter"], counts)

    def Reduce_scatter_init(
        self,
        sendbuf: Any,
        recvbuf: Any,
        recvcounts: Sequence[int] | None = None,
        op: Any = MPI.SUM,
        info: Any = MPI.INFO_NULL,
    ) -> Plan:
        """As MPI.Comm.Reduce_scatter_init; ``info`` has no effect."""
        sendbuf = KEEPING if sendbuf is None or sendbuf is _IN_PLACE else sendbuf
        counts = self._counts(sendbuf, recvbuf, op) if recvcounts is None else recvcounts
        return self._init("reduce_scatter", sendbuf, recvbuf, op, counts=counts)

    def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Any = MPI.SUM) -> None:
        """As MPI.Comm.Reduce_scatter_block."""
        sendbuf, recvbuf = self._block_buffers(sendbuf, recvbuf)
        _once("reduce_scatter", sendbuf, recvbuf, op, 0, self, self.algorithm["reduce_scatter"], EQUAL)

    def Reduce_scatter_block_init(
        self, sendbuf: Any, recvbuf: Any, op: Any = MPI.SUM, info: Any = MPI.INFO_NULL
    ) -> Plan:
        """As MPI.Comm.Reduce_scatter_block_init; ``info`` has no effect."""
        return self._init("reduce_scatter", *self._block_buffers(sendbuf, recvbuf), op, counts=EQUAL)

    # -- data that moves ---------------------------------------------------------------------------------------------

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """As MPI.Comm.Bcast."""
        _once("bcast", None, buf, None, root, self, self.algorithm["bcast"])

    def Bcast_init(self, buf: Any, root: int = 0, info: Any = MPI.INFO_NULL) -> Plan:
        """As MPI.Comm.Bcast_init; ``info`` has no effect."""
        return self._init("bcast", None, buf, root=root)

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """As MPI.Comm.Allgather."""
        sendbuf = _IN_PLACE if sendbuf is None else sendbuf
        recvbuf = self._gathered(recvbuf) if isinstance(recvbuf, (list, tuple)) else recvbuf
        _once("allgather", sendbuf, recvbuf, None, 0, self, self.algorithm["allgather"], EQUAL)

    def Allgather_init(self, sendbuf: Any, recvbuf: Any, info: Any = MPI.INFO_NULL) -> Plan:
        """As MPI.Comm.Allgather_init; ``info`` has no effect."""
        recvbuf = self._gathered(recvbuf) if isinstance(recvbuf, (list, tuple)) else recvbuf
        return self._init("allgather", sendbuf, recvbuf, counts=EQUAL)

    def Allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """As MPI.Comm.Allgatherv; what lies between the chunks of recvbuf stays as it is."""
        sendbuf = _IN_PLACE if sendbuf is None else sendbuf
        _once("allgather", sendbuf, recvbuf, None, 0, self, self.algorithm["allgather"])

    def Allgatherv_init(self, sendbuf: Any, recvbuf: Any, info: Any = MPI.INFO_NULL) -> Plan:
        """As MPI.Comm.Allgatherv_init; ``info`` has no effect."""
        return self._init("allgather", sendbuf, recvbuf)

    # -- communicators made from this one ----------------------------------------------------------------------------

    def Dup(self, info: Any = None) -> Comm:
        """As MPI.Comm.Dup; a Comm with the same algorithms."""
        return self._like(super().Dup(info))

    def Dup_with_info(self, info: MPI.Info) -> Comm:
        """As MPI.Comm.Dup_with_info; a Comm with the same algorithms."""
        return self._like(super().Dup_with_info(info))

    def Idup(self, info: Any = None) -> tuple[Comm, MPI.Request]:
        """As MPI.Comm.Idup; a Comm with the same algorithms."""
        made, request = super().Idup(info)
        return self._like(made), request

    def Idup_with_info(self, info: MPI.Info) -> tuple[Comm, MPI.Request]:
        """As MPI.Comm.Idup_with_info; a Comm with the same algorithms."""
        made, request = super().Idup_with_info(info)
        return self._like(made), request

    def Clone(self) -> Comm:
        """As MPI.Comm.Clone; a Comm with the same algorithms."""
        return self._like(super().Clone())

    def Split(self, color: int = 0, key: int = 0) -> Comm:
        """As MPI.Comm.Split; a Comm with the same algorithms."""
        return self._like(super().Split(color, key))

    def Split_type(self, split_type: int, key: int = 0, info: MPI.Info = MPI.INFO_NULL) -> Comm:
        """As MPI.Comm.Split_type; a Comm with the same algorithms."""
        return self._like(super().Split_type(split_type, key, info))

    def Create(self, group: MPI.Group) -> Comm:
        """As MPI.Comm.Create; a Comm with the same algorithms."""
        return self._like(super().Create(group))

    def Create_group(self, group: MPI.Group, tag: int = 0) -> Comm:
        """As MPI.Intracomm.Create_group; a Comm with the same algorithms."""
        return self._like(super().Create_group(group, tag))

    def __reduce__(self) -> Any:
        """As mpi4py's: MPI.COMM_WORLD and MPI.COMM_SELF can be pickled, the others cannot."""
        for name, comm in _PREDEFINED.items():
            if self == comm:
                return _predefined, (name, self.algorithm)
        return super().__reduce__()

    # -- arguments ---------------------------------------------------------------------------------------------------

    def _like(self, made: MPI.Comm) -> Comm:
        comm = made if isinstance(made, Comm) else Comm(made)  # type: ignore[arg-type]
        comm.algorithm = self.algorithm
        return comm

    def _init(
        self, collective: str, sendbuf: Any, recvbuf: Any, op: Any = None, root: int = 0, counts: Any = None
    ) -> Plan:
        if sendbuf is None and collective != "bcast":
            sendbuf = _IN_PLACE
        algorithm = self.algorithm[collective]
        return _plan(Arguments(collective, sendbuf, recvbuf, op, root, algorithm, counts), private(self))

    def _gathered(self, recvbuf: Any) -> Any:
        """Where an Allgather receives, spelled as an Allgatherv has it."""
        told = parse(recvbuf, "recvbuf")
        assert told is not None
        if told.displ is None:
            return recvbuf if told.count is None else Spelling(told.data, told.count, None, told.datatype)
        count = told.count
        if count is None:
            here = flat(told, "recvbuf")
            count = here.count // here.per // self.size
        return Spelling(told.data, count, [told.displ + count * r for r in range(self.size)], told.datatype)

    def _block_buffers(self, sendbuf: Any, recvbuf: Any) -> tuple[Any, Any]:
        """The buffers of a Reduce_scatter_block: where a count is spelled, it is that of one chunk."""
        in_place = sendbuf is None or sendbuf is _IN_PLACE
        whole = recvbuf if in_place else sendbuf
        if isinstance(whole, (list, tuple)):
            told = parse(whole, "recvbuf" if in_place else "sendbuf")
            if told is not None and told.count is not None:
                whole = told._replace(count=told.count * self.size)
        return (KEEPING, whole) if in_place else (whole, recvbuf)

    def _counts(self, sendbuf: Any, recvbuf: Any, op: Any) -> list[int]:
        """The counts of all ranks' recvbufs. Collective; an error of one rank is raised on all."""
        args, state = Arguments("reduce_scatter", sendbuf, recvbuf, op), private(self)
        error: Exception | None = None
        count = 0
        try:
            if sendbuf is KEEPING:
                raise ValueError("recvcounts is None: with MPI.IN_PLACE give the number of elements of each rank")
            here = flat(recvbuf, "recvbuf", writable=True, use=args.use)
            count = here.count // here.per
        except Exception as caught:  # whatever it is: the other ranks would wait
            error = caught
        agree(state.comm, args.facts(), error)
        return state.comm.allgather(count)


def _predefined(name: str, algorithm: dict[str, str]) -> Comm:
    return Comm(_PREDEFINED[name], algorithm)


def _names(algorithm: str | Mapping[str, str]) -> dict[str, str]:
    """The name of an algorithm for each collective."""
    if isinstance(algorithm, str):
        if algorithm != "auto" and not any(_has(collective, algorithm) for collective in COLLECTIVES):
            raise ValueError(f"no collective has an algorithm {algorithm!r}; python -m mpicoll list shows them")
        return dict.fromkeys(COLLECTIVES, algorithm)
    if not isinstance(algorithm, Mapping):
        raise TypeError(f"algorithm is {shown(algorithm)}: pass its name, 'auto', or a name for each collective")
    for collective, name in algorithm.items():
        if collective not in COLLECTIVES:
            raise ValueError(f"algorithm names {shown(collective)}: the collectives are {', '.join(COLLECTIVES)}")
        if name != "auto":
            find(collective, name)
    return {**dict.fromkeys(COLLECTIVES, "auto"), **algorithm}


def _has(collective: str, name: str) -> bool:
    try:
        find(collective, name)
    except ValueError:
        return False
    return True
