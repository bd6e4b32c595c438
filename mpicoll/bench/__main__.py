"""Entry: options first, then MPI; whatever one rank raises ends the whole run, with its rank and traceback."""

from __future__ import annotations

import sys
import traceback

from mpicoll.launcher import abort

from .options import parse


def main() -> int:
    """Run the bench; the exit status."""
    options = parse()
    from .memory import choose

    memory, trouble = choose(options.device)  # before MPI starts: it looks for the cards near the GPU then
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.rank
    try:
        from .run import run

        return run(options, memory, trouble)
    except BaseException:  # also an interrupt or an exit: the other ranks would wait for ever
        print(f"mpicoll.bench: rank {rank} of {MPI.COMM_WORLD.size} failed", file=sys.stderr)
        traceback.print_exc()
        abort(MPI.COMM_WORLD)
        raise


if __name__ == "__main__":
    sys.exit(main())
