"""What our run files say of the runs themselves: when, where, on what library, in which launch, and whether whole."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

_RUN, _END = '{"record":"run"', '{"record":"end"'
_DECODER = json.JSONDecoder()


class Facts(NamedTuple):
    """One run. ``nodes``: hosts that its ranks are on; ``cores``: of all of them; ``launch``: what --launch gave it."""

    file: str
    size: int
    time: str
    argv: tuple[str, ...]
    mpi_library: str
    versions: dict[str, str]
    revision: str | None
    hosts: tuple[str, ...]
    nodes: int
    cpus: tuple[str, ...]
    cores: int
    launch: str | None
    whole: bool


def facts(files: Iterable[str]) -> list[Facts]:
    """The runs of our files in the order of the files; other files say nothing of themselves."""
    found: list[Facts] = []
    for name in files:
        text = Path(name).read_text(encoding="utf-8", errors="replace")
        if not text.lstrip().startswith('{"record"'):
            continue
        for line in text.split("\n"):
            start = line.find(_RUN)
            if start >= 0 and (run := _record(line[start:])) is not None:
                found.append(_facts(name, run))
            elif line.startswith(_END) and found and found[-1].file == name:
                end = _record(line) or {}
                found[-1] = found[-1]._replace(whole=bool(end.get("complete")))
    return found


def _record(text: str) -> dict[str, Any] | None:
    try:
        return _DECODER.raw_decode(text)[0]
    except ValueError:
        return None


def _facts(file: str, run: dict[str, Any]) -> Facts:
    """What is missing in an old or foreign record stays empty."""
    ranks = [rank for rank in run.get("ranks") or () if isinstance(rank, dict)]
    hosts = tuple(dict.fromkeys(str(rank.get("host", "?")) for rank in ranks))
    cores = {(rank.get("host"), core) for rank in ranks for core in rank.get("cores") or ()}
    source, versions = run.get("source"), run.get("versions")
    return Facts(
        file=file,
        size=int(run.get("size") or 0),
        time=str(run.get("time") or ""),
        argv=tuple(map(str, run.get("argv") or ())),
        mpi_library=str(run.get("mpi_library") or "an unknown MPI"),
        versions={str(k): str(v) for k, v in versions.items()} if isinstance(versions, dict) else {},
        revision=source.get("revision") if isinstance(source, dict) else None,
        hosts=hosts,
        nodes=len({rank.get("node") for rank in ranks}) or 1,
        cpus=tuple(dict.fromkeys(str(rank["cpu"]) for rank in ranks if rank.get("cpu"))),
        cores=len(cores),
        launch=None if run.get("launch") is None else str(run["launch"]),
        whole=False,
    )
