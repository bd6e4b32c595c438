"""Schedules: the model, the combinators, the proofs and the counts. Pure Python; no MPI, no arrays.

The package can be called: ``mpicoll.schedule("allreduce", "ring", size=4)`` is that schedule.
"""

from .algebra import absorb, fold, forward, parallel, relabel, renumber, reverse, segment, shift, then
from .forecast import Forecast, forecast
from .model import COLLECTIVES, IDLE, REDUCING, Recv, Round, Schedule, Send, bounds, cyclic, power_of_two
from .parameters import factorise, factors, groups, levels, radix
from .price import Network, Price, price
from .registry import Algorithm, Nodes, algorithm, algorithms, callable_package, find
from .verify import Report, verify

__all__ = [
    "COLLECTIVES",
    "IDLE",
    "REDUCING",
    "Algorithm",
    "Forecast",
    "Network",
    "Nodes",
    "Price",
    "Recv",
    "Report",
    "Round",
    "Schedule",
    "Send",
    "absorb",
    "algorithm",
    "algorithms",
    "bounds",
    "callable_package",
    "cyclic",
    "factorise",
    "factors",
    "find",
    "fold",
    "forecast",
    "forward",
    "groups",
    "levels",
    "parallel",
    "power_of_two",
    "price",
    "radix",
    "relabel",
    "renumber",
    "reverse",
    "segment",
    "shift",
    "then",
    "verify",
]


def _schedule(collective: str, algorithm: str, size: int, root: int = 0) -> Schedule:
    """The schedule of an algorithm on ``size`` ranks. ValueError names what there is."""
    return find(collective, algorithm).schedule(size, root)


callable_package(__name__, _schedule)
