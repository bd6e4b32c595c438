"""The bench on device memory: the double of CuPy stands for GPUs, readable by MPI or not."""

from __future__ import annotations

import json
import re
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from launching import ROOT, mpirun

from mpicoll.bench.cells import Cell
from mpicoll.bench.measure import Sample, compare

BENCH = ("-m", "mpicoll.bench")
DIRECT = (str(ROOT / "tests" / "direct_bench.py"),)
QUICK = ("--device", "cuda", "-b", "64", "-e", "4K", "-f", "64", "-n", "3", "-w", "1", "--algorithms", "ring,direct")


def double(**more: str) -> dict[str, str]:
    return {"PYTHONPATH": f"{ROOT / 'tests' / 'double'}:{ROOT}", "DOUBLE_READABLE": "0"} | more


def samples(path):
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [record for record in records if record["record"] == "sample"]


def test_staged_where_this_mpi_takes_no_device_memory(tmp_path):
    file = tmp_path / "run.jsonl"
    done = mpirun(3, *BENCH, *QUICK, "-J", str(file), env=double())
    assert done.returncode == 0, done.stderr
    told = re.search(r"GPUs of ranks 0, 1, \.\.\.: (.*)", done.stdout)
    assert told
    assert sorted(told[1].split(", ")) == ["0", "0", "1"]  # Open MPI does not number ranks on a node in their order
    assert "# transport staged: " in done.stdout
    assert "# NCCL: 3 ranks share 2 GPUs: it needs one each" in done.stdout
    assert "# MPI: this MPI takes no device memory" in done.stdout
    with open(file) as lines:
        assert sorted(rank["gpu"] for rank in json.loads(lines.readline())["ranks"]) == [0, 0, 1]
    found = samples(file)
    ours = [one for one in found if one["library"] == "mpicoll"]
    assert {(one["device"], one["transport"], one["wrong"]) for one in ours} == {("cuda", "staged", 0)}
    assert len(ours) == 4
    assert all(len(one["times_us"]) == 3 for one in ours)
    assert all(one["skipped"] for one in found if one["library"] != "mpicoll")


def test_both_ways_and_mpis_own_where_it_can(tmp_path):
    file = tmp_path / "run.jsonl"
    done = mpirun(2, *DIRECT, *QUICK, "--in-place", "-J", str(file), env=double(DOUBLE_READABLE="1"))
    assert done.returncode == 0, done.stderr
    assert "# transport direct and staged (staged columns say so): the double can be read" in done.stdout
    found = samples(file)
    ways = {(one["library"], one["algorithm"], one["transport"]) for one in found if not one["skipped"]}
    assert ways == {
        ("mpi", "default", "direct"),
        *(("mpicoll", name, way) for name in ("ring", "direct") for way in ("direct", "staged")),
    }
    assert {one["wrong"] for one in found if not one["skipped"]} == {0}
    assert all((one["slower_than_staged"] is None) == (one["transport"] == "staged") for one in found if one["rounds"])


@pytest.mark.parametrize("collective", ["reduce_scatter", "allgather", "reduce", "bcast"])
def test_every_collective_is_right(collective):
    quick = [word for word in QUICK if word not in ("--algorithms", "ring,direct")]
    done = mpirun(3, *BENCH, *quick, "--collective", collective, "-b", "20", "-d", "float16", env=double())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WRONG" not in done.stdout


def test_a_crash_in_the_child_leaves_the_run_staged():
    done = mpirun(2, *DIRECT, *QUICK, env=double())
    assert done.returncode == 0, done.stderr
    said = "direct was decided (the double can be read), but in a child of two ranks: ended with SIGSEGV in: "
    assert f"{said}device messages of 8 B" in done.stdout
    assert "# MPI: in a child of two ranks: ended with SIGSEGV" in done.stdout


