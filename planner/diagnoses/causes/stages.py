"""Causes of lost time that lie in stages: uneven layers, slow GPUs, times other than planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean, median

from planner.diagnoses import checks
from planner.diagnoses.context import Context
from planner.diagnoses.finding import (
    Advice,
    Evidence,
    Finding,
    iteration_effect,
    saving,
    speaks,
    state_of,
)
from planner.diagnoses.measured import planned_compute_ns, slowdown
from planner.diagnoses.names import Cause, Remedy, Speaks, State, Unit
from planner.pipeline.problem import PipelineProblem, Stage

STRAGGLER = 1.15
STRAGGLER_RULE = f"A stage above {STRAGGLER} x the median of the stages holds all of them up."
STRAGGLER_SOURCE = "Rule of this service, as for elastic micro-batches."
UNEVEN = 1.10
DIFFERS, AGREES = 0.10, 0.05
STAGE_FIELDS = ("telemetry[].stages[]",)
MOST_SHOWN = 8


def stage_imbalance(context: Context) -> Finding:
    """Layers are divided unevenly: by the plan itself one device computes longer."""
    cause, problem = Cause.STAGE_IMBALANCE, context.expected
    if problem is None:
        ratios = _ratios_to_median(_compute_by_stage(context))
        evidence = [
            _ratio_evidence(f"computation of stage {s} over the median", ratio, s, Speaks.NEITHER)
            for s, ratio in ratios.items()
            if ratio >= STRAGGLER
        ]
        if len(ratios) > 1 and not evidence:
            worst = max(ratios, key=lambda s: ratios[s])
            what = f"computation of stage {worst} over the median"
            evidence = [_ratio_evidence(what, ratios[worst], worst, Speaks.AGAINST)]
        summary = "Without the plan's times layers and GPUs cannot be told apart."
        unknown = "Without a problem the iteration cannot be timed."
        advice = [Advice(Remedy.BALANCE_STAGES, "Move layers off that stage.", unknown=unknown)]
        state = state_of(evidence)
        return Finding(
            cause,
            state,
            summary,
            evidence,
            (checks.TIMELINE,),
            [] if state is State.RULED_OUT else advice,
            max((1 - 1 / ratio for ratio in ratios.values() if ratio), default=None),
            ("problem",),
        )
    ratios = _ratios_to_median(planned_work(problem))
    if len(ratios) < 2:
        return Finding(cause, State.RULED_OUT, "There is one device only.")
    worst = max(ratios, key=lambda d: ratios[d])
    piece = Evidence(
        f"planned computation of device {worst} over the median of devices",
        ratios[worst],
        Unit.RATIO,
        speaks(ratios[worst], STRAGGLER, UNEVEN),
        STRAGGLER_RULE,
        STRAGGLER_SOURCE,
        STRAGGLER,
        device=worst,
    )
    state = state_of([piece])
    advice = [] if state is State.RULED_OUT else [_balance(context)]
    return Finding(
        cause,
        state,
        f"By the plan device {worst} computes {ratios[worst]:.2f} x the median.",
        [piece],
        (checks.TIMELINE,),
        advice,
        saving(advice, 1 - 1 / ratios[worst]),
    )


def straggler_gpu(context: Context) -> Finding:
    """A GPU is slower than the others with the same work."""
    cause = Cause.STRAGGLER_GPU
    tools = (checks.CLOCKS, checks.LOCK_CLOCKS)
    times = _slowdowns(context, context.expected)
    what = "measured over planned computation of stage {}, over the median of stages"
    if not times:
        times, what = _compute_by_stage(context), "computation of stage {} over the median"
    ratios = _ratios_to_median(times)
    if len(ratios) < 2:
        compared = Advice(
            Remedy.RESTORE_GPU,
            "Lock clocks, cool or replace the GPU.",
            unknown="No times of two or more stages were given.",
        )
        return Finding(
            cause,
            State.POSSIBLE,
            "No stage can be compared with another.",
            (),
            tools,
            [compared],
            needs=STAGE_FIELDS,
        )
    slow = {s: ratio for s, ratio in ratios.items() if ratio > STRAGGLER}
    worst = max(ratios, key=lambda s: ratios[s])
    evidence = [
        _ratio_evidence(what.format(s), ratio, s, Speaks.FOR)
        for s, ratio in sorted(slow.items(), key=lambda item: -item[1])[:MOST_SHOWN]
    ] or [_ratio_evidence(what.format(worst), ratios[worst], worst, Speaks.AGAINST)]
    state = state_of(evidence)
    advice = _restore(context, slow) if slow else []
    return Finding(
        cause,
        state,
        f"Stage {worst} takes {ratios[worst]:.2f} x what is usual here.",
        evidence,
        tools,
        advice,
        saving(advice[:1], 1 - 1 / ratios[worst]),
    )


def profile_differs_from_plan(context: Context) -> Finding:
    """The plan was made from times that the run does not have."""
    cause = Cause.PROFILE_DIFFERS_FROM_PLAN
    ratios = _slowdowns(context, context.problem)
    detail = "Post the measured problem: `loadmaster profile`, or the run's telemetry."
    if not ratios:
        advice = [Advice(Remedy.PLAN_WITH_PROFILE, detail, unknown="No stage was measured.")]
        return Finding(
            cause,
            State.POSSIBLE,
            "Measured and planned times cannot be compared.",
            (),
            (checks.TIMELINE,),
            advice,
            needs=("problem", *STAGE_FIELDS),
        )
    worst = max(ratios, key=lambda s: abs(ratios[s] - 1))
    off = abs(ratios[worst] - 1)
    piece = Evidence(
        f"measured computation of stage {worst} off the planned one",
        off,
        Unit.SHARE,
        speaks(off, DIFFERS, AGREES),
        f"The cost model is within {DIFFERS:.0%} of what it was fitted to.",
        "POST /v1/step-time-estimates, how far off.",
        DIFFERS,
        stage=worst,
    )
    state = state_of([piece])
    advice = [] if state is State.RULED_OUT else [_planned_anew(context, detail)]
    return Finding(
        cause,
        state,
        f"Stage {worst} takes {ratios[worst]:.2f} x what was planned.",
        [piece],
        (checks.TIMELINE,),
        advice,
        saving(advice),
    )


def planned_work(problem: PipelineProblem) -> dict[int, float]:
    """Planned computation of a micro-batch by device."""
    return {
        d: sum(planned_compute_ns(problem.stages[s]) for s in stages)
        for d, stages in enumerate(problem.stages_of_device)
        if stages
    }


def _compute_by_stage(context: Context) -> dict[int, float]:
    return {
        s: time_ns
        for s, own in context.measured_stages.items()
        if (time_ns := own.compute_ns) is not None
    }


def compared_stages(context: Context) -> dict[int, float]:
    """By stage how much slower it is than is usual among them: by what was planned for each, or,
    where nothing was, by their times."""
    return _ratios_to_median(_slowdowns(context, context.expected) or _compute_by_stage(context))


def _slowdowns(context: Context, planned: PipelineProblem | None) -> dict[int, float]:
    """Measured over planned computation by stage."""
    if planned is None or context.profile is None:
        return {}
    found = {s: slowdown(planned.stages[s], own) for s, own in context.profile.stages.items()}
    return {s: ratio for s, ratio in found.items() if ratio is not None}


def _ratios_to_median(values: Mapping[int, float]) -> dict[int, float]:
    middle = median(values.values()) if values else 0
    return {key: value / middle for key, value in values.items()} if middle else {}


def _ratio_evidence(what: str, ratio: float, stage: int, voice: Speaks) -> Evidence:
    return Evidence(
        what, ratio, Unit.RATIO, voice, STRAGGLER_RULE, STRAGGLER_SOURCE, STRAGGLER, stage=stage
    )


def _restore(context: Context, slow: Mapping[int, float]) -> list[Advice]:
    """The straggler as fast as the median, or a plan around it."""
    restored = replace(
        faster(context, slow, Remedy.RESTORE_GPU),
        detail="Lock clocks, cool or replace the GPU, so that the stage runs at the median.",
    )
    return [restored, _planned_anew(context, "Plan with the slow stage as it is.")]


def faster(context: Context, slow: Mapping[int, float], remedy: Remedy) -> Advice:
    """The iteration with stages whose times come down by these factors."""
    base = context.base
    if base is None or context.running is None:
        why = context.why_not() or "The plan's order could not be timed."
        return Advice(remedy, "", unknown=why)
    stages = tuple(
        _divided(stage, slow[s]) if s in slow else stage for s, stage in enumerate(base.stages)
    )
    return _with_stages(context, base, stages, Advice(remedy, ""), "those times brought down")


def _with_stages(
    context: Context, base: PipelineProblem, stages: tuple[Stage, ...], advice: Advice, what: str
) -> Advice:
    """The advice with the iteration that other stages give: by the orders that run, or, where these
    suit them badly, by the heuristic's."""
    changed = replace(base, stages=stages)
    again, running = context.again(changed), context.running
    if again is None or running is None:
        return replace(advice, unknown=context.why_not() or "The order could not be timed.")
    before, after, basis = running.schedule.makespan_ns, again.schedule.makespan_ns, again.basis
    if after >= before:
        other = context.heuristic(changed)
        if other is not None and other.makespan_ns < after:
            after, basis = other.makespan_ns, "AdaOffload"
    return replace(advice, effect=iteration_effect(before, after, f"{basis}, {what}"))


