"""Causes of too little memory."""

from __future__ import annotations

from collections.abc import Iterator

from planner.diagnoses import checks
from planner.diagnoses.causes.training_changes import training_advice
from planner.diagnoses.context import Context, with_limits
from planner.diagnoses.finding import Advice, Effect, Evidence, Finding, iteration_effect, state_of
from planner.diagnoses.names import Cause, Remedy, Speaks, State, Unit
from planner.estimates.ranks import rank_footprints, tightest
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.sizes import gib

HEADROOM = 0.95
HEADROOM_RULE = f"Above {HEADROOM:.0%} of the limit allocations fail."
HEADROOM_SOURCE = (
    "Rule of this service: blocks that are free but split take a few per cent (PyTorch's notes on "
    "CUDA memory management)."
)
OUTSIDE_SHARE = 0.05
MEMORY_FIELDS = (
    "telemetry[].stages[].peak_memory_bytes",
    "telemetry[].stages[].memory_limit_bytes",
)
PLAN_FIELDS = ("problem", "schedule")
MOST_SHOWN = 8


def plan_exceeds_memory(context: Context) -> Finding:
    """The plan that runs holds more at its fullest moment than the device has."""
    measured = list(_measured_peaks(context))
    evidence = [*measured, *planned_peaks(context)]
    state = state_of(evidence)
    evidence.sort(key=lambda piece: (piece.speaks is Speaks.FOR, _share(piece)), reverse=True)
    worst = evidence[0] if evidence else None
    summary = "Whether the plan's peak fits is not known: neither it nor a measured peak is given."
    if worst is not None:
        summary = f"The fullest device uses {_share(worst):.1%} of its limit: {worst.what}."
    return Finding(
        Cause.PLAN_EXCEEDS_MEMORY,
        state,
        summary,
        evidence[:MOST_SHOWN],
        (checks.MEMORY_STATS, checks.MEMORY_SNAPSHOT),
        [] if state is State.RULED_OUT else list(_less_memory(context, measured)),
        max(0.0, _share(worst) - HEADROOM) if worst is not None else None,
        () if evidence else (*MEMORY_FIELDS, *PLAN_FIELDS),
    )


def memory_outside_the_plan(context: Context) -> Finding:
    """The device holds more than states and planned activations come to."""
    cause, described, profile = (
        Cause.MEMORY_OUTSIDE_THE_PLAN,
        context.request.described,
        context.profile,
    )
    tools = (checks.MEMORY_SNAPSHOT, checks.DEVICE_MEMORY_USE)
    needs = (*MEMORY_FIELDS, "model", "cluster", "training")
    if described is None or profile is None:
        advice = [_lower_limit(context, {})]
        summary = "What the run holds beyond the plan is not known."
        return Finding(cause, State.POSSIBLE, summary, (), tools, advice, needs=needs)
    expected = tightest(rank_footprints(described.costs)).peak_allocated_bytes
    peaks = {s: own.peak_memory_bytes for s, own in profile.stages.items()}
    stage, peak = max(((s, p or 0) for s, p in peaks.items()), key=lambda pair: pair[1])
    if not peak:
        return Finding(cause, State.POSSIBLE, "No peak was measured.", (), tools, (), needs=needs)
    above = peak / expected - 1
    piece = Evidence(
        "measured peak over the estimate of the fullest rank, less 1",
        above,
        Unit.SHARE,
        Speaks.FOR if above > OUTSIDE_SHARE else Speaks.AGAINST,
        f"The estimate is within {OUTSIDE_SHARE:.0%} of three measured runs of Megatron-LM.",
        "POST /v1/memory-estimates, with its assumptions.",
        OUTSIDE_SHARE,
        stage=stage,
    )
    excess = {_device(context, stage): peak - expected} if above > OUTSIDE_SHARE else {}
    return Finding(
        cause,
        state_of([piece]),
        f"Stage {stage} peaks at {gib(peak)}, and the estimate is {gib(expected)}.",
        [piece],
        tools,
        [_lower_limit(context, excess)] if excess else [],
        max(0.0, above),
    )


def allocator_fragmentation(context: Context) -> Finding:
    """Memory is free, but not in one piece."""
    evidence = [
        Evidence(
            "peak of allocated memory over the limit",
            share,
            Unit.SHARE,
            Speaks.FOR if share < HEADROOM else Speaks.AGAINST,
            f"Out of memory with less than {HEADROOM:.0%} allocated: the rest was not usable.",
            "PyTorch's notes on CUDA memory management: reserved is not allocated.",
            HEADROOM,
            stage=stage,
        )
        for stage, share in _peak_shares(context).items()
    ]
    fullest = max(evidence, key=lambda piece: float(piece.value), default=None)
    evidence = [fullest] if fullest is not None else []
    summary = "Whether memory was allocated or only reserved is not known."
    if fullest is not None:
        summary = f"At most {float(fullest.value):.1%} of the limit was allocated by tensors."
    advice = Advice(
        Remedy.EXPANDABLE_SEGMENTS,
        "Set PYTORCH_ALLOC_CONF=expandable_segments:True (PYTORCH_CUDA_ALLOC_CONF before "
        "PyTorch 2.9).",
        unknown="How much is lost to fragments is in memory_stats(), not in telemetry.",
    )
    state = state_of(evidence)
    return Finding(
        Cause.ALLOCATOR_FRAGMENTATION,
        state,
        summary,
        evidence,
        (checks.FRAGMENTATION_STATS,),
        [] if state is State.RULED_OUT else [advice],
        None if fullest is None else max(0.0, 1 - float(fullest.value)),
        () if evidence else MEMORY_FIELDS,
    )


