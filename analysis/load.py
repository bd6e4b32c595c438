"""Sniff what a file is, read it, and say what was taken, what was left and why."""

from __future__ import annotations

import codecs
import filecmp
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

from mpicoll.schedule.garbage import unlooked

from .readers import csv, imb, nccl, nccl_json, osu, ours
from .readers.nccl import BARE_ROW
from .readers.text import Source
from .samples import FAILED, Asked, Found, RefusedError, table

Reader = Callable[[Source, Asked], Found]
_ENDINGS = ("*.jsonl", "*.json", "*.txt", "*.csv", "*.out", "*.log")
# What only the tables of a benchmark hold; a log around them may mention anything.
_MARKS: tuple[tuple[str, Reader, str], ...] = (
    ("OSU", osu.read, r"#\s*OSU MPI|^#?\s*Size\s.*\([a-z]+\)"),
    ("IMB", imb.read, r"#bytes\s.*#repetitions|#[\s-]*Benchmarking\s"),
    ("nccl-tests", nccl.read, r"\balgbw\s+busbw\b|^#.*\bminBytes\b"),
)


def files(runs: Iterable[str]) -> list[str]:
    """The files that are meant; a directory means those in it that may be run files."""
    names: list[str] = []
    for run in runs:
        path = Path(run)
        if path.is_dir():
            inside = sorted({str(file) for ending in _ENDINGS for file in path.glob(ending) if file.is_file()})
            if not inside:
                raise RefusedError(run, None, "a directory without run files")
            names += inside
        else:
            names.append(run)
    _once(names)
    return names


def _once(names: Iterable[str]) -> None:
    """RefusedError: a file that is named twice, also by a link, or a copy of another."""
    by_length: dict[int, list[str]] = {}
    for name in names:
        file = _told(name, Asked())[0]
        try:
            length = Path(file).stat().st_size
        except OSError:  # which is said when it is read
            continue
        for other in by_length.setdefault(length, []):
            if Path(file).samefile(other):
                raise RefusedError(name, None, "named a second time: its rows would count twice")
            if length and filecmp.cmp(file, other, shallow=False):
                raise RefusedError(name, None, f"a copy of {other}: its rows would count twice")
        by_length[length].append(file)


def not_over(output: str, runs: Iterable[str]) -> None:
    """RefusedError: what is to be written would replace a run."""
    if Path(output).exists() and any(Path(output).samefile(_told(run, Asked())[0]) for run in files(runs)):
        raise RefusedError(output, None, "is one of the runs, and would be lost: name another file")


def load_file(name: str, asked: Asked = Asked()) -> Found:  # noqa: B008
    """One file, or ``RefusedError``; FILE@64 is a file whose runs had 64 ranks."""
    name, asked = _told(name, asked)
    try:
        if Path(name).is_fifo():
            raise RefusedError(name, None, "a pipe, which can be read but once: write it to a file first")
        raw = Path(name).read_bytes()
    except OSError as error:
        raise RefusedError(name, None, error.strerror or str(error)) from None
    if not raw[:4096].strip() and not raw.strip():
        raise RefusedError(name, None, "an empty file")
    if b"\0" in raw:
        raise RefusedError(name, None, "not text (compressed, or UTF-16?)")
    source = Source(name, raw.removeprefix(codecs.BOM_UTF8))
    try:
        with unlooked():  # millions of rows hold no cycle
            return _reader(source)(source, asked)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        # No reader should come here; a file that is broken in a way none foresaw is refused all the same.
        raise RefusedError(name, None, f"not understood: {type(error).__name__}: {error}".splitlines()[0]) from error


def load(runs: Iterable[str], asked: Asked = Asked()) -> pd.DataFrame:  # noqa: B008
    """The table of all files; the first that cannot be read raises ``RefusedError``."""
    return table(load_files(runs, asked))


def failed(found: Iterable[Found]) -> list[str]:
    """How many rows of which files failed their check, in words; these are in no table."""
    counts = [(one.file, len(one.left.get(FAILED, ()))) for one in found]
    return [f"{count} rows of {file} failed their check and are left out" for file, count in counts if count]


def load_files(runs: Iterable[str], asked: Asked = Asked()) -> list[Found]:  # noqa: B008
    """All files; the first that cannot be read raises ``RefusedError``."""
    return [load_file(name, asked) for name in files(runs)]


def _told(name: str, asked: Asked) -> tuple[str, Asked]:
    """A file named FILE@64 has 64 ranks. RefusedError: --size says otherwise."""
    file, at, size = name.rpartition("@")
    if not (at and size.isdecimal() and int(size) > 1) or Path(name).exists():
        return name, asked
    if asked.size not in (None, int(size)):
        raise RefusedError(name, None, f"--size {asked.size}, and this says {size} ranks")
    return file, asked._replace(size=int(size))


def _reader(source: Source) -> Reader:
    """By what the file holds, never by its name."""
    begin = source.raw.lstrip()[:4096].decode(errors="replace")
    if re.match(r"\[\s*(\{|$)", begin):
        return nccl_json.read
    if begin.startswith("{"):
        return nccl_json.read if _is_document(begin) else ours.read
    text = source.text.lstrip()
    kinds = [(name, reader) for name, reader, mark in _MARKS if re.search(mark, text, re.MULTILINE)]
    if len(kinds) > 1:
        raise RefusedError(
            source.file, None, f"tables of {' and '.join(name for name, _ in kinds)} in one file: split it"
        )
    if kinds:
        return kinds[0][1]
    lines = [line for line in source.lines() if line.strip() and not line.lstrip().startswith("#")]
    if any(BARE_ROW.match(line) for line in lines):
        return nccl.read
    if len(lines) > 1 and (cut := next((mark for mark in ",;\t" if mark in lines[0]), "")) and cut in lines[1]:
        return csv.read
    first = next(at for at, line in enumerate(source.text.split("\n"), 1) if line.strip())
    raise RefusedError(source.file, first, f"no table that is known: {text.splitlines()[0][:60]!r}")


def _is_document(text: str) -> bool:
    """A JSON document of nccl-tests, and not lines of ours, perhaps cut."""
    return not text.startswith('{"record"'[: len(text)]) and not re.match(r'\{\s*"record"', text)


def summary(found: Found) -> list[str]:
    """What was taken, what was left and why, for a person."""
    columns = found.columns
    ranks = ", ".join(map(str, sorted(set(columns["size"]) - {None}))) or "unknown"
    launches = len(set(columns["launch"]))
    collectives = ", ".join(sorted(set(columns["collective"])))
    algorithms = sorted({f"{library}:{name}" for library, name in zip(columns["library"], columns["algorithm"])})
    named = ", ".join(algorithms[:4]) + (f" and {len(algorithms) - 4} more" if len(algorithms) > 4 else "")
    span = f"{min(columns['nbytes'])} to {max(columns['nbytes'])} bytes"
    head = f"{found.file}: {found.kind}, {len(found)} rows taken: {collectives}, p {ranks}, {span}, {named}"
    lines = [f"{head}, {launches} launch{'es' if launches > 1 else ''}"]
    for reason, where in found.left.items():
        some = ", ".join(map(str, where[:3])) + (", …" if len(where) > 3 else "")
        lines.append(f"  left {len(where)}: {reason} (line {some})")
    return lines + [f"  note: {note}" for note in found.notes]
