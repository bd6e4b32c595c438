"""Ranks that call one collective with different arguments are told so before the first message leaves.

Counts that differ would write past a buffer or hang, dtypes that differ give wrong sums without an error. Each rank
tells a digest of its arguments; where all are equal nothing more is said.
"""

from __future__ import annotations

import builtins
from collections import Counter
from hashlib import blake2b

from mpi4py import MPI

Facts = dict[str, str]
Failure = tuple[str, str]  # name of the exception's type, message


def agree(comm: MPI.Intracomm, facts: Facts, error: Exception | None) -> None:
    """Raise on every rank, in the same words, when a rank has an error of its own or other arguments. Collective."""
    failure = (type(error).__name__, str(error)) if error else None
    own = blake2b(repr((failure, facts)).encode(), digest_size=16).digest() + bytes([failure is not None])
    theirs = bytearray(len(own) * comm.size)
    comm.Allgather([own, MPI.BYTE], [theirs, MPI.BYTE])
    if failure is None and theirs == own * comm.size:
        return
    told: list[tuple[Failure | None, Facts]] = comm.allgather((failure, facts))
    kind, text = _failures([f for f, _ in told]) if any(f for f, _ in told) else _odd([f for _, f in told])
    raised: type[Exception] = getattr(builtins, kind, RuntimeError)
    raise raised(text) from error


def _failures(failures: list[Failure | None]) -> Failure:
    first = next(f for f in failures if f)
    if all(f == first for f in failures):
        return first
    ranks = [rank for rank, f in enumerate(failures) if f == first]
    return first[0], f"{_ranks(ranks)}: {first[1]}"


def _odd(told: list[Facts]) -> Failure:
    """Which ranks differ from most of the others, and in what."""
    parts = []
    for name in told[0]:
        values = [facts[name] for facts in told]
        (common, _), *others = Counter(values).most_common()
        for value, _ in others:
            who = _ranks([rank for rank, v in enumerate(values) if v == value])
            parts.append(f"{name} is {value} on {who} and {common} on the others")
    return "ValueError", "the ranks disagree: " + "; ".join(parts)


def _ranks(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"
