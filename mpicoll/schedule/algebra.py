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
    if schedule.slots:
        raise ValueError(f"{schedule.algorithm} keeps parts in scratch, and its chunks cannot be numbered anew")

    def new(old: Sequence[int]) -> list[int]:
        return [c for chunk in old for c in become(chunk)]

    def rounds(rank: int) -> Iterator[Round]:
        for sends, recvs in schedule.rounds_of(rank):
            yield Round(
                [send._replace(chunks=new(send.chunks)) for send in sends],
                [recv._replace(chunks=new(recv.chunks)) for recv in recvs],
            )

    return schedule.but(chunks=chunks, rounds_of=rounds)


def relabel(schedule: Schedule, size: int, ranks: Sequence[int]) -> Schedule:
    """Rank v of the schedule is rank ``ranks[v]`` of ``size``; the others idle."""
    place = {rank: v for v, rank in enumerate(ranks)}

    def rounds(rank: int) -> Iterator[Round]:
        if rank not in place:
            yield from (IDLE for _ in schedule.rounds_of(0))
            return
        for sends, recvs in schedule.rounds_of(place[rank]):
            yield Round(
                [send._replace(peer=ranks[send.peer]) for send in sends],
                [recv._replace(peer=ranks[recv.peer]) for recv in recvs],
            )

    return schedule.but(size=size, rounds_of=rounds)


def parallel(schedules: Sequence[Schedule], groups: Sequence[Sequence[int]], size: int) -> Schedule:
    """Each schedule in its own group of ranks, all at once; the shorter ones idle at their end."""
    parts = [relabel(schedule, size, ranks) for schedule, ranks in zip(schedules, groups)]
    mine = {rank: part for part, ranks in zip(parts, groups) for rank in ranks}
    length = max(sum(1 for _ in schedule.rounds_of(0)) for schedule in schedules)

    def rounds(rank: int) -> Iterator[Round]:
        program = mine[rank].program(rank) if rank in mine else []
        yield from program
        yield from (IDLE for _ in range(length - len(program)))

    return parts[0].but(rounds_of=rounds)


def absorb(schedule: Schedule, hosts: dict[int, int]) -> Schedule:
    """An allreduce for more ranks than it has: each surplus rank hands its vector to a host and gets the result."""
    if not hosts:
        return schedule
    whole = range(schedule.chunks)
    guests = {host: [guest for guest in hosts if hosts[guest] == host] for host in hosts.values()}

    def rounds(rank: int) -> Iterator[Round]:
        mine = guests.get(rank, [])
        come = [Recv(guest, whole, reduce=True) for guest in mine]
        yield Round([Send(hosts[rank], whole)] if rank in hosts else [], come)
        yield from schedule.rounds_of(rank)
        yield Round([Send(guest, whole) for guest in mine], [Recv(hosts[rank], whole)] if rank in hosts else [])

    return schedule.but(rounds_of=rounds)


def segment(schedule: Schedule, segments: int, interval: int = 1) -> Schedule:
    """Pipelining: the vector in segments, each treated like a vector; round k of segment s is in slot k + s·interval.

    Messages that meet in a slot stay separate. ValueError: no segments.
    """
    if segments < 1 or interval < 1:
        raise ValueError(f"{segments} segments at an interval of {interval}: both must be at least 1")
    if schedule.slots and segments > 1:
        raise ValueError(f"{schedule.algorithm} keeps parts in scratch, and is not cut in segments")
    chunks = schedule.chunks

    def rounds(rank: int) -> Iterator[Round]:
        program = schedule.program(rank)
        for slot in range(len(program) + (segments - 1) * interval if program else 0):
            sends: list[Send] = []
            recvs: list[Recv] = []
            for s in range(segments):
                k = slot - s * interval
                if 0 <= k < len(program):
                    sends += [send._replace(chunks=_shifted(send.chunks, s * chunks)) for send in program[k].sends]
                    recvs += [recv._replace(chunks=_shifted(recv.chunks, s * chunks)) for recv in program[k].recvs]
            yield Round(sends, recvs)

    return schedule.but(chunks=chunks * segments, rounds_of=rounds)


def shift(schedule: Schedule, chunks: int, by: int) -> Schedule:
    """The schedule on a part of a vector of ``chunks`` chunks, ``by`` chunks from its beginning."""
    return renumber(schedule, chunks, lambda c: (c + by,))


def _shifted(chunks: Sequence[int], by: int) -> Sequence[int]:
    return range(chunks.start + by, chunks.stop + by) if isinstance(chunks, range) else [c + by for c in chunks]


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
    middle = relabel(middle, size, [place(v) for v in range(inner.size)])
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
        yield from middle.rounds_of(rank)
        if not paired:
            yield IDLE
        elif v is None:
            # The surplus rank has its own chunk already; the rest comes as one range of everything else and it.
            yield Round([], [Recv(partner, [c for c in whole if not everyone_owns or c != rank])])
        else:
            yield Round([Send(partner, [c for c in whole if not everyone_owns or c != partner])])

    return middle.but(rounds_of=rounds)


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
