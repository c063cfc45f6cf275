"""Causes of hanging: orders in which ranks wait for each other, and ranks that are gone."""

from __future__ import annotations

from functools import partial

from planner.diagnoses import checks
from planner.diagnoses.context import Context
from planner.diagnoses.finding import Advice, Evidence, Finding, iteration_effect
from planner.diagnoses.names import Cause, Remedy, Speaks, State, Unit
from planner.diagnoses.waiting import RankOrders, first_mismatch
from planner.errors import OrderError, WrongSchedule
from planner.export.torch_csv.cells import Cell
from planner.export.torch_csv.check import check_orders
from planner.pipeline.timing import time_orders
from planner.pipeline.verify import operation_violations

ORDER_FIELDS = ("orders", "problem", "schedule")
COMPUTE_KINDS = frozenset("FBIW")
LOST_AFTER = 2
NO_DURATION = "A hang has no duration to predict."
HANGS = (checks.STACKS, checks.FLIGHT_RECORDER)
TORCH_SOURCE = "PyTorch's pipeline runtime, 2.12 to 2.14; planner.export.torch_csv.check."


def order_cycle(context: Context) -> Finding:
    """Each of some ranks waits for the next."""
    cause, orders = Cause.ORDER_CYCLE, context.rank_orders
    rule = "Ranks that run their orders without a clock all get to the end."
    source = "Rules 2 and 3 of schedules."
    if orders is None:
        return Finding(
            cause,
            State.POSSIBLE,
            "The ranks' orders are not known.",
            (),
            HANGS,
            [_another_order(context)],
            needs=ORDER_FIELDS,
        )
    cycle = context.wait_cycle
    if not cycle:
        piece = Evidence("ranks in a cycle", 0, Unit.COUNT, Speaks.AGAINST, rule, source)
        return Finding(cause, State.RULED_OUT, "No ranks wait for each other in a cycle.", [piece])
    words = "; ".join(f"rank {rank} waits at {cell}" for rank, cell in cycle)
    piece = Evidence(f"{words}; and so on", len(cycle), Unit.COUNT, Speaks.FOR, rule, source)
    return Finding(
        cause,
        State.SUPPORTED,
        f"Ranks wait for each other: {words}.",
        [piece],
        HANGS,
        [_another_order(context)],
        1.0,
    )


def memory_deadlock(context: Context) -> Finding:
    """An operation waits for memory that is only freed after it."""
    cause, problem, orders = Cause.MEMORY_DEADLOCK, context.problem, context.orders
    rule, source = "An allocation waits until it fits.", "planner.pipeline.timing"
    if problem is not None and all(
        limit is None
        for limit in (
            *(device.activation_memory_bytes for device in problem.devices),
            *(host.memory_bytes for host in problem.hosts),
        )
    ):
        return Finding(cause, State.RULED_OUT, "No memory has a limit.")
    if problem is None or orders is None or not context.is_small:
        why = context.why_not() or "It takes a `schedule` with every operation once."
        return Finding(
            cause, State.POSSIBLE, why, (), HANGS, [_another_order(context)], needs=ORDER_FIELDS
        )
    piece = partial(Evidence, unit=Unit.TEXT, rule=rule, source=source)
    try:
        time_orders(problem, orders)
    except OrderError as error:
        try:
            time_orders(problem, orders, enforce_memory=False)
        except OrderError:
            summary = "The orders deadlock whatever memory there is."
            return Finding(cause, State.RULED_OUT, summary)
        stuck = piece("with limits", str(error), speaks=Speaks.FOR)
        return Finding(
            cause,
            State.SUPPORTED,
            f"With the limits {error}; without them all gets done.",
            [stuck],
            HANGS,
            [_another_order(context)],
            1.0,
        )
    through = piece("with limits", "every operation gets to run", speaks=Speaks.AGAINST)
    return Finding(cause, State.RULED_OUT, "Memory lets every operation run.", [through])


def receive_order_mismatch(context: Context) -> Finding:
    """A rank receives in another order than its neighbour sends."""
    cause, orders = Cause.RECEIVE_ORDER_MISMATCH, context.rank_orders
    rule = "NCCL matches sends and receives of a pair of ranks in order."
    source = "NCCL's manual on point-to-point communication; PyTorch issue 172668."
    detail = "Post receives in the order of the sends, or each pair of stages on a communicator."
    advice = [Advice(Remedy.CHANGE_ORDER, detail, unknown=NO_DURATION)]
    if orders is None:
        return Finding(
            cause,
            State.POSSIBLE,
            "The ranks' orders are not known.",
            (),
            (checks.FLIGHT_RECORDER,),
            advice,
            needs=ORDER_FIELDS,
        )
    found = first_mismatch(orders)
    if found is None:
        piece = Evidence("pairs that differ", 0, Unit.COUNT, Speaks.AGAINST, rule, source)
        return Finding(cause, State.RULED_OUT, "All pairs of ranks agree on the order.", [piece])
    sender, receiver, sent, received = found
    words = (
        f"rank {sender} sends {_named(sent)} where rank {receiver} needs {_named(received)} next"
    )
    # A runtime that posts receives in the order of the sends gets through all the same.
    piece = Evidence(words, f"{sender} to {receiver}", Unit.TEXT, Speaks.NEITHER, rule, source)
    return Finding(
        cause,
        State.POSSIBLE,
        f"{words[0].upper()}{words[1:]}: receives posted as they are needed would hang.",
        [piece],
        (checks.FLIGHT_RECORDER,),
        advice,
    )


def _named(cell: Cell | None) -> str:
    return "nothing more" if cell is None else f"the result of {cell}"


