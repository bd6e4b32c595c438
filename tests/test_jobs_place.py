"""GPU and NIC of each rank: the matrices of nvidia-smi, NUMA nodes, what a site chooses."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from standins import JOBS, LIMIT_S, clean

from mpicoll.launcher import LOCAL_VARIABLES, RANK_VARIABLES, told

# Four GPUs on two sides of a node; NIC2 carries Ethernet.
TOPO = """\
\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tNIC2\tNIC3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV4\tNV4\tNV4\tPXB\tSYS\tNODE\tPXB\t0-15\t0\t\tN/A
GPU1\tNV4\t X \tNV4\tNV4\tPXB\tSYS\tNODE\tPXB\t0-15\t0\t\tN/A
GPU2\tNV4\tNV4\t X \tNV4\tSYS\tPIX\tPIX\tSYS\t16-31\t1\t\tN/A
GPU3\tNV4\tNV4\tNV4\t X \tSYS\tNODE\tPIX\tSYS\t16-31\t1\t\tN/A
NIC0\tPXB\tPXB\tSYS\tSYS\t X \tSYS\tSYS\tPXB
NIC1\tSYS\tSYS\tPIX\tNODE\tSYS\t X \tNODE\tSYS
NIC2\tNODE\tNODE\tPIX\tPIX\tSYS\tNODE\t X \tSYS
NIC3\tPXB\tPXB\tSYS\tSYS\tPXB\tSYS\tSYS\t X

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_3
  NIC2: mlx5_bond_0
  NIC3: mlx5_1
"""
OLD_TOPO = """\
        GPU0    GPU1    mlx5_0  mlx5_1  CPU Affinity
