"""Open MPI's classic dynamic rules (v4, v5): a stream of integers.

    file := NCOLL coll{NCOLL}         coll := COLLID NCOMM comm{NCOMM}
    comm := COMMSIZE NMSG msg{NMSG}   msg  := MSGSIZE ALG FANINOUT SEGSIZE

A set of rules holds from its COMMSIZE to that of the next, the first one below itself too; ALG 0 leaves the choice to
the library. The library takes numbers as C does (a leading 0 is octal), skips what is no number, and says nothing of a
file that it rejects: hence a strict reader here. No version line is written: it is understood from 5.0.7 on, and only
MAXREQ, which is not used, needs it.
"""

from __future__ import annotations

import re

from .advice import DEFAULT, Band, Calls, Rule, checked
from .malformed import MalformedError
from .names import OPENMPI, OPENMPI_4_LACKS, OPENMPI_CALLS

FANOUT = 4  # what the library's own forced chain has; 0 would be a chain of one
SEGMENT_BYTES = {"segmented_ring": 1 << 16}  # as the bench forces it; without segments it is the plain ring
_LARGEST = 2**63 - 1


def known(version: int) -> dict[str, dict[str, int]]:
    """Call -> algorithm -> number."""
    lacks = OPENMPI_4_LACKS if version == 4 else set()
    return {call: {n: i for n, i in names.items() if (call, n) not in lacks} for call, names in OPENMPI.items()}


def write(calls: Calls, comment: str, version: int) -> str:
    """The file. ValueError: a call or an algorithm that this version does not have."""
    names = known(version)
    lines = [f"# {text}" for text in comment.splitlines()] + [f"{len(calls)}  # collectives"]
    for call, bands in checked(calls).items():
        if call not in names:
            raise ValueError(f"Open MPI's rules know no {call}: there are {', '.join(names)}")
        sets = _sets(bands)
        lines += [f"{OPENMPI_CALLS[call]}  # {call}", f"{len(sets)}  # sets of ranks"]
        for first, rules in sets:
            lines.append(f"{first} {len(rules)}  # from so many ranks on, so many rules")
            for nbytes, algorithm in rules:
                if algorithm != DEFAULT and algorithm not in names[call]:
                    raise ValueError(f"Open MPI {version} has no {algorithm}: {call} has {', '.join(names[call])}")
                number = 0 if algorithm == DEFAULT else names[call][algorithm]
                segment = SEGMENT_BYTES.get(algorithm, 0)
                lines.append(
                    f"{nbytes} {number} {FANOUT if number else 0} {segment}  # from {nbytes} bytes: {algorithm}"
                )
    return "\n".join(lines) + "\n"


def _sets(bands: tuple[Band, ...]) -> list[tuple[int, tuple[Rule, ...]]]:
    """Bands as sets that hold until the next: what lies between and beside them is left to the library."""
    alone = (Rule(0, DEFAULT),)
    sets: list[tuple[int, tuple[Rule, ...]]] = []
    free = 1
    for band in bands:
        if band.first > free:
            sets.append((free, alone))
        sets.append((band.first, band.rules))
        free = _LARGEST if band.last is None else band.last + 1
    if free < _LARGEST:
        sets.append((free, alone))
    return sets


class _Numbers:
    """The stream, with the lines."""

    def __init__(self, text: str) -> None:
        version = re.match(r"rule-file-version-(\d+)[ \t]*(#.*)?\n", text)
        self.version = int(version[1]) if version else 1
        self.found: list[tuple[int, int]] = []
        self.at = 0
        for line, content in enumerate(text.split("\n"), 1):
            if version and line == 1:
                continue
            if "rule-file-version" in content.split("#")[0]:
                raise MalformedError(
                    line, "the version is not the very first of the file, and would be read as a number"
                )
            for word in content.split("#")[0].split():
                if not re.fullmatch(r"0|[1-9]\d*", word):
                    raise MalformedError(line, f"{word!r} is no plain number: C would skip it or take it as octal")
                if int(word) > _LARGEST:
                    raise MalformedError(line, f"{word} does not fit a long")
                self.found.append((line, int(word)))

    def next(self, what: str) -> int:
        if self.at == len(self.found):
            last = self.found[-1][0] if self.found else 1
            raise MalformedError(last, f"the file ends where {what} should come")
        self.at += 1
        return self.found[self.at - 1][1]

    @property
    def line(self) -> int:
        """Of the number read last."""
        return self.found[self.at - 1][0]

    def more_on_line(self) -> bool:
        return self.at < len(self.found) and self.found[self.at][0] == self.line

    def refuse(self, reason: str) -> MalformedError:
        return MalformedError(self.line, reason)


def read(text: str, version: int) -> Calls:
    """What the file says. MalformedError: what the library would reject, misread or not find."""
    numbers, calls = _Numbers(text), dict[str, tuple[Band, ...]]()
    names = known(version)
    by_id = {OPENMPI_CALLS[call]: call for call in names}
    for _ in range(numbers.next("the number of collectives")):
        if (number := numbers.next("a collective")) not in by_id:
            raise numbers.refuse(f"collective {number}: this reads {', '.join(f'{i} {c}' for i, c in by_id.items())}")
        call = by_id[number]
        if call in calls:
            raise numbers.refuse(f"{call} a second time")
        calls[call] = _bands(numbers, {i: name for name, i in names[call].items()})
    if numbers.at < len(numbers.found):
        numbers.at += 1
        raise numbers.refuse("numbers after the last rule: a count before is too small")
    return {call: bands for call, bands in calls.items() if bands}


def _bands(numbers: _Numbers, names: dict[int, str]) -> tuple[Band, ...]:
    sets: list[tuple[int, tuple[Rule, ...]]] = []
    for _ in range(numbers.next("the number of sets")):
        first = numbers.next("a number of ranks")
        if sets and first <= sets[-1][0]:
            raise numbers.refuse(f"{first} ranks after {sets[-1][0]}: they must ascend")
        rules: list[Rule] = []
        for _ in range(numbers.next("the number of rules")):
            nbytes = numbers.next("bytes")
            if not rules and nbytes:
                raise numbers.refuse(f"the first rule is for {nbytes} bytes: it must be for 0, or the file is rejected")
            if rules and nbytes <= rules[-1].nbytes:
                raise numbers.refuse(f"{nbytes} bytes after {rules[-1].nbytes}: they must ascend")
            number = numbers.next("an algorithm")
            if number and number not in names:
                raise numbers.refuse(f"algorithm {number}: there are {', '.join(f'{i} {n}' for i, n in names.items())}")
            numbers.next("a fanout")
            numbers.next("a segment size")
            if numbers.version >= 2 and numbers.more_on_line():
                numbers.next("a number of requests")
            rules.append(Rule(nbytes, names[number] if number else DEFAULT))
        if not rules:
            raise numbers.refuse("a set without a rule")
        sets.append((first, tuple(rules)))
    if not sets:
        raise numbers.refuse("a collective without a set")
    ends = [first - 1 for first, _ in sets[1:]]
    found = [Band(first, last, rules) for (first, rules), last in zip(sets, [*ends, None])]
    found[0] = found[0]._replace(first=1)  # the first set applies below itself too
    return tuple(band for band in found if any(rule.algorithm != DEFAULT for rule in band.rules))
