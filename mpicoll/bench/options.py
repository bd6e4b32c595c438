"""The command line. Parsed before MPI is imported: ``--help`` and a wrong flag start nothing."""

from __future__ import annotations

import argparse
import os
import re
import sys

from mpicoll.launcher import Parser
from mpicoll.schedule import COLLECTIVES, REDUCING, find, power_of_two
from mpicoll.schedule import algorithms as known_algorithms

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
DTYPES = (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "bool"),
)
OPS = ("sum", "avg", "prod", "min", "max", "land", "lor", "lxor", "band", "bor", "bxor")
# What the table shows when nothing is asked for; the others are a flag away.
DEFAULT = ("ring", "recursive_doubling", "recursive_halving", "rabenseifner", "binomial_tree", "direct", "one_shot")


def size(text: str) -> int:
    """Bytes from 8, 4K, 1M, 2G (powers of 1024)."""
    found = re.fullmatch(r"(\d+)\s*([KMGT]?)(i?B)?", text.strip(), re.IGNORECASE)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: write 8, 4K, 1M or 2G")
    return int(found[1]) * UNITS[found[2].upper()]


def at_least(least: int, what: type = int):
    """A number not below ``least``."""

    def number(text: str):
        try:
            value = what(text)
        except ValueError:
            value = None
        if value is None or not value >= least:
            raise argparse.ArgumentTypeError(f"{text!r}: give a number of at least {least}")
        return value

    return number


