"""What would make an infeasible problem feasible, computed from its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.pipeline.feasibility.memory_chunks import chunks_of, peak_bytes_alone
from planner.pipeline.feasibility.shortage import (
    DeviceShortage,
    HostShortage,
    alike_devices,
    listed,
)
from planner.pipeline.problem import PipelineProblem
from planner.sizes import gib

MOST_PARTS = 1024
"""Devices in place of one: more are nobody's way out."""


@dataclass(frozen=True)
class Remedy:
    """A way out. `fits` of None: cannot be told from the problem alone; `basis`: how computed.

    `request_changes` are the values to put into the request, by path, so that it fits; None where
    a request cannot say it.
    """

    remedy: str
    fits: bool | None
    detail: str
    basis: str
    request_changes: Mapping[str, Any] | None = None

    def to_document(self) -> dict[str, Any]:
        return {
            "remedy": self.remedy,
            "fits": self.fits,
            "detail": self.detail,
            "basis": self.basis,
            "request_changes": self.request_changes,
        }


def find_remedies(
    problem: PipelineProblem,
    devices: Sequence[DeviceShortage],
    hosts: Sequence[HostShortage],
    micro_batches: Sequence[int],
) -> tuple[Remedy, ...]:
    """Each remedy judged for all devices at fault together."""
    remedies = [
        _device_memory(devices),
        _offload(problem, devices, micro_batches),
        _more_stages(problem, devices, micro_batches, with_offload=not hosts),
        _smaller_micro_batch(devices),
        _recomputation(devices),
    ]
    if hosts:
        remedies.insert(0, _host_memory(problem, devices, hosts, micro_batches))
    return tuple(remedies)


def _listed(devices: Sequence[DeviceShortage]) -> str:
    return listed([shortage.device for shortage in devices])


def _device_memory(devices: Sequence[DeviceShortage]) -> Remedy:
    """The smallest limits that would do, all of them together."""
    sizes = ", ".join(f"{gib(smallest)} on {who}" for who, _, smallest in alike_devices(devices))
    changes = {
        f"problem.devices.{s.device}.activation_memory_bytes": s.smallest_limit_bytes
        for s in devices
    }
    detail = f"Fits with {sizes} for activations, and with nothing less."
    return Remedy("device_memory", True, detail, "computed", changes)


def _host_memory(
    problem: PipelineProblem,
    devices: Sequence[DeviceShortage],
    hosts: Sequence[HostShortage],
    micro_batches: Sequence[int],
) -> Remedy:
    """More host memory alone does if no device is short with everything offloaded."""
    fits = all(
        peak_bytes_alone(chunks, {c.stage for c in chunks}) <= shortage.limit_bytes
        for shortage in devices
        for m in micro_batches
        for chunks in [chunks_of(problem, shortage.device, m)]
    )
    sizes = ", ".join(f"{gib(h.smallest_limit_bytes)} for host {h.host}" for h in hosts)
    detail = f"{sizes} would hold what must be offloaded at one time"
    changes = {f"problem.hosts.{h.host}.memory_bytes": h.smallest_limit_bytes for h in hosts}
    if not fits:
        detail += ", but not every device fits even then"
    return Remedy("host_memory", fits, detail + ".", "computed", changes if fits else None)


def _offload(
    problem: PipelineProblem, devices: Sequence[DeviceShortage], micro_batches: Sequence[int]
) -> Remedy:
    """Offloading whole activations, to hosts with room enough."""
    basis = "computed with offload_bytes = activation_bytes and no host limit"
    if all(len(problem.stages_of_device[shortage.device]) == 1 for shortage in devices):
        return Remedy(
            "offload",
            False,
            f"With one stage on {_listed(devices)}, its activation must be there in full when its "
            "backward starts, however often it was offloaded before.",
            basis,
        )
    short = []
    for shortage in devices:
        needed = 0
        for m in micro_batches:
            chunks = [
                replace(c, offload=c.activation) for c in chunks_of(problem, shortage.device, m)
            ]
            needed = max(needed, peak_bytes_alone(chunks, {c.stage for c in chunks}))
        if needed > shortage.limit_bytes:
            short.append(f"device {shortage.device} would still need {gib(needed)}")
    if short:
        detail = f"With all activations of earlier stages offloaded {'; '.join(short)}."
        return Remedy("offload", False, detail, basis)
    detail = f"Offloading all activations of earlier stages would fit on {_listed(devices)}."
    return Remedy("offload", True, detail, basis)


def _more_stages(
    problem: PipelineProblem,
    devices: Sequence[DeviceShortage],
    micro_batches: Sequence[int],
    *,
    with_offload: bool,
) -> Remedy:
    """Splitting the layers of each device at fault over k devices with the same limit."""
    basis = "proportional: activations divided by k, workspace unchanged"
    k = 2
    for shortage in devices:
        for m in micro_batches:
            earlier = 0
            for chunk in chunks_of(problem, shortage.device, m):
                workspace = problem.stages[chunk.stage].backward_workspace_bytes[m]
                workspace = min(workspace, chunk.backward_allocation)
                room = shortage.limit_bytes - workspace
                divided = earlier + chunk.activation + chunk.backward_allocation - workspace
                if divided > 0 >= room or room < 0:
                    detail = (
                        f"The workspace of a backward on device {shortage.device} alone takes "
                        f"{gib(workspace)} of {gib(shortage.limit_bytes)}."
                    )
                    return Remedy("more_stages", False, detail, basis)
                if divided:
                    k = max(k, -(-divided // room))
                earlier += chunk.activation - (chunk.offload if with_offload else 0)
    if k > MOST_PARTS:
        who = _listed(devices)
        detail = f"Splitting the layers of {who} would take more than {MOST_PARTS} devices each."
        return Remedy("more_stages", False, detail, basis)
    detail = f"Splitting the layers of {_listed(devices)} over {k} devices each would fit."
    return Remedy("more_stages", True, detail, basis)


def _smaller_micro_batch(devices: Sequence[DeviceShortage]) -> Remedy:
    """All sizes scale with the micro-batch, so the largest fraction is limit / need."""
    thousandths = min(1000 * s.limit_bytes // s.smallest_limit_bytes for s in devices)
    basis = "proportional: all sizes scale with the micro-batch"
    if not thousandths:
        detail = f"Not even a thousandth of the micro-batch fits on {_listed(devices)}."
        return Remedy("smaller_micro_batch", False, detail, basis)
    detail = f"At most {thousandths / 1000:.3f} of the micro-batch's size fits."
    return Remedy("smaller_micro_batch", True, detail, basis)


def _recomputation(devices: Sequence[DeviceShortage]) -> Remedy:
    """What recomputation would have to reach; the problem does not say what it would."""
    targets = "; ".join(
        f"{who} from {gib(smallest)} to {gib(limit)}"
        for who, limit, smallest in alike_devices(devices)
    )
    detail = (
        "Fits if stored activations together with what a backward rebuilds at a time come down on "
        f"{targets}."
    )
    return Remedy("recomputation", None, detail, "requirement; the model's layers are not known")
