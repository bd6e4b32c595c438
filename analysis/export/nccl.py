"""The CSV of NCCL's example tuner plugin: ``coll,min_bytes,max_bytes,algo,proto,channels,nNodes,nRanks``, -1 for any.

The first line that matches decides. The plugin sets one channel before it looks, and NCCL takes any number that is not
0: so every line has a number of channels, and a file must cover all sizes (nothing can be left to NCCL). Ranks are
matched exactly: a band of ranks is written for its first number, which is the one that was looked at.
"""

from __future__ import annotations

import re

from .advice import DEFAULT, Band, Calls, Rule, checked
from .malformed import MalformedError
from .names import NCCL_ALGORITHMS, NCCL_PROTOCOLS

ENDLESS = 2**62  # bytes
LONGEST = 255  # characters of a line that the plugin reads


def write(calls: Calls, comment: str, channels: int) -> str:
    """The file. ValueError: another call than allreduce, DEFAULT, an algorithm or protocol that there is not."""
    if set(checked(calls)) - {"allreduce"}:
        raise ValueError("for NCCL only allreduce is written")
    if channels < 1:
        raise ValueError(f"{channels} channels: at least 1; without a number NCCL takes one channel")
    lines = [f"# {text}"[:LONGEST] for text in comment.splitlines()]
    for band in calls.get("allreduce", ()):
        ends = [rule.nbytes - 1 for rule in band.rules[1:]]
        for (nbytes, name), last in zip(band.rules, [*ends, ENDLESS]):
            algorithm, _, protocol = name.partition("/")
            if algorithm not in NCCL_ALGORITHMS or protocol not in NCCL_PROTOCOLS:
                raise ValueError(f"{name}: NCCL needs ALGORITHM/PROTOCOL of {NCCL_ALGORITHMS} and {NCCL_PROTOCOLS}")
            lines.append(f"allreduce,{nbytes},{last},{algorithm},{protocol},{channels},-1,{band.first}")
    return "\n".join(lines) + "\n"


def read(text: str) -> Calls:
    """What the file says: bands of one number of ranks each. MalformedError: what the plugin would misread."""
    found: dict[int, list[tuple[int, int, str]]] = {}
    for line, content in enumerate(text.split("\n"), 1):
        if not content or content.startswith("#"):
            continue
        if len(content) > LONGEST:
            raise MalformedError(line, f"{len(content)} characters: the plugin reads {LONGEST}")
        fields = content.split(",")
        if len(fields) not in (8, 9, 10):
            raise MalformedError(line, f"{len(fields)} fields: coll,min,max,algo,proto,channels,nNodes,nRanks")
        call, low, high, algorithm, protocol, channels, nodes, ranks, *more = fields
        if call != "allreduce":
            raise MalformedError(line, f"{call!r}: this reads allreduce")
        if algorithm not in NCCL_ALGORITHMS or protocol not in NCCL_PROTOCOLS:
            raise MalformedError(line, f"{algorithm},{protocol}: there are {NCCL_ALGORITHMS} and {NCCL_PROTOCOLS}")
        numbers = (low, high, channels, nodes, ranks, *more)
        if not all(re.fullmatch(r"-1|0|[1-9]\d*", number) for number in numbers):
            raise MalformedError(line, "a field that is no whole number")
        if int(channels) < 1:
            raise MalformedError(line, f"{channels} channels: the plugin would take one; write a number")
        if not 0 <= int(low) <= int(high):
            raise MalformedError(line, f"{low} to {high} bytes is no span")
        if nodes != "-1" or set(more) - {"-1"}:
            raise MalformedError(line, "a line for some nodes, operations or buffers: of others nothing is known")
        if int(ranks) < 1:
            raise MalformedError(line, f"{ranks} ranks: any, or none, of which a line for a number is no part")
        spans = found.setdefault(int(ranks), [])
        free = spans[-1][1] + 1 if spans else 0
        if int(low) != free:
            why = "a line before covers them" if int(low) < free else f"from {free} on nothing matches: one channel"
            raise MalformedError(line, f"from {low} bytes: {why}")
        spans.append((int(low), int(high), f"{algorithm}/{protocol}"))
    for size, spans in found.items():
        if spans[-1][1] < ENDLESS:
            raise MalformedError(line, f"{size} ranks: past {spans[-1][1]} bytes nothing matches: one channel")
    bands = (Band(p, p, tuple(Rule(low, name) for low, _, name in spans)) for p, spans in sorted(found.items()))
    calls = {"allreduce": tuple(bands)}
    return calls if calls["allreduce"] else {}


def names(text: str) -> str:
    """What a run file means: "ring" is ring/simple."""
    text = text.strip().lower()
    return text if "/" in text or text == DEFAULT else f"{text}/simple"
