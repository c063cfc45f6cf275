"""Plans for schedulers, and programs that stand in for those of a cluster."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from planner.export.format import Source
from planner.export.registry import export
from tests.unit.export.answers import CLUSTER, MODEL, TRAINING, pipeline

KEY = "a-key-that-nobody-sees"
HOSTILE = "$(touch hostile)`touch hostile`';touch hostile;'\n#SBATCH --comment=hostile\n- hostile"

CURL = """\
#!/bin/bash
input=$(cat)
printf '%s\\n' "$@" "input=$input" >> "$RECORDS/curl"
while (($#)); do
  [[ $1 == --output ]] && target=$2
  address=$1
  shift
done
[[ ! -e $RECORDS/refuse ]] || { echo 'curl: (22) 401' >&2; exit 22; }
cp "$RECORDS/plans/${address##*/}" "$target"
"""
SCONTROL = """\
#!/bin/bash
[[ "$1 $2" == "show hostnames" ]] && printf '%s\\n' $3
"""
SRUN = """\
#!/bin/bash
printf '%s ' "$@" >> "$RECORDS/srun"
while [[ $1 == --* ]]; do shift; done
addresses=($ADDRESSES)
nodes=($SLURM_JOB_NODELIST)
for place in "${!nodes[@]}"; do
  SLURM_NODEID=$place SLURMD_NODENAME=${nodes[place]} SLURM_TOPOLOGY_ADDR=${addresses[place]:-} "$@"
done
"""
SBCAST = """\
#!/bin/bash
cp "$2" "$3"
"""
TORCHRUN = """\
#!/bin/bash
{ printf '%s\\n' "$@"; echo .; } >> "$RECORDS/torchrun"
env >> "$RECORDS/environment"
"""
PROGRAMS = {
    "curl": CURL,
    "scontrol": SCONTROL,
    "srun": SRUN,
    "sbcast": SBCAST,
    "torchrun": TORCHRUN,
}


@dataclass(frozen=True)
class Cluster:
    """A folder with the programs, what they are to answer, and what they were called with."""

    folder: Path

    @classmethod
    def at(cls, folder: Path, source: Source) -> Cluster:
        """With the files of this plan on its service."""
        cluster = cls(folder)
        (folder / "bin").mkdir()
        for name, text in PROGRAMS.items():
            program = folder / "bin" / name
            program.write_text(text)
            program.chmod(0o755)
        cluster.plans.mkdir()
        for name in ("torch-schedule", "torch-csv", "megatron-args"):
            cluster.plan(name).write_text(export(source, name)[1], newline="")
        return cluster

    @property
    def plans(self) -> Path:
        return self.folder / "plans"

    def plan(self, name: str) -> Path:
        """What the service answers with."""
        return self.plans / name

    def recorded(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def runs(self) -> list[list[str]]:
        """The arguments of each torchrun."""
        calls = self.recorded("torchrun").split("\n.\n")
        return [call.splitlines() for call in calls if call]

    def run(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env={
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                "RECORDS": str(self.folder),
                "LOADMASTER_API_KEY": KEY,
                **(environment or {}),
            },
            capture_output=True,
            text=True,
            check=False,
        )


def racks_of_two() -> Source:
    """On four nodes, two behind each switch."""
    source = pipeline({**TRAINING, "data_parallel": 4})
    cluster = {"gpu": "A100-40GB", "nodes": 4, "gpus_per_node": 4, "nodes_per_rack": 2}
    assert source.request is not None
    return replace(source, request={**source.request, "cluster": cluster})


def part_of_a_node() -> Source:
    """On two of four GPUs of the only node."""
    return pipeline({**TRAINING, "data_parallel": 1, "tensor_parallel": 1}, cluster="4xA100-40GB")


def hostile() -> Source:
    """Whose model, GPU and service are called what no shell should see."""
    source = pipeline()
    gpu = {"preset": "A100-40GB", "name": HOSTILE}
    request: dict[str, Any] = {
        "model": {**MODEL, "name": HOSTILE},
        "cluster": {"gpu": gpu, "nodes": 2, "gpus_per_node": 4},
        "training": TRAINING,
        "name": HOSTILE,
        "tags": [HOSTILE],
    }
    assert CLUSTER == "2x4xA100-40GB"
    return replace(source, request=request, service=f"https://plans.example/{HOSTILE}")
