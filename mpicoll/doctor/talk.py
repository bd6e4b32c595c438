"""Messages between all pairs, and to and from rank 0, with a time limit: a rank that hangs is named, not awaited.

Only nonblocking calls on the world itself: a duplicate, a barrier or a gather would hang where a pair cannot talk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from mpi4py import MPI

PAIR_TAG, REPORT_TAG, VERDICT_TAG = 101, 102, 103
LARGE = 1 << 16  # bytes: past every library's eager limit, so that both ways of sending are seen
ALL_LARGE = 1 << 26  # bytes that all large messages of a rank take together, at most
NAP_S = 1e-4  # ranks may share cores


def opponents(rank: int, size: int) -> Iterator[int]:
    """Whom a rank meets, round by round of a tournament: every pair once, and all ranks busy in each round."""
    even = size + size % 2
    for k in range(even - 1):
        if rank == even - 1:
            other = k * (even // 2) % (even - 1)
        else:
            other = (k - rank) % (even - 1)
            other = even - 1 if other == rank else other
        if other < size:  # an odd one sits out
            yield other


@dataclass(frozen=True)
class Heard:
    """Peers from which no whole and right message came, and peers to which one could not be delivered."""

    missing: list[int]
    stuck: list[int]


def tournament(comm: MPI.Intracomm, limit_s: float, large: int = LARGE) -> Heard:
    """Send a small and a large message to every other rank and receive theirs. Local end at the time limit."""
    rank, size = comm.rank, comm.size
    peers = [peer for peer in range(size) if peer != rank]
    sizes = (8, max(8, min(large, ALL_LARGE // size)))
    inbox = {(peer, n): np.zeros(nbytes, np.uint8) for peer in peers for n, nbytes in enumerate(sizes)}
    receives = {key: comm.Irecv(inbox[key], key[0], PAIR_TAG + 10 * key[1]) for key in inbox}
    sends: dict[tuple[int, int], MPI.Request] = {}
    outbox = []
    late, patience = time.monotonic() + limit_s, limit_s / 4
    for peer in opponents(rank, size):
        for n, nbytes in enumerate(sizes):
            outbox.append(_contents(rank, peer, nbytes))
            sends[peer, n] = comm.Isend(outbox[-1], peer, PAIR_TAG + 10 * n)
        # After one pair that does not talk the rest goes out at once, so that nobody waits for this rank.
        if not _until(partial(MPI.Request.Testall, [receives[peer, 0], receives[peer, 1]]), patience):
            patience = 0.0
    pending = [*receives.values(), *sends.values()]
    _until(lambda: MPI.Request.Testall(pending), late - time.monotonic())
    missing = {
        peer
        for (peer, n), request in receives.items()
        if not request.Test() or not (inbox[peer, n] == _contents(peer, rank, sizes[n])).all()
    }
    return Heard(sorted(missing), sorted({peer for (peer, _), request in sends.items() if not request.Test()}))


def gather(comm: MPI.Intracomm, item: Any, limit_s: float) -> list[Any]:
    """Everybody's item on rank 0, None for a rank that was not heard in time; empty elsewhere."""
    if comm.rank:
        _sent(comm.isend(item, 0, REPORT_TAG), limit_s)
        return []
    found: list[Any] = [item, *[None] * (comm.size - 1)]
    left = set(range(1, comm.size))

    def listen() -> bool:
        status = MPI.Status()
        while message := comm.improbe(MPI.ANY_SOURCE, REPORT_TAG, status):
            found[status.source] = message.recv()
            left.discard(status.source)
        return not left

    _until(listen, limit_s)
    return found


def tell(comm: MPI.Intracomm, item: Any, limit_s: float) -> Any:
    """Rank 0's item everywhere; None on a rank that did not hear it in time."""
    if comm.rank == 0:
        requests = [comm.isend(item, peer, VERDICT_TAG) for peer in range(1, comm.size)]
        _until(lambda: MPI.Request.Testall(requests), limit_s)
        return item
    found: list[Any] = []

    def listen() -> bool:
        if message := comm.improbe(0, VERDICT_TAG):
            found.append(message.recv())
        return bool(found)

    _until(listen, limit_s)
    return found[0] if found else None


def complaints(heard: Sequence[Heard | None], hosts: Sequence[str]) -> list[str]:
    """Which pairs do not talk, a line each; one line for a rank that talks to nobody. ``hosts`` by rank."""
    size = len(heard)
    lost = {(peer, rank) for rank, one in enumerate(heard) if one for peer in one.missing}
    lost |= {(rank, peer) for rank, one in enumerate(heard) if one for peer in one.stuck}
    mute = [rank for rank, one in enumerate(heard) if one is None]
    said = [f"rank {rank}{_on(hosts[rank])}: no report came to rank 0" for rank in mute]
    known = [(a, b) for a, b in lost if a not in mute and b not in mute]
    alone = [
        rank
        for rank in range(size)
        if size > 2 and len({a + b - rank for a, b in known if rank in (a, b)}) == size - 1 - len(mute) > 0
    ]
    if 0 < len(alone) < size - 1:
        said += [f"rank {rank}{_on(hosts[rank])} talks to no other rank" for rank in alone]
        known = [(a, b) for a, b in known if a not in alone and b not in alone]
    for a, b in sorted({(min(pair), max(pair)) for pair in known}):
        ways = [f"{x} to {y}" for x, y in ((a, b), (b, a)) if (x, y) in known]
        said.append(f"ranks {a}{_on(hosts[a])} and {b}{_on(hosts[b])}: nothing came through from {' and '.join(ways)}")
    return said


def _on(host: str) -> str:
    return f" on {host}" if host else ""


def _contents(source: int, target: int, nbytes: int) -> np.ndarray:
    return np.full(nbytes, (31 * source + 7 * target + 1) % 251, np.uint8)


def _sent(request: MPI.Request, limit_s: float) -> bool:
    return _until(request.Test, limit_s)


def _until(true: Callable[[], Any], limit_s: float) -> bool:
    """Ask again and again; False when the limit passes first."""
    late = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > late:
            return False
        time.sleep(NAP_S)
    return True
