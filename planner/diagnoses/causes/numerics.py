"""Causes of a loss that is not a number, or of gradients that are wrong."""

from __future__ import annotations

from collections.abc import Mapping

from planner.diagnoses import checks
from planner.diagnoses.causes.order import ORDER_FIELDS, TORCH_SOURCE
from planner.diagnoses.context import Context
from planner.diagnoses.finding import Advice, Evidence, Finding
from planner.diagnoses.names import Cause, Remedy, Speaks, State, Unit
from planner.pipeline.schedule import OpKind, Token

_BEFORE: Mapping[OpKind, OpKind] = {"O": "F", "R": "O", "B": "R"}
NO_EFFECT = "What the loss becomes cannot be computed from times and sizes."


def fp16_overflow(context: Context) -> Finding:
    """Gradients or activations leave the range of fp16."""
    cause, described = Cause.FP16_OVERFLOW, context.request.described
    rule = "fp16 ends at 65,504; bf16 and fp32 reach 3e38."
    source = "IEEE 754; Mixed Precision Training (Micikevicius et al. 2018)."
    detail = "Train in bf16, or with dynamic loss scaling."
    advice = [
        Advice(
            Remedy.USE_BF16,
            detail,
            unknown=NO_EFFECT,
            request_changes={"training.precision": "bf16"},
        )
    ]
    tools = (checks.LOSS_SCALE, checks.ANOMALIES)
    if described is None:
        return Finding(
            cause,
            State.POSSIBLE,
            "The precision is not known.",
            (),
            tools,
            advice,
            needs=("training.precision",),
        )
    precision = described.costs.training.precision
    is_fp16 = precision == "fp16"
    voice = Speaks.FOR if is_fp16 else Speaks.AGAINST
    piece = Evidence("precision", precision, Unit.TEXT, voice, rule, source)
    return Finding(
        cause,
        State.SUPPORTED if is_fp16 else State.RULED_OUT,
        f"It trains in {precision}.",
        [piece],
        tools,
        advice if is_fp16 else [],
    )


def last_stage_out_of_order(context: Context) -> Finding:
    """The last stage's forwards are not in the order of the micro-batches."""
    cause, orders = Cause.LAST_STAGE_OUT_OF_ORDER, context.rank_orders
    rule = (
        "PyTorch's pipeline runtime looks up losses by the position in which the last stage "
        "computed them: out of order it computes wrong gradients without a word."
    )
    detail = "Number micro-batches by the last stage's order, as our exports do."
    advice = [Advice(Remedy.CHANGE_ORDER, detail, unknown="The times stay the same; " + NO_EFFECT)]
    if orders is None:
        return Finding(
            cause,
            State.POSSIBLE,
            "The ranks' orders are not known.",
            (),
            (checks.ORDER_TEST,),
            advice,
            needs=ORDER_FIELDS,
        )
    last = max((cell.stage for order in orders for cell in order), default=0)
    forwards = [
        cell.micro_batch
        for order in orders
        for cell in order
        if cell.stage == last and cell.kind == "F"
    ]
    wrong = next(
        (k for k, (a, b) in enumerate(zip(forwards, sorted(forwards), strict=True)) if a != b), None
    )
    if wrong is None:
        piece = Evidence(
            "forwards of the last stage", "in order", Unit.TEXT, Speaks.AGAINST, rule, TORCH_SOURCE
        )
        return Finding(cause, State.RULED_OUT, "The last stage runs them in order.", [piece])
    words = f"micro-batch {forwards[wrong]} is forward number {wrong} of the last stage"
    piece = Evidence(words, wrong, Unit.COUNT, Speaks.FOR, rule, TORCH_SOURCE, stage=last)
    return Finding(
        cause,
        State.SUPPORTED,
        f"{words[0].upper()}{words[1:]}.",
        [piece],
        (checks.ORDER_TEST,),
        advice,
        1.0,
    )


def offload_race(context: Context) -> Finding:
    """A backward reads an activation before its reload is over."""
    cause, ops, problem = Cause.OFFLOAD_RACE, context.request.ops, context.problem
    rule = "F, then O, then R, then B, each after the end of the one before."
    detail = "Wait for the events of both copies; keep the host's buffer until the reload is over."
    advice = [Advice(Remedy.FIX_RUNTIME_WAITS, detail, unknown=NO_EFFECT)]
    if (problem is not None and not problem.can_offload) or (
        ops is not None and not any(op.op in "OR" for op in ops)
    ):
        return Finding(cause, State.RULED_OUT, "Nothing is offloaded.")
    if ops is None:
        return Finding(
            cause,
            State.POSSIBLE,
            "What is offloaded is not known.",
            (),
            (checks.RACES,),
            advice,
            needs=("problem", "schedule"),
        )
    at = {op.token: op for op in ops}
    early = [
        (before, op)
        for op in ops
        if op.op in _BEFORE
        and (before := at.get(Token(_BEFORE[op.op], op.stage, op.micro_batch))) is not None
        and op.start_ns < before.end_ns
    ]
    if early:
        before, after = early[0]
        words = (
            f"{after.op} of stage {after.stage}, micro-batch {after.micro_batch} starts at "
            f"{after.start_ns} ns, and {before.op} ends at {before.end_ns} ns"
        )
        piece = Evidence(words, len(early), Unit.COUNT, Speaks.FOR, rule, "Rule 2 of schedules.")
        return Finding(cause, State.SUPPORTED, f"{words}.", [piece], (checks.RACES,), advice, 1.0)
    piece = Evidence(
        "copies out of order in the plan",
        0,
        Unit.COUNT,
        Speaks.NEITHER,
        rule,
        "Rule 2 of schedules.",
    )
    return Finding(
        cause,
        State.POSSIBLE,
        "The plan keeps the order; whether the runtime waits is not known.",
        [piece],
        (checks.RACES,),
        advice,
    )


def data_or_hyperparameters(context: Context) -> Finding:
    """A bad sample, a learning rate that is too high: nothing that plans know of."""
    advice = [
        Advice(
            Remedy.CHECK_DATA,
            "Skip or clip what is not finite; lower the learning rate or warm up longer.",
            unknown=NO_EFFECT,
        )
    ]
    return Finding(
        Cause.DATA_OR_HYPERPARAMETERS,
        State.POSSIBLE,
        "No number here speaks of data or hyperparameters.",
        (),
        (checks.ANOMALIES,),
        advice,
    )
