"""Proposals to change the shape of a run, as values and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from planner.following.batch_sizes import RULE_OF_THUMB
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule


class Kind(StrEnum):
    """What changes."""

    MICRO_BATCHES = "micro_batches"
    PARTITION = "partition"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Elasticity:
    """What may change, and how times follow.

    `micro_batch_size` is how many samples a micro-batch has now; its product with the number of
    micro-batches stays. None = not known: then a micro-batch is taken to be divisible.
    `fixed_share` is the share of an operation's time that does not shrink with the size.
    """

    micro_batch_size: int | None = None
    fixed_share: float = 0.0
    may_change_micro_batches: bool = True
    may_change_partition: bool = True


AS_IT_IS = Elasticity()
"""Nothing is known of the samples, everything may change."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The rule of thumb: number of micro-batches x ceil(slowest / median stage).

    `micro_batch_size` is None where that many do not divide the batch or samples are not known,
    and `predicted_ns` where they do not or it does not fit; `reason` says why.
    """

    micro_batches: int
    micro_batch_size: int | None
    predicted_ns: int | None
    reason: str | None

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "rule": RULE_OF_THUMB,
            "micro_batches": self.micro_batches,
            "micro_batch_size": self.micro_batch_size,
            "predicted_ns": self.predicted_ns,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Proposal:
    """A changed shape with a verified schedule of it; `micro_batch_size` is None where samples
    are not known.

    `predicted_ns` is the objective of `schedule` on `problem`; `running_ns` that of the running
    order timed again on the profile (None where it no longer fits), `same_shape_ns` that of the
    best quick schedule without a change (None where none fits). `needs_restart` where parameters
    move between ranks; another number of micro-batches alone is a matter of the next iteration.
    """

    kind: Kind
    micro_batches: int
    micro_batch_size: int | None
    layers_per_stage: tuple[int, ...] | None
    problem: PipelineProblem
    schedule: Schedule
    found_by: str
    predicted_ns: int
    running_ns: int | None
    same_shape_ns: int | None
    lower_bound_ns: int
    baseline: Baseline | None
    reason: str
    notes: tuple[str, ...]

    @property
    def needs_restart(self) -> bool:
        """Whether parameters move between ranks."""
        return self.kind is not Kind.MICRO_BATCHES

    @property
    def predicted_gain(self) -> float | None:
        """The share of the running iteration that is saved; None where that no longer fits."""
        return 1 - self.predicted_ns / self.running_ns if self.running_ns else None

    def to_document(self) -> dict[str, Any]:
        """As JSON, without the problem and its operations."""
        return {
            "kind": self.kind.value,
            "micro_batches": self.micro_batches,
            "micro_batch_size": self.micro_batch_size,
            "layers_per_stage": self.layers_per_stage and list(self.layers_per_stage),
            "predicted_ns": self.predicted_ns,
            "running_ns": self.running_ns,
            "same_shape_ns": self.same_shape_ns,
            "lower_bound_ns": self.lower_bound_ns,
            "predicted_gain": self.predicted_gain,
            "found_by": self.found_by,
            "needs_restart": self.needs_restart,
            "baseline": None if self.baseline is None else self.baseline.to_document(),
            "reason": self.reason,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class Proposals:
    """What is proposed, the fastest first, and what is not, in words."""

    found: tuple[Proposal, ...]
    notes: tuple[str, ...]

    def __iter__(self) -> Iterator[Proposal]:
        return iter(self.found)

    def to_document(self) -> dict[str, Any]:
        """As JSON, without problems and operations."""
        return {
            "proposals": [proposal.to_document() for proposal in self.found],
            "notes": list(self.notes),
        }
