"""``python -m mpicoll.bench.score PICK.jsonl SCORE.jsonl``: picked in one launch, scored in another.

A lucky sample then does not count. Prints a row a size: the algorithm, its speed-up over MPI's call of the same launch,
and the 95 % interval of that ratio (bootstrap over iterations).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict

import numpy as np

from .table import human

Times = dict[int, dict[tuple[str, str, str], np.ndarray]]


def load(path: str) -> Times:
    """The times of a run file, by size and (library, algorithm, call). Rows with wrong results are left out."""
    times: Times = defaultdict(dict)
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            try:
                row = json.loads(line)
            except ValueError:  # the last line of a run that was killed
                continue
            if row["record"] == "sample" and row["times_us"] and not row["wrong"]:
                staged = row.get("device") == "cuda" and row.get("transport") == "staged"
                name = (
                    row.get("asked", row["algorithm"]) + " staged" * staged + " in place" * row.get("in_place", False)
                )
                times[row["nbytes"]][row["library"], name, row["call"]] = np.array(row["times_us"])
    return times


def interval(own: np.ndarray, mpi: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of the ratio of medians, mpi over own."""
    random = np.random.default_rng(1)
    draws = [np.median(random.choice(mpi, len(mpi))) / np.median(random.choice(own, len(own))) for _ in range(400)]
    low, high = np.percentile(draws, [2.5, 97.5])
    return float(low), float(high)


def main() -> int:
    """Print the scores."""
    parser = argparse.ArgumentParser(prog="mpicoll.bench.score", description=__doc__)
    parser.add_argument("pick", help="run file in which the best plan of each size is picked")
    parser.add_argument("score", help="run file of another launch, in which it is scored")
    options = parser.parse_args()
    picks, scores = load(options.pick), load(options.score)
    print(f"{'bytes':>8}  {'picked':<20} {'speed-up':>8}  {'95 %':>13}  {'us':>9}")
    for nbytes in sorted(picks.keys() & scores.keys()):
        plans = {key: np.median(t) for key, t in picks[nbytes].items() if key[0] == "mpicoll" and key[2] == "plan"}
        best = min(plans, key=lambda key: plans[key])
        shown = best[1].removesuffix(" in place")
        base = ("mpi", "default" + " in place" * best[1].endswith(" in place"), "call")
        own, mpi = scores[nbytes].get(best), scores[nbytes].get(base)
        if own is None or mpi is None:
            print(f"{human(nbytes):>8}  {shown:<20} {'-':>8}")
            continue
        ratio, (low, high) = float(np.median(mpi) / np.median(own)), interval(own, mpi)
        print(f"{human(nbytes):>8}  {shown:<20} {ratio:>7.2f}x  {low:>5.2f} .. {high:<5.2f}  {np.median(own):>9.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
