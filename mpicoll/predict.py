"""``python -m mpicoll predict``: seconds under alpha, beta and gamma, split in terms, the best algorithm marked."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import pairwise

from .schedule import Schedule, find
from .schedule.price import Network, price

GRID = [8 << i for i in range(28)]  # bytes at which the best is looked for: 8 to 1 GiB


def positive(text: str) -> float:
    """A number above zero, such as 1e9."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: give a number above 0, such as 1e-6")
    return value


def add(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    put = parser.add_argument
    put("algorithms", nargs="+", metavar="ALGORITHM")
    put("-p", "--ranks", type=int, required=True)
    put("--bytes", type=positive, required=True, metavar="N", help="of the vector, such as 1e9")
    put("--alpha", type=positive, required=True, metavar="S", help="seconds a message")
    put("--bandwidth", type=positive, required=True, metavar="B/S", help="bytes a second, one way")
    put("--reduce-bandwidth", type=positive, metavar="B/S", help="bytes reduced a second (default: reducing is free)")
    put("--per-round", type=positive, default=0.0, metavar="S", help="seconds of software a round (default 0)")
    put("--all-ports", action="store_true", help="messages of a round go side by side (default: one at a time)")
    put("--ranks-per-node", type=int, metavar="Q")
    put("--intra-alpha", type=positive, metavar="S", help="inside a node (default: as outside)")
    put("--intra-bandwidth", type=positive, metavar="B/S", help="inside a node (default: as outside)")


def run(options: argparse.Namespace) -> int:
    """Print the table. ValueError for what makes no sense."""
    per_node = options.ranks_per_node or options.ranks
    if per_node < 1:
        raise ValueError(f"--ranks-per-node {per_node}: at least 1")
    if not options.ranks_per_node and (options.intra_alpha or options.intra_bandwidth):
        raise ValueError("--intra-alpha and --intra-bandwidth need --ranks-per-node")
    nodes = tuple(rank // per_node for rank in range(options.ranks))
    inner = (options.intra_alpha or options.alpha, 1 / (options.intra_bandwidth or options.bandwidth))
    network = Network(
        alpha=options.alpha,
        beta=1 / options.bandwidth,
        gamma=1 / options.reduce_bandwidth if options.reduce_bandwidth else 0.0,
        per_round=options.per_round,
        ports=None if options.all_ports else 1,
        inner=inner if options.ranks_per_node else None,
    )
    schedules = {
        name: find(options.collective, name).schedule(options.ranks, nodes=nodes) for name in options.algorithms
    }
    level = nodes if options.ranks_per_node else None
    print(f"{options.collective} of {options.bytes:g} bytes on {options.ranks} ranks")
    print(f"{'algorithm':<28} {'seconds':>11}   {'alpha':>10} {'beta':>10} {'gamma':>10} {'rounds':>10}")
    prices = {name: price(schedule, network, options.bytes, level) for name, schedule in schedules.items()}
    best = min(prices, key=lambda name: prices[name].seconds)
    for name, found in prices.items():
        terms = "".join(f" {value:>10.4g}" for value in found.terms(network).values())
        print(
            f"{name:<28} {found.seconds:>11.4g} {'*' if name == best and len(prices) > 1 else ' '} {terms.lstrip():>43}"
        )
    if len(prices) > 1:
        print("best by size: " + _crossovers(schedules, network, level))
    return 0


def _crossovers(schedules: dict[str, Schedule], network: Network, nodes: Sequence[int] | None) -> str:
    """Which algorithm is the fastest from which size on."""
    programs = {name: schedule.programs() for name, schedule in schedules.items()}

    def fastest(nbytes: float) -> str:
        times = {n: price(s, network, nbytes, nodes, programs[n]).seconds for n, s in schedules.items()}
        return min(times, key=lambda name: times[name])

    parts = [fastest(GRID[0])]
    for below, nbytes in pairwise(GRID):
        now = fastest(nbytes)
        if now == parts[-1].split(" ")[0]:
            continue
        low, high, last = below, nbytes, parts[-1].split(" ")[0]
        while high - low > max(1, low // 50):
            middle = (low + high) // 2
            low, high = (middle, high) if fastest(middle) == last else (low, middle)
        parts[-1] += f" below {high:.3g} bytes"
        parts.append(now)
    return ", then ".join(parts)
