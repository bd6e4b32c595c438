"""What follows from the facts of all ranks. Pure: facts in, verdicts out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from mpicoll.hardware import ranges

from .facts import Facts

OK, WARN, FAIL, SKIP = "ok", "warn", "FAIL", "skip"
SHOWN = 8  # ranks, or pairs, named in one line


@dataclass(frozen=True)
class Check:
    """One line of the report: what was looked at, the verdict, and what was found, with the cure."""

    name: str
    verdict: str
    text: str


def all_checks(facts: Sequence[Facts], device: str) -> list[Check]:
    """Those that need nothing but facts."""
    return [*versions(facts), *cores(facts), *local_ranks(facts), *gpus(facts, device), *cards(facts)]


def versions(facts: Sequence[Facts]) -> Iterable[Check]:
    """Ranks of one world with different versions fail in ways that do not show why."""
    for name in dict.fromkeys(name for one in facts for name in (*one.versions, *one.library)):
        by = _by({one.rank: one.versions.get(name) or one.library.get(name, "none") for one in facts})
        if len(by) > 1 and name not in ("path", "module"):
            told = "; ".join(f"{value} on {_ranks(ranks)}" for value, ranks in by.items())
            yield Check("versions", FAIL, f"{name} differs: {told}: give all nodes the same environment")


def cores(facts: Sequence[Facts]) -> Iterable[Check]:
    """Ranks that may run on the same cores disturb each other."""
    for host, ranks in _hosts(facts).items():
        total = {core for one in ranks for core in one.cores}
        if len(ranks) == 1:
            continue
        if len(total) < len(ranks):
            text = f"{len(ranks)} ranks share {_cores(total)} of {host}: times tell more of the scheduler than of MPI"
            yield Check("cores", WARN, text)
            continue
        pairs = [(a.rank, b.rank) for a, b in combinations(ranks, 2) if set(a.cores) & set(b.cores)]
        if pairs:
            yield Check(
                "cores",
                WARN,
                f"{_ranks({rank for pair in pairs for rank in pair})} overlap on {_cores(total)} of {host}: bind them "
                "(mpirun --bind-to core, srun --cpu-bind=cores)",
            )
        else:
            yield Check("cores", OK, f"each of the {len(ranks)} ranks on {host} has cores of its own")


def local_ranks(facts: Sequence[Facts]) -> Iterable[Check]:
    """A rank takes its GPU by its number on the node, so that no two on a node may have the same."""
    for host, ranks in _hosts(facts).items():
        for number, same in _by({one.rank: one.local for one in ranks}).items():
            if len(same) > 1:
                told = "no launcher variable tells their number on the node" if number is None else f"all are {number}"
                text = f"{_ranks(same)} on {host}: {told}: they would take the same GPU; set SLURM_LOCALID for each"
                yield Check("local rank", WARN, text)


def gpus(facts: Sequence[Facts], device: str) -> Iterable[Check]:
    """Which ranks have a GPU, share one, or sit far from theirs."""
    none = [one for one in facts if one.gpu is None]
    if none:
        why = "; ".join(f"{why} ({_ranks(ranks)})" for why, ranks in _by({o.rank: o.gpus.why for o in none}).items())
        yield Check("GPUs", FAIL if device == "cuda" else SKIP, why)
    missing = {one.rank: one.gpus.extra for one in facts if not one.cupy}
    if missing and (device == "cuda" or len(none) < len(facts)):
        extra = next(iter(missing.values()))
        text = f"not installed on {_ranks(missing)}: pip install 'mpicoll[{extra}]'"
        yield Check("CuPy", FAIL if device == "cuda" else WARN, text)
    for host, ranks in _hosts(facts).items():
        owners = _by({one.rank: one.gpu.uuid for one in ranks if one.gpu})
        shared = [same for same in owners.values() if len(same) > 1]
        if shared:
            told = ", ".join(f"{_ranks(same)}" for same in shared[:SHOWN])
            yield Check("GPUs", WARN, f"on {host} one GPU is shared by {told}")
        elif owners:
            yield Check("GPUs", OK, f"each of the {len(owners)} ranks on {host} has a GPU of its own")
    for one in facts:
        if one.gpu and one.gpu.numa is not None and one.numa and one.gpu.numa not in one.numa:
            near = ", ".join(map(str, one.numa))
            text = f"rank {one.rank} on {one.host} runs on NUMA node {near} and its GPU is on {one.gpu.numa}"
            yield Check("NUMA", WARN, text)


def cards(facts: Sequence[Facts]) -> Iterable[Check]:
    """A GPU behind InfiniBand without peer memory sends through the host."""
    for host, ranks in _hosts(facts).items():
        one = ranks[0]
        fabric = [card for card in one.cards if card.kind != "Ethernet"]
        if fabric and not any(card.up for card in fabric):
            names = ", ".join(card.name for card in fabric)
            yield Check("NICs", WARN, f"{host}: no port of {names} is active")
        if one.gpu and any(card.up for card in fabric) and not one.peermem:
            text = f"{host}: nvidia_peermem is not loaded: without dma-buf GPU memory goes through the host"
            yield Check("NICs", WARN, text)


def _hosts(facts: Sequence[Facts]) -> dict[str, list[Facts]]:
    found: dict[str, list[Facts]] = {}
    for one in facts:
        found.setdefault(one.host, []).append(one)
    return found


def _by(values: dict) -> dict:
    """Ranks by their value."""
    found: dict = {}
    for rank, value in values.items():
        found.setdefault(value, []).append(rank)
    return found


def _cores(numbers: Iterable[int]) -> str:
    told = ranges(numbers)
    return f"core{'s' * (not told.isdecimal())} {told}"


def _ranks(ranks: Iterable[int]) -> str:
    many = sorted(ranks)
    return f"rank{'s' * (len(many) > 1)} {ranges(many)}"