def _divided(stage: Stage, factor: float) -> Stage:
    def less(times: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(max(min(1, time), round(time / factor)) for time in times)

    return replace(
        stage,
        forward_ns=less(stage.forward_ns),
        backward_input_ns=less(stage.backward_input_ns),
        backward_weight_ns=less(stage.backward_weight_ns),
    )


def _balance(context: Context) -> Advice:
    """All devices with the mean of their work: as if layers could be divided at will."""
    remedy, detail = Remedy.BALANCE_STAGES, "Give `layers_per_stage` that even out computation"
    base = context.base
    # Which layers could move nobody knows who has the times of stages alone.
    detail += "; a run's proposals say which layers, where the run was posted as a `model`."
    if base is None or context.running is None:
        return Advice(remedy, detail, unknown=context.why_not() or "Nothing could be timed.")
    work = planned_work(base)
    level = fmean(work.values())
    stages = tuple(
        _divided(stage, work[stage.device] / level) if work[stage.device] else stage
        for stage in base.stages
    )
    what = "each device with the mean of their work: the most that it can bring"
    return _with_stages(context, base, stages, Advice(remedy, detail), what)


def _planned_anew(context: Context, detail: str) -> Advice:
    """What the heuristic makes of the measured times; never worse than what runs."""
    base, running = context.base, context.running
    schedule = None if base is None else context.heuristic(base)
    if running is None or schedule is None:
        return Advice(
            Remedy.PLAN_WITH_PROFILE, detail, unknown=context.why_not() or "Nothing was found."
        )
    before = running.schedule.makespan_ns
    basis = f"{running.basis}, and the better of it and AdaOffload; a solve may find more"
    effect = iteration_effect(before, min(before, schedule.makespan_ns), basis)
    return Advice(Remedy.PLAN_WITH_PROFILE, detail, effect)
