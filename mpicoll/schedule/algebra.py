"""Schedules out of schedules. What a combinator can derive is written nowhere else.

reduce_scatter = reverse(allgather)    reduce = reverse(bcast)    allreduce = then(reverse(P), P)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .model import IDLE, Recv, Round, Schedule, Send

MIRROR = {"allgather": "reduce_scatter", "bcast": "reduce", "spread": "gather"}


def reverse(pattern: Schedule) -> Schedule:
    """The time reversal of a pattern that only copies: sends become reductions, last round first.

    Where the pattern sends a chunk on, the reversal gathers the pieces it went to. Same messages, same bytes.
    """

    def rounds(rank: int) -> Iterator[Round]:
        for sends, recvs in reversed(pattern.program(rank)):
            if any(recv.reduce for recv in recvs):
                raise ValueError(f"{pattern.algorithm} reduces, and only a pattern of copies can be reversed")
            yield Round(
                [Send(recv.peer, recv.chunks) for recv in recvs],
                [Recv(send.peer, send.chunks, reduce=True) for send in sends],
            )

    return pattern.but(collective=MIRROR[pattern.collective], rounds_of=rounds)


def then(first: Schedule, second: Schedule, collective: str) -> Schedule:
    """One after the other, on the same chunks."""
    if (first.size, first.chunks) != (second.size, second.chunks):
        raise ValueError(f"{first.algorithm} and {second.algorithm} differ in ranks or chunks")

    def rounds(rank: int) -> Iterator[Round]:
        yield from first.rounds_of(rank)
        yield from second.rounds_of(rank)

    return second.but(collective=collective, rounds_of=rounds)


def renumber(schedule: Schedule, chunks: int, become: Callable[[int], Sequence[int]]) -> Schedule:
    """Chunk c becomes the chunks ``become(c)`` of a vector cut in ``chunks``."""

    def new(old: Sequence[int]) -> list[int]:
        return [c for chunk in old for c in become(chunk)]

    def rounds(rank: int) -> Iterator[Round]:
        for sends, recvs in schedule.rounds_of(rank):
            yield Round(
                [send._replace(chunks=new(send.chunks)) for send in sends],
                [recv._replace(chunks=new(recv.chunks)) for recv in recvs],
            )

    return schedule.but(chunks=chunks, rounds_of=rounds)


def folded(size: int, inner: int) -> tuple[Callable[[int], int | None], Callable[[int], int], int]:
    """How ``size`` ranks stand in for ``inner``: (rank -> inner rank or None, inner rank -> rank, pairs).

    The first 2x ranks pair up, x = size - inner: of each pair the odd one survives. Neighbours pair, so that rank
    order is kept (Rabenseifner and Träff 2004; both MPICH and Open MPI fold so).
    """
    pairs = size - inner
    if not 0 <= pairs <= inner:
        raise ValueError(f"{size} ranks do not fold into {inner}")

    def survivor(rank: int) -> int | None:
        if rank >= 2 * pairs:
            return rank - pairs
        return rank // 2 if rank % 2 else None

    def place(v: int) -> int:
        return 2 * v + 1 if v < pairs else v + pairs

    return survivor, place, pairs


def fold(inner: Schedule, size: int, everyone_owns: bool) -> Schedule:
    """``inner`` on more ranks than it takes: surplus ranks hand their part in and are handed the result.

    Two ends. Only survivors own chunks (an allreduce, or the pattern half of one): nothing is handed in by a pattern,
    a whole vector by an allreduce. All ranks own chunks (allgather): the pair's chunks travel as one inside.
    """
    survivor, place, pairs = folded(size, inner.size)
    if not pairs:
        return inner
    whole = range(size if everyone_owns else inner.chunks)

    def chunk(c: int) -> Sequence[int]:
        if not everyone_owns:
            return (c,)
        return (2 * c, 2 * c + 1) if c < pairs else (c + pairs,)

    middle = renumber(inner, len(whole), chunk) if everyone_owns else inner
    hands_in = everyone_owns or inner.collective == "allreduce"

    def rounds(rank: int) -> Iterator[Round]:
        v = survivor(rank)
        paired = rank < 2 * pairs
        partner = rank ^ 1
        if hands_in:
            own = (min(rank, partner),) if everyone_owns else whole
            if not paired:
                yield IDLE
            elif v is None:
                yield Round([Send(partner, own)])
            else:
                yield Round([], [Recv(partner, own, reduce=not everyone_owns)])
        if v is None:
            yield from (IDLE for _ in middle.rounds_of(0))
        else:
            for sends, recvs in middle.rounds_of(v):
                yield Round(
                    [send._replace(peer=place(send.peer)) for send in sends],
                    [recv._replace(peer=place(recv.peer)) for recv in recvs],
                )
        if not paired:
            yield IDLE
        elif v is None:
            # The surplus rank has its own chunk already; the rest comes as one range of everything else and it.
            yield Round([], [Recv(partner, [c for c in whole if not everyone_owns or c != rank])])
        else:
            yield Round([Send(partner, [c for c in whole if not everyone_owns or c != partner])])

    return middle.but(size=size, rounds_of=rounds)


def forward(schedule: Schedule, root: int) -> Schedule:
    """A reduce to rank 0, sent on to ``root``: how an operation that does not commute reaches another root."""
    if root == schedule.root:
        return schedule
    whole = range(schedule.chunks)

    def rounds(rank: int) -> Iterator[Round]:
        yield from schedule.rounds_of(rank)
        if rank == schedule.root:
            yield Round([Send(root, whole)])
        elif rank == root:
            yield Round([], [Recv(schedule.root, whole)])
        else:
            yield IDLE

    return schedule.but(root=root, rounds_of=rounds)
