"""From measured times to a tuning file for ``algorithm="auto"``: the best of each size, with few, certain changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mpicoll.schedule import Network, find

# The algorithm so far stays while it is within this of the best, or their intervals meet: changes are few and certain.
KEEP = 0.05
COLUMNS = ("collective", "algorithm", "size", "nodes", "nbytes", "time_us")


@dataclass(frozen=True)
class Advice:
    """The rows of a tuning file, and the regret of following them: chosen / best - 1, of each size."""

    measured: list[dict[str, Any]]
    regret: np.ndarray

    @property
    def summary(self) -> str:
        """Mean and 95th percentile of the regret."""
        if not len(self.regret):
            return "nothing was measured"
        return (
            f"regret over {len(self.regret)} sizes: mean {self.regret.mean():.1%}, "
            f"95th percentile {np.percentile(self.regret, 95):.1%}"
        )


def recommend(samples: pd.DataFrame, scored: pd.DataFrame | None = None) -> Advice:
    """Choose by ``samples`` (a row a cell and launch; COLUMNS); score by ``scored``, another launch (default: these).

    Where ``low_us`` and ``high_us`` tell, what cannot be told from the best is no regret.
    ValueError: a column is missing.
    """
    for frame in (samples, scored if scored is not None else samples):
        if missing := [name for name in COLUMNS if name not in frame]:
            raise ValueError(f"the samples lack {', '.join(missing)}")
    rows, regret = [], []
    by_score = _times(samples if scored is None else scored)
    for (collective, size, nodes), times in _times(samples).items():
        chosen: list[list[Any]] = []
        for nbytes, row in sorted(times.items()):
            allowed = {name: t for name, t in row.items() if find(collective, name).identical}
            if not allowed:
                continue
            best = min(allowed.values())
            if not chosen or _worse(allowed.get(chosen[-1][1]), best):
                chosen.append([int(nbytes), min(allowed, key=lambda name: allowed[name])])
            true = by_score.get((collective, size, nodes), {}).get(nbytes, {})
            if chosen[-1][1] in true:
                mine, oracle = true[chosen[-1][1]], min(true.values())
                regret.append(mine.time / oracle.time - 1 if _apart(mine, oracle) else 0.0)
        if chosen:
            chosen[0][0] = 0  # what is below the smallest size is nearest to it
            per_node = -(-size // nodes)
            head = {"collective": collective, "size": int(size), "ranks_per_node": int(per_node)}
            rows.append(head | {"algorithms": chosen})
    return Advice(rows, np.array(regret))


def tuning(advice: Advice, network: Network, source: str) -> dict[str, Any]:
    """A tuning file, to be written as JSON: what is measured where it was, what is predicted elsewhere."""
    parameters = {
        "alpha": network.alpha,
        "beta": network.beta,
        "gamma": network.gamma,
        "per_round": network.per_round,
    }
    if network.inner:
        parameters |= {"inner_alpha": network.inner[0], "inner_beta": network.inner[1]}
    return {"tuning": 1, "source": source, "network": parameters, "measured": advice.measured}


class _Timed(NamedTuple):
    """Microseconds, and the 95 % interval where it is known; NaN else."""

    time: float
    low: float
    high: float


def _apart(slow: _Timed, fast: _Timed) -> bool:
    """Whether their intervals do not meet; what has no interval is taken at its word."""
    return slow is not fast and not slow.low <= fast.high


def _worse(so_far: _Timed | None, best: _Timed) -> bool:
    """Whether to change: not measured here, or so much slower that it is certain."""
    return so_far is None or (so_far.time > (1 + KEEP) * best.time and _apart(so_far, best))


def _times(samples: pd.DataFrame) -> dict[tuple[str, int, int], dict[float, dict[str, _Timed]]]:
    """Medians over launches: (collective, size, nodes) -> bytes -> algorithm -> time."""
    place_of, setting = ["collective", "size", "nodes", "nbytes"], ["dtype", "op", "in_place"]
    columns = samples.reindex(columns=[*place_of, "algorithm", *setting, "time_us", "low_us", "high_us"])
    columns[setting] = columns[setting].astype(object).fillna("").astype(str)
    each = columns.groupby([*place_of, "algorithm", *setting], as_index=False).median()
    # A file has one line for all types and operations: algorithms are compared where most of them were timed alike.
    each["many"] = each.groupby([*place_of, *setting])["algorithm"].transform("size")
    each = each[each["many"] == each.groupby(place_of)["many"].transform("max")]
    found: dict[tuple[str, int, int], dict[float, dict[str, _Timed]]] = {}
    numbers = ["time_us", "low_us", "high_us"]
    for row in each.groupby([*place_of, "algorithm"])[numbers].median().reset_index().itertuples(index=False):
        place = found.setdefault((row.collective, row.size, row.nodes), {})
        place.setdefault(row.nbytes, {})[row.algorithm] = _Timed(row.time_us, row.low_us, row.high_us)
    return found
