"""How GPUs of a machine are connected, from what `nvidia-smi topo -m` prints.

GPUs behind one PCIe switch or bridge share the way to host memory. The legend is NVIDIA's:
X self, SYS across sockets, NODE across host bridges of one socket, PHB across one host bridge, PXB
across several bridges, PIX across one, NV# over so many NVLinks.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SHARED_LINK = ("PIX", "PXB")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU(\d+)$")
_TOO_LONG_S = 20


@dataclass(frozen=True)
class Topology:
    """GPUs by number. `host_links` and `numa` are groups of GPUs; each GPU is in one of each.

    NVLink hides in the matrix how two GPUs reach the host, so where GPUs are connected by it and
    `pcie_switches` is not known, each counts as having a link of its own.
    """

    gpus: int
    host_links: tuple[tuple[int, ...], ...]
    numa: tuple[tuple[int, ...], ...]

    def link_of(self, gpu: int) -> str:
        """The name of the host link of a GPU."""
        return next(f"link {i}" for i, group in enumerate(self.host_links) if gpu in group)

    def document(self) -> dict[str, object]:
        """For the sidecar file; `numa` is as `cluster.numa` takes it."""
        return {
            "gpus": self.gpus,
            "host_links": [list(group) for group in self.host_links],
            "numa": [list(group) for group in self.numa],
        }


def parse_topology(text: str, pcie_switches: Mapping[int, str] | None = None) -> Topology:
    """Read the matrix; `pcie_switches` names the switch of each GPU, where that is known.

    Raises `ValueError` where there is no matrix of GPUs.
    """
    lines = [_COLOUR.sub("", line) for line in text.splitlines()]
    header = next((i for i, line in enumerate(lines) if _columns(line)[:1] == ["GPU0"]), None)
    if header is None:
        raise ValueError("There is no matrix of GPUs in what nvidia-smi topo -m printed.")
    names = _columns(lines[header])
    gpus = sum(1 for name in names if _GPU.match(name))
    numa_column = names.index("NUMA Affinity") if "NUMA Affinity" in names else None
    matrix: dict[int, list[str]] = {}
    for line in lines[header + 1 :]:
        cells = _columns(line)
        row = _GPU.match(cells[0]) if cells else None
        if row and len(cells) > gpus:
            matrix[int(row[1])] = cells[1:]
    if sorted(matrix) != list(range(gpus)):
        raise ValueError(f"The matrix has {len(matrix)} rows for {gpus} GPUs.")
    switches = dict(pcie_switches or {})

    def shares_link(a: int, b: int) -> bool:
        if a in switches and b in switches:
            return switches[a] == switches[b]
        return matrix[a][b] in SHARED_LINK

    def numa_of(gpu: int) -> str:
        cells = matrix[gpu]
        known = numa_column is not None and numa_column < len(cells)
        return cells[numa_column] if known and numa_column is not None else ""

    return Topology(
        gpus,
        host_links=_groups(gpus, shares_link),
        numa=_groups(gpus, lambda a, b: numa_of(a) == numa_of(b)),
    )


def pcie_switch_of(device_path: Path) -> str | None:
    """The PCIe device right below the root port that a GPU hangs behind, from its resolved path
    in /sys/devices (`…/pci0000:16/0000:16:02.0/0000:17:00.0/…/0000:1b:00.0`): GPUs that name the
    same one share the way to the host. None where it is no PCIe path."""
    parts = device_path.parts
    root = next((i for i, part in enumerate(parts) if part.startswith("pci")), None)
    if root is None or len(parts) <= root + 1:
        return None
    return parts[root + 1]


def read_topology() -> Topology | None:
    """Of this machine; None where there is no `nvidia-smi` or it shows no GPUs."""
    matrix = _nvidia_smi("topo", "-m")
    if matrix is None:
        return None
    addresses = _nvidia_smi("--query-gpu=pci.bus_id", "--format=csv,noheader") or ""
    try:
        return parse_topology(matrix, _switches(addresses.split()))
    except ValueError:
        return None


def _switches(addresses: Sequence[str]) -> dict[int, str]:
    found = {}
    for gpu, address in enumerate(addresses):
        # nvidia-smi writes the domain with eight digits, /sys with four.
        link = Path("/sys/bus/pci/devices") / address.lower()[-12:]
        switch = pcie_switch_of(link.resolve()) if link.exists() else None
        if switch is not None:
            found[gpu] = switch
    return found


def _nvidia_smi(*arguments: str) -> str | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        run = subprocess.run(
            [program, *arguments], capture_output=True, text=True, timeout=_TOO_LONG_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout if run.returncode == 0 else None


def _columns(line: str) -> list[str]:
    """Cells of a line, which tabs (or several blanks) separate."""
    return [cell.strip() for cell in re.split(r"\t+|\s{2,}", line.strip()) if cell.strip()]


def _groups(count: int, alike: Callable[[int, int], bool]) -> tuple[tuple[int, ...], ...]:
    """Numbers below `count`, each with the first group whose first member it is like."""
    groups: list[list[int]] = []
    for member in range(count):
        home = next((group for group in groups if alike(group[0], member)), None)
        if home is None:
            groups.append([member])
        else:
            home.append(member)
    return tuple(map(tuple, groups))
