"""Causes of lost time that lie in the plan itself: bubble, memory limits, a poor order."""

from __future__ import annotations

from collections.abc import Iterator

from planner.diagnoses import checks
from planner.diagnoses.classic import classic_times
from planner.diagnoses.context import LARGEST_OPERATIONS, Context, with_limits
from planner.diagnoses.finding import (
    Advice,
    Evidence,
    Finding,
    iteration_effect,
    speaks,
    state_of,
)
from planner.diagnoses.names import Cause, Remedy, State, Unit
from planner.following.batch_sizes import (
    RULE_OF_THUMB,
    by_rule_of_thumb,
    in_micro_batches,
    typical_micro_batch,
)
from planner.pipeline.objective import objective_ns
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule

LARGE_BUBBLE, SMALL_BUBBLE = 0.15, 0.05
COSTS, COSTS_NOTHING = 0.05, 0.02
FAR, NEAR = 0.10, 0.02
NEEDS_PLAN = ("problem", "schedule")


def bubble_share(problem: PipelineProblem, schedule: Schedule) -> float:
    """Idle time of all devices that have stages, as a share of theirs."""
    devices = sum(1 for stages in problem.stages_of_device if stages)
    busy = sum(op.end_ns - op.start_ns for op in schedule.ops if op.op in "FBW")
    busy += sum(
        d.epilogue_ns
        for d, own in zip(problem.devices, problem.stages_of_device, strict=True)
        if own
    )
    whole = devices * schedule.makespan_ns
    return 1 - busy / whole if whole else 0.0


def pipeline_bubble(context: Context) -> Finding:
    """Devices wait for each other while the pipeline fills, drains, or in between."""
    cause, base, running = Cause.PIPELINE_BUBBLE, context.base, context.running
    tools = (checks.UTILISATION, checks.TIMELINE)
    detail = "More micro-batches, or a schedule with less idle time."
    if base is None or running is None:
        why = context.why_not() or "The plan's order could not be timed."
        advice = [Advice(Remedy.MORE_MICRO_BATCHES, detail, unknown=why)]
        return Finding(
            cause,
            State.POSSIBLE,
            f"The bubble is not known: {why}",
            (),
            tools,
            advice,
            needs=NEEDS_PLAN,
        )
    share = bubble_share(base, running.schedule)
    devices = sum(1 for stages in base.stages_of_device if stages)
    classic = (devices - 1) / (base.micro_batches + devices - 1)
    piece = Evidence(
        "share of the iteration in which devices stand idle",
        share,
        Unit.SHARE,
        speaks(share, LARGE_BUBBLE, SMALL_BUBBLE),
        f"{LARGE_BUBBLE:.0%} or more is much; 1F1B of even stages has (p - 1) / (m + p - 1) = "
        f"{classic:.1%} here.",
        "GPipe (arXiv 1811.06965); Narayanan et al. 2021, section 2.2.",
        LARGE_BUBBLE,
    )
    state = state_of([piece])
    advice = (
        []
        if state is State.RULED_OUT
        else [_another_schedule(context, base), _more_micro_batches(context, base)]
    )
    return Finding(
        cause,
        state,
        f"Devices are idle for {share:.1%} of the iteration ({running.basis}).",
        [piece],
        tools,
        advice,
        max(0.0, share),
    )


def _another_schedule(context: Context, base: PipelineProblem) -> Advice:
    """The best of the classic schedules and the heuristic's."""
    remedy = Remedy.ANOTHER_SCHEDULE
    detail = "Another order of the same operations"
    running, heuristic = context.running, context.heuristic(base)
    times = classic_times(base)
    if heuristic is not None:
        times["AdaOffload"] = objective_ns(base, heuristic)
    if running is None or not times:
        why = context.why_not() or "No other schedule fits."
        return Advice(remedy, f"{detail}.", unknown=why)
    before = objective_ns(base, running.schedule)
    best = min(times, key=lambda name: times[name])
    figures = [
        {"schedule": name, "iteration_ns": value}
        for name, value in sorted(times.items(), key=lambda item: item[1])
    ]
    if times[best] >= before:
        return Advice(
            remedy,
            "None of the classic schedules that fit is better, nor the heuristic's.",
            iteration_effect(before, before, f"{running.basis}; the others timed likewise"),
            figures=figures,
        )
    basis = f"{running.basis}, and {best} on the same times and limits; a solve may find more"
    return Advice(
        remedy, f"{detail}: {best}.", iteration_effect(before, times[best], basis), figures=figures
    )