def refused(done, said):
    """One line, from one rank, and status 2."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if line.startswith("mpicoll.bench: ")]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert said in lines[0]


@pytest.mark.parametrize(
    ("program", "words", "env", "said"),
    [
        (BENCH, ("--transport", "direct"), {}, "transport is 'direct' and this MPI takes no device pointers"),
        (DIRECT, ("--transport", "direct"), {}, "--transport direct: in a child of two ranks: ended with SIGSEGV"),
        (BENCH, ("-e", "16M"), {"DOUBLE_BYTES": "40000000"}, "not enough memory on GPU 0 of "),
        (BENCH, ("-e", "16M"), {"DOUBLE_BYTES": "100000000", "DOUBLE_DEVICES": "1"}, "2 ranks on it: vectors of 16M"),
        (BENCH, (), {"DOUBLE_DEVICES": "0"}, "--device cuda: no NVIDIA driver"),
        (BENCH, (), {"PYTHONPATH": str(ROOT)}, "pip install 'mpicoll[cuda1"),
        (BENCH, (), {"MPICOLL_TRANSPORT": "fast"}, "MPICOLL_TRANSPORT is 'fast': give auto, direct, staged"),
    ],
)
def test_refusals(program, words, env, said):
    refused(mpirun(2, *program, *QUICK, *words, env=double() | env), said)


ODD = """
import os, sys
from mpicoll.launcher import rank
os.environ["DOUBLE_DEVICES"] = "0" if rank() == 1 else "2"
sys.argv[0] = "bench"
from mpicoll.bench.__main__ import main
sys.exit(main())
"""


def test_one_rank_without_a_gpu_is_told_to_all():
    refused(mpirun(3, "-c", ODD, *QUICK, env=double()), "rank 1: --device cuda: ")


ONE_EACH = """
import os, sys
from mpicoll import hardware
from mpicoll.launcher import rank
os.environ["DOUBLE_DEVICES"] = "1"
own = hardware.Gpu(0, "H200", f"gpu-{rank()}", 1 << 30, "", 0)
hardware.gpus = lambda driver=None: hardware.Gpus((own,), "13.0")
from mpicoll.bench.__main__ import main
sys.exit(main())
"""


def test_ranks_that_see_one_gpu_only_take_that_and_do_not_share_it():
    done = mpirun(3, "-c", ONE_EACH, *QUICK, env=double())
    assert done.returncode == 0, done.stderr
    assert "# device memory of H200; GPUs of ranks 0, 1, ...: 0, 0, 0" in done.stdout
    assert "# NCCL: this CuPy has no NCCL" in done.stdout  # not: 3 ranks share 1 GPU


UNNUMBERED = """
import os, sys
from mpicoll import launcher
launcher.LOCAL_VARIABLES = ()
from mpicoll.bench.__main__ import main
sys.exit(main())
"""


def test_a_launcher_that_numbers_nobody_leaves_it_to_mpi():
    done = mpirun(3, "-c", UNNUMBERED, *QUICK, env=double())
    assert done.returncode == 0, done.stderr
    assert "GPUs of ranks 0, 1, ...: 0, 1, 0" in done.stdout


def sample(algorithm: str, label: str, middle_us: float, library: str = "mpicoll") -> Sample:
    times = np.linspace(middle_us - 1, middle_us + 1, 50)
    cell = Cell(library, algorithm, "plan", lambda: None, label=label)
    return Sample(cell, times)


@pytest.mark.parametrize(
    ("direct", "staged", "slower"), [(100.0, 50.0, True), (50.0, 100.0, False), (50.0, 50.1, False)]
)
def test_a_direct_one_that_is_slower_than_staged_is_marked(direct, staged, slower):
    row = [
        sample("ring", "", direct),
        sample("ring", "staged", staged),
        sample("tree", "", 9),
        sample("default", "", 9, "mpi"),
    ]
    compare(row)
    assert [one.slower for one in row] == [slower, None, None, None]


class FakeNccl:
    """NCCL's calls; it notes them."""

    available = True

    def __init__(self) -> None:
        self.made: list[tuple] = []

    def __getattr__(self, name: str):
        return lambda *args: self.made.append((name, *args))


@pytest.mark.parametrize(
    ("collective", "in_place", "call"),
    [
        ("allreduce", False, ("allReduce", 10, 20, 8, 7, 0, 5)),
        ("allreduce", True, ("allReduce", 20, 20, 8, 7, 0, 5)),
        ("allgather", False, ("allGather", 10, 20, 4, 7, 5)),
        ("allgather", True, ("allGather", 36, 20, 4, 7, 5)),
        ("reduce_scatter", False, ("reduceScatter", 10, 20, 4, 7, 0, 5)),
        ("reduce", False, ("reduce", 10, 20, 8, 7, 0, 1, 5)),
        ("bcast", False, ("bcast", 20, 8, 7, 1, 5)),
    ],
)
def test_what_nccl_is_asked(collective, in_place, call):
    from mpicoll.bench.nccl import Nccl

    def at(address):
        return SimpleNamespace(data=SimpleNamespace(ptr=address))

    handle = FakeNccl()
    nccl = object.__new__(Nccl)
    stream = SimpleNamespace(ptr=5, synchronize=lambda: handle.made.append(("synchronize",)))
    nccl.memory = SimpleNamespace(cupy=SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: stream)))
    nccl.handle, nccl.why = handle, ""
    case = SimpleNamespace(
        collective=collective,
        dtype=np.dtype("f4"),
        op="sum",
        root=1,
        count=8,
        in_place=in_place,
        comm=SimpleNamespace(size=2),
        own=slice(4, 8),
        recv=at(20),
        send=None if in_place or collective == "bcast" else at(10),
    )
    cell = nccl.cell(case)
    assert (cell.name, cell.why) == ("NCCL", "")
    cell.run()
    assert handle.made == [call, ("synchronize",)]
    case.dtype = np.dtype("c8")
    assert "no type complex64" in nccl.cell(case).why
    case.dtype, case.op = np.dtype("f4"), "bxor"
    assert "no operation bxor" in nccl.cell(case).why


@pytest.mark.parametrize("missing", ["get_unique_id", "NcclCommunicator", ""])
def test_what_nccl_cannot_is_said_and_not_raised(missing, monkeypatch):
    """On one rank alone, say the first, it would leave the others waiting."""
    from mpi4py import MPI

    from mpicoll.bench import nccl

    def fails(*_):
        raise RuntimeError("no socket\nto be had")

    module = SimpleNamespace(get_unique_id=lambda: b"name", NcclCommunicator=lambda *args: args)
    if missing:
        setattr(module, missing, fails)
    monkeypatch.setattr(nccl, "_module", lambda: (module, ""))
    made = nccl.Nccl(MPI.COMM_SELF, SimpleNamespace(uuid="one"), ["here"])
    assert made.why == ("RuntimeError: no socket to be had" if missing else "")
    assert made.handle == (None if missing else (1, b"name", 0))


def test_a_missing_nccl_is_one_line_with_the_cure(monkeypatch):
    """CuPy warns of it in ten."""
    from mpicoll.bench import nccl

    class Cuda:
        @property
        def nccl(self):
            warnings.warn("nccl library\ncould not be loaded", stacklevel=2)
            return SimpleNamespace(available=False)

    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupy.cuda", Cuda())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, said = nccl._module()
    assert said == "this CuPy finds no NCCL: pip install nvidia-nccl-cu13"
