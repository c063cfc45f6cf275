"""Symptoms that the numbers of a request show by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import median

from planner.diagnoses.causes.iterations import FEWEST_ITERATIONS, SPREAD
from planner.diagnoses.causes.memory import planned_peaks
from planner.diagnoses.causes.order import order_fault
from planner.diagnoses.causes.plan import FAR
from planner.diagnoses.causes.scaling import sorted_points
from planner.diagnoses.causes.solver import USED_UP
from planner.diagnoses.causes.stages import (
    STRAGGLER,
    STRAGGLER_RULE,
    STRAGGLER_SOURCE,
    compared_stages,
)
from planner.diagnoses.context import Context
from planner.diagnoses.finding import Evidence
from planner.diagnoses.names import Speaks, Symptom, Unit
from planner.diagnoses.telemetry import quantile
from planner.pipeline.adaoffload import BUSY_LINK
from planner.pipeline.objective import objective_ns

SWING = 0.2
FEWEST_UTILISATIONS = 4
MOST_SHOWN = 4
RULE = "Rule of this service."


def symptoms_found(context: Context) -> dict[Symptom, Sequence[Evidence]]:
    """Each symptom that the numbers show, with the numbers."""
    found = {symptom: look(context)[:MOST_SHOWN] for symptom, look in _LOOK.items()}
    return {symptom: evidence for symptom, evidence in found.items() if evidence}


def _sign(
    what: str,
    value: float,
    unit: Unit,
    threshold: float,
    rule: str,
    source: str = RULE,
    stage: int | None = None,
) -> Evidence:
    return Evidence(what, value, unit, Speaks.FOR, rule, source, threshold, stage=stage)


def _out_of_memory(context: Context) -> list[Evidence]:
    return [
        *(piece for piece in planned_peaks(context) if piece.speaks is Speaks.FOR),
        *(
            _sign(
                f"measured peak of stage {s}", peak, Unit.BYTES, limit, "Beyond its limit.", stage=s
            )
            for s, own in context.measured_stages.items()
            if (peak := own.peak_memory_bytes) is not None
            and (limit := own.memory_limit_bytes) is not None
            and peak > limit
        ),
    ]


def _swinging(context: Context) -> list[Evidence]:
    stages, signs = context.measured_stages, []
    for s, own in stages.items():
        values = own.utilisations
        if len(values) < FEWEST_UTILISATIONS:
            continue
        swing = quantile(values, 0.9) - quantile(values, 0.1)
        if swing > SWING:
            signs.append(
                _sign(
                    f"GPU utilisation of stage {s}, 90th less 10th percentile",
                    swing,
                    Unit.SHARE,
                    SWING,
                    f"More than {SWING:g} of the whole.",
                    stage=s,
                )
            )
    middles = {s: median(own.utilisations) for s, own in stages.items() if own.utilisations}
    if middles and max(middles.values()) - min(middles.values()) > SWING:
        worst = min(middles, key=lambda s: middles[s])
        signs.append(
            _sign(
                "GPU utilisation, busiest stage less idlest",
                max(middles.values()) - middles[worst],
                Unit.SHARE,
                SWING,
                f"More than {SWING:g} of the whole.",
                stage=worst,
            )
        )
    return signs


def _falling(context: Context) -> list[Evidence]:
    return [
        _sign(
            f"tokens/s from {before.devices} to {after.devices} devices",
            after.tokens_per_s,
            Unit.TOKENS_PER_S,
            before.tokens_per_s,
            "More devices, less throughput.",
        )
        for before, after in pairwise(sorted_points(context))
        if after.tokens_per_s < before.tokens_per_s
    ]


def _unstable(context: Context) -> list[Evidence]:
    times = context.iterations_ns
    if len(times) < FEWEST_ITERATIONS or not median(times):
        return []
    ratio = quantile(times, 0.95) / median(times)
    if ratio < SPREAD:
        return []
    return [
        _sign(
            "95th percentile of iterations over their median",
            ratio,
            Unit.RATIO,
            SPREAD,
            "Iterations of steady work take steady time.",
        )
    ]


def _deadlock(context: Context) -> list[Evidence]:
    cycle = context.wait_cycle
    signs = []
    if cycle:
        signs.append(
            _sign("ranks that wait for each other", len(cycle), Unit.COUNT, 0, "None may.")
        )
    signs += _incomplete(context)
    versions = set(context.request.plan_versions)
    if len(versions) > 1:
        signs.append(
            _sign("versions of the plan that run", len(versions), Unit.COUNT, 1, "One for all.")
        )
    return signs


def _incomplete(context: Context) -> list[Evidence]:
    """Orders that somebody gives are checked, whether or not a symptom is named."""
    orders = context.request.orders
    fault = None if orders is None else order_fault(context, orders)
    if fault is None:
        return []
    return [_sign(fault.rstrip("."), 1, Unit.COUNT, 0, "Each operation once, after what it needs.")]


def _busy_links(context: Context) -> list[Evidence]:
    return [
        _sign(
            f"the link of stage {s} copies",
            share,
            Unit.SHARE,
            BUSY_LINK,
            f"A link is saturated above {BUSY_LINK:.0%}.",
            "AdaOffload's third phase (OptPipe).",
            stage=s,
        )
        for s, own in context.measured_stages.items()
        if (share := own.link_busy_share) is not None and share > BUSY_LINK
    ]


def _slow_solve(context: Context) -> list[Evidence]:
    solve, options = context.request.solve, context.request.options
    if solve is None or options is None or solve.spent_s is None or solve.gap is None:
        return []
    if solve.spent_s < USED_UP * options.time_limit_s or solve.gap <= options.mip_gap:
        return []
    return [
        _sign(
            "time spent with a gap left",
            solve.spent_s,
            Unit.SECONDS,
            options.time_limit_s,
            "Ended by its time limit.",
        )
    ]


def _no_plan(context: Context) -> list[Evidence]:
    if context.infeasibility is None and context.request.static_shortage is None:
        return []
    return [
        _sign(
            "schedules that fit",
            0,
            Unit.COUNT,
            1,
            "There has to be one.",
            "planner.pipeline.feasibility, exact",
        )
    ]


def _bad_throughput(context: Context) -> list[Evidence]:
    ratios = compared_stages(context)
    signs = [
        _sign(
            f"computation of stage {s} over what is usual",
            ratio,
            Unit.RATIO,
            STRAGGLER,
            STRAGGLER_RULE,
            STRAGGLER_SOURCE,
            s,
        )
        for s, ratio in sorted(ratios.items(), key=lambda item: -item[1])
        if ratio > STRAGGLER
    ]
    problem, bound = context.problem, context.bound_ns
    planned = context.planned
    if problem is not None and planned is not None and bound:
        gap = objective_ns(problem, planned.schedule) / bound - 1
        if gap > FAR:
            signs.append(
                _sign(
                    "the plan over the best proven bound, less 1",
                    gap,
                    Unit.SHARE,
                    FAR,
                    "Better plans may exist.",
                    "planner.pipeline.bounds",
                )
            )
    return signs


_LOOK: Mapping[Symptom, Callable[[Context], list[Evidence]]] = {
    Symptom.OUT_OF_MEMORY: _out_of_memory,
    Symptom.SWINGING_GPU_UTILISATION: _swinging,
    Symptom.THROUGHPUT_FALLS_WITH_DEVICES: _falling,
    Symptom.UNSTABLE_THROUGHPUT: _unstable,
    Symptom.SCHEDULE_DEADLOCK: _deadlock,
    Symptom.PCIE_BOTTLENECK: _busy_links,
    Symptom.SOLVER_TOO_SLOW: _slow_solve,
    Symptom.NO_FEASIBLE_PLAN: _no_plan,
    Symptom.PLAN_WITH_BAD_THROUGHPUT: _bad_throughput,
}
"""A loss that is not a number is in no number here: it has to be named."""
