"""Medians, their intervals and what is made of them."""

from __future__ import annotations

import numpy as np
import pytest

from mpicoll.bench.calibrate import Calibration, bound_us
from mpicoll.bench.measure import BATCH, FEWEST, MOST, Effort, _more
from mpicoll.statistics import apart, summarize


@pytest.mark.parametrize("n", [8, 10, 30, 50, 101, 1000])
def test_the_interval_covers_the_median_as_often_as_it_says(n):
    random = np.random.default_rng(n)
    true = np.exp(0.5)  # of a skewed distribution with a long tail, as times are
    hits = 0
    for _ in range(1000):
        found = summarize(random.lognormal(0.5, 0.8, n))
        hits += found.low <= true <= found.high
    assert 0.945 <= hits / 1000 <= 1.0


def test_a_summary_holds_every_sample():
    times = np.array([5.0, 1.0, 4.0, 2.0, 3.0, 1000.0, 3.0, 4.0])
    found = summarize(times)
    assert (found.median, found.minimum) == (3.5, 1.0)
    assert found.p99 > 900
    assert found.low <= found.median <= found.high
    assert summarize(np.empty(0)) is None
    one = summarize(np.array([7.0]))
    assert (one.median, one.minimum, one.drift) == (7.0, 7.0, 1.0)
    assert one.interval == (None, None)
    assert not one.known
    assert not apart(one, summarize(np.array([900.0])))


def test_drift_is_the_last_third_by_the_first():
    assert summarize(np.repeat([1.0, 5.0, 3.0], 10)).drift == 3.0


def test_cells_that_cannot_be_told_apart():
    a, b, c = (summarize(np.linspace(low, low + 1, 50)) for low in (10, 10.1, 20))
    assert not apart(a, b)
    assert apart(a, c)
    assert apart(c, a)


def test_iterations_end_when_all_are_known_or_the_budget_is_spent():
    flat, wild = np.ones((1, 40)), np.concatenate([np.linspace(1, 3, 40)[None], np.ones((1, 40))])
    assert _more(np.empty((2, 0)), Effort(budget=0.0), 9.0) == FEWEST
    assert _more(flat, Effort(budget=100.0), 1.0) == 0
    assert _more(wild, Effort(budget=100.0), 1.0) == max(BATCH, 20)
    assert _more(wild, Effort(budget=1.0), 1.0) == 0
    assert _more(wild, Effort(budget=1.1), 1.0) == 4
    assert _more(np.tile(wild, MOST // 40), Effort(budget=1e9), 1.0) == 0
    assert _more(np.empty((2, 0)), Effort(iterations=7), 9.0) == 7
    assert _more(np.ones((2, 7)), Effort(iterations=7), 9.0) == 0


def made(kind: str, level: str, rate: float, fixed: float = 0.0) -> list[Calibration]:
    return [Calibration(kind, level, n, np.array([fixed + n * rate])) for n in (8, 1 << 10, 1 << 20)]


def test_the_bound_is_what_the_rates_allow():
    found = made("exchange", "inside", 1e-3, 2.0) + made("reduce", "alone", 5e-4)
    # Small: log2(8) exchanges; large: 2(p-1)/p bytes of exchange and (p-1)/p of reduction.
    assert bound_us(found, "allreduce", (0,) * 8, 8) == pytest.approx(3 * 2.008, rel=0.01)
    large = (1.75 * (1e-3 + 2 / (1 << 20)) + 0.875 * 5e-4) * (1 << 20)
    assert bound_us(found, "allreduce", (0,) * 8, 1 << 20) == pytest.approx(large)
    assert bound_us(found, "bcast", (0,) * 8, 1 << 20) == pytest.approx((1e-3 + 2 / (1 << 20)) * (1 << 20))
    across = found + made("exchange", "across", 1e-2)
    # Four nodes of two: each rank sends 2 * 3/4 * 1/2 across.
    assert bound_us(across, "allreduce", (0, 0, 1, 1, 2, 2, 3, 3), 1 << 20) == pytest.approx(
        (0.75 * 1e-2 + 0.875 * 5e-4) * (1 << 20)
    )
    assert bound_us([], "allreduce", (0, 0), 8) is None
    assert bound_us(found, "allreduce", (0,), 8) is None
