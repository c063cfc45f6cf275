"""The files that a profile writes: the problem to be posted, and the raw figures beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from client.torch_profile.machine import Machine
from client.torch_profile.measure import Measured
from client.torch_profile.measured import MeasuredTransfer
from client.torch_profile.splits import SPLIT_NAMES, SPLIT_WORDS, Split

FORMAT = "loadmaster profile 1"


@dataclass(frozen=True)
class Link:
    """A link between devices, in place of the copies that were measured."""

    bytes_per_s: float
    latency_ns: int = 0

    def transfer_ns(self, size: int) -> int:
        """How long so many bytes take, rounded up."""
        return self.latency_ns + int(-(-size * 1e9 // self.bytes_per_s))


@dataclass(frozen=True)
class Profile:
    """A measured pipeline and what it was measured with."""

    name: str
    split: Split
    micro_batches: int
    repeat: int
    measured: Measured
    machine: Machine
    link: Link | None = None

    @property
    def title(self) -> str:
        """What was measured, in one line; the problem's `name`."""
        machine = self.machine
        return (
            f"{self.name}: {len(self.measured.stages)} stages, {SPLIT_NAMES[self.split]}, "
            f"torch {machine.torch_version} on {machine.device_name}, "
            f"{machine.threads} CPU thread{'' if machine.threads == 1 else 's'}"
        )

    def problem(self) -> dict[str, Any]:
        """The `problem` of `POST /v1/pipeline-schedules`: a device per stage, without limits of
        memory, which depend on optimizer and parallelism."""
        stages = self.measured.stages
        return {
            "name": self.title,
            "micro_batches": self.micro_batches,
            "devices": [self._device(d) for d in range(len(stages))],
            "stages": [stage.problem_stage(s) for s, stage in enumerate(stages)],
            "transfers": [self._transfer(transfer) for transfer in self.measured.transfers],
        }

    def sidecar(self) -> dict[str, Any]:
        """Raw figures: every sample, deltas, machine, and what the problem rests on."""
        topology = self.machine.topology
        return {
            "format": FORMAT,
            "name": self.title,
            "split": self.split.value,
            "machine": self.machine.document(),
            "topology": None if topology is None else topology.document(),
            "repetitions": self.repeat,
            "micro_batches": self.micro_batches,
            "stages": [stage.document() for stage in self.measured.stages],
            "transfers": [
                {
                    "forward_bytes": transfer.forward_bytes,
                    "backward_bytes": transfer.backward_bytes,
                    "forward": transfer.forward.document(),
                    "backward": transfer.backward.document(),
                }
                for transfer in self.measured.transfers
            ],
            "assumptions": self.assumptions(),
        }

    def assumptions(self) -> list[str]:
        """What whoever uses the problem should know, a sentence each."""
        stages, on_gpu = self.measured.stages, self.machine.on_gpu
        border = max(stage.border_bytes for stage in stages) * self.micro_batches
        notes = [
            f"Backward: {SPLIT_WORDS[self.split]}.",
            "Inputs and outputs of stages and their gradients are left out, since PyTorch's "
            "runtime holds them for all micro-batches of a step: "
            f"up to {border:,} bytes per device for {self.micro_batches} micro-batches.",
            "Limits of memory are left open: give activation_memory_bytes, what a device has less "
            "parameters, gradients, optimizer states and these buffers.",
        ]
        fused = [s for s, stage in enumerate(stages) if stage.split is not self.split]
        if fused:
            notes.append(f"Fused backward in stages {_listed(fused)}: there is nothing for W.")
        if self.split is Split.NATIVE:
            notes.append("I of stage 0 does nothing: PyTorch leaves its whole backward to W.")
        hidden = max(stage.hidden_workspace_bytes for stage in stages)
        if hidden:
            notes.append(
                f"F and W take up to {hidden:,} bytes in passing, for which a problem has no "
                "field: leave that much of the limit free."
            )
        residue = [s for s, stage in enumerate(stages) if stage.residue_bytes]
        if residue:
            notes.append(
                f"After the last backward stages {_listed(residue)} do not hold what they held "
                "before (residue_bytes): the model keeps something of each micro-batch."
            )
        if on_gpu:
            notes.append("The way of measuring on GPUs has not been tested on one.")
        else:
            notes.append(
                "On a CPU offloads, reloads and transfers are copies within memory; memory inside "
                "kernels is not seen."
            )
        if self.link is None:
            notes.append("Transfers between stages are copies on one device, without a network.")
        return notes

    def _device(self, device: int) -> dict[str, Any]:
        topology = self.machine.topology
        if topology is None or device >= topology.gpus:
            return {}
        return {"host_link": topology.link_of(device)}

    def _transfer(self, transfer: MeasuredTransfer) -> dict[str, int]:
        if self.link is None:
            return {
                "forward_ns": transfer.forward.median_ns,
                "backward_ns": transfer.backward.median_ns,
            }
        return {
            "forward_ns": self.link.transfer_ns(transfer.forward_bytes),
            "backward_ns": self.link.transfer_ns(transfer.backward_bytes),
        }


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
