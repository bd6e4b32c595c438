"""From measured times to a tuning file for ``algorithm="auto"``: the best of each size, with few, certain changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpicoll.schedule import Network, find

KEEP = 0.05  # the algorithm so far stays while it is within this of the best: breakpoints are then few and certain
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
            best = min(allowed, key=lambda name: allowed[name])
            if not chosen or allowed.get(chosen[-1][1], np.inf) > (1 + KEEP) * allowed[best]:
                chosen.append([int(nbytes), best])
            true = by_score.get((collective, size, nodes), {}).get(nbytes, {})
            if chosen[-1][1] in true:
                regret.append(true[chosen[-1][1]] / min(true.values()) - 1)
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


def _times(samples: pd.DataFrame) -> dict[tuple[str, int, int], dict[float, dict[str, float]]]:
    """Median over launches: (collective, size, nodes) -> bytes -> algorithm -> microseconds."""
    keys = ["collective", "size", "nodes", "nbytes", "algorithm"]
    found: dict[tuple[str, int, int], dict[float, dict[str, float]]] = {}
    for (collective, size, nodes, nbytes, name), time in samples.groupby(keys)["time_us"].median().items():
        found.setdefault((collective, size, nodes), {}).setdefault(nbytes, {})[name] = float(time)
    return found
