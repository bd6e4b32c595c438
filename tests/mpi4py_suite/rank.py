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

LIMIT_S = 300  # of one test; a rank that is stuck then shows where, and the job ends
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
AT_LEAST = 190, 55  # tests in them that pass, on one rank and on more
# Time grows with the cube of the ranks: those of COMM_SELF run on one rank, those of duplicates on two as well, and
# from three ranks on all is tried with these types alone, {class in arrayimpl: types}.
FEW = {"ArrayArray": "i", "ArrayNumPy": "?G", "DLPackArray": "d", "DLPackNumPy": "d"}
# Left out: {part of a test's name: reason}. Each is run alone on one rank, and must fail.
TESTS = {
    "TestCommSelf.testPickle": "looks its communicator up by name in mpi4py.MPI, where the substitute is",
    "TestCommWorld.testPickle": "the same",
}
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
    if world.size >= 3:
        few = [{code: array.TypeMap[code] for code in FEW[array.__name__]} for array in arrays.ArrayBackends]
        for array, types in zip(arrays.ArrayBackends, few):  # only now, for they inherit them from each other
            array.TypeMap = types
    skipped = "Self" if world.size == 2 else "Self|Dup" if world.size > 2 else "$^"
    chosen = []
    for module, pattern in MODULES.items():
        tests = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(module))
        named = [test for test in tests_of(tests) if re.search(pattern, test.id())]
        chosen += [test for test in named if not re.search(skipped, type(test).__name__)]
    return chosen


def run(test: unittest.TestCase, *, aloud: bool = True) -> tuple[str, str]:
    """Run one test on all ranks: passed, skipped or failed, and why; a rank that fails says so, unless not aloud."""
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    result = unittest.TestResult()
    test.run(result)
    faulthandler.cancel_dump_traceback_later()
    bad = [text for _, text in result.failures + result.errors]
    if bad and aloud:
        print(f"rank {world.rank}: {test.id()}\n{bad[0]}", file=sys.stderr, flush=True)
    if line.allreduce(bool(bad), MPI.LOR):
        return "failed", ""
    return ("skipped", result.skipped[0][1]) if result.skipped else ("passed", "")


def untrue() -> list[str]:
    """What the lists above say that is not so."""
    arrays, wrong = importlib.import_module("arrayimpl"), []
    for name in ARRAYS if arrays.cupy is None else ():  # CuPy would take them, and fall over
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
                say(f"{how}: {test.id()} {why}", flush=True)
    wrong = untrue()
    if world.size == 1:
        wrong += [f"{part} names no test" for part, named in left.items() if not named]
        named = [test for tests in left.values() for test in tests]
        wrong += [f"{test.id()} passes" for test in named if run(test, aloud=False)[0] != "failed"]
    silent = [c for c in mpicoll.schedule.COLLECTIVES for c in (c, f"{c}_init") if not calls[c]]
    wrong += [f"no test called our {name}" for name in silent]
    least = AT_LEAST[world.size > 1]
    if results["passed"] < least:
        wrong.append(f"{results['passed']} tests passed, and {least} should")
    for text in wrong:
        say(f"wrong: {text}", flush=True)
    counts = ", ".join(f"{name} {calls[name]}" for name in sorted(calls))
    say(f"calls that were ours: {counts}")
    say(f"{world.size} ranks: {dict(results)} in {time.monotonic() - began:.0f} s", flush=True)
    return line.allreduce(int(bool(wrong or results["failed"])), MPI.MAX)


if __name__ == "__main__":
    sys.exit(main())
