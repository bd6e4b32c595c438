"""The doctor on device memory: the double of CuPy stands for GPUs, its driver is told to be there."""

from __future__ import annotations

from launching import ROOT, mpirun

DOCTOR = """
import sys
from mpicoll import hardware
made = tuple(hardware.Gpu(n, "H200", f"gpu-{n}", 1 << 30, "", 0) for n in range(2))
hardware.gpus = lambda driver=None: hardware.Gpus(made, "13.0")
from mpicoll.doctor.watch import Watch
watch = Watch("mpicoll doctor: rank")
if "can" in sys.argv:
    from mpicoll.runtime import private, transport
    import direct_bench
    transport.rule = lambda asked, found: direct_bench.CAN
from mpicoll.doctor import add
from mpicoll.doctor.examine import examine
import argparse
parser = argparse.ArgumentParser()
add(parser)
sys.exit(examine(parser.parse_args(["--device", "cuda", *sys.argv[2:]]), watch))
"""


def doctor(what: str, *words: str, readable: str = "0"):
    path = ":".join(map(str, (ROOT / "tests" / "double", ROOT / "tests", ROOT)))
    return mpirun(2, "-c", DOCTOR, what, *words, env={"PYTHONPATH": path, "DOUBLE_READABLE": readable})


def test_staged_where_a_device_pointer_crashes():
    done = doctor("cannot")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok    GPUs: each of the 2 ranks on " in done.stdout
    assert (
        "warn  device messages: in a child of two ranks: ended with SIGSEGV in: device messages of 8 B: " in done.stdout
    )
    assert "staged is used" in done.stdout
    assert "ok    allreduce: ones of all ranks add up to 2 on device memory" in done.stdout
    assert done.stdout.rstrip().endswith("--device cuda will work")


def test_direct_where_it_works():
    done = doctor("can", readable="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok    device messages: went through: device messages of 8 B, " in done.stdout
    assert "MPI_Allreduce on device memory" in done.stdout
    assert "ok    allreduce: ones of all ranks add up to 2 on device memory" in done.stdout


def test_direct_that_crashes_fails():
    done = doctor("can", "--transport", "direct")
    assert done.returncode != 0
    assert "FAIL  device messages: in a child of two ranks: ended with SIGSEGV" in done.stdout
    assert ": use --transport staged" in done.stdout
    assert "not tried" in done.stdout or "allreduce" in done.stdout
