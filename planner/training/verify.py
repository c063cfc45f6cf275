"""Independent verification of a plan: from the documents that are posted, by another way.

The documents are read again and give a cost model, a pipeline problem and each rank's memory anew;
the schedule that the plan counts on is carried out on that problem and passes the schedule
verifier. Only the formulas of the cost model are common to both ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from planner.cost.build import CostModel
from planner.cost.footprint import footprints
from planner.cost.placement import interleaved
from planner.cost.spec import checked_candidates, read_cost_model
from planner.cost.step import step_time
from planner.errors import SpecError
from planner.pipeline.problem import PipelineProblem
from planner.progress import StopCheck, never
from planner.training.carry_out import CarriedOut, carry_out
from planner.training.evaluate import Plan
from planner.training.spec import TrainingSpec
from planner.training.trainings import document_of

VERIFIER = "loadmaster training plan verifier 1"
MOST_OPERATIONS = 12_000
"""Of the schedule that is carried out; of longer steps it is that of fewer micro-batches."""


@dataclass(frozen=True)
class Verified:
    """What verifying a plan came to. `violations` are the rules it breaks, in words.

    `carried_out` is the schedule of `micro_batches` of them (None if told to stop before);
    `step_time_ns` what the whole step takes by it.
    """

    plan: Plan
    document: dict[str, Any]
    violations: list[str]
    micro_batches: int = 0
    carried_out: CarriedOut | None = None
    step_time_ns: int | None = None

    @property
    def best_known_ns(self) -> int:
        """The step as carried out, or as predicted where that was not done."""
        return self.plan.total_ns if self.step_time_ns is None else self.step_time_ns


def verify_plan(spec: TrainingSpec, plan: Plan, should_stop: StopCheck = never) -> Verified:
    """Every rule that a plan breaks; a plan with violations is none."""
    document = document_of(spec, plan.training)
    try:
        costs = read_cost_model(spec.request["model"], spec.cluster_fields, document)
    except SpecError as error:
        return Verified(plan, document, [f"document: {error}"])
    violations = [*_degree_violations(spec, costs)]
    few = _few_micro_batches(costs)
    candidates = checked_candidates(
        replace(costs, training=replace(costs.training, micro_batches=few))
    )
    if not candidates:
        return Verified(plan, document, [*violations, "memory: states leave no room"])
    problem = candidates[0].problem
    violations += [
        *_figure_violations(plan, costs, problem),
        *_memory_violations(plan, costs, candidates[0].layers_per_stage),
    ]
    carried_out = carry_out(problem, costs.training.interleaving or 1, should_stop)
    if carried_out is None:
        return Verified(plan, document, violations)
    violations += carried_out.violations
    # The pipeline is full by then: each further micro-batch takes the busiest rank's work.
    rest = costs.training.micro_batches - few
    period_ns = plan.step.compute_ns // costs.training.micro_batches
    if plan.offload is not None:
        period_ns += plan.offload.wait_ns // costs.training.micro_batches
    step_ns = carried_out.makespan_ns + rest * period_ns
    return Verified(plan, document, violations, few, carried_out, step_ns)


def _few_micro_batches(costs: CostModel) -> int:
    """All, or as many as do for a full pipeline, in whole rounds of the ranks."""
    training = costs.training
    pipeline = training.degrees.pipeline
    stages = pipeline * (training.interleaving or 1)
    few = MOST_OPERATIONS // (3 * stages)
    few = max(3 * pipeline, few - few % pipeline)
    return min(training.micro_batches, few)


def _degree_violations(spec: TrainingSpec, costs: CostModel) -> Iterator[str]:
    """What divides what, written anew."""
    training, model, degrees = costs.training, costs.model, costs.training.degrees
    gpus = degrees.pipeline * degrees.tensor * degrees.data * degrees.context
    if gpus not in spec.devices:
        yield f"degrees: they make {gpus} GPUs, which was not asked for"
    if costs.cluster.gpus_per_node % degrees.tensor:
        yield "degrees: a tensor group leaves its node"
    if any(size % degrees.tensor for size in (model.heads, model.kv_heads, model.ffn_hidden_size)):
        yield "degrees: tensor_parallel does not divide heads and feed-forward"
    if model.experts % degrees.expert or degrees.data * degrees.context % degrees.expert:
        yield "degrees: expert_parallel does not divide experts and replicas"
    if degrees.context > 1 and training.sequence % (2 * degrees.context):
        yield "degrees: context_parallel does not divide the sequence"
    samples = training.micro_batches * training.micro_batch_size * degrees.data
    if samples != spec.global_batch_size:
        yield f"batch: {samples} samples per step"
    layers = training.layers_per_stage or ()
    if sum(layers) != model.layers or len(layers) != degrees.pipeline * (
        training.interleaving or 1
    ):
        yield f"layers: {list(layers)} of {model.layers}"


def _figure_violations(plan: Plan, costs: CostModel, problem: PipelineProblem) -> Iterator[str]:
    training = costs.training
    whole = replace(problem, micro_batches=training.micro_batches)
    step = step_time(whole, training.interleaving or 1)
    if step != plan.step:
        yield f"step time: {step.total_ns} ns by the resolved problem, not {plan.step.total_ns}"


def _memory_violations(
    plan: Plan, costs: CostModel, layers_per_stage: tuple[int, ...]
) -> Iterator[str]:
    chunks = costs.training.interleaving or 1
    given = costs.layers_per_stage(interleaved(costs.training.degrees.pipeline, chunks))
    ranks = footprints(costs, chunks, given)
    if given != layers_per_stage or ranks != plan.ranks:
        yield "memory: the resolved problem has other layers or sizes"
    for rank, size in zip(ranks, plan.rank_bytes, strict=True):
        if size > rank.limit_bytes:
            yield f"memory: rank {rank.rank} needs {size} bytes and has {rank.limit_bytes}"
