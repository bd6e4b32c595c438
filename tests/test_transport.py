"""The decision between direct and staged: the rule as a table, and what is gathered on the MPI that is here."""

from __future__ import annotations

import os

import pytest
from launching import mpirun

from mpicoll.runtime import mpilib, transport

CPU_ONLY = ("Query", "no", "0")
SILENT = ("Query", "silent", "not there")
CUDA = ("Query", "yes", "1")
KINDS = ("Kinds", "yes", "mpi,system,cuda")
NO_TLS = ("UCX_TLS", "off", "tcp leaves cuda out: unset it")


def rule(asked, found):
    return transport.rule(asked, [transport.Evidence(*one) for one in found])


@pytest.mark.parametrize(
    ("asked", "found", "name", "why"),
    [
        ("auto", [], "staged", "cannot say"),
        ("auto", [SILENT], "staged", "cannot say"),
        ("auto", [CPU_ONLY], "staged", "Query: 0"),
        ("auto", [CUDA], "direct", "Query: 1"),
        ("auto", [SILENT, CUDA], "direct", "Query: 1"),
        ("auto", [KINDS, CPU_ONLY], "direct", "Kinds: mpi,system,cuda"),  # one part that can is enough
        ("auto", [KINDS, CUDA], "direct", "Kinds"),  # the first in order is the reason
        ("auto", [CUDA, NO_TLS], "staged", "UCX_TLS: tcp"),  # what is turned off stays off
        ("staged", [CUDA], "staged", "asked for"),
        ("staged", [], "staged", "asked for"),
        ("direct", [CUDA], "direct", "asked for, and Query: 1"),
        ("direct", [SILENT], "direct", "cannot say"),  # nothing speaks against the user's word
    ],
)
def test_the_rule(asked, found, name, why):
    decision = rule(asked, found)
    assert decision.name == name
    assert why in decision.why


def test_staged_looks_at_nothing(monkeypatch):
    """It is what helps where looking does harm."""
    monkeypatch.setattr(transport, "evidence", lambda *_: pytest.fail("looked"))
    assert transport.decide("staged").name == "staged"


@pytest.mark.parametrize(
    ("asked", "found", "said"),
    [
        ("direct", [CPU_ONLY], r"takes no device pointers \(Query: 0\): use staged"),
        ("direct", [CUDA, NO_TLS], r"UCX_TLS: tcp leaves cuda out: unset it"),
        ("Direct", [CUDA], "'Direct': give auto, direct or staged"),
        ("", [], "'': give auto"),
    ],
)
def test_what_it_refuses(asked, found, said):
    with pytest.raises(ValueError, match=said) as told:
        rule(asked, found)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("kinds", "has"),
    [
        ("", False),
        ("mpi,system", False),
        ("mpi,system,cuda", True),
        ("system, CUDA:device", True),
        ("cuda:host:device,mpi", True),
        ("cuda:host,cuda:managed", False),  # parts of it that are not the device's
        ("level_zero:device,rocm", False),
        ("system:cuda", False),
    ],
)
def test_kinds_of_memory(kinds, has):
    assert transport._has_cuda(kinds) == has


HERE = """
from mpicoll.runtime.transport import decide, evidence, selected_pml
print([(one.source, one.verdict, one.detail) for one in evidence()])
print(repr((decide().name, decide("staged").name, selected_pml())))
try:
    print(repr(decide("direct").name))
except ValueError as error:
    print(repr(str(error)))
"""


def here() -> tuple[dict[str, tuple[str, str]], tuple[str, str, str], str]:
    """Evidence by source, what is decided, and what becomes of direct, on one rank of the MPI of these tests."""
    done = mpirun(1, "-c", HERE)
    assert done.returncode == 0, done.stderr
    found, decided, direct = map(eval, done.stdout.splitlines()[-3:])
    return {source: (verdict, detail) for source, verdict, detail in found}, decided, direct


def test_what_the_wheels_say():
    found, (auto, staged, pml), direct = here()
    assert next(iter(found)) == "the user's word"
    assert found["MPIX_Query_cuda_support"] == ("no", "0")
    assert (auto, staged) == ("staged", "staged")
    assert "takes no device pointers" in direct
    assert "\n" not in direct
    assert len(direct) < 400
    if pml:
        assert found["UCX with CUDA modules"][0] in ("no", "off")
    else:
        assert found["mpi_memory_alloc_kinds"] == ("no", "mpi,system")


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        ("", "silent"),
        ("tcp,self", "off"),
        ("all", "silent"),
        ("tcp,cuda", "silent"),
        ("sm,cuda_copy", "silent"),
        ("^cuda", "off"),
        ("^tcp", "silent"),
        ("^cuda_ipc", "silent"),
    ],
)
def test_ucx_tls(value, verdict, monkeypatch):
    monkeypatch.setenv("UCX_TLS", value)
    assert transport._ucx_tls("Open MPI v5.0.11", "ucx").verdict == verdict
    assert transport._ucx_tls("MPICH Device:       ch4:ucx ofi", "").verdict == verdict
    assert transport._ucx_tls("Open MPI v5.0.11", "ob1").verdict == "silent"


def test_a_cray_says_by_its_variable(monkeypatch):
    for value, verdict in (("1", "yes"), ("0", "off")):
        monkeypatch.setenv("MPICH_GPU_SUPPORT_ENABLED", value)
        assert transport._cray("MPI VERSION    : CRAY MPICH version 8.1.30.8").verdict == verdict
        assert transport._cray("MPICH Version: 5.0.2").verdict == "silent"
    monkeypatch.delenv("MPICH_GPU_SUPPORT_ENABLED")
    assert transport._cray("CRAY MPICH").verdict == "off"


def test_ucx_is_believed_when_its_module_is_loaded(monkeypatch, tmp_path):
    monkeypatch.setenv("UCX_MODULE_DIR", str(tmp_path))
    monkeypatch.setattr(mpilib, "mapped", lambda part: [])
    assert transport._ucx("ucx").verdict == "off"
    (tmp_path / "libuct_cuda.so.0").touch()
    assert "was not loaded" in transport._ucx("ucx").detail
    monkeypatch.setattr(mpilib, "mapped", lambda part: ["/there/libuct_cuda.so.0"])
    assert transport._ucx("ucx") == transport.Evidence("UCX with CUDA modules", "yes", "/there/libuct_cuda.so.0")
    assert transport._ucx("ob1").verdict == "no"
    assert transport._ucx("").verdict == "silent"


def test_the_library_is_found_whatever_its_name():
    assert os.path.exists(mpilib.path())
    assert "MPI" in mpilib.vendor()
    assert hasattr(mpilib.library(), "MPI_Allreduce")
