"""Size and ranks -> algorithm, for ``algorithm="auto"``.

The table is measured (README, "Figures"): fewest rounds while a message costs more than its bytes, fewest bytes from
there on. Only algorithms that keep rank order are picked where the operation needs it.
"""

from __future__ import annotations

from mpicoll.schedule import Algorithm, algorithms, find, power_of_two

SMALL_BYTES = 32 << 10
ANY = float("inf")

# collective -> (up to bytes, algorithm), first match; an algorithm that cannot run is passed over.
TABLE: dict[str, tuple[tuple[float, str], ...]] = {
    "allreduce": ((SMALL_BYTES, "recursive_doubling"), (ANY, "rabenseifner"), (ANY, "ring")),
    "reduce_scatter": ((SMALL_BYTES, "recursive_halving"), (ANY, "ring"), (ANY, "direct")),
    "allgather": ((SMALL_BYTES, "recursive_halving"), (ANY, "ring")),
    "reduce": ((ANY, "binomial_tree"),),
    "bcast": ((ANY, "binomial_tree"),),
}


def select(collective: str, name: str, size: int, nbytes: int, commutes: bool) -> tuple[Algorithm, str]:
    """The algorithm to run and why. ValueError: no such name, or one that this operation must not be given to."""
    if name != "auto":
        found = find(collective, name)
        if not commutes and not found.keeps_order(size):
            fit = [n for n, other in algorithms(collective).items() if other.keeps_order(size)]
            raise ValueError(
                f"{collective} by {name} does not keep rank order on {size} ranks, and the operation does not commute: "
                f"use {', '.join(fit)}"
            )
        return found, "asked for"
    for limit, candidate in TABLE[collective]:
        found = find(collective, candidate)
        folds = candidate == "rabenseifner" and not power_of_two(size)  # moves a whole vector more: ring does not
        if nbytes <= limit and (commutes or found.keeps_order(size)) and not (folds and commutes):
            need = "" if commutes else ", in rank order"
            return found, f"auto: {nbytes} bytes on {size} ranks{need}"
    raise ValueError(f"{collective}: no algorithm keeps rank order on {size} ranks")
