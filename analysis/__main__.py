"""``python -m analysis``: the commands, one line for errors, exit status 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

NEEDS = "python -m analysis: there is no {}: pip install -e '.[analysis]'"
try:
    from .export import options as export_options
    from .load import files, load_file, not_over, summary
    from .report import options as report_options
    from .samples import COLLECTIVES, DTYPES, LARGEST, Asked, Found, RefusedError, once, table
except ModuleNotFoundError as lacking:
    print(NEEDS.format(lacking.name), file=sys.stderr)
    sys.exit(2)


def _positive(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if not 2 <= value < 2**31:
        raise argparse.ArgumentTypeError(f"{text}: give the number of ranks, 2 or more")
    return value


def _count(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: give 1 or more")
    return value


class _Parser(argparse.ArgumentParser):
    """Errors in one line."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Without the usage, which ``--help`` prints."""
        self.exit(2, f"{self.prog}: {message} (--help tells more)\n")


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = _Parser(prog="python -m analysis", description="From run files to answers.", allow_abbrev=False)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    load = commands.add_parser(
        "load",
        help="read run files and say what is in them",
        description="Reads our JSON Lines, OSU, IMB, nccl-tests, rccl-tests and CSV into one table.",
        allow_abbrev=False,
    )
    _runs(load)
    load.add_argument("--to", nargs=2, metavar=("FORMAT", "FILE"), help="csv or parquet: write the table to FILE")
    _answers(commands)
    _export_and_report(commands)
    return top


def _runs(command: argparse.ArgumentParser) -> None:
    """The files, and what the person says where they do not."""
    put = command.add_argument
    put("runs", nargs="+", metavar="RUNS", help="files, or directories of them; FILE@P: a file of P ranks")
    put("--size", type=_positive, metavar="P", help="ranks, where the files do not say")
    put("--collective", choices=COLLECTIVES, help="where the files do not say; what to predict (allreduce)")
    put("--unit", choices=("us", "ms", "s"), help="of times in CSV without a unit in the header")
    put("--dtype", choices=sorted({ours for ours, _ in DTYPES.values()}), metavar="NAME",
        help="of CSV with counts of elements and no type")  # fmt: skip


FIT = """\
--json prints one document: {"fit": 1, "parameters": {NAME: {"value", "low", "high", "unit", "determined"}}, "breaks",
"levels", "notes", "forms"}. NAME is per_call, alpha, beta, gamma, per_round; with two levels alpha and beta are those
across nodes, inner_alpha and inner_beta those inside; long_ before them: messages past breaks.switch bytes."""
VERDICT = (
    "Exit status: 0 normal, 1 slow, 3 fast (more cells outside the 95 % interval than chance explains), 2 no answer,\n"
    "4 wrong: a row of the new run failed its check."
)
PREDICT = "A prediction past twice the measured range of bytes or ranks is marked extrapolated."