def skew(text: str) -> dict[int, float]:
    """Seconds by rank, from 3:1000,5:200 (microseconds)."""
    found = {}
    for part in text.split(","):
        match = re.fullmatch(r"(\d+):(\d+(?:\.\d+)?)", part.strip())
        if not match:
            raise argparse.ArgumentTypeError(f"{text!r}: give ranks and microseconds, such as 3:1000,5:200")
        found[int(match[1])] = float(match[2]) * 1e-6
    return found


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The options, checked as far as that needs no MPI."""
    parser = Parser(
        prog="mpicoll.bench",
        description="Time this project's algorithms beside the MPI library's own call, and check every result. "
        "Run it as: mpirun -n 8 python -m mpicoll.bench",
        epilog="Sizes are bytes of the whole vector (an allgather's receive side, a reduce_scatter's send side): "
        "8, 4K, 1M, 2G. Exit status: 0, 1 when a result was wrong, 2 for options that make no sense.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-b", "--min-bytes", type=size, default=8, metavar="SIZE", help="smallest vector (default 8)")
    add("-e", "--max-bytes", type=size, default=4 << 20, metavar="SIZE", help="largest vector (default 4M)")
    add("-f", "--factor", type=at_least(2), default=2, help="from one size to the next (default 2)")
    add("-n", "--iterations", type=at_least(1), help="timed iterations of each cell (default: by --max-time)")
    add("-w", "--warmup", type=at_least(0), default=3, help="iterations before, at each size (default 3)")
    add("-c", "--check", type=int, choices=(0, 1), default=1, help="check results (default 1)")
    add("-d", "--dtype", choices=DTYPES, default="float32", metavar="TYPE", help=f"one of {', '.join(DTYPES)}")
    add("-o", "--op", choices=OPS, default="sum", metavar="OP", help=f"one of {', '.join(OPS)}")
    add("-r", "--root", type=at_least(0), default=0, help="root of a reduce or bcast (default 0)")
    add(
        "-J", "--json", metavar="FILE|DIR", help="write the run to a new file (in DIR: named by host, date, job, ranks)"
    )
    add("--collective", choices=COLLECTIVES, default="allreduce", metavar="C", help=", ".join(COLLECTIVES))
    add("--algorithms", default="default", metavar="A,B|all|default", help="which of ours; auto too")
    add(
        "--baselines",
        choices=("default", "all", "none"),
        default="default",
        help="all: the persistent call and each of the library's own algorithms, forced",
    )
    add("--calls", action="store_true", help="our one-shot calls beside our plans")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="where the buffers are (default cpu)")
    add(
        "--transport",
        choices=("auto", "direct", "staged"),
        help="how device memory travels: device pointers for MPI, or copies in host memory (default auto: "
        "MPICOLL_TRANSPORT, or what this MPI can; then both)",
    )
    add("--in-place", action="store_true", help="MPI.IN_PLACE")
    add("--format", choices=("table", "full", "csv"), default="table", help="full: as nccl-tests; default table")
    add("--full", action="store_const", const="full", dest="format", help="the same as --format full")
    add("--color", choices=("auto", "always", "never"), default="auto", help="of the table (default: on a terminal)")
    add("--plot", metavar="FILE", help="draw the run into a new .png, .svg or .pdf")
    add("--calibrate", action="store_true", help="ping-pong, exchange, reduction and copy too (always with -J)")
    add("--sync", choices=("barrier", "window"), default="barrier", help="how an iteration starts (default barrier)")
    add("--arrival-skew", type=skew, default={}, metavar="RANK:US,...", help="ranks that come late on purpose")
    add("--launch", metavar="ID", help="a name for this launch, in the record: repeats are told from iterations")
    add("--self-test", action="store_true", help="test the bench itself, and time nothing")
    add(
        "--segment-bytes",
        type=size,
        metavar="SIZE",
        help="segments of pipelines and long messages (default: predicted; 1M)",
    )
    add("--max-time", type=at_least(0, float), default=30.0, metavar="S", help="seconds for the sweep (default 30)")
    add("--seed", type=at_least(0), default=1, help="of the inputs and of the order of the cells (default 1)")
    options = parser.parse_args(argv)
    if options.max_bytes < options.min_bytes:
        parser.error(f"-e {options.max_bytes} is below -b {options.min_bytes}")
    if options.device == "cpu" and options.transport:
        parser.error(f"--transport {options.transport}: of device memory only; add --device cuda")
    if options.device == "cuda" and (options.calibrate or options.self_test):
        flag = "--calibrate" if options.calibrate else "--self-test"
        parser.error(f"{flag}: of host memory only; leave out --device cuda")
    if options.segment_bytes == 0:
        parser.error("--segment-bytes 0: a segment has at least one byte")
    for flag, path in (("-J", options.json), ("--plot", options.plot)):
        if path and os.path.isfile(path):
            parser.error(f"{flag} {path} exists: name a new file")
    if options.plot and os.path.splitext(options.plot)[1] not in (".png", ".svg", ".pdf"):
        parser.error(f"--plot {options.plot}: name a .png, .svg or .pdf")
    if options.format == "full" and options.in_place:
        parser.error("--in-place: the full form has both ways side by side")
    if options.format == "full" and options.collective == "bcast":
        parser.error("--full: a bcast has one buffer, and no second way")
    if options.op != "sum" and options.collective not in REDUCING:
        parser.error(f"-o {options.op}: {options.collective} has no operation")
    options.by_default = options.algorithms == "default"
    try:
        options.algorithms = chosen(options.collective, options.algorithms)
    except ValueError as error:
        parser.error(f"--algorithms: {error}")
    options.argv = sys.argv[1:] if argv is None else argv
    return options


def chosen(collective: str, text: str) -> list[str]:
    """The names that --algorithms asks for. ValueError names what there is."""
    names = list(known_algorithms(collective))
    if text == "all":
        return names
    if text == "default":
        return [name for name in DEFAULT if name in names]
    asked = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not asked:
        raise ValueError("name at least one")
    return [name if name == "auto" else find(collective, name).name for name in asked]


def suit(names: list[str], size: int) -> list[str]:
    """The default names for so many ranks: where Rabenseifner's would fold, the circulant has half its bytes."""
    return names if power_of_two(size) else ["circulant" if name == "rabenseifner" else name for name in names]


def counts(options: argparse.Namespace, itemsize: int) -> list[int]:
    """Elements of each row: whole elements, at least one unless zero bytes are asked for."""
    sizes, nbytes = [], options.min_bytes
    while nbytes <= options.max_bytes:
        sizes.append(nbytes)
        nbytes = nbytes * options.factor if nbytes else max(itemsize, 1)
    return list(dict.fromkeys(max(1, nbytes // itemsize) if nbytes else 0 for nbytes in sizes))
