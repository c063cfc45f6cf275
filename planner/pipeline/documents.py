"""The pipeline problem as a JSON document, read into a `PipelineProblem` and written back.

The canonical document (`problem_to_document`) leaves out what equals its default and writes a
number once where all micro-batches share it, so that equal problems give equal documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from planner.documents import (
    Document,
    Listed,
    PerMicroBatch,
    PositiveWhole,
    WholeNumber,
    spec_error_from,
)
from planner.errors import SpecError
from planner.pipeline.problem import (
    Device,
    Duplex,
    Host,
    MicroBatchOrder,
    Objective,
    PipelineProblem,
    Stage,
    Transfer,
)
from planner.pipeline.total_time import check_total_time

STAGE_QUANTITIES = (
    "forward_ns",
    "backward_input_ns",
    "backward_weight_ns",
    "activation_bytes",
    "weight_grad_bytes",
    "backward_workspace_bytes",
    "offload_bytes",
    "offload_ns",
    "reload_ns",
)
TRANSFER_QUANTITIES = ("forward_ns", "backward_ns")


class DeviceDocument(Document):
    """One pipeline rank."""

    activation_memory_bytes: WholeNumber | None = Field(
        default=None,
        description="What is left for activations after parameters, gradients and optimizer "
        "states; null = no limit.",
    )
    host_link: str | None = Field(
        default=None, description="Devices that name the same link share it; absent = an own one."
    )
    host: WholeNumber | None = Field(
        default=None, description="Index of the host whose memory takes the offloaded bytes."
    )
    epilogue_ns: WholeNumber = Field(
        default=0, description="Work after the last operation (gradient reduction, optimizer)."
    )
    name: str | None = None


class HostDocument(Document):
    """A machine whose memory takes offloaded activations."""

    memory_bytes: WholeNumber | None = None
    name: str | None = None


class HostLinkDocument(Document):
    """Settings of one named host link."""

    duplex: Literal["full", "half"]


class StageDocument(Document):
    """A chunk of layers on one device; each number may be a list with one per micro-batch."""

    device: WholeNumber
    forward_ns: PerMicroBatch
    backward_input_ns: PerMicroBatch
    backward_weight_ns: PerMicroBatch = 0
    activation_bytes: PerMicroBatch = 0
    weight_grad_bytes: PerMicroBatch = 0
    backward_workspace_bytes: PerMicroBatch = 0
    offload_bytes: PerMicroBatch = 0
    offload_ns: PerMicroBatch = 0
    reload_ns: PerMicroBatch = 0
    name: str | None = None


class TransferDocument(Document):
    """Latency between stage s and s+1."""

    forward_ns: PerMicroBatch = 0
    backward_ns: PerMicroBatch = 0


class ProblemDocument(Document):
    """A measured or resolved pipeline problem. Times are whole ns, sizes whole bytes."""

    micro_batches: PositiveWhole
    micro_batch_order: Literal["fixed", "free"] = "fixed"
    objective: Literal["makespan", "steady_span"] = "makespan"
    devices: Annotated[list[DeviceDocument], *Listed] = Field(min_length=1)
    stages: Annotated[list[StageDocument], *Listed] = Field(min_length=1)
    transfers: Annotated[list[TransferDocument], *Listed] | None = None
    hosts: Annotated[list[HostDocument], *Listed] = Field(default_factory=list)
    host_link_duplex: Literal["full", "half"] = "full"
    host_links: dict[str, HostLinkDocument] = Field(default_factory=dict, max_length=10_000)
    name: str | None = None


def read_problem(raw: Mapping[str, Any], path: tuple[str | int, ...] = ()) -> PipelineProblem:
    """Parse and check a problem document.

    Raises `SpecError` that names the first field at fault, below `path`.
    """
    try:
        document = ProblemDocument.model_validate(raw)
    except ValidationError as error:
        raise spec_error_from(error, path) from error
    return problem_from_document(document, path)


def problem_from_document(
    document: ProblemDocument, path: tuple[str | int, ...] = ()
) -> PipelineProblem:
    """Turn a validated document into a problem, checking what relates fields to one another."""
    count = document.micro_batches

    def spread(value: int | list[int], where: tuple[str | int, ...]) -> tuple[int, ...]:
        if isinstance(value, int):
            return (value,) * count
        if len(value) != count:
            raise SpecError(
                path + where,
                f"has {len(value)} values for {count} micro-batches.",
                "Give one number for all or a list with one per micro-batch.",
            )
        return tuple(value)

    for d, device in enumerate(document.devices):
        if device.host is not None and device.host >= len(document.hosts):
            raise SpecError(
                (*path, "devices", d, "host"),
                f"there is no host {device.host}.",
                f"`hosts` has {len(document.hosts)} entries, counted from 0.",
            )
    for s, stage in enumerate(document.stages):
        if stage.device >= len(document.devices):
            raise SpecError(
                (*path, "stages", s, "device"),
                f"there is no device {stage.device}.",
                f"`devices` has {len(document.devices)} entries, counted from 0.",
            )
    links = {device.host_link for device in document.devices}
    for name in document.host_links:
        if name not in links:
            raise SpecError((*path, "host_links", name), "no device names this link.", "Remove it.")
    pairs = len(document.stages) - 1
    transfers = document.transfers
    if not transfers:
        transfers = [TransferDocument()] * pairs
    if len(transfers) != pairs:
        raise SpecError(
            (*path, "transfers"),
            f"has {len(transfers)} entries for {len(document.stages)} stages.",
            f"Give {pairs}, one per pair of neighbouring stages, or leave it out.",
        )
    stages = []
    for s, stage in enumerate(document.stages):
        quantities = {
            name: spread(getattr(stage, name), ("stages", s, name)) for name in STAGE_QUANTITIES
        }
        over = [
            m
            for m in range(count)
            if quantities["offload_bytes"][m] > quantities["activation_bytes"][m]
        ]
        if over:
            raise SpecError(
                (*path, "stages", s, "offload_bytes"),
                f"offloads more than the activation holds (micro-batch {over[0]}).",
                "Give at most `activation_bytes`.",
            )
        stages.append(Stage(device=stage.device, name=stage.name, **quantities))
    problem = PipelineProblem(
        micro_batches=count,
        devices=tuple(
            Device(d.activation_memory_bytes, d.host_link, d.host, d.epilogue_ns, d.name)
            for d in document.devices
        ),
        stages=tuple(stages),
        transfers=tuple(
            Transfer(
                spread(t.forward_ns, ("transfers", i, "forward_ns")),
                spread(t.backward_ns, ("transfers", i, "backward_ns")),
            )
            for i, t in enumerate(transfers)
        ),
        hosts=tuple(Host(h.memory_bytes, h.name) for h in document.hosts),
        host_link_duplex=Duplex(document.host_link_duplex),
        host_links={name: Duplex(link.duplex) for name, link in document.host_links.items()},
        micro_batch_order=MicroBatchOrder(document.micro_batch_order),
        objective=Objective(document.objective),
        name=document.name,
    )
    check_total_time(problem, path)
    return problem


def _compact(values: tuple[int, ...]) -> int | list[int]:
    return values[0] if len(set(values)) == 1 else list(values)


def problem_to_document(problem: PipelineProblem, *, names: bool = True) -> dict[str, Any]:
    """The canonical document of a problem; without `names` what is left identifies it."""

    def present(entries: dict[str, Any], name: str | None = None) -> dict[str, Any]:
        kept = {key: value for key, value in entries.items() if value not in (None, 0, {}, [])}
        if names and name is not None:
            kept["name"] = name
        return kept

    devices = []
    for device in problem.devices:
        entry = present(
            {"host_link": device.host_link, "epilogue_ns": device.epilogue_ns}, device.name
        )
        if device.activation_memory_bytes is not None:
            entry["activation_memory_bytes"] = device.activation_memory_bytes
        if device.host is not None:
            entry["host"] = device.host
        devices.append(entry)
    stages = []
    for stage in problem.stages:
        quantities = {name: _compact(getattr(stage, name)) for name in STAGE_QUANTITIES}
        required = {name: quantities.pop(name) for name in STAGE_QUANTITIES[:2]}
        stages.append({"device": stage.device, **required, **present(quantities, stage.name)})
    document: dict[str, Any] = {
        "micro_batches": problem.micro_batches,
        "devices": devices,
        "stages": stages,
        "transfers": [
            present({name: _compact(getattr(t, name)) for name in TRANSFER_QUANTITIES})
            for t in problem.transfers
        ],
    }
    if not any(document["transfers"]):
        del document["transfers"]
    if problem.hosts:
        document["hosts"] = [
            {} if h.memory_bytes is None else {"memory_bytes": h.memory_bytes}
            for h in problem.hosts
        ]
        if names:
            for entry, host in zip(document["hosts"], problem.hosts, strict=True):
                if host.name is not None:
                    entry["name"] = host.name
    if problem.host_link_duplex is not Duplex.FULL:
        document["host_link_duplex"] = problem.host_link_duplex.value
    own_duplex = {
        name: {"duplex": duplex.value}
        for name, duplex in sorted(problem.host_links.items())
        if duplex is not problem.host_link_duplex
    }
    if own_duplex:
        document["host_links"] = own_duplex
    if problem.micro_batch_order is not MicroBatchOrder.FIXED:
        document["micro_batch_order"] = problem.micro_batch_order.value
    if problem.objective is not Objective.MAKESPAN:
        document["objective"] = problem.objective.value
    if names and problem.name is not None:
        document["name"] = problem.name
    return document