def _more_micro_batches(context: Context, base: PipelineProblem) -> Advice:
    """Twice as many micro-batches of half the size, beside the rule of thumb. Times follow the
    sizes, and what counts is what beats another order of as many micro-batches as now, as where
    other shapes are proposed for a run."""
    remedy, detail = Remedy.MORE_MICRO_BATCHES, "Twice as many micro-batches of half the size."
    now, running, size = base.micro_batches, context.running, context.request.micro_batch_size
    if size is not None and size % 2:
        return Advice(remedy, detail, unknown=f"The {size} samples of one cannot be halved.")
    if not base.alike:
        return Advice(remedy, detail, unknown="Micro-batches differ; which to halve is not known.")
    if 2 * base.operations > LARGEST_OPERATIONS:
        return Advice(remedy, detail, unknown="Twice the operations are too many to time here.")
    one = typical_micro_batch(base)
    twice_ns = _at_once_ns(context, in_micro_batches(one, now, 2 * now, 0.0))
    if twice_ns is None or running is None:
        return Advice(remedy, detail, unknown=context.why_not() or "The heuristic found nothing.")
    before_ns = objective_ns(base, running.schedule)
    best_now_ns = min(before_ns, _at_once_ns(context, base) or before_ns)
    thumb = by_rule_of_thumb(now, [stage.compute_ns(0) for stage in one.stages])
    thumb_ns: int | None = twice_ns
    if thumb != 2 * now:
        divides = size is None or now * size % thumb == 0
        whole = in_micro_batches(one, now, thumb, 0.0)
        thumb_ns = _at_once_ns(context, whole) if divides else None
    figures = [
        {"micro_batches": now, "what": "another order alone", "iteration_ns": best_now_ns},
        {"micro_batches": 2 * now, "what": "twice as many", "iteration_ns": twice_ns},
        {"micro_batches": thumb, "what": RULE_OF_THUMB, "iteration_ns": thumb_ns},
    ]
    basis = (
        f"{running.basis}, and the best of AdaOffload and the classic schedules with twice as "
        "many; times and sizes of an operation halve, transfers too. Smaller matrix products are "
        "less efficient: this is the most that it can bring."
    )
    if twice_ns >= best_now_ns:
        detail, twice_ns = "More micro-batches bring no more than another order.", before_ns
    elif size is None:
        detail += " Whether one can be halved is not known of a posted problem."
    timed = "not timed" if thumb_ns is None else f"{thumb_ns / 1e6:.3f} ms"
    detail += f" Rule of thumb, {RULE_OF_THUMB}: {thumb}, {timed}."
    effect = iteration_effect(before_ns, twice_ns, basis)
    return Advice(remedy, detail, effect, figures=figures)


def _at_once_ns(context: Context, problem: PipelineProblem) -> int | None:
    """The objective of the best of the heuristic's plan and the classic schedules."""
    if problem.operations > LARGEST_OPERATIONS:
        return None
    times = list(classic_times(problem).values())
    heuristic = context.heuristic(problem)
    if heuristic is not None:
        times.append(objective_ns(problem, heuristic))
    return min(times, default=None)


