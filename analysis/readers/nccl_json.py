"""The JSON of nccl-tests (``-J``) and the list of rccl-tests (``-Z json``)."""

from __future__ import annotations

import json
from typing import Any

from ..samples import Asked, Found
from .nccl_section import BARE, Half, Line, Section
from .text import Source


def read(source: Source, asked: Asked) -> Found:
    """One document; each field by its name."""
    found = Found(source.file, "nccl", asked)
    try:
        document = json.loads(source.text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        found.refuse(line, f"JSON that stops or is damaged: {getattr(error, 'msg', error)}")
    try:
        sections = _list(found, document) if isinstance(document, list) else [_document(found, document)]
        for section in sections:
            section.take(found)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        found.refuse(1, f"not what nccl-tests writes: {type(error).__name__} {error}")
    return found.whole()


def _document(found: Found, document: dict[str, Any]) -> Section:
    """What nccl-tests writes: arguments, devices, results."""
    config = document.get("config", {})
    ranks = [int(device["rank"]) for device in config.get("devices", [])]
    if len(set(ranks)) < len(ranks):
        found.refuse(1, "a rank a second time: several programs of one rank each?")
    hosts = {device["hostname"] for device in config.get("devices", [])}
    names = [document.get("args", [""])[0]] + [str(row.get("experiment_name")) for row in document["results"]]
    name = next((one.rpartition("/")[2].removesuffix("_perf") for one in names if one.endswith("_perf")), None)
    whole = bool(ranks) and max(ranks) + 1 == len(ranks)  # without MPI only the writer's own devices are listed
    section = Section(1, name, len(ranks) if whole else None, len(hosts) if whole else None, 1.0)
    section.iterations = config.get("iterations")
    section.failed = int(document.get("out_of_bounds", {}).get("count", 0))
    for row in document["results"]:
        halves = []
        for in_place, key in enumerate(("out_of_place", "in_place")):
            if (part := row.get(key)) is None:
                continue
            if "time" not in part:
                found.refuse(1, "cpu_time is not how long the collective took: run without -C")
            each = row.get(f"{key}_per_iter") or {}
            wrong = part.get("nwrong")
            time, alg, bus = (f"{float(part[k]):.6f}" for k in ("time", "alg_bw", "bus_bw"))
            half = Half(bool(in_place), time, alg, bus, None if wrong is None else int(float(wrong) != 0))
            half.median_us = _real(each.get("p50_us"))
            half.n_samples = row.get("actual_iterations")
            halves.append(half)
        section.lines.append(
            Line(1, int(row["size"]), str(row["type"]), row["redop"], str(row["root"]).strip(), halves)
        )
    return section


def _list(found: Found, rows: list[dict[str, Any]]) -> list[Section]:
    """What rccl-tests writes: a flat list, a row for each half."""
    sections: dict[tuple[object, ...], Section] = {}
    lines: dict[tuple[object, ...], Line] = {}
    for row in rows:
        size = int(row["ranks"]) * int(row.get("gpusPerRank", 1)) if "ranks" in row else None
        name = BARE.get(str(row["name"]).lower().replace("_", ""), str(row["name"]))
        key = (name, size, row.get("nodes"), row.get("numCycle"))
        nodes = int(row["nodes"]) if "nodes" in row else None
        section = sections.setdefault(key, Section(1, name, size, nodes, 1.0, launch=len(sections)))
        wrong = str(row.get("wrong", "N/A"))
        figures = (str(row["time"]), str(row["algBw"]), str(row["busBw"]))
        half = Half(bool(int(row["inPlace"])), *figures, wrong=None if wrong == "N/A" else int(float(wrong)))
        cell = (key, row["size"], row["type"], row.get("redop"), row.get("root"))
        if cell not in lines:
            root = row.get("root")
            line = Line(
                1, int(row["size"]), str(row["type"]), row.get("redop"), None if root is None else str(root), []
            )
            lines[cell] = line
            section.lines.append(line)
        if any(other.in_place == half.in_place for other in lines[cell].halves):
            found.refuse(1, f"{row['size']} bytes a second time in one run")
        lines[cell].halves.append(half)
    return list(sections.values())


def _real(value: Any) -> float | None:
    return None if value is None else float(value)
