"""The report, as text for a person and as one JSON object."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from mpicoll.hardware import Card, ranges

from .checks import FAIL, Check
from .facts import Facts

SHOWN = 64  # ranks in the table; the JSON has all
SHOWN_CHECKS = 8  # of the same name and verdict


@dataclass
class Report:
    """All that was found. ``facts`` of the ranks that were heard, in rank order."""

    device: str
    size: int
    facts: list[Facts]
    checks: list[Check] = field(default_factory=list)

    @property
    def status(self) -> int:
        """The exit status: 1 when a check failed."""
        return int(any(check.verdict == FAIL for check in self.checks))

    def json(self) -> str:
        """One object, on one line."""
        return json.dumps({"doctor": 1, "status": self.status, **asdict(self)})

    def text(self) -> str:
        """For a person."""
        first, hosts = self.facts[0], {one.host: one for one in self.facts}
        told = dict(first.versions)
        if not first.cupy:
            told["cupy"] = f"not installed (pip install 'mpicoll[{first.gpus.extra}]')"
        lines = [
            f"mpicoll doctor: {_many(self.size, 'rank')} on {_many(len(hosts), 'host')}, {self.device} buffers",
            "",
        ]
        lines += _section("versions", [", ".join(f"{name} {version}" for name, version in told.items())])
        lines += _section("MPI", [f"{name}: {value}" for name, value in first.library.items()])
        rows: list[tuple[str, ...]] = [("rank", "host", "local", "GPU", "NUMA", "cores")]
        rows += [_row(one) for one in self.facts[:SHOWN]]
        table = _table(rows)
        if len(self.facts) > SHOWN:
            table.append(f"... {len(self.facts) - SHOWN} more: --json has all")
        lines += _section("ranks", table)
        lines += _section("GPUs", _each(hosts, _gpus))
        lines += _section("NICs", _each(hosts, lambda one: [_card(card) for card in one.cards] or ["none"]))
        if first.transport:
            seen = [f"{one['verdict']:<6} {one['source']}: {one['detail']}" for one in first.evidence]
            lines += _section("transport", [f"{first.transport['name']}: {first.transport['why']}", *seen])
        lines += _section("checks", self._checks())
        count = sum(check.verdict == FAIL for check in self.checks)
        lines.append(f"{_many(count, 'check')} failed" if count else f"--device {self.device} will work")
        return "\n".join(lines)

    def _checks(self) -> list[str]:
        """Line by line; of many that look at the same thing on many hosts the first ones."""
        lines, seen = [], Counter[tuple[str, str]]()
        for check in self.checks:
            seen[check.name, check.verdict] += 1
            if seen[check.name, check.verdict] <= SHOWN_CHECKS:
                lines.append(f"{check.verdict:<4}  {check.name}: {check.text}")
        more = {key: count - SHOWN_CHECKS for key, count in seen.items() if count > SHOWN_CHECKS}
        return lines + [
            f"{verdict:<4}  {name}: {count} more: --json has all" for (name, verdict), count in more.items()
        ]


def _row(one: Facts) -> tuple[str, ...]:
    local = "?" if one.local is None else str(one.local)
    gpu = f"{one.gpu.index} {one.gpu.uuid[:8]}" if one.gpu else "-"
    return str(one.rank), one.host, local, gpu, ranges(one.numa) or "?", ranges(one.cores)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths)).rstrip() for row in rows]


def _gpus(one: Facts) -> list[str]:
    if not one.gpus.visible:
        return [one.gpus.why]
    lines = []
    for gpu in one.gpus.visible:
        numa = "?" if gpu.numa is None else gpu.numa
        lines.append(f"{gpu.index} {gpu.name}, {gpu.nbytes / 1e9:.0f} GB, {gpu.uuid[:8]}, NUMA {numa}")
    return [*lines, f"driver for CUDA {one.gpus.cuda}"]


def _card(card: Card) -> str:
    parts = [f"{card.name} {card.kind}", card.state, card.rate, "" if card.numa is None else f"NUMA {card.numa}"]
    return ", ".join(part for part in parts if part)


def _each(hosts: dict[str, Facts], tell) -> list[str]:
    """What hosts say, those that say the same together."""
    by: dict[tuple[str, ...], list[str]] = {}
    for host, one in hosts.items():
        by.setdefault(tuple(tell(one)), []).append(host)
    if len(by) == 1:
        return list(next(iter(by)))
    return [f"{', '.join(names[:4])}{', ...' * (len(names) > 4)}: {'; '.join(said)}" for said, names in by.items()]


def _section(name: str, lines: Sequence[str]) -> list[str]:
    return [name, *(f"  {line}" for line in lines), ""]


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
