"""The one list of algorithms. A decorated function in a file of ``mpicoll/algorithms`` is all that one needs.

A function is registered as one of five kinds:

``allgather``  a pattern in which rank r starts with chunk ``home(r)``: gives allgather, reduce_scatter, allreduce
``bcast``      a pattern in which the root starts with everything:      gives bcast, reduce, allreduce
``spread``     a pattern in which each chunk starts on some rank:         gives allreduce
``allreduce``  an allreduce as it stands
``levels``     ``f(size, nodes)`` that makes the schedule of an allreduce from others, for ranks on these nodes

A pattern with a parameter is found by ``name:parameter`` too, and by its plain name with the default; ``name@4`` is any
of them pipelined in four segments.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from types import ModuleType
from typing import Any, TypeVar

from .algebra import fold, forward, renumber, reverse, segment, then
from .model import COLLECTIVES, REDUCING, Round, Schedule
from .parameters import Arguments
from .verify import verify

Function = TypeVar("Function", bound=Callable[..., Iterable[Round] | Schedule])
DERIVED = {
    "allgather": ("allgather", "reduce_scatter", "allreduce"),
    "bcast": ("bcast", "reduce", "allreduce"),
    "spread": ("allreduce",),
    "allreduce": ("allreduce",),
    "levels": ("allreduce",),
}
SEGMENTED = ("allreduce", "reduce", "bcast")  # in the others chunk r is rank r's: segments would need to know that
Nodes = tuple[int, ...]  # the node of each rank
PROVED_UP_TO = 128  # ranks up to which an algorithm of several levels is asked whether it keeps rank order
_table: dict[tuple[str, str], Algorithm] = {}


@dataclass(frozen=True)
class Algorithm:
    """One algorithm of one collective."""

    collective: str
    name: str
    kind: str
    pattern: Callable[..., Any]
    ordered: bool
    fits: Callable[[int], bool]
    home: Callable[..., int]
    source: str
    chunks: int = 1
    parameter: Callable[[str], Arguments] | None = None
    slots: Callable[[int], int] = lambda size: 0
    given: tuple[tuple[str, object], ...] = ()
    segments: int = 1
    pipelined: bool = False
    identical: bool = True

    def having(self, text: str) -> Algorithm:
        """The same algorithm with what stands behind the colon of a name. ValueError names it."""
        if self.parameter is None:
            raise ValueError(f"{self.name} takes no parameter, and {text!r} is given")
        try:
            given = self.parameter(text)
        except ValueError as error:
            raise ValueError(f"{self.name}:{text}: {error}") from None
        return replace(self, name=f"{self.name}:{text}", given=tuple(given.items()))

    @property
    def summary(self) -> str:
        """The first line of the pattern's docstring."""
        return (self.pattern.__doc__ or "").strip().split("\n")[0]

    @property
    def restrictions(self) -> tuple[str, ...]:
        """What holds it back, in words: sizes that fold, operations that it must not be given, bits that differ."""
        folds = [size for size in range(2, 17) if not self.fits(size)]
        found = []
        if folds:
            found.append("folds " + ("odd sizes" if folds[:2] == [3, 5] and 6 not in folds else "all but powers of 2"))
        if self.kind == "levels" and not self.ordered:
            found.append("commuting operations, unless levels and nodes keep rank order")
        elif self.collective in REDUCING and not self.ordered:
            found.append("commuting operations")
        if not self.identical:
            found.append("other bits on each rank")
        return tuple(found)

    @property
    def free_segments(self) -> bool:
        """Whether the number of segments is open: a pipeline under its plain name."""
        return self.pipelined and "@" not in self.name and self.collective in SEGMENTED

    def in_segments(self, segments: int) -> Algorithm:
        """The same algorithm pipelined: ``name@segments``."""
        return replace(self, name=f"{self.name.partition('@')[0]}@{segments}", segments=segments)

    def keeps_order(self, size: int, nodes: Nodes | None = None) -> bool:
        """Whether operands meet in rank order, so that an operation that does not commute is right.

        A reduce does so for root 0 and is forwarded from there. A folded reduce_scatter does not: the surplus rank
        adds its own piece last. On several levels it depends on the nodes, and the proof decides.
        """
        if self.kind == "levels" and not self.ordered:
            return size <= PROVED_UP_TO and _in_order(self, size, nodes)
        return self.ordered and (self.collective != "reduce_scatter" or self.fits(size))

    def schedule(self, size: int, root: int = 0, *, in_order: bool = False, nodes: Nodes | None = None) -> Schedule:
        """The schedule for ``size`` ranks; with ``in_order`` a reduce goes to rank 0 and is sent on to ``root``.

        ``nodes`` is the node of each rank, for algorithms of several levels; by default all are on one.
        ValueError: size below 1, root outside 0..size-1.
        """
        if size < 1:
            raise ValueError(f"size {size}: a schedule needs at least one rank")
        if not 0 <= root < size:
            raise ValueError(f"root {root} is not one of the ranks 0..{size - 1}")
        try:
            built = _build(self, size, root, in_order, nodes if self.kind == "levels" else None)
            next(iter(built.rounds_of(0)), None)  # a parameter that does not suit the size raises here
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from None
        return built