GPU0     X      NV1     SYS     PHB     0-9
GPU1    NV1      X      NODE    SYS     10-19
mlx5_0  SYS     NODE     X      SYS
mlx5_1  PHB     SYS     SYS      X
"""


class Node:
    """A node as place.sh sees it: nvidia-smi, and a tree in place of /sys."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sys = folder, folder / "sys"
        (self.sys / "class").mkdir(parents=True)

    def gpus(self, count: int, topo: str) -> None:
        (self.folder / "topo").write_text(topo)
        listed = "".join(f"GPU {n}: NVIDIA A100 (UUID: GPU-{n})\\n" for n in range(count))
        tool = self.folder / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\ncase $1 in -L) printf '{listed}' ;; *) cat '{self.folder}/topo' ;; esac\n")
        tool.chmod(0o755)

    def card(self, name: str, *, up: bool = True, layer: str = "InfiniBand", numa: int = 0, port: int = 1) -> None:
        place = self.sys / "class" / "infiniband" / name / "ports" / str(port)
        place.mkdir(parents=True)
        (place / "state").write_text("4: ACTIVE\n" if up else "1: DOWN\n")
        (place / "link_layer").write_text(layer + "\n")
        device = place.parent.parent / "device"
        device.mkdir(exist_ok=True)
        (device / "numa_node").write_text(f"{numa}\n")

    def core_on(self, numa: int) -> None:
        for core in range(os.cpu_count() or 1):
            (self.sys / "devices" / "system" / "cpu" / f"cpu{core}" / f"node{numa}").mkdir(parents=True)

    def choice(self, local: int, shell: str = "sh", **env: str) -> tuple[str, str]:
        """UCX_NET_DEVICES and the words of the record, for a local rank."""
        settings = clean() | {"PATH": f"{self.folder}:{os.environ['PATH']}", "MPICOLL_SYSFS": str(self.sys)}
        command = [shell, str(JOBS / "place.sh"), "sh", "-c", 'echo "${UCX_NET_DEVICES-}"; echo "$MPICOLL_PLACE"']
        done = subprocess.run(
            command,
            env=settings | {"SLURM_LOCALID": str(local)} | env,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        nic, place = done.stdout.splitlines()
        return nic, place


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_each_rank_has_the_card_nearest_to_its_gpu(node):
    node.gpus(4, TOPO)
    for name, layer in {"mlx5_0": "InfiniBand", "mlx5_1": "InfiniBand", "mlx5_3": "InfiniBand"}.items():
        node.card(name, layer=layer)
    node.card("mlx5_bond_0", layer="Ethernet")
    # 0 and 1 share two equally near cards and take one each; the nearest to 3 is Ethernet, so the next one.
    assert [node.choice(n)[0] for n in range(5)] == ["mlx5_0:1", "mlx5_1:1", "mlx5_3:1", "mlx5_3:1", "mlx5_0:1"]
    assert node.choice(3)[1] == "GPU 3, NIC mlx5_3:1 (NODE in nvidia-smi topo)"
    assert node.choice(2, CUDA_VISIBLE_DEVICES="3,2,1,0")[1].startswith("GPU 1, NIC mlx5_1:1")
    assert node.choice(2, CUDA_VISIBLE_DEVICES="GPU-3,GPU-2,GPU-1")[1].startswith("GPU 1, NIC mlx5_1:1")
    assert node.choice(1, CUDA_VISIBLE_DEVICES="7,8")[1].startswith("GPU 1, ")  # a control group renumbered them
    for none in ("", "-1", "NoDevFiles", "GPU-7"):
        assert node.choice(1, CUDA_VISIBLE_DEVICES=none)[1].startswith("GPU none, ")


def test_every_shell_reads_the_matrix_alike(node):
    node.gpus(2, OLD_TOPO)
    for shell in filter(shutil.which, ("sh", "dash", "bash")):
        assert node.choice(0, shell) == ("mlx5_1:1", "GPU 0, NIC mlx5_1:1 (PHB in nvidia-smi topo)")
        assert node.choice(1, shell)[0] == "mlx5_0:1"


def test_a_card_that_is_down_is_passed_over(node):
    node.gpus(2, OLD_TOPO)
    node.card("mlx5_1", up=False)
    node.card("mlx5_0", port=2)
    assert node.choice(0)[0] == "mlx5_0:2"


def test_without_a_gpu_the_numa_node_decides(node):
    node.core_on(1)
    for n, name in enumerate(("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")):
        node.card(name, numa=n // 2)
    assert [node.choice(n)[0] for n in range(3)] == ["mlx5_2:1", "mlx5_3:1", "mlx5_2:1"]
    assert node.choice(0)[1] == "GPU none, NIC mlx5_2:1 (NUMA node 1)"


def test_without_infiniband_nothing_is_chosen(node):
    assert node.choice(0) == ("", "GPU none, NIC not chosen (no InfiniBand card found)")
    node.card("mlx5_0", up=False)
    assert node.choice(0)[1] == "GPU none, NIC not chosen (no card has an active port)"


def test_a_site_can_choose_or_leave_it(node):
    node.card("mlx5_0")
    by_hand = {"MPICOLL_NIC": "mlx5_4:1 mlx5_5:1"}
    assert [node.choice(n, **by_hand)[0] for n in range(3)] == ["mlx5_4:1", "mlx5_5:1", "mlx5_4:1"]
    assert node.choice(0, MPICOLL_NIC="none") == ("", "GPU none, NIC not chosen (MPICOLL_NIC=none)")
    assert node.choice(0, UCX_NET_DEVICES="eth0")[1] == "GPU none, NIC eth0 (UCX_NET_DEVICES was set)"


@pytest.mark.parametrize(("names", "said"), [(RANK_VARIABLES, "rank"), (LOCAL_VARIABLES, "local")])
def test_it_and_the_library_take_the_same_rank_from_the_launcher(names, said):
    """Or the card would be that of another GPU than the one the rank takes; under mpirun Slurm's are its daemon's."""
    plain = {name: value for name, value in clean().items() if name not in names}
    for first in range(len(names) + 1):
        env = {name: str(number) for number, name in enumerate(names[first:], start=3)}
        env |= dict.fromkeys(names[:first], "none")
        words = ["sh", str(JOBS / "place.sh")]
        done = subprocess.run(words, env=plain | env, capture_output=True, text=True, timeout=LIMIT_S)
        number, _ = told(names, env) or (0, "")
        assert f" {said} {number}" in done.stderr.replace(":", ",").split(", GPU")[0]


def test_gpus_are_hidden_only_when_asked(node):
    node.gpus(2, OLD_TOPO)
    show = ["sh", str(JOBS / "place.sh"), "sh", "-c", 'echo "${CUDA_VISIBLE_DEVICES-all}"']
    settings = clean() | {"PATH": f"{node.folder}:{os.environ['PATH']}", "SLURM_LOCALID": "1"}
    # Of those that the rank may see, by the name that they have there.
    ways: list[tuple[dict[str, str], str]] = [
        ({}, "all"),
        ({"MPICOLL_HIDE_GPUS": "1"}, "1"),
        ({"MPICOLL_HIDE_GPUS": "1", "CUDA_VISIBLE_DEVICES": "1,0"}, "0"),
        ({"MPICOLL_HIDE_GPUS": "1", "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-0"}, "GPU-0"),
        ({"MPICOLL_HIDE_GPUS": "1", "CUDA_VISIBLE_DEVICES": ""}, ""),
    ]
    for env, seen in ways:
        assert subprocess.check_output(show, env=settings | env, text=True, timeout=LIMIT_S).strip() == seen


def test_cuda_counts_the_gpus_as_nvidia_smi_does(node):
    show = ["sh", str(JOBS / "place.sh"), "sh", "-c", 'echo "${CUDA_DEVICE_ORDER-CUDA\'s own}"']
    settings = clean() | {"PATH": f"{node.folder}:{os.environ['PATH']}"}
    assert subprocess.check_output(show, env=settings, text=True, timeout=LIMIT_S) == "CUDA's own\n"
    node.gpus(2, OLD_TOPO)
    assert subprocess.check_output(show, env=settings, text=True, timeout=LIMIT_S) == "PCI_BUS_ID\n"
    given = settings | {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}
    assert subprocess.check_output(show, env=given, text=True, timeout=LIMIT_S) == "FASTEST_FIRST\n"


def test_a_slice_is_on_its_gpu(node):
    node.gpus(2, OLD_TOPO)
    slices = "".join(
        f"GPU {n}: NVIDIA H100 (UUID: GPU-{n})\n  MIG 1g.10gb     Device  0: (UUID: MIG-{n}a)\n" for n in range(2)
    )
    (node.folder / "nvidia-smi").write_text(
        f"#!/bin/sh\ncase $1 in -L) echo '{slices}' ;; *) cat '{node.folder}/topo' ;; esac\n"
    )
    assert node.choice(0, CUDA_VISIBLE_DEVICES="MIG-1a") == (
        "mlx5_0:1",
        "GPU 1, NIC mlx5_0:1 (NODE in nvidia-smi topo)",
    )
    assert node.choice(1, CUDA_VISIBLE_DEVICES="MIG-1a,MIG-0a")[1].startswith("GPU 0, NIC mlx5_1:1")


def test_place_runs_the_command_as_it_is_and_prints_when_asked(node):
    words = ["sh", str(JOBS / "place.sh"), "sh", "-c", 'printf "<%s>" "$@"; exit 7', "sh", "a b", "*", ""]
    done = subprocess.run(
        words, env=clean() | {"MPICOLL_PLACE_SAY": "1"}, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 7
    assert done.stdout == "<a b><*><>"
    assert done.stderr.startswith("mpicoll place: ")
    assert shlex.split(done.stderr)
