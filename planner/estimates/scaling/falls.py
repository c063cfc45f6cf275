"""Where more GPUs lower throughput, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from planner.estimates.scaling.points import Point
from planner.estimates.step_time.parts import COMMUNICATION_PARTS, why_slowest

STILL_AS_MUCH = 0.95
"""Where the busiest rank keeps this share of its computation, added ranks took over nothing."""

_WORDS = {
    "tensor_collectives": "tensor parallelism's all-reduces",
    "context_ring": "the ring of context parallelism",
    "expert_all_to_all": "the all-to-alls of expert parallelism",
    "zero_collectives": "ZeRO's collectives in every micro-batch",
    "gradient_reduction": "the reduction of gradients",
    "bubble": "the pipeline's bubble",
    "transfers": "transfers between pipeline ranks",
    "matrix_products": "matrix products (layers and head do not divide evenly)",
    "memory_bound_operators": "operators bound by device memory",
}


@dataclass(frozen=True, slots=True)
class Fall:
    """More GPUs with less throughput. `part` is what grew most; the cause may as well be that the
    computation did not shrink (`divisibility`)."""

    before: Point
    after: Point
    part: str
    growth_ns: int

    @classmethod
    def between(cls, before: Point, after: Point) -> Fall:
        old, new = before.parts_ns, after.parts_ns
        growth = {name: size - old.get(name, 0) for name, size in new.items()}
        part = max(growth, key=lambda name: growth[name])
        return cls(before, after, part, growth[part])

    @property
    def cause(self) -> str:
        """One word for it."""
        before, after = self.before, self.after
        if before.computed_ns <= after.computed_ns / STILL_AS_MUCH and not self._is_weak:
            return "divisibility"
        if self.part == "bubble":
            return "bubble"
        nodes = before.costs.cluster.nodes, after.costs.cluster.nodes
        collectives = ("tensor_collectives", "gradient_reduction", "zero_collectives")
        if self.part in collectives and nodes[0] < nodes[1]:
            return "network"
        return "communication" if self.part in COMMUNICATION_PARTS else "computation"

    @property
    def _is_weak(self) -> bool:
        """Whether the batch grew with the GPUs, so that each has as much to compute as before."""
        batches = (p.costs.training.global_batch_size for p in (self.before, self.after))
        return len(set(batches)) > 1

    def words(self) -> str:
        """A sentence with the numbers."""
        before, after = self.before, self.after
        grown = f"the time for {_WORDS.get(self.part, self.part)} grows by "
        grown += f"{self.growth_ns / 1e6:.3f} ms"
        if self.cause == "divisibility":
            slowest = why_slowest(after.costs, after.step)
            detail = (
                f"the slowest rank has about as much to compute as before ({slowest}), and {grown}"
            )
        elif self.cause == "network":
            detail = f"{grown}, over the network of {after.costs.cluster.nodes} nodes instead of "
            detail += f"{before.costs.cluster.nodes}"
        elif self.cause == "bubble":
            detail = f"{grown} with {after.costs.training.micro_batches} micro-batches"
        else:
            detail = grown
        gpus = f"{before.gpus} to {after.gpus} GPUs"
        return f"from {before.degree} to {after.degree} ({gpus}): {detail}."


def falls_of(points: Sequence[Point]) -> list[Fall]:
    """Neighbouring degrees of which the larger has less throughput."""
    return [
        Fall.between(before, after)
        for before, after in pairwise(points)
        if after.tokens_per_s < before.tokens_per_s
    ]
