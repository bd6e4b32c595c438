"""What the system tells of this machine without MPI: cores, NUMA nodes, network cards, GPUs. Reads, changes nothing."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

LATEST_CUDA = 13  # the newest generation of CUDA that CuPy and UCX have wheels for


def text(path: str) -> str:
    """What a file of /sys or /proc says; empty where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


def names(folder: str) -> list[str]:
    """What is in a folder, sorted; empty where it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def listed(ranges: str) -> set[int]:
    """The numbers of 0-3,8."""
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", ranges):
        found |= set(range(int(first), int(last or first) + 1))
    return found


def ranges(numbers: Iterable[int]) -> str:
    """0-3,8 for 0, 1, 2, 3, 8."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)


def sysfs() -> str:
    """Where /sys is; MPICOLL_SYSFS replaces it in tests, for jobs/place.sh too."""
    return os.environ.get("MPICOLL_SYSFS", "/sys")


def numa_of(cores: Iterable[int]) -> list[int]:
    """The NUMA nodes that some cores are on."""
    root, mine = f"{sysfs()}/devices/system/node", set(cores)
    nodes = [name for name in names(root) if re.fullmatch(r"node\d+", name)]
    return sorted(int(name[4:]) for name in nodes if listed(text(f"{root}/{name}/cpulist")) & mine)


@dataclass(frozen=True)
class Card:
    """One port of a network card. ``kind``: InfiniBand, RoCE (Ethernet through verbs) or Ethernet."""

    name: str
    kind: str
    state: str
    rate: str
    numa: int | None

    @property
    def up(self) -> bool:
        """Whether messages can pass."""
        return self.state in ("ACTIVE", "up")


def cards() -> list[Card]:
    """Ports with verbs first, then network interfaces but the loopback."""
    found, root = [], f"{sysfs()}/class"
    for name in names(f"{root}/infiniband"):
        for port in names(f"{root}/infiniband/{name}/ports"):
            at = f"{root}/infiniband/{name}/ports/{port}"
            kind = "RoCE" if text(f"{at}/link_layer") == "Ethernet" else "InfiniBand"
            state = text(f"{at}/state").rpartition(" ")[2]
            found.append(Card(f"{name}:{port}", kind, state, text(f"{at}/rate"), _numa(f"{root}/infiniband/{name}")))
    for name in names(f"{root}/net"):
        if name != "lo":
            speed = text(f"{root}/net/{name}/speed")
            rate = f"{speed} Mb/sec" if speed.isdecimal() else ""
            state = text(f"{root}/net/{name}/operstate")
            found.append(Card(name, "Ethernet", state, rate, _numa(f"{root}/net/{name}")))
    return found


def _numa(device: str) -> int | None:
    told = text(f"{device}/device/numa_node")
    return int(told) if told.isdecimal() else None


@dataclass(frozen=True)
class Gpu:
    """A GPU as this process sees it; ``index`` counts the visible ones, ``uuid`` tells one from another on a host."""

    index: int
    name: str
    uuid: str
    nbytes: int
    bus: str
    numa: int | None


@dataclass(frozen=True)
class Gpus:
    """The GPUs that this process sees. ``why`` says why there are none; ``cuda`` is the driver's, such as 13.0."""

    visible: tuple[Gpu, ...] = ()
    cuda: str = ""
    why: str = ""

    @property
    def extra(self) -> str:
        """The extra of this package that fits the driver."""
        major = self.cuda.partition(".")[0]
        return f"cuda{min(int(major), LATEST_CUDA)}" if major else f"cuda{LATEST_CUDA}"

    def of(self, local: int) -> Gpu | None:
        """The GPU of a rank, by its number on the node: in turn through those it sees."""
        return self.visible[local % len(self.visible)] if self.visible else None


def gpus(driver: Any = None) -> Gpus:
    """Ask the CUDA driver, which minds CUDA_VISIBLE_DEVICES; makes no context on any GPU."""
    try:
        driver = driver or ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Gpus(why="no NVIDIA driver (libcuda.so.1) on this machine")
    version, count = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    cuda = f"{version.value // 1000}.{version.value % 1000 // 10}"
    if error := driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        hint = f" (CUDA_VISIBLE_DEVICES={hidden!r})" if hidden is not None else ""
        return Gpus(cuda=cuda, why=f"the NVIDIA driver sees no GPU{hint}: CUDA error {error}")
    if not count.value:
        return Gpus(cuda=cuda, why="the NVIDIA driver sees no GPU")
    return Gpus(tuple(_gpu(driver, index) for index in range(count.value)), cuda)


def _gpu(driver: Any, index: int) -> Gpu:
    device, nbytes = ctypes.c_int(), ctypes.c_size_t()
    name, bus, uuid = ctypes.create_string_buffer(100), ctypes.create_string_buffer(32), (ctypes.c_ubyte * 16)()
    driver.cuDeviceGet(ctypes.byref(device), index)
    driver.cuDeviceGetName(name, 100, device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(nbytes), device)
    driver.cuDeviceGetPCIBusId(bus, 32, device)
    getter = getattr(driver, "cuDeviceGetUuid_v2", None) or driver.cuDeviceGetUuid  # the newer one tells MIG slices
    getter(ctypes.byref(uuid), device)
    where = bus.value.decode().lower()
    told = text(f"{sysfs()}/bus/pci/devices/{where}/numa_node")
    numa = int(told) if told.isdecimal() else None
    return Gpu(index, name.value.decode(errors="replace"), bytes(uuid).hex(), nbytes.value, where, numa)
