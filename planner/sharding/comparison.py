"""The plan beside what people would do otherwise: memory, redundancy, communication, time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.sharding.baselines.baseline import Baseline
from planner.sharding.baselines.checkpointing import least_time
from planner.sharding.baselines.data_parallel import data_parallel, fully_sharded
from planner.sharding.baselines.least_communication import least_communication
from planner.sharding.baselines.megatron import megatron
from planner.sharding.build import Formulation, formulate
from planner.sharding.instance import totals
from planner.sharding.operators.rule import RuleOptions
from planner.sharding.options import SolveOptions
from planner.sharding.peak import predicted_peak_bytes
from planner.sharding.planning import Budget
from planner.sharding.times import StepTime, step_time

NS_PER_S = 1e9
FULLY_SHARDED = 3


@dataclass(frozen=True)
class Setting:
    """Everything that plans of one stage are compared under.

    `timed` is `formulation` with its communication in time. Neither knows pins or prohibitions:
    those bind the plan, not the others. `plan` has the plan's strategies in their numbers, and
    `plan_memory_bytes` is what it keeps.
    """

    formulation: Formulation
    timed: Formulation
    rule_options: RuleOptions
    alpha: float
    limit_bytes: int | None
    precision: str
    options: SolveOptions
    budget: Budget
    plan: Sequence[int]
    plan_memory_bytes: int

    def step_time(self, formulation: Formulation, choice: Sequence[int]) -> StepTime:
        """Predicted for a choice of a formulation that may have another ZeRO stage."""
        zero = formulation.settings.zero_stage
        if zero == self.timed.settings.zero_stage:
            return step_time(self.timed, choice, self.precision)
        settings = replace(self.timed.settings, zero_stage=zero)
        timed = formulate(
            self.timed.graph,
            settings,
            self.rule_options,
            should_stop=self.budget.should_stop,
        )
        return step_time(timed, choice, self.precision)


def all_baselines(setting: Setting) -> list[Baseline]:
    """Every other way to choose strategies, Megatron-LM's first."""
    formulation = setting.formulation
    sharded = formulate(
        formulation.graph,
        replace(formulation.settings, zero_stage=FULLY_SHARDED),
        setting.rule_options,
        should_stop=setting.budget.should_stop,
    )
    limit, options, budget = setting.limit_bytes, setting.options, setting.budget
    return [
        megatron(formulation),
        least_communication(formulation, limit, options, budget),
        least_time(setting.timed, setting.precision, limit, options, budget, setting.plan),
        data_parallel(formulation),
        fully_sharded(sharded),
    ]


def comparison(setting: Setting) -> list[dict[str, Any]]:
    """One row per baseline; throughput is relative to Megatron-LM's where that applies.

    Raises `Interrupted` if told to stop.
    """
    baselines = all_baselines(setting)
    steps = [_step_s(setting, baseline) for baseline in baselines]
    reference_s = steps[0]
    return [
        _row(setting, baseline, step_s, reference_s)
        for baseline, step_s in zip(baselines, steps, strict=True)
    ]


def relative_throughput(step_s: float | None, reference_s: float | None) -> float | None:
    """Tokens per second as a share of the reference's."""
    # Views alone take no time at all.
    if not step_s or reference_s is None:
        return None
    return round(reference_s / step_s, 4)


def _step_s(setting: Setting, baseline: Baseline) -> float | None:
    if baseline.choice is None:
        return None
    time = setting.step_time(baseline.formulation, baseline.choice)
    return time.total_s + baseline.repeated_s


def _row(
    setting: Setting, baseline: Baseline, step_s: float | None, reference_s: float | None
) -> dict[str, Any]:
    described = {
        "name": baseline.name,
        "modelled": baseline.modelled,
        "not_modelled": baseline.not_modelled,
        "applicable": baseline.choice is not None,
        "reason": baseline.reason,
        "proven": baseline.is_proven,
    }
    if baseline.choice is None or step_s is None:
        return described
    # Communication in the instance of a timed formulation is time: bytes are the plan's measure.
    own = baseline.formulation
    if own.settings.communication != setting.formulation.settings.communication:
        own = setting.formulation
    sums = totals(own.instance(setting.alpha, None), baseline.choice)
    memory_bytes = sums.memory_bytes - baseline.saved_bytes
    peak_bytes = predicted_peak_bytes(own, baseline.choice) - baseline.saved_bytes
    limit = setting.limit_bytes
    return {
        **described,
        "memory_bytes": memory_bytes,
        "predicted_peak_bytes": peak_bytes,
        "fits": limit is None or max(memory_bytes, peak_bytes) <= limit,
        "redundant_bytes": sums.redundant_bytes,
        "communication_bytes": sums.communication_bytes,
        "resharding_bytes": sums.resharding_bytes,
        "objective": sums.objective(setting.alpha),
        "note": _note(setting, baseline, memory_bytes, peak_bytes),
        "predicted_step_ns": round(step_s * NS_PER_S),
        "relative_throughput": relative_throughput(step_s, reference_s),
        "strategies": [
            own.strategies[number][chosen].name for number, chosen in enumerate(baseline.choice)
        ],
    }


def _note(setting: Setting, baseline: Baseline, memory_bytes: int, peak_bytes: int) -> str | None:
    """What might surprise: how it was chosen, that only its peak is too high, that it keeps less
    than the plan."""
    notes = [] if baseline.note is None else [baseline.note]
    limit = setting.limit_bytes
    has_objective = baseline.is_proven is not None
    if has_objective and not notes and limit is not None and memory_bytes <= limit < peak_bytes:
        notes.append(
            "what is kept fits, but the predicted peak does not, which its objective leaves out."
        )
    if memory_bytes < setting.plan_memory_bytes:
        notes.append(_why_it_keeps_less(setting, baseline))
    return " ".join(notes) or None


def _why_it_keeps_less(setting: Setting, baseline: Baseline) -> str:
    """How a baseline can keep less than the plan of least redundancy."""
    own, zero = baseline.formulation.settings.zero_stage, setting.formulation.settings.zero_stage
    if own > zero:
        return (
            f"keeps less than the plan, since ZeRO stage {own} divides what stage {zero} keeps "
            f"whole on every data device; a request with training.zero_stage {own} is planned so."
        )
    return (
        "keeps less than the plan, which is chosen by redundancy and bytes sent, not by memory: "
        "copies that no device keeps until the backward are redundant, but no memory kept."
    )
