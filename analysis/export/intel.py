"""Intel MPI's I_MPI_ADJUST_ALLREDUCE, as a file for a shell to source.

    value := ID[:COND{,COND}]{;ID:COND{,COND}}        COND := L[-M][@P[-Q]]   bytes and ranks, both ends included

What no condition names is left to the library. The numbers are those of the 2019 reference; newer versions call them
presets and promise nothing.
"""

from __future__ import annotations

import re

from .advice import DEFAULT, Band, Calls, Rule, checked
from .malformed import MalformedError
from .names import INTEL

ENDLESS = 2**31 - 1  # how an end that is none is written
_NAME = "I_MPI_ADJUST_ALLREDUCE"
_COND = re.compile(r"(0|[1-9]\d*)(?:-([1-9]\d*|0))?(?:@([1-9]\d*)(?:-([1-9]\d*))?)?")


def write(calls: Calls, comment: str) -> str:
    """The file. ValueError: another call than allreduce, an algorithm that there is not, bytes past 2 GiB."""
    if set(checked(calls)) - {"allreduce"}:
        raise ValueError("for Intel MPI only allreduce is written")
    parts: dict[int, list[str]] = {}
    for band in calls.get("allreduce", ()):
        ends = [rule.nbytes - 1 for rule in band.rules[1:]]
        for (nbytes, algorithm), last in zip(band.rules, [*ends, ENDLESS]):
            if algorithm == DEFAULT or nbytes > ENDLESS:
                continue
            if algorithm not in INTEL:
                raise ValueError(f"Intel MPI has no {algorithm}: {', '.join(INTEL)}")
            ranks = f"{band.first}-{ENDLESS if band.last is None else band.last}"
            parts.setdefault(INTEL[algorithm], []).append(f"{nbytes}-{min(last, ENDLESS)}@{ranks}")
    value = ";".join(f"{number}:{','.join(conditions)}" for number, conditions in sorted(parts.items()))
    lines = [f"# {text}" for text in comment.splitlines()]
    return (
        "\n".join([*lines, f"export {_NAME}='{value}'" if value else "# nothing beats the library's own choice"]) + "\n"
    )


def read(text: str) -> Calls:
    """What the file says. MalformedError: what the library would not take, or conditions that contradict each other."""
    at, value = 0, ""
    for line, content in enumerate(text.split("\n"), 1):
        if not content.strip() or content.startswith("#"):
            continue
        found = re.fullmatch(rf"export {_NAME}='([^']*)'", content)
        if not found or at:
            raise MalformedError(line, "a second setting" if found else f"no line of the form export {_NAME}='...'")
        at, value = line, found[1]
    cells: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    names = {number: name for name, number in INTEL.items()}
    for part in value.split(";") if at else ():
        number, _, conditions = part.partition(":")
        if not number.isdecimal() or int(number) not in names:
            raise MalformedError(at, f"{part!r}: no algorithm {number!r}; there are 1 to {max(names)}")
        for condition in conditions.split(","):
            match = _COND.fullmatch(condition)
            if not match:
                raise MalformedError(at, f"{condition!r} is no condition: bytes[-bytes][@ranks[-ranks]]")
            low, high, first, last = (int(group) if group else None for group in match.groups())
            span = low or 0, (low or 0) if high is None else high
            ranks = (1, ENDLESS) if first is None else (first, first if last is None else last)
            if span[1] < span[0] or ranks[1] < ranks[0]:
                raise MalformedError(at, f"{condition!r} ends before it begins")
            cells.setdefault(ranks, []).append((*span, names[int(number)]))
    return _calls(at, cells)


def _calls(at: int, cells: dict[tuple[int, int], list[tuple[int, int, str]]]) -> Calls:
    bands: list[Band] = []
    for (first, last), spans in sorted(cells.items()):
        if bands and (bands[-1].last is None or bands[-1].last >= first):
            raise MalformedError(at, f"conditions overlap at {first} ranks")
        rules, free = list[Rule](), 0
        for low, high, name in sorted(spans):
            if low < free:
                raise MalformedError(at, f"conditions overlap at {low} bytes")
            rules += [Rule(free, DEFAULT)] if low > free else []
            rules.append(Rule(low, name))
            free = high + 1
        rules += [Rule(free, DEFAULT)] if free <= ENDLESS else []
        bands.append(Band(first, None if last == ENDLESS else last, tuple(rules)))
    return {"allreduce": tuple(bands)} if bands else {}
