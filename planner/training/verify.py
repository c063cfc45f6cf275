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
from planner.errors import SpecError
from planner.pipeline.bounds.lower_bounds import lower_bounds
from planner.progress import StopCheck, never
from planner.sizes import gib
from planner.training.carry_out import CarriedOut, Causes, carry_out, causes
from planner.training.evaluate import Plan
from planner.training.offloading import quickest_step, single_micro_batches
from planner.training.spec import TrainingSpec
from planner.training.trainings import document_of

VERIFIER = "loadmaster training plan verifier 1"
MOST_OPERATIONS = 12_000
"""Of the schedule that is carried out; of longer steps it is that of fewer micro-batches."""
MOST_BOUNDED = 30_000
"""Operations of a step whose bounds are all worked out; those that the prediction counts with
hold for any."""
LARGE_DEVIATION = 0.01
"""Of the step as carried out from the predicted one, from which on it is said why."""


@dataclass(frozen=True)
class Verified:
    """What verifying a plan came to. `violations` are the rules it breaks, in words; `plan` knows
    the bounds of its pipeline problem.

    `carried_out` is the schedule of `micro_batches` of them (None if told to stop before);
    `step_time_ns` what the whole step takes by it; `causes` why that is, where it is far from what
    was predicted.
    """

    plan: Plan
    document: dict[str, Any]
    violations: list[str]
    micro_batches: int = 0
    carried_out: CarriedOut | None = None
    step_time_ns: int | None = None
    causes: Causes | None = None

    @property
    def best_known_ns(self) -> int:
        """The step as carried out, or as predicted where that was not done."""
        return self.plan.total_ns if self.step_time_ns is None else self.step_time_ns

    @property
    def deviation(self) -> float:
        """Of the step as carried out, as a share of the predicted one."""
        return self.best_known_ns / self.plan.total_ns - 1


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
        *_figure_violations(plan, costs),
        *_memory_violations(plan, costs, candidates[0].layers_per_stage),
    ]
    plan = plan.proven(_proven_ns(costs, should_stop))
    chunks = costs.training.interleaving or 1
    carried_out = carry_out(problem, chunks, should_stop)
    if carried_out is None:
        return Verified(plan, document, violations)
    violations += carried_out.violations
    # The pipeline is full by then: each further micro-batch takes the busiest rank's work.
    rest = costs.training.micro_batches - few
    period_ns = plan.step.compute_ns // costs.training.micro_batches
    if plan.offload is not None:
        period_ns += plan.offload.wait_ns // costs.training.micro_batches
    step_ns = max(plan.bound_ns, carried_out.makespan_ns + rest * period_ns)
    own = Verified(plan, document, violations, few, carried_out, step_ns)
    if abs(own.deviation) <= LARGE_DEVIATION or violations:
        return own
    return replace(own, causes=causes(problem, chunks, carried_out))


def _proven_ns(costs: CostModel, should_stop: StopCheck) -> int:
    """The best bound of the whole step's pipeline problem, whichever way it offloads; 0 where that
    is too large to work it out."""
    stages = len(costs.training.layers_per_stage or ())
    if 3 * stages * costs.training.micro_batches > MOST_BOUNDED or should_stop():
        return 0
    problems = (candidate.problem for candidate in checked_candidates(costs))
    return min(lower_bounds(problem, should_stop)[0].value_ns for problem in problems)


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


def _figure_violations(plan: Plan, costs: CostModel) -> Iterator[str]:
    step = quickest_step(single_micro_batches(costs), costs.training)
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
            yield f"memory: rank {rank.rank} needs {gib(size)} and has {gib(rank.limit_bytes)}"
