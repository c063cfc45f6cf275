"""From symptoms and numbers to likely causes, ranked by what the numbers support."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.cost.note import Note, note
from planner.diagnoses.causes import (
    copies,
    copy_rates,
    fit,
    iterations,
    links,
    memory,
    numerics,
    order,
    plan,
    scaling,
    solver,
    stages,
)
from planner.diagnoses.context import HEURISTIC_S, LARGEST_OPERATIONS, MOST_ORDERED, Context
from planner.diagnoses.finding import Advice, Evidence, Finding
from planner.diagnoses.given import is_given
from planner.diagnoses.names import Cause, FoundIn, Remedy, State, Symptom
from planner.diagnoses.request import DiagnosisRequest
from planner.diagnoses.symptoms import symptoms_found

CAUSES_OF: Mapping[Symptom, Sequence[Cause]] = {
    Symptom.OUT_OF_MEMORY: (
        Cause.PLAN_EXCEEDS_MEMORY,
        Cause.ONE_MICRO_BATCH_TOO_LARGE,
        Cause.MODEL_STATES_TOO_LARGE,
        Cause.MEMORY_OUTSIDE_THE_PLAN,
        Cause.ALLOCATOR_FRAGMENTATION,
        Cause.HOST_MEMORY_SHORT,
    ),
    Symptom.SWINGING_GPU_UTILISATION: (
        Cause.PIPELINE_BUBBLE,
        Cause.STRAGGLER_GPU,
        Cause.STAGE_IMBALANCE,
        Cause.TIME_OUTSIDE_THE_PIPELINE,
        Cause.OFFLOAD_LINK_SATURATED,
    ),
    Symptom.THROUGHPUT_FALLS_WITH_DEVICES: (
        Cause.COMMUNICATION_GROWS,
        Cause.SLOW_NETWORK,
        Cause.BUBBLE_GROWS,
        Cause.SERIAL_PART,
        Cause.UNEVEN_DIVISION,
    ),
    Symptom.UNSTABLE_THROUGHPUT: (
        Cause.JITTER,
        Cause.STRAGGLER_GPU,
        Cause.CLOCK_THROTTLING,
        Cause.TIME_OUTSIDE_THE_PIPELINE,
        Cause.OFFLOAD_LINK_SATURATED,
    ),
    Symptom.NAN_LOSS: (
        Cause.FP16_OVERFLOW,
        Cause.LAST_STAGE_OUT_OF_ORDER,
        Cause.INCOMPLETE_ORDER,
        Cause.OFFLOAD_RACE,
        Cause.DATA_OR_HYPERPARAMETERS,
    ),
    Symptom.SCHEDULE_DEADLOCK: (
        Cause.ORDER_CYCLE,
        Cause.RANKS_ON_DIFFERENT_VERSIONS,
        Cause.MEMORY_DEADLOCK,
        Cause.RECEIVE_ORDER_MISMATCH,
        Cause.INCOMPLETE_ORDER,
        Cause.RANK_LOST,
    ),
    Symptom.PCIE_BOTTLENECK: (
        Cause.OFFLOAD_LINK_SATURATED,
        Cause.TOO_MANY_OFFLOADS,
        Cause.SHARED_HOST_LINK,
        Cause.LINK_SLOWER_THAN_PLANNED,
        Cause.SLOW_HOST_COPIES,
    ),
    Symptom.SOLVER_TOO_SLOW: (
        Cause.PROBLEM_TOO_LARGE,
        Cause.TIME_LIMIT_TOO_SHORT,
        Cause.GAP_ASKED_TOO_SMALL,
    ),
    Symptom.NO_FEASIBLE_PLAN: (
        Cause.ONE_MICRO_BATCH_TOO_LARGE,
        Cause.MODEL_STATES_TOO_LARGE,
        Cause.HOST_MEMORY_SHORT,
        Cause.TIME_LIMIT_TOO_SHORT,
    ),
    Symptom.PLAN_WITH_BAD_THROUGHPUT: (
        Cause.PIPELINE_BUBBLE,
        Cause.PLAN_FAR_FROM_BOUND,
        Cause.STRAGGLER_GPU,
        Cause.STAGE_IMBALANCE,
        Cause.PROFILE_DIFFERS_FROM_PLAN,
        Cause.MEMORY_LIMITS_OVERLAP,
        Cause.TOO_MANY_OFFLOADS,
    ),
}
"""By symptom what may be behind it, the more usual first: the order among equals."""
OTHER_ORDERS = (
    Remedy.ANOTHER_SCHEDULE,
    Remedy.PLAN_WITH_PROFILE,
    Remedy.HEURISTIC_PLAN,
    Remedy.MORE_TIME,
)
"""Remedies that are another plan of the same problem."""

_RULES: Mapping[Cause, Callable[[Context], Finding]] = {
    Cause.PLAN_EXCEEDS_MEMORY: memory.plan_exceeds_memory,
    Cause.ONE_MICRO_BATCH_TOO_LARGE: fit.one_micro_batch_too_large,
    Cause.MODEL_STATES_TOO_LARGE: fit.model_states_too_large,
    Cause.MEMORY_OUTSIDE_THE_PLAN: memory.memory_outside_the_plan,
    Cause.ALLOCATOR_FRAGMENTATION: memory.allocator_fragmentation,
    Cause.HOST_MEMORY_SHORT: fit.host_memory_short,
    Cause.PIPELINE_BUBBLE: plan.pipeline_bubble,
    Cause.STAGE_IMBALANCE: stages.stage_imbalance,
    Cause.STRAGGLER_GPU: stages.straggler_gpu,
    Cause.CLOCK_THROTTLING: iterations.clock_throttling,
    Cause.JITTER: iterations.jitter,
    Cause.TIME_OUTSIDE_THE_PIPELINE: iterations.time_outside_the_pipeline,
    Cause.MEMORY_LIMITS_OVERLAP: plan.memory_limits_overlap,
    Cause.PLAN_FAR_FROM_BOUND: plan.plan_far_from_bound,
    Cause.PROFILE_DIFFERS_FROM_PLAN: stages.profile_differs_from_plan,
    Cause.OFFLOAD_LINK_SATURATED: links.offload_link_saturated,
    Cause.LINK_SLOWER_THAN_PLANNED: copy_rates.link_slower_than_planned,
    Cause.SHARED_HOST_LINK: links.shared_host_link,
    Cause.SLOW_HOST_COPIES: copy_rates.slow_host_copies,
    Cause.TOO_MANY_OFFLOADS: copies.too_many_offloads,
    Cause.COMMUNICATION_GROWS: scaling.communication_grows,
    Cause.SLOW_NETWORK: scaling.slow_network,
    Cause.BUBBLE_GROWS: scaling.bubble_grows,
    Cause.UNEVEN_DIVISION: scaling.uneven_division,
    Cause.SERIAL_PART: scaling.serial_part,
    Cause.ORDER_CYCLE: order.order_cycle,
    Cause.MEMORY_DEADLOCK: order.memory_deadlock,
    Cause.RECEIVE_ORDER_MISMATCH: order.receive_order_mismatch,
    Cause.INCOMPLETE_ORDER: order.incomplete_order,
    Cause.RANKS_ON_DIFFERENT_VERSIONS: order.ranks_on_different_versions,
    Cause.RANK_LOST: order.rank_lost,
    Cause.FP16_OVERFLOW: numerics.fp16_overflow,
    Cause.LAST_STAGE_OUT_OF_ORDER: numerics.last_stage_out_of_order,
    Cause.OFFLOAD_RACE: numerics.offload_race,
    Cause.DATA_OR_HYPERPARAMETERS: numerics.data_or_hyperparameters,
    Cause.PROBLEM_TOO_LARGE: solver.problem_too_large,
    Cause.TIME_LIMIT_TOO_SHORT: solver.time_limit_too_short,
    Cause.GAP_ASKED_TOO_SMALL: solver.gap_asked_too_small,
}

_PLACES = {State.SUPPORTED: 0, State.POSSIBLE: 1, State.RULED_OUT: 2}


@dataclass(frozen=True, slots=True)
class Seen:
    """A symptom, where it comes from, and the numbers that show it."""

    symptom: Symptom
    found_in: FoundIn
    evidence: Sequence[Evidence] = ()

    def to_document(self) -> dict[str, Any]:
        """As the API answers with it."""
        return {
            "symptom": self.symptom.value,
            "found_in": self.found_in.value,
            "evidence": [evidence.to_document() for evidence in self.evidence],
            "causes": [cause.value for cause in CAUSES_OF[self.symptom]],
        }


@dataclass(frozen=True)
class Diagnosis:
    """Symptoms, and their causes: supported ones first, then possible ones, then those that the
    numbers rule out; within each the one with most at stake first."""

    symptoms: Sequence[Seen]
    causes: Sequence[Finding]
    assumptions: Sequence[Note]
    warnings: Sequence[str]

    def to_document(self) -> dict[str, Any]:
        """As the API answers with it. Each cause names the symptoms that it may explain."""
        seen = [symptom.symptom for symptom in self.symptoms]
        return {
            "symptoms": [symptom.to_document() for symptom in self.symptoms],
            "causes": [
                {
                    **finding.to_document(),
                    "symptoms": [own.value for own in seen if finding.cause in CAUSES_OF[own]],
                }
                for finding in self.causes
            ],
            "assumptions": [dict(assumption) for assumption in self.assumptions],
            "warnings": list(self.warnings),
        }


def diagnose(request: DiagnosisRequest) -> Diagnosis:
    """The causes of the symptoms named, or else of those that the numbers show.

    Takes about a second of CPU at most: problems of more than `LARGEST_OPERATIONS` operations are
    not timed, and predictions that no time is left for say so. They are part of the answer only
    as far as this machine got; states and evidence do not depend on it, except where a
    heuristic's plan is the evidence, which says so.
    """
    context = Context(request)
    found = symptoms_found(context)
    seen = [
        Seen(symptom, FoundIn.REQUEST, found.get(symptom, ()))
        for symptom in dict.fromkeys(request.symptoms)
    ] or [Seen(symptom, FoundIn.NUMBERS, evidence) for symptom, evidence in found.items()]
    causes = dict.fromkeys(cause for own in seen for cause in CAUSES_OF[own.symptom])
    findings = [_finished(context, _RULES[cause](context)) for cause in causes]
    findings.sort(key=lambda finding: (_PLACES[finding.state], -(finding.weight or 0.0)))
    return Diagnosis(seen, findings, _notes(context), list(_warnings(context, seen)))


def _finished(context: Context, finding: Finding) -> Finding:
    """Nothing is at stake in a cause that is none, and nobody needs what is there."""
    weight = None if finding.state is State.RULED_OUT else finding.weight
    needs = [field for field in finding.needs if not is_given(context.request, field)]
    advice = [_with_rollbacks(context.request.rolled_back, own) for own in finding.advice]
    return replace(finding, weight=weight, needs=needs, advice=advice)


def _with_rollbacks(versions: Sequence[int], advice: Advice) -> Advice:
    """Advice to run another order says where one for the same numbers was slower than predicted."""
    if not versions or advice.remedy not in OTHER_ORDERS:
        return advice
    names = ", ".join(map(str, versions))
    words = "Version {} was rolled back" if len(versions) == 1 else "Versions {} were rolled back"
    tried = f"{words.format(names)}: for these numbers, and slower than what runs."
    return replace(advice, detail=f"{advice.detail} {tried}")


def _notes(context: Context) -> list[Note]:
    notes = [
        note(
            "predictions",
            f"at most {LARGEST_OPERATIONS:,} operations, heuristics of {HEURISTIC_S:g} s",
            "Orders are timed exactly; a heuristic's plan is a plan that can be had, and a solve "
            "may find a better one.",
        )
    ]
    profile = context.profile
    if profile is not None:
        notes.append(
            note(
                "telemetry",
                f"medians of {profile.iterations} iterations, per stage",
                f"The first {profile.dropped} were left out as warm-up; peaks are the largest. "
                "Where a problem is given, predictions use the measured times.",
            )
        )
    if context.request.expected is not None:
        version = context.request.plan_version
        plan = "the plan" if version is None else f"version {version} of the plan"
        notes.append(
            note(
                "comparison",
                "stages and copies with what the run was made for; orders, makespans and bounds "
                f"with {plan}",
                "The plan may have been made for times that were measured since: against those, a "
                "slow GPU that it has taken up would no longer show.",
            )
        )
    return notes


def _warnings(context: Context, seen: Sequence[Seen]) -> list[str]:
    warnings = []
    if not seen:
        warnings.append(
            "The numbers show no symptom. Name the one that you see; a loss that is not a number "
            "is never told by them."
        )
    if context.problem is not None and not context.is_small:
        warnings.append(
            f"The problem has {context.problem.operations:,} operations: with more than "
            f"{LARGEST_OPERATIONS:,} nothing is timed here. POST /v1/pipeline-schedules."
        )
    if context.has_too_long_a_plan:
        warnings.append(
            f"The schedule has more than {MOST_ORDERED:,} operations: their order is not looked at."
        )
    if context.request.ops is not None and context.is_small and context.orders is None:
        warnings.append(
            "The schedule does not have every operation of the problem once; it is not timed."
        )
    return warnings
