"""The timeline of a pipeline schedule: everything that a chart of it needs."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _View(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StageView(_View):
    """A stage, by its place in the list."""

    device: int


class OperationColumns(_View):
    """The operations by start, as columns: entry i of each list is of operation i."""

    op: list[Literal["F", "B", "W", "O", "R"]]
    stage: list[int]
    micro_batch: list[int]
    start_ns: list[int]
    end_ns: list[int]
    after: list[int | None] = Field(
        description="The operation whose end, plus the transfer from there, let this one start."
    )
    waits_for: list[Literal["device", "dependency", "memory", "link", "start", "slack"]] = Field(
        description="Why it starts then and not earlier; `slack`: it could, in the same order."
    )


class MemorySteps(_View):
    """`bytes[k]` are in use from `at_ns[k]` on."""

    at_ns: list[int]
    bytes: list[int]


class IdleTime(_View):
    """Idle time by reason."""

    fill: int = Field(description="Before the first operation.")
    dependency: int
    memory: int
    link: int
    slack: int
    drain: int = Field(description="After the last operation and the epilogue.")


class IdleGap(_View):
    """A gap of a device."""

    start_ns: int
    end_ns: int
    reason: Literal["fill", "dependency", "memory", "link", "slack", "drain"]
    next: int | None = Field(description="The operation that ends it.")


class DeviceTimeline(_View):
    """A device: what it holds, and how it spends the makespan."""

    device: int
    host_link: str | None
    host: int | None
    limit_bytes: int | None
    peak_bytes: int
    memory: MemorySteps
    busy_ns: int = Field(description="The epilogue included; with all idle time the makespan.")
    epilogue_ns: int = Field(description="From the end of the last operation on.")
    idle_ns: IdleTime
    idle: list[IdleGap]


class HostTimeline(_View):
    """A host: what it holds of offloaded activations."""

    host: int
    limit_bytes: int | None
    peak_bytes: int
    memory: MemorySteps


class LinkTimeline(_View):
    """A host link, under its name or as `device N` where it is that device's own."""

    link: str
    devices: list[int]
    offload_busy_ns: int
    reload_busy_ns: int


class ShortageView(_View):
    """What a schedule needs of a device's memory or, where `device` is null, of a host's."""

    device: int | None
    host: int | None
    needed_bytes: int
    limit_bytes: int


class TimelineView(_View):
    """A schedule, what each operation waits for, why devices are idle, and memory over time."""

    schedule: str = Field(
        description="`Loadmaster`, the name of a row of the comparison, or the version of a run."
    )
    placement: str | None
    fits: bool
    reason: str | None = Field(description="Why it does not fit, or a remark.")
    shortage: ShortageView | None = Field(
        description="What it lacks most where that is memory; null too where the answer is of a "
        "version that gave the reason only."
    )
    objective: Literal["makespan", "steady_span"]
    makespan_ns: int
    steady_span_ns: int
    lower_bound_ns: int | None = Field(
        description="On the objective, proven for this placement; null where none is known, and "
        "of a schedule that does not fit."
    )
    micro_batches: int
    stages: list[StageView]
    ops: OperationColumns
    critical_path: list[int] = Field(
        description="From the operation that ends last back through `after`, in order of time."
    )
    devices: list[DeviceTimeline]
    hosts: list[HostTimeline]
    links: list[LinkTimeline]
