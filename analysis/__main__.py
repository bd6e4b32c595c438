"""``python -m analysis``: the commands, one line for errors, exit status 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from .load import files, load_file, summary
from .samples import COLLECTIVES, DTYPES, Asked, Found, RefusedError, table


def _positive(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < 2:
        raise argparse.ArgumentTypeError(f"{text}: give the number of ranks, 2 or more")
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
    load.add_argument("runs", nargs="+", metavar="RUNS", help="files, or directories of them")
    load.add_argument("--size", type=_positive, metavar="P", help="ranks, where the files do not say")
    load.add_argument("--collective", choices=COLLECTIVES, help="where the files do not say")
    load.add_argument("--unit", choices=("us", "ms", "s"), help="of times in CSV without a unit in the header")
    load.add_argument("--dtype", choices=sorted({ours for ours, _ in DTYPES.values()}), metavar="NAME",
                      help="of CSV with counts of elements and no type")  # fmt: skip
    load.add_argument("--to", nargs=2, metavar=("FORMAT", "FILE"), help="csv or parquet: write the table to FILE")
    _fit_and_recommend(commands)
    return top


def _fit_and_recommend(commands: argparse._SubParsersAction) -> None:
    for name, text in (
        ("fit", "alpha, beta, gamma and the cost of a round, from runs of our plans"),
        ("recommend", "the best algorithm of each size, as a tuning file for MPICOLL_TUNING"),
    ):
        command = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        command.add_argument("runs", nargs="+", metavar="RUNS", help="files, or directories of them")
        command.add_argument("--size", type=_positive, metavar="P", help="ranks, where the files do not say")
        if name == "fit":
            command.add_argument("--json", action="store_true", help="parameters and notes as one JSON document")
        if name == "recommend":
            command.add_argument("--score", nargs="+", metavar="RUNS", help="other launches, to score the advice by")
            command.add_argument("--to", metavar="FILE", help="write the tuning file, a new one")


def _load(options: argparse.Namespace) -> int:
    """Every file is tried, so that one call tells all that is wrong."""
    asked = Asked(options.size, options.collective, options.unit, options.dtype)
    if options.to:
        _writable(*options.to)
    taken: list[Found] = []
    refused = 0
    for name in files(options.runs):
        try:
            taken.append(load_file(name, asked))
            print("\n".join(summary(taken[-1])))
        except RefusedError as error:
            refused += 1
            print(error, file=sys.stderr)
    rows = sum(len(found.rows) for found in taken)
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


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0, or 2 after one line that says why."""
    options = parser().parse_args(arguments)
    try:
        if options.command == "load":
            return _load(options)
        from . import commands  # scipy is slow to import

        return {"fit": commands.run_fit, "recommend": commands.run_recommend}[options.command](options)
    except (RefusedError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