def incomplete_order(context: Context) -> Finding:
    """Operations are missing, there twice, or before what they need."""
    cause, orders = Cause.INCOMPLETE_ORDER, context.rank_orders
    rule = "Each stage runs each operation of each micro-batch once, after what it needs."
    detail = "Write the order from a plan of this service: `loadmaster export --to torch-csv`."
    advice = [_another_order(context, detail)]
    tools = (checks.ORDER_TEST, checks.STACKS)
    if orders is None:
        return Finding(
            cause,
            State.POSSIBLE,
            "The ranks' orders are not known.",
            (),
            tools,
            advice,
            needs=ORDER_FIELDS,
        )
    fault = order_fault(context, orders)
    if fault is None:
        piece = Evidence("faults", 0, Unit.COUNT, Speaks.AGAINST, rule, TORCH_SOURCE)
        return Finding(cause, State.RULED_OUT, "The orders are complete.", [piece])
    piece = Evidence(fault, 1, Unit.COUNT, Speaks.FOR, rule, TORCH_SOURCE)
    return Finding(
        cause, State.SUPPORTED, f"{fault[0].upper()}{fault[1:]}", [piece], tools, advice, 1.0
    )


def order_fault(context: Context, orders: RankOrders) -> str | None:
    """The first fault but one of those that are causes of their own."""
    request = context.request
    if request.orders is None and request.problem is not None and request.ops is not None:
        violation = next(operation_violations(request.problem, request.ops), None)
        return None if violation is None else f"{violation}."
    cells = [cell for order in orders for cell in order]
    stages = 1 + max((cell.stage for cell in cells), default=-1)
    micro_batches = 1 + max((cell.micro_batch for cell in cells), default=-1)
    if request.problem is not None:
        stages, micro_batches = len(request.problem.stages), request.problem.micro_batches
    if not cells:
        return "no rank runs anything."
    computed = [[cell for cell in order if cell.kind in COMPUTE_KINDS] for order in orders]
    try:
        check_orders(computed, stages, micro_batches)
    except WrongSchedule as error:
        is_other = "deadlock" in error.message or "out of order" in error.message
        return None if is_other else str(error)
    return None


def ranks_on_different_versions(context: Context) -> Finding:
    """Some ranks run another version of the plan."""
    cause, versions = Cause.RANKS_ON_DIFFERENT_VERSIONS, context.request.plan_versions
    rule = "A version applies only once every rank has acknowledged it."
    detail = "Restart the step with one version on all ranks."
    advice = [Advice(Remedy.ALIGN_VERSIONS, detail, unknown=NO_DURATION)]
    if not versions:
        return Finding(
            cause,
            State.POSSIBLE,
            "The versions that ranks run are not known.",
            (),
            (checks.VERSIONS,),
            advice,
            needs=("plan_versions",),
        )
    found = sorted(set(versions))
    words = ", ".join(f"{versions.count(version)} ranks on {version}" for version in found[:8])
    differ = len(found) > 1
    piece = Evidence(
        "versions that run",
        len(found),
        Unit.COUNT,
        Speaks.FOR if differ else Speaks.AGAINST,
        rule,
        "Rule of runs.",
        1,
    )
    return Finding(
        cause,
        State.SUPPORTED if differ else State.RULED_OUT,
        f"There are {words}.",
        [piece],
        (checks.VERSIONS,),
        advice if differ else [],
        1.0 if differ else None,
    )


def rank_lost(context: Context) -> Finding:
    """A rank has died, and the others wait for it."""
    cause, profile = Cause.RANK_LOST, context.profile
    tools = (checks.STACKS, checks.RANK_LOG)
    detail = "Restart it from the last checkpoint; without the node, plan for fewer devices."
    advice = [Advice(Remedy.RESTART_RANK, detail, unknown=NO_DURATION)]
    rule, source = "A stage that is alive reports every iteration.", "Rule of this service."
    if profile is None or profile.iterations < LOST_AFTER:
        return Finding(
            cause,
            State.POSSIBLE,
            "Whether all ranks are alive is not known.",
            (),
            tools,
            advice,
            needs=("telemetry[].stages[]",),
        )
    behind = {s: late for s, late in profile.lost.items() if late >= LOST_AFTER}
    if not behind:
        piece = Evidence(
            "stages that stopped reporting", 0, Unit.COUNT, Speaks.AGAINST, rule, source
        )
        # All may have stopped at once: the numbers end before the run hangs.
        return Finding(
            cause,
            State.POSSIBLE,
            "Every stage reported to the end of the numbers.",
            [piece],
            tools,
            advice,
        )
    pieces = [
        Evidence(
            f"iterations that stage {s} is behind",
            late,
            Unit.COUNT,
            Speaks.FOR,
            rule,
            source,
            LOST_AFTER,
            stage=s,
        )
        for s, late in sorted(behind.items(), key=lambda item: -item[1])[:8]
    ]
    return Finding(
        cause,
        State.SUPPORTED,
        f"Stages {', '.join(map(str, sorted(behind)[:8]))} stopped reporting.",
        pieces,
        tools,
        advice,
        0.8,
    )


def _another_order(
    context: Context, detail: str = "Run a verified plan of this problem."
) -> Advice:
    """A plan that is known to run."""
    base = context.base
    schedule = None if base is None else context.heuristic(base)
    if schedule is None:
        why = context.why_not() or "The heuristic found nothing."
        return Advice(Remedy.CHANGE_ORDER, detail, unknown=why)
    basis = "AdaOffload's plan, which keeps to every rule; a solve may find a better one"
    return Advice(Remedy.CHANGE_ORDER, detail, iteration_effect(None, schedule.makespan_ns, basis))
