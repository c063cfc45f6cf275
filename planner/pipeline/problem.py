"""The pipeline problem: one training iteration on a set of devices, as immutable values.

Times are whole nanoseconds and sizes whole bytes, both below 2**53. Every quantity of a stage or
a transfer is a tuple with one entry per micro-batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

LARGEST_VALUE = 2**53 - 1


class Objective(StrEnum):
    """What a schedule is judged by."""

    MAKESPAN = "makespan"
    STEADY_SPAN = "steady_span"


class MicroBatchOrder(StrEnum):
    """Whether F, B and W each run in micro-batch order on every stage."""

    FIXED = "fixed"
    FREE = "free"


class Duplex(StrEnum):
    """`FULL`: one offload and one reload may run on a link at once. `HALF`: one transfer."""

    FULL = "full"
    HALF = "half"


@dataclass(frozen=True, slots=True)
class Device:
    """One pipeline rank. `activation_memory_bytes` of None means no limit."""

    activation_memory_bytes: int | None = None
    host_link: str | None = None
    host: int | None = None
    epilogue_ns: int = 0
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """A machine whose memory takes offloaded activations. None means no limit."""

    memory_bytes: int | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """A chunk of consecutive layers on one device. Tuples have one entry per micro-batch.

    A `backward_weight_ns` of 0 says that the backward is fused: B frees everything and there is
    no W. `weight_grad_bytes` is the part of the activation that stays from the end of B to the
    end of W; `backward_workspace_bytes` is held only while B runs. `offload_bytes` of 0 says that
    the stage cannot offload that micro-batch.
    """

    device: int
    forward_ns: tuple[int, ...]
    backward_input_ns: tuple[int, ...]
    backward_weight_ns: tuple[int, ...]
    activation_bytes: tuple[int, ...]
    weight_grad_bytes: tuple[int, ...]
    backward_workspace_bytes: tuple[int, ...]
    offload_bytes: tuple[int, ...]
    offload_ns: tuple[int, ...]
    reload_ns: tuple[int, ...]
    name: str | None = None

    def has_weight_op(self, micro_batch: int) -> bool:
        """Whether the weight gradient is an operation of its own."""
        return self.backward_weight_ns[micro_batch] > 0

    def late_bytes(self, micro_batch: int) -> int:
        """Bytes that stay from B's end to W's end (0 where the backward is fused)."""
        return self.weight_grad_bytes[micro_batch] if self.has_weight_op(micro_batch) else 0

    def backward_allocation_bytes(self, micro_batch: int) -> int:
        """Bytes allocated when B starts: weight-gradient excess over the activation, workspace."""
        excess = max(0, self.late_bytes(micro_batch) - self.activation_bytes[micro_batch])
        return excess + self.backward_workspace_bytes[micro_batch]

    def backward_free_bytes(self, micro_batch: int) -> int:
        """Bytes freed when B ends."""
        rest = max(0, self.activation_bytes[micro_batch] - self.late_bytes(micro_batch))
        return rest + self.backward_workspace_bytes[micro_batch]

    def compute_ns(self, micro_batch: int) -> int:
        """F + B + W of one micro-batch."""
        return (
            self.forward_ns[micro_batch]
            + self.backward_input_ns[micro_batch]
            + self.backward_weight_ns[micro_batch]
        )


@dataclass(frozen=True, slots=True)
class Transfer:
    """Latency between neighbouring stages s and s+1, one entry per micro-batch."""

    forward_ns: tuple[int, ...]
    backward_ns: tuple[int, ...]


@dataclass(frozen=True)
class PipelineProblem:
    """One iteration of `micro_batches` micro-batches through `stages` placed on `devices`."""

    micro_batches: int
    devices: tuple[Device, ...]
    stages: tuple[Stage, ...]
    transfers: tuple[Transfer, ...]
    hosts: tuple[Host, ...] = ()
    host_link_duplex: Duplex = Duplex.FULL
    host_links: dict[str, Duplex] = field(default_factory=dict)
    micro_batch_order: MicroBatchOrder = MicroBatchOrder.FIXED
    objective: Objective = Objective.MAKESPAN
    name: str | None = None

    @cached_property
    def stages_of_device(self) -> tuple[tuple[int, ...], ...]:
        """Stage numbers on each device, ascending."""
        return tuple(
            tuple(s for s, stage in enumerate(self.stages) if stage.device == d)
            for d in range(len(self.devices))
        )

    @cached_property
    def link_of_stage(self) -> tuple[str, ...]:
        """A key per stage that is equal for stages whose transfers share a host link."""
        keys = []
        for stage in self.stages:
            link = self.devices[stage.device].host_link
            keys.append(f"device {stage.device}" if link is None else f"link {link}")
        return tuple(keys)

    def is_half_duplex(self, stage: int) -> bool:
        """Whether the link of this stage runs one transfer at a time."""
        link = self.devices[self.stages[stage].device].host_link
        own = self.host_links.get(link) if link is not None else None
        return (self.host_link_duplex if own is None else own) is Duplex.HALF

    def channel(self, stage: int, op: str) -> tuple[str, str]:
        """The exclusive channel that an O or R of this stage occupies."""
        return self.link_of_stage[stage], "" if self.is_half_duplex(stage) else op

    @cached_property
    def can_offload(self) -> bool:
        """Whether any stage can offload any micro-batch."""
        return any(any(stage.offload_bytes) for stage in self.stages)

    @cached_property
    def alike(self) -> bool:
        """Whether every micro-batch has the same times and sizes."""
        rows = [
            values
            for stage in self.stages
            for values in (
                stage.forward_ns,
                stage.backward_input_ns,
                stage.backward_weight_ns,
                stage.activation_bytes,
                stage.weight_grad_bytes,
                stage.backward_workspace_bytes,
                stage.offload_bytes,
                stage.offload_ns,
                stage.reload_ns,
            )
        ]
        rows += [values for t in self.transfers for values in (t.forward_ns, t.backward_ns)]
        return all(len(set(values)) == 1 for values in rows)

    @property
    def operations(self) -> int:
        """How many compute operations a schedule of this problem has at most."""
        return 3 * len(self.stages) * self.micro_batches