def _share(piece: Evidence) -> float:
    return float(piece.value) / piece.threshold if piece.threshold else 0.0


def _device(context: Context, stage: int) -> int:
    return stage if context.problem is None else context.problem.stages[stage].device


def _peak_shares(context: Context) -> dict[int, float]:
    """Measured peak over limit by stage, where both are known."""
    return {
        s: own.peak_memory_bytes / own.memory_limit_bytes
        for s, own in context.measured_stages.items()
        if own.peak_memory_bytes is not None and own.memory_limit_bytes
    }


def _measured_peaks(context: Context) -> Iterator[Evidence]:
    for stage, share in _peak_shares(context).items():
        own = context.measured_stages[stage]
        yield Evidence(
            f"measured peak of stage {stage}",
            own.peak_memory_bytes or 0,
            Unit.BYTES,
            Speaks.FOR if share >= HEADROOM else Speaks.AGAINST,
            HEADROOM_RULE,
            HEADROOM_SOURCE,
            own.memory_limit_bytes,
            stage=stage,
            device=_device(context, stage),
        )


def planned_peaks(context: Context) -> Iterator[Evidence]:
    """What the plan that runs holds on each device that has a limit."""
    running = context.running
    if context.request.ops is None or context.problem is None or running is None:
        return
    for d, device in enumerate(context.problem.devices):
        limit, peak = device.activation_memory_bytes, running.schedule.peak_memory_bytes[d]
        if limit is None:
            continue
        yield Evidence(
            f"activations of device {d} in the plan",
            peak,
            Unit.BYTES,
            Speaks.FOR if peak > limit else Speaks.AGAINST,
            "A schedule keeps within `activation_memory_bytes`.",
            "Rule 5 of schedules.",
            limit,
            device=d,
        )


def _less_memory(context: Context, measured: list[Evidence]) -> Iterator[Advice]:
    """Plans that hold as much less as the run lacks, and other trainings."""
    excess: dict[int, int] = {}
    for piece in measured:
        if piece.threshold and piece.device is not None:
            over = round(float(piece.value) - HEADROOM * piece.threshold)
            if over > 0:
                excess[piece.device] = max(over, excess.get(piece.device, 0))
    yield _lower_limit(context, excess)
    if context.request.described is not None:
        yield from training_advice(context.request.described)


def _lower_limit(context: Context, excess: dict[int, int]) -> Advice:
    """The heuristic's plan under limits that are lower by what is held too much: it offloads more,
    or keeps fewer micro-batches at a time."""
    remedy = Remedy.OFFLOAD_MORE
    detail = (
        "Plan with a lower `activation_memory_bytes`: offload more or hold fewer micro-batches."
    )
    why, base, running = context.why_not(), context.base, context.running
    if why is not None or base is None or running is None:
        return Advice(remedy, detail, unknown=why or "The plan's order could not be timed.")
    if not excess and running.fits:
        lacks = "How much is lacking is not known; give peak_memory_bytes and memory_limit_bytes."
        return Advice(remedy, detail, unknown=lacks)
    limits: dict[int, int | None] = {}
    for device, over in excess.items():
        planned = base.devices[device].activation_memory_bytes
        held = running.schedule.peak_memory_bytes[device]
        limits[device] = max(0, min(held, held if planned is None else planned) - over)
    changed = with_limits(base, limits)
    infeasibility = find_infeasibility(changed)
    if infeasibility is not None:
        return Advice(remedy, detail, unknown=f"That does not fit: {infeasibility.summary}")
    schedule = context.heuristic(changed)
    if schedule is None:
        return Advice(remedy, detail, unknown=context.why_not() or "The heuristic found nothing.")
    peaks, new_peaks = running.schedule.peak_memory_bytes, schedule.peak_memory_bytes
    # Of the device that gives back most: of a plan that ran within limits there may be none.
    most = max(range(len(peaks)), key=lambda d: peaks[d] - new_peaks[d])
    return Advice(
        remedy,
        f"{detail} {schedule.offloads} offloads in this one.",
        Effect(
            "peak_memory_bytes",
            Unit.BYTES,
            peaks[most],
            new_peaks[most],
            f"activations of device {most}: {running.basis}, and AdaOffload under the limits",
        ),
        cost=iteration_effect(
            running.schedule.makespan_ns, schedule.makespan_ns, "the same two schedules"
        ),
        request_changes={
            f"problem.devices.{device}.activation_memory_bytes": limit
            for device, limit in limits.items()
        }
        or None,
    )
