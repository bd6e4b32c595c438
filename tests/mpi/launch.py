"""Run tests/mpi, a launch for each kind of memory, then see that one failing rank ends a job.

python tests/mpi/launch.py -n 8 -- mpirun

The exit status is not 0 when a test fails, when no MPI test ran, when time is up, or when a check fails.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CHECK_S = 150  # by then a job of which one rank failed has ended; its start may take long on a busy machine
CHECK_RANKS = 4
DOUBLE = str(ROOT / "tests" / "double")
# Host memory, and the double of a GPU's (tests/double): with an MPI that cannot read it, and with one that can.
MEMORIES: dict[str, dict[str, str]] = {
    "host": {},
    "staged": {"PYTHONPATH": DOUBLE, "DOUBLE_READABLE": "0"},
    "direct": {"PYTHONPATH": DOUBLE, "DOUBLE_READABLE": "1"},
    "gpu": {},
}


def run(
    command: Sequence[str], limit_s: float, *, echo: bool, ranks: int, more: dict[str, str] | None = None
) -> tuple[int | None, str]:
    """Run in a process group of its own; its exit status (None: time was up, and all of it is ended) and output."""
    environment = {**os.environ, "MPICOLL_TEST_RANKS": str(ranks), "PYTHONUNBUFFERED": "1", **(more or {})}
    paths = [path for path in (environment.get("PYTHONPATH"), os.environ.get("PYTHONPATH")) if path]
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=ROOT,
        env=environment,
        start_new_session=True,
    )
    said = bytearray()

    def read() -> None:
        assert process.stdout is not None
        while part := os.read(process.stdout.fileno(), 1 << 16):
            said.extend(part)
            if echo:
                sys.stdout.buffer.write(part)
                sys.stdout.buffer.flush()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    status: int | None
    try:
        status = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        status = None
        end(process.pid)
        process.wait()
    except BaseException:
        end(process.pid)
        raise
    reader.join(10)
    return status, said.decode(errors="replace")


def end(pid: int) -> None:
    """End a process and all below it: first mpirun, which ends its ranks, then by their ids those that are left."""
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    root.terminate()
    _, left = psutil.wait_procs(family, 5)
    for process in left:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(left, 5)


def pytest_command(mpirun: Sequence[str], ranks: int, *arguments: str) -> list[str]:
    # Open MPI hands its ranks a terminal, so that pytest would colour a log file.
    colour = "yes" if sys.stdout.isatty() else "no"
    python = [sys.executable, "-m", "mpi4py", "-m", "pytest", "--with-mpi", f"--color={colour}"]
    return [*mpirun, "-n", str(ranks), *python, *arguments]


def tests(mpirun: Sequence[str], ranks: int, limit_s: float, arguments: Sequence[str], memory: str) -> bool:
    """The tests proper, on one kind of memory."""
    where = [str(HERE), f"--ignore={HERE / 'device'}"] if memory == "host" else [str(HERE / "device")]
    command = pytest_command(mpirun, ranks, *where, *arguments)
    print(f"launch: tests on {memory} memory", flush=True)
    # pytest gives up after ten tries for a name that others took: these ranks are enough in one place.
    with tempfile.TemporaryDirectory(prefix="mpicoll-", ignore_cleanup_errors=True) as folder:
        more = MEMORIES[memory] | {"PYTEST_DEBUG_TEMPROOT": folder}
        status, said = run(command, limit_s, echo=True, ranks=ranks, more=more)
    if status is None:
        print(f"launch: the tests did not end within {limit_s:g} s and were stopped", flush=True)
        return False
    closing = re.findall(r"^\W*(?:\d+ \w+, )*?(\d+) passed\b.* in [\d.]+s", re.sub(r"\x1b\[\d*m", "", said), re.M)
    if not closing or int(closing[-1]) == 0:
        print("launch: no MPI test passed", flush=True)
        return False
    return status == 0


def ends(mpirun: Sequence[str], ranks: int, memory: str) -> bool:
    """Whether a job ends well while its plans on device memory are still there."""
    if memory == "host":
        return True
    command = [*mpirun, "-n", str(ranks), sys.executable, "-m", "mpi4py", str(HERE / "device" / "ends_alive.py")]
    status, said = run(command, CHECK_S, echo=False, ranks=ranks, more=MEMORIES[memory])
    well = status == 0 and said.count(f"found {ranks * (ranks + 1) / 2}") == ranks
    print(f"launch: an end with live plans on {memory} memory: " + ("as it should be" if well else said), flush=True)
    return well


def check(mpirun: Sequence[str], kind: str) -> str:
    """Launch one job in which a rank fails; what is wrong with its end, or nothing."""
    script = str(HERE / "rank_fails.py")
    if kind.startswith("test_"):
        command = pytest_command(mpirun, 8, f"{script}::{kind}")
    else:
        command = [*mpirun, "-n", str(CHECK_RANKS), sys.executable, "-m", "mpi4py", script, kind]
    started = time.monotonic()
    status, said = run(command, CHECK_S, echo=False, ranks=8)
    if status is None:
        return f"did not end within {CHECK_S} s"
    processes = re.findall(r"rank \d+ is process (\d+)", said)
    while any(map(alive, map(int, processes))) and time.monotonic() < started + CHECK_S:
        time.sleep(0.1)
    left = [pid for pid in processes if alive(int(pid))]
    wanted = {"SystemExit": "", "KeyboardInterrupt": "KeyboardInterrupt"}.get(kind, "rank 1 has had enough")
    faults = [
        (status == 0, "mpirun ended with status 0"),
        (len(processes) != CHECK_RANKS, "not all ranks told their process"),
        (bool(left), f"processes {', '.join(left)} are left"),
        (wanted not in said, f"{wanted!r} is not said"),
        (kind != "SystemExit" and "Traceback" not in said and "Error" not in said, "there is no traceback"),
    ]
    found = [text for wrong, text in faults if wrong]
    return "; ".join(found) + (f"\n{said[-3000:]}" if found else "")


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--ranks", type=int, default=8)
    parser.add_argument("--limit", type=float, default=300, metavar="SECONDS", help="of the tests")
    parser.add_argument("--pytest", action="append", default=[], metavar="ARGUMENT", help="handed on to pytest")
    parser.add_argument("--checks-only", action="store_true", help="leave the tests out")
    parser.add_argument(
        "--memory", action="append", choices=MEMORIES, help="of the tests, without the checks (default: all but gpu)"
    )
    parser.add_argument("mpirun", nargs="+", help="the launcher and its options")
    args = parser.parse_args()
    # ``timeout`` and CI end this program by a signal: what it launched must go with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.path.insert(0, str(HERE))
    from rank_fails import KINDS

    memories = [] if args.checks_only else args.memory or [memory for memory in MEMORIES if memory != "gpu"]
    passed = all([tests(args.mpirun, args.ranks, args.limit, args.pytest, memory) for memory in memories])
    passed = all([passed, *(ends(args.mpirun, args.ranks, memory) for memory in memories)])
    if args.memory:
        return 0 if passed else 1
    failed = 0
    for kind in KINDS:
        fault = check(args.mpirun, kind)
        failed += bool(fault)
        print(f"one rank fails, {kind}: {fault or 'the job ended'}", flush=True)
    print(f"launch checks: {len(KINDS) - failed} passed, {failed} failed", flush=True)
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
