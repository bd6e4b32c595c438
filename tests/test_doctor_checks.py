"""What follows from facts, as a table; and how facts are read from the system."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest

from mpicoll import hardware
from mpicoll.doctor import checks
from mpicoll.doctor.facts import Facts
from mpicoll.doctor.report import Report


def gpu(uuid: str, numa: int | None = None) -> hardware.Gpu:
    return hardware.Gpu(0, "H200", uuid, 140 << 30, "0000:01:00.0", numa)


def rank(number: int, host: str = "a", cores: list[int] | None = None, uuid: str = "", **more) -> Facts:
    own = gpu(uuid, more.pop("gpu_numa", None)) if uuid else None
    gpus = hardware.Gpus((own,), "13.0") if own else hardware.Gpus(cuda="", why="no NVIDIA driver")
    given = {
        "local": number,
        "numa": [0],
        "cards": [],
        "versions": {"numpy": "2"},
        "peermem": True,
        "cupy": False,
    } | more
    return Facts(
        host=host,
        local_from="X",
        cores=[number] if cores is None else cores,
        gpus=gpus,
        gpu=own,
        rank=number,
        **given,
    )


def verdicts(facts: list[Facts], device: str = "cpu") -> list[tuple[str, str, str]]:
    return [(check.name, check.verdict, check.text) for check in checks.all_checks(facts, device)]


@pytest.mark.parametrize(
    ("facts", "device", "name", "verdict", "said"),
    [
        ([rank(0), rank(1)], "cpu", "cores", "ok", "each of the 2 ranks on a has cores of its own"),
        ([rank(0, cores=[0]), rank(1, cores=[0])], "cpu", "cores", "warn", "2 ranks share core 0 of a"),
        (
            [rank(n, cores=[0, 1]) for n in range(2)],
            "cpu",
            "cores",
            "warn",
            "ranks 0-1 overlap on cores 0-1 of a: bind",
        ),
        ([rank(0), rank(1, cores=[1, 2]), rank(2, cores=[2])], "cpu", "cores", "warn", "ranks 1-2 overlap on"),
        ([rank(0), rank(1, local=0)], "cpu", "local rank", "warn", "ranks 0-1 on a: all are 0"),
        ([rank(0, local=None), rank(1, local=None)], "cpu", "local rank", "warn", "no launcher variable"),
        ([rank(0), rank(1)], "cuda", "GPUs", "FAIL", "no NVIDIA driver (ranks 0-1)"),
        ([rank(0), rank(1)], "cpu", "GPUs", "skip", "no NVIDIA driver"),
        ([rank(0), rank(1)], "cuda", "CuPy", "FAIL", "ranks 0-1: pip install 'mpicoll[cuda13]'"),
        ([rank(0, uuid="u"), rank(1, uuid="u")], "cpu", "GPUs", "warn", "one GPU is shared by ranks 0-1"),
        ([rank(0, uuid="u"), rank(1, uuid="v")], "cpu", "GPUs", "ok", "each of the 2 ranks on a has a GPU of its own"),
        ([rank(0, uuid="u"), rank(1, "b", uuid="u")], "cpu", "GPUs", "ok", "ranks on a"),  # another host
        ([rank(0, uuid="u")], "cpu", "CuPy", "warn", "not installed on rank 0"),
        ([rank(0, uuid="u", gpu_numa=1)], "cpu", "NUMA", "warn", "rank 0 on a runs on NUMA node 0 and its GPU is on 1"),
        (
            [rank(0), rank(1, versions={"numpy": "1"})],
            "cpu",
            "versions",
            "FAIL",
            "numpy differs: 2 on rank 0; 1 on rank 1",
        ),
    ],
)
def test_verdicts(facts, device, name, verdict, said):
    assert any((n, v) == (name, verdict) and said in text for n, v, text in verdicts(facts, device)), verdicts(
        facts, device
    )


def test_nothing_fails_where_all_is_well():
    facts = [rank(n, uuid=f"u{n}", cupy=True, gpu_numa=0) for n in range(4)]
    assert {verdict for _, verdict, _ in verdicts(facts, "cuda")} == {"ok"}


def test_hosts_are_not_mixed_up():
    facts = [rank(0, "a", cores=[0]), rank(1, "b", cores=[0])]
    assert verdicts(facts)[0][0] == "GPUs"  # nothing on cores: one rank a host


def test_cards_without_a_port_or_peer_memory():
    down = hardware.Card("mlx5_0:1", "InfiniBand", "DOWN", "200 Gb/sec", 0)
    up = hardware.Card("mlx5_0:1", "InfiniBand", "ACTIVE", "200 Gb/sec", 0)
    assert ("NICs", "warn", "a: no port of mlx5_0:1 is active") in verdicts([rank(0, cards=[down])])
    said = verdicts([rank(0, cards=[up], uuid="u", cupy=True, peermem=False)])
    assert any("nvidia_peermem is not loaded" in text for _, _, text in said)
    assert not [1 for name, _, _ in verdicts([rank(0, cards=[up], uuid="u", cupy=True)]) if name == "NICs"]


def test_the_report_of_many_ranks_is_short_and_its_json_whole():
    facts = [rank(n, f"host{n // 4}", uuid="u", cupy=True) for n in range(200)]
    report = Report("cuda", 200, facts, checks.all_checks(facts, "cuda"))
    text = report.text()
    assert "... 136 more: --json has all" in text
    assert "host49" not in text
    assert "warn  GPUs: 42 more: --json has all" in text
    assert len(text.splitlines()) < 120
    assert report.json().count('"host"') == 200
    assert "\n" not in report.json()


@pytest.mark.parametrize("text", ["", "0", "0-3", "0-3,8", "1,3,5-6"])
def test_ranges_and_back(text):
    assert hardware.ranges(hardware.listed(text)) == text


def test_cards_of_a_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("MPICOLL_SYSFS", str(tmp_path))
    port = tmp_path / "class/infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True)
    for name, value in (("state", "4: ACTIVE"), ("rate", "200 Gb/sec (4X HDR)"), ("link_layer", "InfiniBand")):
        (port / name).write_text(value + "\n")
    device = tmp_path / "class/infiniband/mlx5_0/device"
    device.mkdir()
    (device / "numa_node").write_text("1\n")
    for name in ("lo", "eth0"):
        (tmp_path / "class/net" / name).mkdir(parents=True)
        (tmp_path / "class/net" / name / "operstate").write_text("up\n")
    assert hardware.cards() == [
        hardware.Card("mlx5_0:1", "InfiniBand", "ACTIVE", "200 Gb/sec (4X HDR)", 1),
        hardware.Card("eth0", "Ethernet", "up", "", None),
    ]
    assert all(card.up for card in hardware.cards())


class Driver(SimpleNamespace):
    """The calls of libcuda that are used, for two GPUs."""

    def __init__(self, count: int = 2, error: int = 0) -> None:
        self.count, self.error = count, error

    @staticmethod
    def put(pointer, kind, value):
        ctypes.cast(pointer, ctypes.POINTER(kind))[0] = value

    def cuDriverGetVersion(self, version):
        self.put(version, ctypes.c_int, 12090)

    def cuInit(self, flags):
        return self.error

    def cuDeviceGetCount(self, count):
        self.put(count, ctypes.c_int, self.count)
        return 0

    def cuDeviceGet(self, device, index):
        self.put(device, ctypes.c_int, index)

    def cuDeviceGetName(self, name, size, device):
        name.value = b"NVIDIA H200"

    def cuDeviceTotalMem_v2(self, nbytes, device):
        self.put(nbytes, ctypes.c_size_t, 140 << 30)

    def cuDeviceGetPCIBusId(self, bus, size, device):
        bus.value = b"0000:0A:00.0"

    def cuDeviceGetUuid(self, uuid, device):
        ctypes.cast(uuid, ctypes.POINTER(ctypes.c_ubyte))[15] = device.value


def test_gpus_by_local_rank():
    found = hardware.gpus(Driver())
    assert (found.cuda, found.extra, len(found.visible)) == ("12.9", "cuda12", 2)
    assert found.visible[1].name == "NVIDIA H200"
    assert found.visible[1].nbytes == 140 << 30
    assert found.visible[1].uuid.endswith("01")
    assert [found.of(local).index for local in range(4)] == [0, 1, 0, 1]
    one = hardware.gpus(Driver(count=1))  # a rank that sees one GPU only takes that one
    assert [one.of(local).index for local in range(4)] == [0, 0, 0, 0]


def test_no_gpu_says_why(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert "(CUDA_VISIBLE_DEVICES='7'): CUDA error 100" in hardware.gpus(Driver(error=100)).why
    assert hardware.gpus(Driver(count=0)).why == "the NVIDIA driver sees no GPU"
    assert hardware.gpus(Driver(count=0)).of(0) is None
