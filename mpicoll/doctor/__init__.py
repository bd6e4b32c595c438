"""``python -m mpicoll doctor``, alone or under mpirun: whether messages, buffers and GPUs will do, and why not."""

from __future__ import annotations

import argparse

from mpicoll.launcher import rank

LIMIT_S = 60.0
STATUS = (
    "Exit status: 0, no check failed (warnings may be there), so that the bench with the same --device and --transport "
    "will work; 1, a check failed; 2, options that make no sense."
)


def add(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    put = parser.add_argument
    put("--device", choices=("cpu", "cuda"), default="cpu", help="the buffers to check (default cpu)")
    put(
        "--transport",
        choices=("auto", "direct", "staged"),
        help="how device buffers travel (default: MPICOLL_TRANSPORT, or auto)",
    )
    put("--json", action="store_true", help="the whole report as one JSON object")
    put("--limit", type=_seconds, default=LIMIT_S, metavar="S", help="seconds for each stage (default 60)")
    parser.epilog = STATUS


def run(options: argparse.Namespace) -> int:
    """Examine; the exit status. Starts MPI."""
    from .watch import Watch

    watch = Watch(f"mpicoll doctor: rank {rank()}")  # it forks: before NumPy and MPI, and their threads
    from .examine import examine

    return examine(options, watch)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r}: give seconds from 1 to 3600")
    return value
