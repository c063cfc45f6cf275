"""Published GPU figures, each with its source.

Rates are per GPU and per direction; datasheets give NVLink and PCIe as the sum of both. Peak
FLOP/s are dense, without sparsity; fp32 is the rate of the ordinary cores, not of TF32.
Memory is what CUDA reports as the device's total (`totalGlobalMem`, ECC on), rounded down from
the smallest total seen in public out-of-memory reports: less than the name says, and the driver
takes a little more or less by version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.sizes import GIB

_MEMORY = "Memory: total reported by CUDA."


@dataclass(frozen=True, slots=True)
class GpuPreset:
    """Fields of a GPU document and where they come from."""

    name: str
    source: str
    fields: Mapping[str, Any]


def _gpu(
    memory_gib: float,
    bf16: float | None,
    fp16: float,
    fp32: float,
    hbm: float,
    nvlink: float | None,
    pcie: float,
    network: float,
    gpus_per_pcie_switch: int,
    watts: float,
) -> dict[str, Any]:
    """Memory in GiB, peaks in TFLOP/s, rates in GB/s, watts of thermal design power,
    as datasheets print them."""
    fields = {
        "memory_bytes": int(memory_gib * GIB),
        "bf16_flop_per_s": None if bf16 is None else bf16 * 1e12,
        "fp16_flop_per_s": fp16 * 1e12,
        "fp32_flop_per_s": fp32 * 1e12,
        "hbm_bytes_per_s": hbm * 1e9,
        "nvlink_bytes_per_s": None if nvlink is None else nvlink * 1e9,
        "pcie_bytes_per_s": pcie * 1e9,
        "network_bytes_per_s": network * 1e9,
        "gpus_per_pcie_switch": gpus_per_pcie_switch,
        "watts": watts,
    }
    return {key: value for key, value in fields.items() if value is not None}


_PRESETS = (
    GpuPreset(
        "V100-32GB",
        "NVIDIA V100 datasheet (SXM2, 32 GB): NVLink 2 at 300 GB/s and PCIe 3 x16 at 32 GB/s in "
        "both directions; no bf16. DGX-1: two GPUs per PCIe switch, EDR InfiniBand. " + _MEMORY,
        _gpu(31.74, None, 125, 15.7, 900, 150, 15.75, 12.5, 2, 300),
    ),
    GpuPreset(
        "A100-40GB",
        "NVIDIA A100 datasheet (SXM4, 40 GB): NVLink 3 at 600 GB/s and PCIe 4 x16 at 64 GB/s in "
        "both directions. DGX A100: two GPUs per PCIe switch, HDR InfiniBand. " + _MEMORY,
        _gpu(39.39, 312, 312, 19.5, 1555, 300, 31.5, 25, 2, 400),
    ),
    GpuPreset(
        "A100-80GB",
        "NVIDIA A100 datasheet (SXM4, 80 GB): NVLink 3 at 600 GB/s and PCIe 4 x16 at 64 GB/s in "
        "both directions. DGX A100: two GPUs per PCIe switch, HDR InfiniBand. " + _MEMORY,
        _gpu(79.14, 312, 312, 19.5, 2039, 300, 31.5, 25, 2, 400),
    ),
    GpuPreset(
        "H100-80GB",
        "NVIDIA H100 datasheet (SXM5): NVLink 4 at 900 GB/s and PCIe 5 x16 at 128 GB/s in both "
        "directions. DGX H100: a PCIe path of its own per GPU, NDR InfiniBand. " + _MEMORY,
        _gpu(79.11, 989, 989, 67, 3350, 450, 63, 50, 1, 700),
    ),
    GpuPreset(
        "H200-141GB",
        "NVIDIA H200 datasheet (SXM5): NVLink 4 at 900 GB/s and PCIe 5 x16 at 128 GB/s in both "
        "directions. DGX H200: a PCIe path of its own per GPU, NDR InfiniBand. " + _MEMORY,
        _gpu(139.72, 989, 989, 67, 4800, 450, 63, 50, 1, 700),
    ),
    GpuPreset(
        "B200-180GB",
        "NVIDIA HGX B200 datasheet (SXM6): NVLink 5 at 1800 GB/s and PCIe 5 x16 at 128 GB/s in "
        "both directions, HBM3e at 7.7 TB/s. NDR InfiniBand as in DGX B200. " + _MEMORY,
        _gpu(178.35, 2250, 2250, 75, 7700, 900, 63, 50, 1, 1000),
    ),
    GpuPreset(
        "L40S-48GB",
        "NVIDIA L40S datasheet: PCIe 4 x16 at 64 GB/s in both directions, no NVLink; dense tensor "
        "peak 362 TFLOP/s; HDR InfiniBand assumed. " + _MEMORY,
        _gpu(44.40, 362, 362, 91.6, 864, None, 31.5, 25, 1, 350),
    ),
)

GPU_PRESETS: Mapping[str, GpuPreset] = {preset.name: preset for preset in _PRESETS}

GPU_ALIASES: Mapping[str, str] = {
    "V100": "V100-32GB",
    "V100-32": "V100-32GB",
    "V100-SXM2-32GB": "V100-32GB",
    "A100-40": "A100-40GB",
    "A100-SXM4-40GB": "A100-40GB",
    "A100-80": "A100-80GB",
    "A100-SXM4-80GB": "A100-80GB",
    "H100": "H100-80GB",
    "H100-80": "H100-80GB",
    "H100-SXM": "H100-80GB",
    "H100-SXM5-80GB": "H100-80GB",
    "H200": "H200-141GB",
    "H200-141": "H200-141GB",
    "B200": "B200-180GB",
    "B200-180": "B200-180GB",
    "B200-192GB": "B200-180GB",
    "L40S": "L40S-48GB",
    "L40S-48": "L40S-48GB",
}
