"""Causes of links between devices and hosts that are busy, or that devices share."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from planner.diagnoses import checks
from planner.diagnoses.causes.copies import (
    COSTS,
    COSTS_NOTHING,
    fewer_offloads,
    has_no_offloads,
    overlapped,
)
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
from planner.diagnoses.names import Cause, Remedy, Speaks, State, Unit
from planner.pipeline.adaoffload import BUSY_LINK
from planner.pipeline.problem import Duplex, PipelineProblem

BUSY_FIELDS = ("telemetry[].stages[].link_busy_share",)
MOST_SHOWN = 8


def offload_link_saturated(context: Context) -> Finding:
    """A host link copies for most of the iteration."""
    cause, tools = Cause.OFFLOAD_LINK_SATURATED, (checks.PCIE_BYTES, checks.TOPOLOGY)
    if has_no_offloads(context):
        # A link that is busy all the same copies something else: data, states, another job.
        summary = "The plan offloads nothing: what its links copy is not activations."
        return Finding(cause, State.RULED_OUT, summary)
    busy = _measured_busy(context) or _planned_busy(context)
    if not busy:
        advice = [overlapped(context), fewer_offloads(context)]
        return Finding(
            cause,
            State.POSSIBLE,
            "How busy the links are is not known.",
            (),
            tools,
            advice,
            needs=BUSY_FIELDS,
        )
    evidence = sorted(
        (
            replace(
                piece,
                speaks=Speaks.FOR if float(piece.value) > BUSY_LINK else Speaks.AGAINST,
            )
            for piece in busy
        ),
        key=lambda piece: -float(piece.value),
    )[:MOST_SHOWN]
    state, most = state_of(evidence), float(evidence[0].value)
    advice = [] if state is State.RULED_OUT else [overlapped(context), fewer_offloads(context)]
    return Finding(
        cause,
        state,
        f"The busiest link copies for {most:.1%} of the iteration.",
        evidence,
        tools,
        advice,
        saving(advice, max(0.0, most - BUSY_LINK)),
    )


def shared_host_link(context: Context) -> Finding:
    """Devices share a way to the host, or it carries one direction at a time."""
    cause, tools, problem = Cause.SHARED_HOST_LINK, (checks.TOPOLOGY,), context.problem
    rule, source = "What shares a link waits for it.", "`host_link`, `host_link_duplex`."
    if problem is None:
        return Finding(
            cause,
            State.POSSIBLE,
            "Which devices share links is not known.",
            (),
            tools,
            [_own_links(context)[0]],
            needs=("problem",),
        )
    users: dict[str, set[int]] = defaultdict(set)
    half = set()
    for s, stage in enumerate(problem.stages):
        if any(stage.offload_bytes):
            users[problem.link_of_stage[s]].add(stage.device)
            if problem.is_half_duplex(s):
                half.add(problem.link_of_stage[s])
    contended = [link for link, own in users.items() if len(own) > 1 or link in half]
    if not contended:
        piece = Evidence("links in common", "none", Unit.TEXT, Speaks.AGAINST, rule, source)
        return Finding(
            cause, State.RULED_OUT, "Each device that offloads has its own link.", [piece]
        )
    advice, gain = _own_links(context)
    voice = Speaks.NEITHER if gain is None else speaks(gain, COSTS, COSTS_NOTHING)
    pieces = [
        Evidence(
            f"devices on {link}" + (", half duplex" if link in half else ""),
            len(users[link]),
            Unit.COUNT,
            voice,
            rule,
            source,
        )
        for link in contended[:MOST_SHOWN]
    ]
    return Finding(
        cause,
        state_of(pieces),
        "Devices that offload share links or directions.",
        pieces,
        tools,
        [advice],
        None if gain is None else max(0.0, gain),
    )


def _own_links(context: Context) -> tuple[Advice, float | None]:
    """What comes of a link for each device, and the share of the iteration that it saves."""
    detail = "Put GPUs that offload on switches of their own, or offload from fewer of them."
    base, running = context.base, context.running
    apart = None if base is None else context.again(_with_own_links(base))
    if running is None or apart is None:
        why = context.why_not() or "The order could not be timed."
        return Advice(Remedy.OWN_LINKS, detail, unknown=why), None
    before, after = running.schedule.makespan_ns, apart.schedule.makespan_ns
    basis = f"{running.basis}, with each device's link its own and full duplex"
    advice = Advice(Remedy.OWN_LINKS, detail, iteration_effect(before, after, basis))
    return advice, 1 - after / max(1, before)


def _busy(what: str, share: float, stage: int | None) -> Evidence:
    return Evidence(
        what,
        share,
        Unit.SHARE,
        Speaks.NEITHER,
        f"A link is saturated above {BUSY_LINK:.0%}.",
        "AdaOffload's third phase (OptPipe).",
        BUSY_LINK,
        stage=stage,
    )


def _measured_busy(context: Context) -> list[Evidence]:
    return [
        _busy(f"measured: the link of stage {s} copies", share, s)
        for s, own in context.measured_stages.items()
        if (share := own.link_busy_share) is not None
    ]


def _planned_busy(context: Context) -> list[Evidence]:
    """How busy the channels are in the plan."""
    base, running = context.base, context.running
    if base is None or running is None or context.request.ops is None:
        return []
    busy: dict[tuple[str, str], int] = defaultdict(int)
    for op in running.schedule.ops:
        if op.op in "OR":
            busy[base.channel(op.stage, op.op)] += op.end_ns - op.start_ns
    whole = max(1, running.schedule.makespan_ns)
    ways = {"O": "offloads", "R": "reloads", "": "both ways"}
    return [
        _busy(f"by the plan {link} copies ({ways[way]})", time / whole, None)
        for (link, way), time in busy.items()
    ]


def _with_own_links(problem: PipelineProblem) -> PipelineProblem:
    return replace(
        problem,
        devices=tuple(replace(device, host_link=None) for device in problem.devices),
        host_link_duplex=Duplex.FULL,
        host_links={},
    )