def memory_limits_overlap(context: Context) -> Finding:
    """Fewer micro-batches are held at a time than it takes to keep devices busy."""
    cause, base = Cause.MEMORY_LIMITS_OVERLAP, context.base
    why = context.why_not()
    detail = "More `activation_memory_bytes`: recomputation, ZeRO, larger devices."
    if base is not None and all(d.activation_memory_bytes is None for d in base.devices):
        return Finding(cause, State.RULED_OUT, "No device has a limit for activations.")
    if base is None or why is not None:
        advice = [Advice(Remedy.RAISE_MEMORY_LIMIT, detail, unknown=why)]
        return Finding(
            cause, State.POSSIBLE, str(why), (), (checks.MEMORY_STATS,), advice, needs=("problem",)
        )
    unlimited = with_limits(base, dict.fromkeys(range(len(base.devices))))
    limited, free = context.heuristic(base), context.heuristic(unlimited)
    if limited is None or free is None:
        why = context.why_not() or "The heuristic found nothing."
        advice = [Advice(Remedy.RAISE_MEMORY_LIMIT, detail, unknown=why)]
        return Finding(cause, State.POSSIBLE, why, (), (checks.MEMORY_STATS,), advice)
    before, after = objective_ns(base, limited), objective_ns(unlimited, free)
    share = 1 - after / before if before else 0.0
    piece = Evidence(
        "share of the iteration that goes without memory limits",
        share,
        Unit.SHARE,
        speaks(share, COSTS, COSTS_NOTHING),
        "The same heuristic with and without limits.",
        "AdaOffload (OptPipe), planner.pipeline.adaoffload.",
        COSTS,
    )
    state = state_of([piece])
    effect = iteration_effect(before, after, "AdaOffload with the limits and without any")
    advice = [] if state is State.RULED_OUT else [Advice(Remedy.RAISE_MEMORY_LIMIT, detail, effect)]
    return Finding(
        cause,
        state,
        f"Without limits the iteration takes {share:.1%} less.",
        [piece],
        (checks.MEMORY_STATS,),
        advice,
        max(0.0, share),
    )


def plan_far_from_bound(context: Context) -> Finding:
    """The plan is far from what no plan can beat: it was not solved to the end."""
    cause, problem, bound = Cause.PLAN_FAR_FROM_BOUND, context.problem, context.bound_ns
    detail = "Solve longer, with engine auto."
    planned = context.planned
    solve = context.request.solve
    gap = None if solve is None else solve.gap
    if problem is not None and planned is not None and bound:
        gap = objective_ns(problem, planned.schedule) / bound - 1
    if gap is None:
        why = context.why_not() or "It takes `schedule`, or `solve.gap`."
        return Finding(
            cause,
            State.POSSIBLE,
            f"The plan's gap is not known: {why}",
            (),
            (checks.SOLVER_LOG,),
            [Advice(Remedy.MORE_TIME, detail, unknown=why)],
            needs=("schedule", "solve.gap"),
        )
    piece = Evidence(
        "the plan's objective over the best proven bound, less 1",
        gap,
        Unit.SHARE,
        speaks(gap, FAR, NEAR),
        "No plan is better than the bound by more than this.",
        "planner.pipeline.bounds",
        FAR,
    )
    state = state_of([piece])
    advice = [] if state is State.RULED_OUT else list(_better(context, detail))
    return Finding(
        cause,
        state,
        f"The plan is {gap:.1%} above the bound.",
        [piece],
        (checks.SOLVER_LOG,),
        advice,
        gap / (1 + gap),
    )


def _better(context: Context, detail: str) -> Iterator[Advice]:
    """What the heuristic finds at once; what is left to the bound is the most there can be."""
    base, running = context.base, context.running
    schedule = None if base is None else context.heuristic(base)
    if base is None or running is None or schedule is None:
        yield Advice(Remedy.MORE_TIME, detail, unknown=context.why_not() or "Nothing to compare.")
        return
    before, found = objective_ns(base, running.schedule), objective_ns(base, schedule)
    bound = context.bound_of(base)
    if found < before:
        basis = f"{running.basis}, and AdaOffload within a fraction of a second"
        yield Advice(
            Remedy.HEURISTIC_PLAN,
            "Post the problem again: more is found at once.",
            iteration_effect(before, found, basis),
        )
    if bound is not None:
        basis = f"{running.basis}, and the bound: no solve reaches less"
        yield Advice(Remedy.MORE_TIME, detail, iteration_effect(before, bound, basis))
