"""What a profile was measured on."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import torch

from client.torch_profile.topology import Topology, read_topology


@dataclass(frozen=True)
class Machine:
    """Device, versions, load and time of a profile."""

    device: str
    device_name: str
    torch_version: str
    python_version: str
    system: str
    cpus: int
    load_average: float
    threads: int
    measured_at: str
    topology: Topology | None

    @property
    def on_gpu(self) -> bool:
        """Whether it was measured on a GPU."""
        return self.device.startswith("cuda")

    def document(self) -> dict[str, Any]:
        """For the sidecar file."""
        return {
            "device": self.device,
            "device_name": self.device_name,
            "torch": self.torch_version,
            "python": self.python_version,
            "system": self.system,
            "cpus": self.cpus,
            "load_average": self.load_average,
            "threads": self.threads,
            "measured_at": self.measured_at,
        }


def this_machine(device: torch.device, threads: int) -> Machine:
    """Where and when this is called. The topology is that of GPUs, if it was measured on one."""
    on_gpu = device.type == "cuda"
    return Machine(
        device=str(device),
        device_name=torch.cuda.get_device_name(device) if on_gpu else _processor(),
        torch_version=torch.__version__,
        python_version=platform.python_version(),
        system=platform.platform(),
        cpus=os.cpu_count() or 1,
        load_average=round(os.getloadavg()[0], 2),
        threads=threads,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        topology=read_topology() if on_gpu else None,
    )


def _processor() -> str:
    """The model of the CPU, as Linux has it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    except OSError:
        names = []
    return names[0] if names else platform.machine() or "a CPU"
