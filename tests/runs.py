"""Run files made for tests: our JSON Lines, with times that follow from alpha, beta and gamma."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from mpicoll.schedule import Network, find, price

NETWORK = Network(2e-6, 1e-9, 2e-10, 5e-7)
SIZES = (8, 512, 32768, 2097152)
NAMES = ("ring", "recursive_doubling", "binomial_tree", "direct")


def run_file(
    path: Path,
    size: int = 2,
    *,
    launch: int | None = 1,
    sizes: Sequence[int] = SIZES,
    library: str = "MPICH 5.0.2",
    forced: dict[str, float] | None = None,
    default: float = 1.3,
    complete: bool = True,
    host: str = "node",
) -> str:
    """Write one launch: plans of ours by the model, the library's call ``default`` times ring's time.

    ``forced``: the library's own algorithms, so many times ring's time.
    """
    ranks = [
        {"rank": r, "host": f"{host}{r // 2}", "node": r // 2, "cores": [r % 2], "cpu": "a CPU"} for r in range(size)
    ]
    run = {"record": "run", "schema": 1, "time": "2026-01-02T03:04:05+00:00", "argv": ["-e", "2M", "-J", path.name]}
    run |= {"mpi_library": library, "size": size, "ranks": ranks, "launch": launch, "versions": {"mpicoll": "0.1.0"}}
    records: list[dict] = [run]
    for nbytes in sizes:
        ring = _seconds("ring", size, nbytes)
        cells = [("mpi", "default", "call", default * ring)]
        cells += [("mpi", name, "call", part * ring) for name, part in (forced or {}).items()]
        cells += [("mpicoll", name, "plan", _seconds(name, size, nbytes)) for name in NAMES]
        for library_of, name, call, seconds in cells:
            time_us = round(seconds * 1e6 * (1 + 0.001 * (launch or 0)), 6)
            sample = {"record": "sample", "collective": "allreduce", "library": library_of, "algorithm": name}
            sample |= {"size": size, "nodes": -(-size // 2), "dtype": "float32", "op": "sum", "count": nbytes // 4}
            sample |= {"nbytes": nbytes, "in_place": False, "call": call, "sync": "barrier", "launch": launch}
            sample |= {
                "segment_bytes": None,
                "device": "cpu",
                "transport": "direct",
                "times_us": [time_us] * 9,
                "wrong": 0,
                "skipped": None,
            }
            records.append(sample | {"low_us": time_us * 0.99, "high_us": time_us * 1.01})
    records += [{"record": "end", "complete": True}] if complete else []
    path.write_text("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records))
    return str(path)


def _seconds(name: str, size: int, nbytes: int) -> float:
    return price(find("allreduce", name).schedule(size), NETWORK, nbytes).seconds


OSU = """
# OSU MPI Allreduce Latency Test v5.9
# Size       Avg Latency(us)
4                      11.57
8                      10.75
16                     10.92
65536                  98.31
"""
