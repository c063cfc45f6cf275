"""A plan's copies to the host and back: what they cost, and what fewer or faster ones bring."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.diagnoses import checks
from planner.diagnoses.context import Context
from planner.diagnoses.finding import (
    Advice,
    Effect,
    Evidence,
    Finding,
    iteration_effect,
    speaks,
    state_of,
)
from planner.diagnoses.names import Cause, Remedy, State, Unit
from planner.pipeline.adaoffload import AdaOffloadSettings
from planner.pipeline.objective import objective_ns
from planner.pipeline.offload_time import scaled
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule

FACTORS = (0.7, 0.8, 0.9, 1.0)
"""Offload time factors that overlapping copies reach."""
COSTS, COSTS_NOTHING = 0.05, 0.02


def too_many_offloads(context: Context) -> Finding:
    """The plan waits for copies that it could do without."""
    cause, tools = Cause.TOO_MANY_OFFLOADS, (checks.PCIE_BYTES, checks.TIMELINE)
    base, running = context.base, context.running
    if has_no_offloads(context):
        return Finding(cause, State.RULED_OUT, "The plan offloads nothing.")
    if base is None or running is None or context.request.ops is None:
        why = context.why_not() or "It takes `schedule`."
        return Finding(
            cause,
            State.POSSIBLE,
            f"What the plan offloads is not known: {why}",
            (),
            tools,
            [
                Advice(
                    Remedy.FEWER_OFFLOADS, "Plan with offload_strategy conservative.", unknown=why
                )
            ],
            needs=("problem", "schedule"),
        )
    free = context.again(_with_free_copies(base))
    if free is None:
        return Finding(cause, State.POSSIBLE, "The plan's order could not be timed.", (), tools)
    share = 1 - free.schedule.makespan_ns / max(1, running.schedule.makespan_ns)
    piece = Evidence(
        "share of the iteration that copies cost",
        share,
        Unit.SHARE,
        speaks(share, COSTS, COSTS_NOTHING),
        "The same orders with copies that take no time.",
        "planner.pipeline.timing",
        COSTS,
    )
    state = state_of([piece])
    return Finding(
        cause,
        state,
        f"{running.schedule.offloads} offloads cost {share:.1%} of the iteration.",
        [piece],
        tools,
        [] if state is State.RULED_OUT else [fewer_offloads(context)],
        max(0.0, share),
    )


def has_no_offloads(context: Context) -> bool:
    """Whether it is known that nothing is offloaded: the problem cannot, or the plan does not."""
    problem, ops = context.problem, context.request.ops
    if problem is not None and not problem.can_offload:
        return True
    return ops is not None and not any(op.op == "O" for op in ops)


def _with_free_copies(problem: PipelineProblem) -> PipelineProblem:
    times = (0,) * problem.micro_batches
    return replace(
        problem,
        stages=tuple(replace(s, offload_ns=times, reload_ns=times) for s in problem.stages),
    )


def overlapped(context: Context) -> Advice:
    """The same orders where copies take 0.7 to 1.0 of their time."""
    remedy = Remedy.OVERLAP_COPIES
    detail = (
        "Copy on streams of their own, in larger chunks, and give `solver.offload_time_factor` "
        "what is reached."
    )
    rows = list(_factor_rows(context))
    if not rows:
        why = context.why_not() or "The order could not be timed."
        return Advice(remedy, detail, unknown=why)
    first, last = rows[0]["iteration_ns"], rows[-1]["iteration_ns"]
    basis = f"the same orders with {FACTORS[0]:g} of the copies' times: the most to be expected"
    return Advice(
        remedy,
        detail,
        iteration_effect(round(last), round(first), basis),
        figures=rows,
        request_changes={"solver.offload_time_factor": FACTORS[0]},
    )


def _factor_rows(context: Context) -> Iterator[dict[str, float]]:
    base = context.base
    if base is None or context.running is None:
        return
    for factor in FACTORS:
        timed = context.again(scaled(base, factor))
        if timed is None:
            return
        yield {
            "offload_time_factor": factor,
            "iteration_ns": objective_ns(base, timed.schedule),
        }


def fewer_offloads(context: Context) -> Advice:
    """AdaOffload's conservative plan: offloads only where memory needs them."""
    remedy, detail = Remedy.FEWER_OFFLOADS, "Plan with offload_strategy conservative."
    base, running = context.base, context.running
    fewer: Schedule | None = None
    if base is not None and running is not None:
        fewer = context.heuristic(base, AdaOffloadSettings(offload_strategy="conservative"))
    if base is None or running is None or fewer is None:
        return Advice(remedy, detail, unknown=context.why_not() or "The heuristic found nothing.")
    if not running.schedule.offloads:
        return Advice(remedy, detail, unknown="Nothing is offloaded as it is.")
    return Advice(
        remedy,
        f"{detail} {fewer.offloads} offloads in place of {running.schedule.offloads}.",
        iteration_effect(
            running.schedule.makespan_ns, fewer.makespan_ns, f"{running.basis}, and AdaOffload"
        ),
        cost=Effect(
            "offloads", Unit.COUNT, running.schedule.offloads, fewer.offloads, "the same two"
        ),
        request_changes={"solver.offload_strategy": "conservative"},
    )


def at_planned_rate(context: Context) -> Advice:
    """The same orders with the copies as planned."""
    remedy, detail = Remedy.RESTORE_LINK, "Reseat or replace what narrows the link."
    base, expected, running = context.base, context.expected, context.running
    if base is None or expected is None or running is None:
        return Advice(remedy, detail, unknown=context.why_not() or "Nothing could be timed.")
    stages = tuple(
        replace(own, offload_ns=planned.offload_ns, reload_ns=planned.reload_ns)
        for own, planned in zip(base.stages, expected.stages, strict=True)
    )
    timed = context.again(replace(base, stages=stages))
    if timed is None:
        return Advice(remedy, detail, unknown="The order could not be timed.")
    return Advice(
        remedy,
        detail,
        iteration_effect(
            running.schedule.makespan_ns,
            timed.schedule.makespan_ns,
            f"{timed.basis} with copies as planned",
        ),
    )
