"""Causes of iterations that take longer than they should, or differently long."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean, median

from planner.diagnoses import checks
from planner.diagnoses.causes.stages import STAGE_FIELDS, faster
from planner.diagnoses.context import Context
from planner.diagnoses.finding import (
    Advice,
    Evidence,
    Finding,
    iteration_effect,
    speaks,
    state_of,
)
from planner.diagnoses.names import Cause, Remedy, State, Unit
from planner.diagnoses.telemetry import quantile

HEAT_UP = 0.05
SPREAD, STEADY = 1.10, 1.05
FEWEST_ITERATIONS = 8
OUTSIDE, NEARLY_NOTHING = 0.10, 0.05


def clock_throttling(context: Context) -> Finding:
    """Times grow in the course of the run, as clocks come down with heat or power."""
    cause = Cause.CLOCK_THROTTLING
    tools = (checks.CLOCKS, checks.LOCK_CLOCKS)
    grown = {s: own.heat_up for s, own in context.measured_stages.items()}
    known = {s: value for s, value in grown.items() if value is not None}
    lock = Advice(
        Remedy.LOCK_CLOCKS,
        "Lock all GPUs at a clock that they keep; see to cooling and power.",
        unknown="Telemetry of too few iterations.",
    )
    if not known:
        return Finding(
            cause,
            State.POSSIBLE,
            "How times change over the iterations is not known.",
            (),
            tools,
            [lock],
            needs=STAGE_FIELDS,
        )
    worst = max(known, key=lambda s: known[s])
    piece = Evidence(
        f"computation of stage {worst} in the last third of the iterations over the first, less 1",
        known[worst],
        Unit.SHARE,
        speaks(known[worst], HEAT_UP),
        f"Growth by {HEAT_UP:.0%} or more; steady work takes steady time.",
        "Rule of this service.",
        HEAT_UP,
        stage=worst,
    )
    state = state_of([piece])
    heated = {s: 1 + value for s, value in known.items() if value >= HEAT_UP}
    advice = [replace(faster(context, heated, Remedy.LOCK_CLOCKS), detail=lock.detail)]
    return Finding(
        cause,
        state,
        f"Stage {worst} got slower by {known[worst]:.1%} in the course of the run.",
        [piece],
        tools,
        [] if state is State.RULED_OUT else advice,
        max(0.0, known[worst]),
    )


def jitter(context: Context) -> Finding:
    """Iterations take differently long without a trend."""
    cause, times = Cause.JITTER, context.iterations_ns
    detail = "Keep other processes off the nodes, pin processes to cores, lock clocks."
    if len(times) < FEWEST_ITERATIONS:
        unknown = f"It takes iteration_ns of {FEWEST_ITERATIONS} iterations."
        advice = [Advice(Remedy.STEADY_ITERATIONS, detail, unknown=unknown)]
        return Finding(
            cause,
            State.POSSIBLE,
            unknown,
            (),
            (checks.NOISE,),
            advice,
            needs=("telemetry[].iteration_ns",),
        )
    middle, high = median(times), quantile(times, 0.95)
    ratio = high / middle if middle else 1.0
    piece = Evidence(
        "95th percentile of iterations over their median",
        ratio,
        Unit.RATIO,
        speaks(ratio, SPREAD, STEADY),
        f"Schedules are judged under 10 % of jitter; {SPREAD} and more is beyond it.",
        "planner.pipeline.robust.jitter",
        SPREAD,
    )
    state = state_of([piece])
    effect = iteration_effect(
        round(fmean(times)), round(middle), "mean of the iterations, and their median"
    )
    advice = [] if state is State.RULED_OUT else [Advice(Remedy.STEADY_ITERATIONS, detail, effect)]
    return Finding(
        cause,
        state,
        f"One iteration in twenty takes {ratio:.2f} x the median or more.",
        [piece],
        (checks.NOISE,),
        advice,
        max(0.0, 1 - middle / fmean(times)) if middle else None,
    )


def time_outside_the_pipeline(context: Context) -> Finding:
    """The iteration takes longer than its operations: data, optimizer, logging, checkpoints."""
    cause, times = Cause.TIME_OUTSIDE_THE_PIPELINE, context.iterations_ns
    detail = "Load data ahead in other processes, checkpoint asynchronously, log less."
    running = context.running if times and context.request.ops else None
    if running is None:
        why = context.why_not(needs_fit=False) or "It takes `schedule` and iteration_ns."
        advice = [Advice(Remedy.OVERLAP_OTHER_WORK, detail, unknown=why)]
        return Finding(
            cause,
            State.POSSIBLE,
            "What the operations come to is not known.",
            (),
            (checks.OUTSIDE_TIMELINE,),
            advice,
            needs=("problem", "schedule", "telemetry[].iteration_ns"),
        )
    measured, timed = round(median(times)), running.schedule.makespan_ns
    share = 1 - timed / measured if measured else 0.0
    piece = Evidence(
        "share of the iteration that the plan's operations do not explain",
        share,
        Unit.SHARE,
        speaks(share, OUTSIDE, NEARLY_NOTHING),
        "The plan's orders with the measured times of stages are the iteration but for what is "
        "not in them.",
        "planner.pipeline.timing",
        OUTSIDE,
    )
    state = state_of([piece])
    effect = iteration_effect(measured, timed, "measured, and " + running.basis)
    advice = [] if state is State.RULED_OUT else [Advice(Remedy.OVERLAP_OTHER_WORK, detail, effect)]
    return Finding(
        cause,
        state,
        f"{share:.1%} of the iteration is outside of the plan's operations.",
        [piece],
        (checks.OUTSIDE_TIMELINE,),
        advice,
        max(0.0, share),
    )