def _answers(commands: argparse._SubParsersAction) -> None:
    """The commands that stand on a fit."""
    for name, text, end in (
        ("fit", "alpha, beta, gamma and the costs of software, jointly, with what the runs cannot tell", FIT),
        ("predict", "the time of any algorithm, ranks and bytes, with an interval", PREDICT),
        ("verdict", "a new run against the model: normal, slow, fast", VERDICT),
        ("recommend", "the best algorithm of each size, as a tuning file for MPICOLL_TUNING", ""),
    ):
        command = commands.add_parser(
            name, help=text, description=text, epilog=end, allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        _runs(command)
        put = command.add_argument
        put("--per-node", type=_count, metavar="Q", help="ranks a node, where the files do not say")
        if name in ("fit", "predict"):
            put("--json", action="store_true", help="one JSON document")
        if name == "predict":
            put(
                "--algorithms", metavar="A,B", help="default: those in the runs; mpi:default and such are the library's"
            )
            put("--ranks", type=_positive, metavar="P", required=True)
            put("--nodes", type=_count, metavar="N", help="the ranks are on N nodes, in blocks")
            put("--bytes", type=_sizes, metavar="N,N", required=True, help="8, 4K, 1M, 2G")
        if name == "verdict":
            put("--new", nargs="+", required=True, metavar="RUNS", help="the run to judge")
            put("--all", action="store_true", help="print all cells, not only the slow and the fast ones")
        if name == "recommend":
            put("--score", nargs="+", metavar="RUNS", help="other launches, to score the advice by")
            put("--to", metavar="FILE", help="write the tuning file, a new one")


def _sizes(text: str) -> list[int]:
    """8,4K,1M: bytes."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    found = []
    for part in text.upper().split(","):
        digits, unit = (part[:-1], units[part[-1]]) if part[-1:] in units else (part, 1)
        if not digits.isdecimal() or not int(digits):
            raise argparse.ArgumentTypeError(f"{part!r}: give bytes above 0, such as 8,4K,1M")
        found.append(int(digits) * unit)
        if found[-1] > LARGEST:
            raise argparse.ArgumentTypeError(f"{part!r}: more bytes than there are")
    return found


def _export_and_report(commands: argparse._SubParsersAction) -> None:
    for name, text, options in (
        ("export", "the same advice as a tuning file of Open MPI, MPICH, Intel MPI or NCCL", export_options.add),
        ("report", "one HTML page of all that the runs say", report_options.add),
    ):
        command = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        put = command.add_argument
        put("runs", nargs="+", metavar="RUNS", help="files, or directories of them; FILE@P: of P ranks")
        put("--size", type=_positive, metavar="P", help="ranks, where the files do not say")
        options(put)


def _load(options: argparse.Namespace) -> int:
    """Every file is tried, so that one call tells all that is wrong."""
    asked = Asked(options.size, options.collective, options.unit, options.dtype)
    if options.to:
        _writable(*options.to)
        not_over(options.to[1], options.runs)
    taken: list[Found] = []
    refused = 0
    for name in files(options.runs):
        try:
            taken.append(load_file(name, asked))
            print("\n".join(summary(taken[-1])))
        except RefusedError as error:
            refused += 1
            print(error, file=sys.stderr)
    try:
        once(taken)
    except RefusedError as error:
        refused += 1
        print(error, file=sys.stderr)
    rows = sum(map(len, taken))
    left = sum(len(where) for found in taken for where in found.left.values())
    if taken:
        print(f"{rows} rows taken from {len(taken)} files, {left} left, {refused} files refused")
    if refused:
        if options.to:
            print(f"{options.to[1]} is not written: {refused} files were refused", file=sys.stderr)
        return 2
    if options.to:
        form, file = options.to
        frame = table(taken)
        try:
            frame.to_csv(file, index=False) if form == "csv" else frame.to_parquet(file, index=False)
        except OSError as error:
            raise RefusedError(file, None, error.strerror or str(error)) from None
    return 0


def _writable(form: str, file: str) -> None:
    """Known before the files are read."""
    if form not in ("csv", "parquet"):
        raise RefusedError(form, None, "--to writes csv or parquet")
    if form == "parquet" and not (find_spec("pyarrow") or find_spec("fastparquet")):
        raise RefusedError(file, None, "parquet needs pyarrow: pip install pyarrow, or --to csv")
    if not Path(file).absolute().parent.is_dir():
        raise RefusedError(file, None, "no such directory")


def _slow(options: argparse.Namespace) -> int:
    """The commands that import scipy, which is slow."""
    if options.command == "export":
        from .export.command import run

        return run(options)
    if options.command == "report":
        from .report.command import run as run_report

        return run_report(options)
    from . import commands

    command: Callable[[argparse.Namespace], int] = getattr(commands, f"run_{options.command}")
    return command(options)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0, or 2 after one line that says why; a verdict has its own."""
    options = parser().parse_args(arguments)
    try:
        if options.command == "load":
            return _load(options)
        return _slow(options)
    except ModuleNotFoundError as lacking:
        print(NEEDS.format(lacking.name), file=sys.stderr)
        return 2
    except (RefusedError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
