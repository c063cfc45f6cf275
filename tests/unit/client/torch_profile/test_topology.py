"""What `nvidia-smi topo -m` prints becomes groups of GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from client.torch_profile.topology import parse_topology, pcie_switch_of

UNDERLINED = "\x1b[4m{}\x1b[0m"

# Eight GPUs behind four PCIe switches, two per socket, without NVLink; as a terminal gets it.
SWITCHES = "\n".join(
    [
        UNDERLINED.format(
            "\t" + "\t".join(f"GPU{g}" for g in range(8)) + "\tmlx5_0\tCPU Affinity\tNUMA Affinity"
        ),
        *(
            "\t".join(
                [
                    f"GPU{g}",
                    *(
                        " X " if g == other
                        else "PIX" if g // 2 == other // 2
                        else "NODE" if g // 4 == other // 4
                        else "SYS"
                        for other in range(8)
                    ),
                    "NODE" if g < 4 else "SYS",
                    "0-23" if g < 4 else "24-47",
                    str(g // 4),
                ]
            )
            for g in range(8)
        ),
        "mlx5_0\tNODE\tNODE\tNODE\tNODE\tSYS\tSYS\tSYS\tSYS\t X ",
        "",
        "Legend:",
        "  X    = Self",
        "  PIX  = Connection traversing at most a single PCIe bridge",
    ]
)  # fmt: skip

# Four GPUs connected by NVLink, as newer drivers print it, with one column more.
NVLINK = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV12\tNV12\tNV12\t0-31\t0\t\tN/A
GPU1\tNV12\t X \tNV12\tNV12\t0-31\t0\t\tN/A
GPU2\tNV12\tNV12\t X \tNV12\t32-63\t1\t\tN/A
GPU3\tNV12\tNV12\tNV12\t X \t32-63\t1\t\tN/A
"""

ONE = "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-15\t\tN/A\n"


def test_gpus_behind_a_switch_share_the_host_link() -> None:
    topology = parse_topology(SWITCHES)
    assert topology.gpus == 8
    assert topology.host_links == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert topology.numa == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert topology.link_of(5) == "link 2"


def test_behind_nvlink_the_devices_of_the_system_say_what_is_shared() -> None:
    alone = parse_topology(NVLINK)
    assert alone.host_links == ((0,), (1,), (2,), (3,))
    assert alone.numa == ((0, 1), (2, 3))
    known = parse_topology(NVLINK, {0: "a", 1: "b", 2: "a", 3: "b"})
    assert known.host_links == ((0, 2), (1, 3))


def test_one_gpu_is_alone() -> None:
    topology = parse_topology(ONE)
    assert topology.document() == {"gpus": 1, "host_links": [[0]], "numa": [[0]]}


@pytest.mark.parametrize("text", ["", "No devices were found", "\tGPU0\tGPU1\nGPU0\t X \tPIX\n"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="matrix"):
        parse_topology(text)


def test_the_switch_is_what_hangs_at_the_root_port() -> None:
    pair = [
        Path(f"/sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0/0000:18:0{n}.0/0000:1{n}:00.0")
        for n in range(2)
    ]
    other = Path("/sys/devices/pci0000:16/0000:16:03.0/0000:27:00.0")
    assert pcie_switch_of(pair[0]) == pcie_switch_of(pair[1])
    assert pcie_switch_of(other) not in (None, pcie_switch_of(pair[0]))
    assert pcie_switch_of(Path("/sys/devices/platform")) is None
