"""What a tuning file says, whatever its grammar: for each call bands of ranks, in each band rules by bytes.

Where nothing is surely faster than what the library does by itself, the advice is DEFAULT, and the file leaves the
choice to the library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import pandas as pd

DEFAULT = "default"
SURE = 0.05  # a change must be faster by this part, and its interval must lie apart


class Rule(NamedTuple):
    """From so many bytes of the vector on: the library's name of an algorithm, or DEFAULT."""

    nbytes: int
    algorithm: str


class Band(NamedTuple):
    """From ``first`` to ``last`` ranks (None: without end). The first rule is that of 0 bytes."""

    first: int
    last: int | None
    rules: tuple[Rule, ...]


Calls = dict[str, tuple[Band, ...]]  # "allreduce", ... -> bands, ascending and without overlap


@dataclass(frozen=True)
class Advice:
    """``calls``, and in ``source`` one line that says what they rest on; ``measured``: on times, not on the model."""

    calls: Calls
    source: str
    measured: bool


def checked(calls: Calls) -> Calls:
    """The same; ValueError names what no grammar could say."""
    for call, bands in calls.items():
        if not bands:
            raise ValueError(f"{call}: no band of ranks")
        for band in bands:
            if not band.rules or band.rules[0].nbytes != 0:
                raise ValueError(f"{call}, {band.first} ranks: the first rule is not that of 0 bytes")
            if any(a.nbytes >= b.nbytes for a, b in zip(band.rules, band.rules[1:])):
                raise ValueError(f"{call}, {band.first} ranks: bytes do not ascend")
            if band.first < 1 or (band.last is not None and band.last < band.first):
                raise ValueError(f"{call}: {band.first} to {band.last} is no band of ranks")
        for low, high in pairwise(bands):
            if low.last is None or low.last >= high.first:
                raise ValueError(f"{call}: bands of ranks overlap at {high.first}")
    return calls


def bands(by_size: Mapping[int, Sequence[Rule]]) -> tuple[Band, ...]:
    """Rules of measured numbers of ranks p, as bands: from each p to the next, the largest up to twice itself.

    Below the smallest, and past twice the largest, the library is left alone. Equal neighbours become one.
    """
    sizes = sorted(by_size)
    found: list[Band] = []
    for size, above in zip(sizes, [*sizes[1:], 2 * sizes[-1] + 1]):
        rules = tuple(by_size[size])
        if found and found[-1].rules == rules and found[-1].last == size - 1:
            found[-1] = found[-1]._replace(last=above - 1)
        else:
            found.append(Band(size, above - 1, rules))
    return tuple(found)


def rules(sizes: Sequence[int], best: Callable[[int, str], str]) -> tuple[Rule, ...]:
    """Go up the sizes; ``best(nbytes, so_far)`` names what to take there. The first size stands for all below."""
    found: list[Rule] = []
    so_far = DEFAULT
    for nbytes in sizes:
        so_far = best(nbytes, so_far)
        if not found or so_far != found[-1].algorithm:
            found.append(Rule(nbytes if found else 0, so_far))
    return tuple(found)


def measured(rows: pd.DataFrame) -> tuple[Rule, ...]:
    """Rules from times of the library's own algorithms, at one number of ranks: COLUMNS of the table of samples.

    What is in place so far gives way only to what is surely faster; then the fastest that is comes in.
    """
    by_size = {int(nbytes): part for nbytes, part in rows.groupby("nbytes")}

    def best(nbytes: int, so_far: str) -> str:
        cells = {
            str(name): {
                (int(r.launch), *(str(getattr(r, what, "")) for what in SETTING)): (r.time_us, r.low_us, r.high_us)
                for r in part.itertuples()
            }
            for name, part in by_size[nbytes].groupby("algorithm")
        }
        medians = {name: pd.Series([cell[0] for cell in cell_of.values()]).median() for name, cell_of in cells.items()}
        order = sorted(medians, key=lambda name: medians[name])
        if so_far not in cells:  # the library does not run it here
            so_far = DEFAULT if DEFAULT in cells else order[0]
        return next((name for name in order if surely_faster(cells[name], cells[so_far])), so_far)

    return rules(sorted(by_size), best)


SETTING = ("dtype", "op", "in_place")  # which a rule cannot tell, and a comparison must
# (launch, *SETTING) -> median, low, high; NaN where no interval is known.
Cell = Mapping[tuple[Any, ...], tuple[float, float, float]]


def surely_faster(a: Cell, b: Cell) -> bool:
    """By SURE in the median of launches that have both, and in each launch; one launch alone needs its intervals."""
    both = sorted(set(a) & set(b))
    ratios = [b[one][0] / a[one][0] for one in both]
    if not ratios or pd.Series(ratios).median() < 1 + SURE or min(ratios) <= 1:
        return False
    # A comparison with NaN is false: without intervals the medians decide.
    several = len({launch for launch, *_ in both}) > 1
    return several or not any(a[one][2] >= b[one][1] for one in both)


def modelled(seconds: Mapping[str, Mapping[int, float]]) -> tuple[Rule, ...]:
    """Rules from predicted seconds: algorithm -> bytes -> seconds. No DEFAULT: the model does not know the library."""
    sizes = sorted(next(iter(seconds.values())))

    def best(nbytes: int, so_far: str) -> str:
        first = min(seconds, key=lambda name: seconds[name][nbytes])
        stays = so_far != DEFAULT and seconds[so_far][nbytes] <= (1 + SURE) * seconds[first][nbytes]
        return so_far if stays else first

    return rules(sizes, best)
