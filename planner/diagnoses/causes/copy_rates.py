"""Causes of copies between devices and hosts that are slower than they should be."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from planner.diagnoses import checks
from planner.diagnoses.causes.copies import at_planned_rate, has_no_offloads
from planner.diagnoses.context import Context
from planner.diagnoses.finding import Advice, Evidence, Finding, saving, speaks, state_of
from planner.diagnoses.names import Cause, Remedy, Speaks, State, Unit

SLOWER = 1.15
HALF_RATE, GOOD_RATE = 0.5, 0.75
COPY_FIELDS = ("problem", "telemetry[].stages[].offload_ns", "telemetry[].stages[].reload_ns")
MOST_SHOWN = 8


def link_slower_than_planned(context: Context) -> Finding:
    """Copies take longer than the plan says: a link of fewer lanes, or one that others use."""
    cause, tools = Cause.LINK_SLOWER_THAN_PLANNED, (checks.LINK_STATE, checks.PCIE_BYTES)
    ratios = _copy_ratios(context)
    if not ratios:
        if has_no_offloads(context):
            return Finding(cause, State.RULED_OUT, "The plan offloads nothing.")
        advice = [
            Advice(
                Remedy.RESTORE_LINK,
                "Reseat or replace what narrows the link.",
                unknown="No copy was measured.",
            )
        ]
        return Finding(
            cause,
            State.POSSIBLE,
            "Measured and planned copies cannot be compared.",
            (),
            tools,
            advice,
            needs=COPY_FIELDS,
        )
    worst = max(ratios, key=lambda stage: ratios[stage])
    evidence = [
        Evidence(
            f"measured over planned copies of stage {s}",
            ratio,
            Unit.RATIO,
            speaks(ratio, SLOWER),
            f"{SLOWER} and more is no noise of copies.",
            "Rule of this service; peak rates times the cluster's efficiency are planned.",
            SLOWER,
            stage=s,
        )
        for s, ratio in sorted(ratios.items(), key=lambda item: -item[1])
        if ratio >= SLOWER or s == worst
    ][:MOST_SHOWN]
    state = state_of(evidence)
    advice = [] if state is State.RULED_OUT else [at_planned_rate(context)]
    return Finding(
        cause,
        state,
        f"Copies of stage {worst} take {ratios[worst]:.2f} x what was planned.",
        evidence,
        tools,
        advice,
        saving(advice, 1 - 1 / ratios[worst] if ratios[worst] else None),
    )


def slow_host_copies(context: Context) -> Finding:
    """Copies reach only a part of the link's rate: pageable memory, or memory of another socket."""
    cause, tools = Cause.SLOW_HOST_COPIES, (checks.HOST_COPY, checks.NUMA)
    described, shares = context.request.described, _rate_shares(context)
    detail = "Pin host memory and bind each process to the socket of its GPU."
    if described is None or not shares:
        advice = [Advice(Remedy.PIN_NEAR_MEMORY, detail, unknown="The copies' rate is not known.")]
        return Finding(
            cause,
            State.POSSIBLE,
            "Which share of the link's rate copies reach is not known.",
            (),
            tools,
            advice,
            needs=("model", "cluster", *COPY_FIELDS[1:]),
        )
    worst = min(shares, key=lambda stage: shares[stage])
    share = shares[worst]
    voice = (
        Speaks.FOR
        if share < HALF_RATE
        else Speaks.AGAINST
        if share >= GOOD_RATE
        else Speaks.NEITHER
    )
    piece = Evidence(
        f"rate of stage {worst}'s copies over the link's",
        share,
        Unit.SHARE,
        voice,
        f"Pinned memory near by reaches {GOOD_RATE:.0%}; pageable or far memory about half.",
        "The efficiency `pcie` of clusters; the CUDA programming guide on pinned memory.",
        HALF_RATE,
        stage=worst,
    )
    state = state_of([piece])
    near = replace(at_planned_rate(context), remedy=Remedy.PIN_NEAR_MEMORY, detail=detail)
    advice = [] if state is State.RULED_OUT else [near]
    return Finding(
        cause,
        state,
        f"Copies of stage {worst} reach {share:.0%} of the link's rate.",
        [piece],
        tools,
        advice,
        saving(advice),
    )


def _copy_ratios(context: Context) -> dict[int, float]:
    """Measured over planned copies, both ways, by stage."""
    if context.expected is None or context.profile is None:
        return {}
    ratios = {}
    for s, own in context.profile.stages.items():
        stage = context.expected.stages[s]
        pairs = (
            (own.offload_ns, fmean(stage.offload_ns)),
            (own.reload_ns, fmean(stage.reload_ns)),
        )
        known = [measured / planned for measured, planned in pairs if measured and planned]
        if known and any(stage.offload_bytes):
            ratios[s] = max(known)
    return ratios


def _rate_shares(context: Context) -> dict[int, float]:
    """By stage the rate of measured copies over the peak of the link."""
    described, problem, profile = context.request.described, context.problem, context.profile
    if described is None or problem is None or profile is None:
        return {}
    peak = described.costs.cluster.gpu.pcie_bytes_per_s
    shares = {}
    for s, own in profile.stages.items():
        size = fmean(problem.stages[s].offload_bytes)
        times = [time for time in (own.offload_ns, own.reload_ns) if time]
        if size and times:
            shares[s] = size / (max(times) / 1e9) / peak
    return shares
