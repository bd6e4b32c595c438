"""Open MPI's JSON rules (v6): the first match wins, no match leaves the choice to the library.

A classic file with several numbers of ranks means something else to v6 than to v5, hence this form for v6. Keys are
those that its parser knows: where its schema or documentation differ, the parser is followed (``seg_size``; no "inf"
for ranks, which it stores as -1).
"""

from __future__ import annotations

import json
from typing import Any

from .advice import DEFAULT, Band, Calls, Rule, checked
from .json_text import Document
from .names import OPENMPI, OPENMPI_6_ADDS, OPENMPI_6_RENAMES
from .openmpi import SEGMENT_BYTES

_SETS = {"comm_size_min", "comm_size_max", "comm_rank_distribution", "rules"}
_RULES = {"msg_size_min", "msg_size_max", "alg", "faninout", "seg_size", "reqs"}
_PLACES = ("any", "one-per-node", "single-node")


def known() -> dict[str, dict[str, int]]:
    """Call -> algorithm -> number."""
    found = {}
    for call, names in OPENMPI.items():
        renamed = {OPENMPI_6_RENAMES.get((call, name), name): number for name, number in names.items()}
        found[call] = renamed | OPENMPI_6_ADDS.get(call, {})
    return found


def write(calls: Calls) -> str:
    """The file; a rule a line. JSON has no comments. ValueError: a call or an algorithm that there is not."""
    names = known()
    collectives = []
    for call, bands in checked(calls).items():
        sets = []
        for band in bands:
            ends = [rule.nbytes - 1 for rule in band.rules[1:]]
            rules = []
            for (nbytes, algorithm), last in zip(band.rules, [*ends, None]):
                if algorithm == DEFAULT:
                    continue
                if algorithm not in names.get(call, {}):
                    raise ValueError(f"Open MPI 6 has no {algorithm} for {call}: {', '.join(names.get(call, {}))}")
                rule: dict[str, Any] = {"msg_size_min": nbytes}
                rule |= {} if last is None else {"msg_size_max": last}
                rule["alg"] = algorithm
                rule |= {"seg_size": SEGMENT_BYTES[algorithm]} if algorithm in SEGMENT_BYTES else {}
                rules.append(json.dumps(rule))
            if rules:
                head: dict[str, Any] = {"comm_size_min": band.first}
                head |= {} if band.last is None else {"comm_size_max": band.last}
                text = ", ".join(f'"{key}": {value}' for key, value in head.items())
                sets.append(f'   {{ {text}, "rules": [\n    ' + ",\n    ".join(rules) + " ] }")
        if sets:
            collectives.append(f'  "{call}": [\n' + ",\n".join(sets) + " ]")
    inside = ",\n".join(collectives)
    return '{ "rule_file_version": 3, "module": "tuned",\n "collectives": {\n' + inside + " } }\n"


def read(text: str) -> Calls:
    """What the file says. MalformedError: what the library would reject, misread or not find."""
    document, names = Document(text), known()
    top = document.value
    if not isinstance(top, dict) or set(top) != {"rule_file_version", "module", "collectives"}:
        document.refuse(top, "the top has rule_file_version, module and collectives, and nothing else")
    if top["rule_file_version"] != 3 or top["module"] != "tuned":
        document.refuse(top, "this reads rule_file_version 3 of module tuned")
    if not isinstance(top["collectives"], dict):
        document.refuse(top, "collectives is no object")
    calls: Calls = {}
    for call, sets in top["collectives"].items():
        if call not in names:
            document.refuse(top["collectives"], f"{call}: this reads {', '.join(names)}")
        if not isinstance(sets, list) or not sets:
            document.refuse(top["collectives"], f"{call} is no list of sets")
        bands: list[Band] = []
        for one in sets:
            if not isinstance(one, dict) or not set(one) <= _SETS or not isinstance(one.get("rules"), list):
                document.refuse(one, f"a set has {', '.join(sorted(_SETS))}")
            if one.get("comm_rank_distribution", "any") not in _PLACES:
                document.refuse(one, f"comm_rank_distribution is one of {', '.join(_PLACES)}")
            first, last = _span(document, one, "comm_size", 1)
            if last is not None and last >= 2**31:
                document.refuse(one, f"comm_size_max {last} does not fit an int: leave it out")
            if bands and (bands[-1].last is None or first <= bands[-1].last):
                document.refuse(one, f"from {first} ranks: a set before covers them, and the first match wins")
            bands.append(Band(first, last, _rules(document, one["rules"], names[call])))
        calls[call] = tuple(bands)
    return calls


def _rules(document: Document, entries: list[Any], names: dict[str, int]) -> tuple[Rule, ...]:
    found: list[Rule] = []
    free: int | None = 0  # bytes up to which all is said; None: all
    for entry in entries:
        if not isinstance(entry, dict) or not set(entry) <= _RULES:
            document.refuse(entry, f"a rule has {', '.join(sorted(_RULES))}")
        first, last = _span(document, entry, "msg_size", 0)
        if free is None or first < free:
            document.refuse(entry, f"from {first} bytes: a rule before covers them, and the first match wins")
        if "alg" not in entry:
            document.refuse(entry, "a rule without alg")
        algorithm = entry["alg"]
        if isinstance(algorithm, int):
            algorithm = next((name for name, number in names.items() if number == algorithm), algorithm)
        if algorithm not in names:
            document.refuse(
                entry, f"alg {algorithm!r}: the library would pass over the rule; there are {', '.join(names)}"
            )
        if first > free:
            found.append(Rule(free, DEFAULT))
        found.append(Rule(first, algorithm))
        free = None if last is None else last + 1
    if not found:
        document.refuse(entries, "a set without a rule")
    if free is not None:
        found.append(Rule(free, DEFAULT))
    return tuple(found)


def _span(document: Document, one: dict[str, Any], name: str, least: int) -> tuple[int, int | None]:
    """From ``name``_min to ``name``_max, which may be missing."""
    first, last = one.get(f"{name}_min", least), one.get(f"{name}_max")
    if last == "inf" and name == "msg_size":
        last = None
    whole = [value for value in (first, last) if value is not None]
    if not all(isinstance(value, int) and not isinstance(value, bool) and value >= least for value in whole):
        document.refuse(one, f"{name}_min and {name}_max are whole numbers of at least {least}")
    if last is not None and last < first:
        document.refuse(one, f"{name}_max {last} is below {name}_min {first}")
    return first, last
