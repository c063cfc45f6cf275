"""Causes of a solve that takes long or ends without a plan."""

from __future__ import annotations

from planner.diagnoses import checks
from planner.diagnoses.context import Context
from planner.diagnoses.finding import Advice, Evidence, Finding, iteration_effect
from planner.diagnoses.names import Cause, Remedy, Speaks, State, Unit
from planner.pipeline.objective import objective_ns
from planner.pipeline.problem import PipelineProblem

ENGINES_OPERATIONS = 20_000
"""Compute operations beyond which the portfolio leaves exact engines out."""
WHOLE_BINARIES = 3_000
"""Order binaries up to which the MILP is solved whole, and not in windows only."""
USED_UP = 0.95
SMALL_GAP = 0.05
SOURCE = "planner.pipeline.portfolio.exact, planner.pipeline.milp.improve"


def order_binaries(problem: PipelineProblem) -> int:
    """About how many order binaries the MILP of all micro-batches has."""
    total = 0.0
    for stages in problem.stages_of_device:
        chains = sum(5 if any(problem.stages[s].offload_bytes) else 3 for s in stages)
        total += chains * (chains - 1) / 4 * problem.micro_batches**2
    return round(total)


def problem_too_large(context: Context) -> Finding:
    """Exact engines cannot finish a problem of this size."""
    cause, problem, options = Cause.PROBLEM_TOO_LARGE, context.problem, context.request.options
    if problem is None:
        advice = [
            Advice(Remedy.HEURISTIC_PLAN, "Use engine auto.", unknown="No problem was given.")
        ]
        return Finding(
            cause,
            State.POSSIBLE,
            "The problem's size is not known.",
            (),
            (checks.SOLVER_LOG,),
            advice,
            needs=("problem",),
        )
    engine = "auto" if options is None else options.engine
    operations, binaries = problem.operations, order_binaries(problem)
    is_milp = engine in ("cbc", "highs")
    pieces = [
        Evidence(
            "compute operations",
            operations,
            Unit.COUNT,
            _above(operations, ENGINES_OPERATIONS),
            "Beyond it exact engines are left out.",
            SOURCE,
            ENGINES_OPERATIONS,
        ),
    ]
    if is_milp:
        pieces.append(
            Evidence(
                "order binaries of the MILP",
                binaries,
                Unit.COUNT,
                _above(binaries, WHOLE_BINARIES),
                "Up to it the whole model is solved; beyond it windows, which prove nothing "
                "about the whole.",
                SOURCE,
                WHOLE_BINARIES,
            )
        )
    is_large = any(piece.speaks is Speaks.FOR for piece in pieces)
    left_out = [
        line
        for line in (context.request.solve.log if context.request.solve else ())
        if "too large for" in line
    ]
    if left_out:
        pieces.append(
            Evidence(
                "log",
                left_out[0][:200],
                Unit.TEXT,
                Speaks.FOR,
                "An engine was left out.",
                "The solve's log.",
            )
        )
        is_large = True
    advice = [_heuristic(context)] if is_large else []
    if is_large and is_milp:
        advice.append(
            Advice(
                Remedy.SMALLER_PROBLEM,
                "Use engine auto, or solve windows of fewer micro-batches.",
                unknown="How far an engine gets in a time cannot be computed.",
                request_changes={"solver.engine": "auto"},
            )
        )
    return Finding(
        cause,
        State.SUPPORTED if is_large else State.RULED_OUT,
        f"{operations:,} operations"
        + (f", about {binaries:,} order binaries." if is_milp else "."),
        pieces,
        (checks.SOLVER_LOG,),
        advice,
        max(0.0, 1 - min(ENGINES_OPERATIONS / operations, 1)) if is_large else None,
    )


def _above(value: int, limit: int) -> Speaks:
    return Speaks.FOR if value > limit else Speaks.AGAINST


def _heuristic(context: Context) -> Advice:
    """What is there without an engine, and how far from the bound it is at most."""
    base, remedy = context.base, Remedy.HEURISTIC_PLAN
    detail = "Take the heuristics' plan (engine auto, a short time limit)"
    schedule = None if base is None else context.heuristic(base)
    if base is None or schedule is None:
        return Advice(remedy, f"{detail}.", unknown=context.why_not() or "Nothing was found.")
    found, bound = objective_ns(base, schedule), context.bound_of(base)
    gap = "" if not bound else f": within {found / bound - 1:.1%} of the bound at once"
    return Advice(
        remedy,
        f"{detail}{gap}.",
        iteration_effect(None, found, "AdaOffload within a fraction of a second"),
    )


