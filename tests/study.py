"""``make study``: 200 simulations with 5 % noise. Are parameters within 5 %, and do 95 % intervals hold the truth?

Not part of the tests: it takes minutes. Exit status 1 when a figure is outside what it must be.
"""

from __future__ import annotations

import sys

import numpy as np
from made import TRUE, made

from analysis.fit import fit_table
from analysis.progress import bar

SIZES = [8 << (2 * i) for i in range(12)]
RUNS, NOISE, LAUNCHES, DRAWS = 200, 0.05, 3, 200
WITHIN, COVERED = 0.05, (0.90, 0.98)


def main() -> int:
    """Print a row a parameter; the exit status. A number on the command line: so many simulations."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    values = {name: [] for name in TRUE}
    held = {name: 0 for name in TRUE}
    with bar() as progress:
        for seed in range(runs):
            table = made(TRUE, sizes=SIZES, calibrated=True, noise=NOISE, seed=2 * seed, launches=LAUNCHES)
            found = {p.name: p for p in fit_table(*table, draws=DRAWS, holding=False).parameters}
            for name, truth in TRUE.items():
                values[name].append(found[name].value)
                held[name] += found[name].low <= truth <= found[name].high
            progress((seed + 1) / runs, "study")
    wrong = 0
    print(f"{runs} simulations, {NOISE:.0%} noise, all algorithms, p = 3, 4, 7, 8, {LAUNCHES} launches, {DRAWS} draws")
    print(f"{'parameter':<10} {'median off':>10} {'95 % within':>12} {'covered':>8}")
    for name, truth in TRUE.items():
        off = np.abs(np.array(values[name]) / truth - 1)
        covered = held[name] / runs
        median, high = np.median(off), np.percentile(off, 95)
        print(f"{name:<10} {median:>10.2%} {high:>12.2%} {covered:>8.1%}")
        wrong += high > WITHIN
    total = sum(held.values()) / runs / len(held)
    print(f"covered in all {total:.1%} (must be {COVERED[0]:.0%} to {COVERED[1]:.0%})")
    return int(wrong > 0 or not COVERED[0] <= total <= COVERED[1])


if __name__ == "__main__":
    sys.exit(main())
