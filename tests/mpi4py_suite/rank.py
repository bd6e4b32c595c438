"""One rank of a run of mpi4py's own tests with our Comm in place of COMM_WORLD and COMM_SELF: rank.py FOLDER.

The fetched files are not edited: the two names are replaced in mpi4py.MPI before they are imported. All ranks run the
same tests in the same order and agree on each; rank 0 reports. Exit status 1: a test failed, too few ran, one of the
lists below no longer tells the truth, or a collective ran without us.
"""

from __future__ import annotations

import faulthandler
import importlib
import re
import sys
import time
import unittest
from collections import Counter
from typing import Any

from mpi4py import MPI

import mpicoll
from mpicoll.runtime import comm as ours

LIMIT_S = 120  # of one test; a rank that is stuck then shows where, and the job ends
# Tests of these calls; the others in the same files are of calls that are left to the library.
MODULES = {
    "test_cco_buf": r"test(Bcast|Allgather|Reduce|Allreduce)(?!Local)",
    "test_cco_vec": r"testAllgatherv",
    "test_cco_pr_buf": r"test(Bcast|Allgather|Reduce|Allreduce)",
    "test_cco_pr_vec": r"testAllgatherv",
    "test_msgzero": r"test(Collectives|Reductions)",
    "test_msgspec": r"TestMessageReduce",
    "test_op": r"testCreate\b",
    "test_comm": r".",
}
AT_LEAST = 120  # tests in them
# Left out: {part of a test's name: reason}. Each is run alone on one rank, and must fail.
TESTS: dict[str, str] = {}
# Arrays that are left out, each must be refused: {class in arrayimpl: reason}.
ARRAYS = {
    "FakeGPUArrayBasic": "host memory that says it is a GPU's; ours believes it, and would hand it to CuPy",
    "FakeGPUArrayNumPy": "the same",
}

calls: Counter[str] = Counter()
world, line = MPI.COMM_WORLD, MPI.COMM_WORLD.Dup()


def counted(name: str) -> None:
    """Count the calls that come to ``name``, by their collective."""
    function = getattr(ours, name)

    def call(first: Any, *args: Any, **more: Any) -> Any:
        collective = first if isinstance(first, str) else f"{first.collective}_init"
        calls[collective] += 1
        return function(first, *args, **more)

    setattr(ours, name, call)


def tests_of(suite: unittest.TestSuite) -> list[unittest.TestCase]:
    return [test for part in suite for test in (tests_of(part) if isinstance(part, unittest.TestSuite) else [part])]


def found(folder: str) -> list[unittest.TestCase]:
    """The tests, with our communicators in them."""
    sys.path.insert(0, folder)
    MPI.COMM_WORLD, MPI.COMM_SELF = mpicoll.Comm(MPI.COMM_WORLD), mpicoll.Comm(MPI.COMM_SELF)
    arrays = importlib.import_module("arrayimpl")
    arrays.ArrayBackends[:] = [array for array in arrays.ArrayBackends if array.__name__ not in ARRAYS]
    chosen = []
    for module, pattern in MODULES.items():
        tests = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(module))
        chosen += [test for test in tests_of(tests) if re.search(pattern, test.id())]
    return chosen


def run(test: unittest.TestCase) -> tuple[str, str]:
    """Run one test on all ranks: passed, skipped or failed, and what the ranks have to say."""
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    result = unittest.TestResult()
    test.run(result)
    faulthandler.cancel_dump_traceback_later()
    bad = [text for _, text in result.failures + result.errors]
    if bad:
        print(f"rank {world.rank}: {test.id()}\n{bad[0]}", file=sys.stderr, flush=True)
    if line.allreduce(bool(bad), MPI.LOR):
        return "failed", bad[0] if bad else ""
    return ("skipped", result.skipped[0][1]) if result.skipped else ("passed", "")


def untrue() -> list[str]:
    """What the lists above say that is not so."""
    arrays, wrong = importlib.import_module("arrayimpl"), []
    for name in ARRAYS:
        array = getattr(arrays, name, None)
        if array is None:
            wrong.append(f"{name} is no longer there")
            continue
        try:
            MPI.COMM_SELF.Bcast(array(1, "d", 3).as_mpi())
        except Exception:
            continue
        wrong.append(f"{name} is taken")
    return wrong


def main() -> int:
    say = print if world.rank == 0 else (lambda *_, **__: None)
    for name in ("_once", "_plan"):
        counted(name)
    tests, began, results = found(sys.argv[1]), time.monotonic(), Counter[str]()
    left = {part: [test for test in tests if part in test.id()] for part in TESTS}
    for test in tests:
        if not any(part in test.id() for part in TESTS):
            how, why = run(test)
            results[how] += 1
            if how != "passed":
                say(f"{how}: {test.id()}: {why}", flush=True)
    wrong = untrue() + [f"{part} names no test" for part, named in left.items() if not named]
    if world.size == 1:
        wrong += [f"{test.id()} passes" for named in left.values() for test in named if run(test)[0] != "failed"]
    silent = [c for c in mpicoll.schedule.COLLECTIVES for c in (c, f"{c}_init") if not calls[c]]
    wrong += [f"no test called our {name}" for name in silent]
    if results["passed"] < AT_LEAST:
        wrong.append(f"{results['passed']} tests passed, and {AT_LEAST} should")
    for text in wrong:
        say(f"wrong: {text}", flush=True)
    counts = ", ".join(f"{name} {calls[name]}" for name in sorted(calls))
    say(f"calls that were ours: {counts}")
    say(f"{world.size} ranks: {dict(results)} in {time.monotonic() - began:.0f} s", flush=True)
    return line.allreduce(int(bool(wrong or results["failed"])), MPI.MAX)


if __name__ == "__main__":
    sys.exit(main())