@lru_cache(maxsize=256)
def _in_order(algorithm: Algorithm, size: int, nodes: Nodes | None) -> bool:
    try:
        return verify(algorithm.schedule(size, nodes=nodes)).in_order
    except ValueError:  # it cannot run on these ranks at all, which is said elsewhere
        return False


@lru_cache(maxsize=1024)
def _build(algorithm: Algorithm, size: int, root: int, in_order: bool, nodes: Nodes | None) -> Schedule:
    kind, collective = algorithm.kind, algorithm.collective
    if algorithm.segments > 1:
        whole = _build(replace(algorithm, segments=1), size, root, in_order, nodes)
        return segment(whole, algorithm.segments).but(algorithm=algorithm.name)
    if kind == "levels":
        nodes = nodes or (0,) * size
        if len(nodes) != size:
            raise ValueError(f"nodes of {len(nodes)} ranks are given, and there are {size} ranks")
        made: Schedule = algorithm.pattern(size, nodes, **dict(algorithm.given))
        return made.but(algorithm=algorithm.name)
    if collective == "reduce" and in_order:
        return forward(_build(algorithm, size, 0, False, nodes), root)
    inner = next(n for n in range(size, 0, -1) if algorithm.fits(n))
    given = dict(algorithm.given)

    def rounds(rank: int) -> Iterable[Round]:
        return algorithm.pattern(rank, inner, *([root] if kind == "bcast" else []), **given)

    pieces = inner if kind == "allgather" else algorithm.chunks
    pattern = Schedule(kind, algorithm.name, inner, pieces, rounds, root, algorithm.slots(inner))
    if kind == "allgather" and collective != "allreduce":
        owner = {algorithm.home(rank, inner, **given): rank for rank in range(inner)}
        pattern = renumber(pattern, inner, lambda chunk: (owner[chunk],))
        pattern = fold(pattern, size, everyone_owns=True)
    else:
        pattern = fold(pattern, size, everyone_owns=False)
    if collective == kind:
        return pattern
    reversal = reverse(pattern)
    return reversal if collective != "allreduce" else then(reversal, pattern, "allreduce")


def algorithm(
    kind: str,
    *,
    name: str | None = None,
    allreduce: str | None = None,
    ordered: bool = False,
    fits: Callable[[int], bool] = lambda size: True,
    home: Callable[..., int] = lambda rank, size: rank,
    source: str = "folklore",
    chunks: int = 1,
    parameter: Callable[[str], Arguments] | None = None,
    pipelined: bool = False,
    slots: Callable[[int], int] = lambda size: 0,
    identical: bool = True,
) -> Callable[[Function], Function]:
    """Register a pattern ``f(rank, size)`` (``f(rank, size, root)`` for a bcast) that yields rounds.

    ``name`` is the function's by default; ``allreduce`` another name for the allreduce made from it. ``fits`` says
    which sizes the pattern takes; others are folded into the next smaller one. ``pipelined``: worth cutting in
    segments, whose number is chosen when it is run under its plain name. ``slots``: how many an allreduce needs on
    ``size`` ranks. ``identical``: all ranks get the same bits. A name that is taken raises.
    """

    def register(function: Function) -> Function:
        for collective in DERIVED[kind]:
            own = (allreduce if collective == "allreduce" else None) or name or function.__name__
            if (collective, own) in _table:
                raise ValueError(f"{collective} {own!r} is registered twice")
            _table[collective, own] = Algorithm(
                *(collective, own, kind, function, ordered, fits, home, source, chunks, parameter),
                pipelined=pipelined,
                slots=slots,
                identical=identical,
            )
        return function

    return register


@cache
def _load() -> None:
    package = importlib.import_module("mpicoll.algorithms")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"mpicoll.algorithms.{module.name}")


def algorithms(collective: str) -> dict[str, Algorithm]:
    """All algorithms of a collective by name, sorted. ValueError names the collectives."""
    if collective not in COLLECTIVES:
        raise ValueError(f"no collective {collective!r}; there are {', '.join(COLLECTIVES)}")
    _load()
    return {name: entry for (of, name), entry in sorted(_table.items()) if of == collective}


def find(collective: str, name: str) -> Algorithm:
    """One algorithm. ValueError names what there is; TypeError: no name."""
    if not isinstance(name, str):
        raise TypeError(f"algorithm is {name!r}: pass its name, as in mpicoll.algorithms({collective!r})")
    name, at, segments = name.partition("@")
    if at:
        if collective not in SEGMENTED:
            raise ValueError(f"{name}@{segments}: {' and '.join(SEGMENTED)} can be segmented, {collective} cannot")
        if not segments.isdecimal() or int(segments) < 1:
            raise ValueError(f"{name}@{segments}: give a number of segments of at least 1")
        return find(collective, name).in_segments(int(segments))
    plain, colon, text = name.partition(":")
    _load()
    found = _table.get((collective, plain))  # not by way of ``algorithms``, which sorts: this is asked for every plan
    if found is None:
        raise ValueError(f"{collective} has no algorithm {plain!r}; there are {', '.join(algorithms(collective))}")
    return found.having(text) if colon else found


def callable_package(name: str, function: Callable[..., object]) -> None:
    """Let a package be called, as ``mpicoll.schedule`` and ``mpicoll.algorithms`` can."""

    def call(_: ModuleType, *args: object, **kwargs: object) -> object:
        return function(*args, **kwargs)

    sys.modules[name].__class__ = type("CallablePackage", (ModuleType,), {"__call__": call})
