"""The tuning file: what ``algorithm="auto"`` is chosen by. JSON; ``tuning.json`` beside this file is the default.

``network``     alpha, beta, gamma, per_round in seconds (a message, a byte, a byte reduced, a round of software), and
                inner_alpha, inner_beta for ranks of one node where they differ
``candidates``  for each collective the names to choose from, by predicted time
``measured``    where a measurement knows better: rows of collective, size (ranks), ranks_per_node, and ``algorithms``,
                a list of [from how many bytes on, name]
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from mpicoll.schedule import COLLECTIVES, Network, find

VERSION = 1
KEYS = {"tuning", "source", "network", "candidates", "measured"}
NETWORK = {"alpha", "beta", "gamma", "per_round", "inner_alpha", "inner_beta"}
MEASURED = {"collective", "size", "ranks_per_node", "algorithms"}


@dataclass(frozen=True)
class Tuning:
    """A tuning file, read. ``measured``: (collective, size, ranks a node) -> (bytes from which on, name), ascending."""

    source: str
    network: Network
    candidates: dict[str, tuple[str, ...]]
    measured: dict[tuple[str, int, int], tuple[tuple[int, str], ...]]


def read(path: str) -> Tuning:
    """Read a file. ValueError names it and what is wrong in it; what it leaves out is the default's."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse(json.load(file))
    except OSError as error:
        raise ValueError(f"MPICOLL_TUNING={path}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"MPICOLL_TUNING={path}: {error}") from None


@cache
def default() -> Tuning:
    """What ships with the package."""
    return parse(json.loads(files(__package__).joinpath("tuning.json").read_text(encoding="utf-8")))


def parse(data: Any) -> Tuning:
    """Check what a file holds. ValueError says what is wrong."""
    _only(data, KEYS, "the file")
    if data.get("tuning") != VERSION:
        raise ValueError(f'"tuning" is {data.get("tuning")!r}: this version reads {VERSION}')
    if "network" not in data:
        raise ValueError('"network" is missing: give alpha and beta')
    candidates = data["candidates"] if "candidates" in data else default().candidates
    _only(candidates, set(COLLECTIVES), '"candidates"')
    for collective, names in candidates.items():
        if not isinstance(names, (list, tuple)) or not names:
            raise ValueError(f"candidates of {collective}: give a list of names")
        for name in names:
            _choosable(collective, str(name))
    if set(candidates) < set(COLLECTIVES):
        candidates = {**default().candidates, **candidates}
    return Tuning(
        str(data.get("source", "a file that names no source")),
        _network(data["network"]),
        {collective: tuple(names) for collective, names in candidates.items()},
        dict(_measured(row) for row in _listed(data.get("measured", []), '"measured"')),
    )


def _network(data: Any) -> Network:
    _only(data, NETWORK, '"network"')
    for name in ("alpha", "beta"):
        if name not in data:
            raise ValueError(f'"network" lacks {name}')
    for name, value in data.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
            raise ValueError(f"{name} is {value!r}: give seconds, at least 0")
    inner = None
    if "inner_alpha" in data or "inner_beta" in data:
        inner = (data.get("inner_alpha", data["alpha"]), data.get("inner_beta", data["beta"]))
    return Network(data["alpha"], data["beta"], data.get("gamma", 0.0), data.get("per_round", 0.0), inner=inner)


def _measured(row: Any) -> tuple[tuple[str, int, int], tuple[tuple[int, str], ...]]:
    _only(row, MEASURED, 'a row of "measured"')
    if missing := MEASURED - set(row):
        raise ValueError(f'a row of "measured" lacks {min(missing)}')
    if row["collective"] not in COLLECTIVES:
        raise ValueError(f"collective {row['collective']!r}: there are {', '.join(COLLECTIVES)}")
    for name in ("size", "ranks_per_node"):
        if not isinstance(row[name], int) or row[name] < 1:
            raise ValueError(f"{name} is {row[name]!r}: give a number of ranks")
    steps = []
    for pair in _listed(row["algorithms"], '"algorithms"'):
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], int):
            raise ValueError(f'{pair!r} in a row of "measured": give [bytes, name]')
        steps.append((pair[0], _choosable(row["collective"], str(pair[1]))))
    return (row["collective"], row["size"], row["ranks_per_node"]), tuple(sorted(steps))


def _choosable(collective: str, name: str) -> str:
    """The name of an algorithm that may be chosen without being asked for. ValueError: there is none, or it may not."""
    found = find(collective, name)
    if not found.identical:
        raise ValueError(f"{name} gives each rank other bits: it runs when asked for, and is never chosen")
    return found.name


def _listed(value: Any, what: str) -> list:
    if not isinstance(value, list):
        raise ValueError(f"{what} is {value!r}: give a list")
    return value


def _only(data: Any, known: set[str], what: str) -> None:
    if not isinstance(data, dict):
        raise ValueError(f"{what} is {type(data).__name__}: give an object with {', '.join(sorted(known))}")
    if strange := set(data) - known:
        raise ValueError(f"{what} has {min(strange)!r}: it may have {', '.join(sorted(known))}")