def time_limit_too_short(context: Context) -> Finding:
    """The solve ended with its time, not with its work."""
    cause, solve, options = (
        Cause.TIME_LIMIT_TOO_SHORT,
        context.request.solve,
        (context.request.options),
    )
    detail = "Give a longer `time_limit_s`; a solve starts from the best plan in the store."
    if solve is None or solve.spent_s is None or options is None:
        advice = [Advice(Remedy.MORE_TIME, detail, unknown="It takes `solve.spent_s`.")]
        return Finding(
            cause,
            State.POSSIBLE,
            "How long the solve took is not known.",
            (),
            (checks.SOLVER_LOG,),
            advice,
            needs=("solve.spent_s", "solver.time_limit_s"),
        )
    limit = options.time_limit_s
    is_open = solve.gap is None or solve.gap > options.mip_gap
    used_up = solve.spent_s >= USED_UP * limit and is_open
    piece = Evidence(
        "time spent",
        solve.spent_s,
        Unit.SECONDS,
        Speaks.FOR if used_up else Speaks.AGAINST,
        "A solve that ends by its limit with a gap left was cut short.",
        "`time_limit_s`",
        limit,
    )
    unknown = "What more time finds cannot be computed."
    if solve.gap is not None:
        unknown = f"At most {solve.gap / (1 + solve.gap):.1%} less: the rest is proven."
    return Finding(
        cause,
        State.SUPPORTED if used_up else State.RULED_OUT,
        f"It took {solve.spent_s:g} of {limit:g} s.",
        [piece],
        (checks.SOLVER_LOG,),
        [Advice(Remedy.MORE_TIME, detail, unknown=unknown)] if used_up else [],
        None if solve.gap is None else solve.gap / (1 + solve.gap),
    )


def gap_asked_too_small(context: Context) -> Finding:
    """The plan is as good as done; what takes long is proving it."""
    cause = Cause.GAP_ASKED_TOO_SMALL
    solve, options = context.request.solve, context.request.options
    detail = "Accept the gap that there is: the solve then ends at once."
    gap, asked = None if solve is None else solve.gap, 0.0 if options is None else options.mip_gap
    unknown = "It takes `solve.gap`."
    schedule = None
    if gap is None and context.base is not None:
        schedule, bound = context.heuristic(context.base), context.bound_of(context.base)
        if schedule is not None and bound:
            gap = objective_ns(context.base, schedule) / bound - 1
    if gap is None:
        return Finding(
            cause,
            State.POSSIBLE,
            "The gap is not known.",
            (),
            (checks.SOLVER_LOG,),
            [Advice(Remedy.ACCEPT_GAP, detail, unknown=unknown)],
            needs=("solve.gap",),
        )
    is_small = asked < gap <= SMALL_GAP
    piece = Evidence(
        "gap of AdaOffload's plan" if schedule is not None else "gap",
        gap,
        Unit.SHARE,
        Speaks.FOR if is_small else Speaks.AGAINST,
        f"The cost model itself is no closer than {SMALL_GAP:.0%}.",
        "POST /v1/step-time-estimates, how far off.",
        SMALL_GAP,
    )
    changes = {"solver.mip_gap": float(f"{gap * 1.001 + 1e-6:.6f}")}
    advice = Advice(
        Remedy.ACCEPT_GAP,
        detail,
        iteration_effect(None, objective_ns(context.base, schedule), "AdaOffload's plan")
        if schedule is not None and context.base is not None
        else None,
        f"At most {gap / (1 + gap):.1%} longer than the best plan.",
        request_changes=changes,
    )
    return Finding(
        cause,
        State.SUPPORTED if is_small else State.RULED_OUT,
        f"The gap is {gap:.2%}, and {asked:.2%} was asked for.",
        [piece],
        (checks.SOLVER_LOG,),
        [advice] if is_small else [],
    )
