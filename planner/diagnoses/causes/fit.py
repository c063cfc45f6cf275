"""Causes of nothing that fits: one micro-batch, the states of the model, or the host alone."""

from __future__ import annotations

from collections.abc import Mapping

from planner.diagnoses import checks
from planner.diagnoses.causes.training_changes import training_advice
from planner.diagnoses.context import Context, with_limits
from planner.diagnoses.finding import Advice, Evidence, Finding, iteration_effect, state_of
from planner.diagnoses.names import Cause, Remedy, Speaks, State, Unit
from planner.estimates.ranks import rank_footprints
from planner.sizes import gib

MOST_SHOWN = 8


def one_micro_batch_too_large(context: Context) -> Finding:
    """Not even one micro-batch with nothing else fits."""
    found = context.infeasibility
    cause, tools = Cause.ONE_MICRO_BATCH_TOO_LARGE, (checks.MEMORY_SNAPSHOT,)
    rule = "A schedule exists if and only if each micro-batch alone gets through."
    source = "Exact; proof in planner.pipeline.feasibility.decide."
    if found is not None:
        evidence = [
            Evidence(
                "activations of one micro-batch alone",
                shortage.smallest_limit_bytes,
                Unit.BYTES,
                Speaks.FOR,
                rule,
                source,
                shortage.limit_bytes,
                device=shortage.device,
            )
            for shortage in found.device_shortages[:MOST_SHOWN]
        ]
        weight = max(
            shortage.smallest_limit_bytes / max(1, shortage.limit_bytes) - 1
            for shortage in found.device_shortages
        )
        advice = [
            _feasibility_advice(context, remedy) for remedy in found.to_document()["remedies"]
        ]
        return Finding(cause, State.SUPPORTED, found.summary, evidence, tools, advice, weight)
    if context.decides_fit:
        piece = Evidence("schedules that fit", "exist", Unit.TEXT, Speaks.AGAINST, rule, source)
        return Finding(cause, State.RULED_OUT, "Each micro-batch alone fits.", [piece])
    why = context.why_not(needs_fit=False) or (
        "Many stages share a limited host; whether they fit takes a solve."
    )
    advice = [Advice(Remedy.SMALLER_MICRO_BATCH, "Halve `micro_batch_size`.", unknown=why)]
    return Finding(cause, State.POSSIBLE, why, (), tools, advice, needs=("problem",))


def _feasibility_advice(context: Context, remedy: Mapping[str, object]) -> Advice:
    """A remedy of the proof that nothing fits; with more memory, what an iteration would take."""
    changes = remedy["request_changes"]
    effect, unknown = None, str(remedy["basis"])
    if remedy["remedy"] == "device_memory" and isinstance(changes, Mapping) and context.base:
        limits = {int(path.split(".")[2]): int(size) for path, size in changes.items()}
        schedule = context.heuristic(with_limits(context.base, dict(limits)))
        unknown = context.why_not(needs_fit=False) or unknown
        if schedule is not None:
            basis = "AdaOffload with these limits, one micro-batch at a time where no more fit"
            effect = iteration_effect(None, schedule.makespan_ns, basis)
    return Advice(
        Remedy(str(remedy["remedy"])),
        f"{remedy['detail']} ({remedy['basis']})",
        effect,
        unknown,
        request_changes=changes if isinstance(changes, Mapping) else None,
    )


def model_states_too_large(context: Context) -> Finding:
    """Parameters, gradients and optimizer states leave no room."""
    cause, described = Cause.MODEL_STATES_TOO_LARGE, context.request.described
    if described is None:
        advice = [
            Advice(
                Remedy.CHANGE_TRAINING,
                "Raise `zero_stage`, `tensor_parallel` or `pipeline_parallel`.",
                unknown="No `model` and `cluster` were given.",
            )
        ]
        summary = "What the model's states take is not known."
        return Finding(
            cause,
            State.POSSIBLE,
            summary,
            (),
            (checks.MEMORY_STATS,),
            advice,
            needs=("model", "cluster", "training"),
        )
    rank = max(rank_footprints(described.costs), key=lambda own: own.static_bytes)
    taken, limit = rank.static_bytes + rank.reserved_bytes, rank.limit_bytes
    shortage = context.request.static_shortage
    speaks = Speaks.FOR if shortage or taken > limit else Speaks.AGAINST
    piece = Evidence(
        "parameters, gradients, optimizer states and reserve of the fullest rank",
        taken,
        Unit.BYTES,
        speaks,
        "They have to leave room for at least one micro-batch.",
        "Megatron-LM's bytes per parameter; ZeRO (Rajbhandari et al. 2020).",
        limit,
        device=rank.rank,
    )
    summary = (
        str(shortage["summary"])
        if shortage
        else (f"States and reserve take {gib(taken)} of {gib(limit)} on rank {rank.rank}.")
    )
    state = state_of([piece])
    advice = [] if state is State.RULED_OUT else training_advice(described)
    return Finding(
        cause, state, summary, [piece], (checks.MEMORY_STATS,), advice, max(0.0, taken / limit - 1)
    )


def host_memory_short(context: Context) -> Finding:
    """The host cannot hold what has to be offloaded."""
    cause, problem = Cause.HOST_MEMORY_SHORT, context.problem
    tools = (checks.HOST_MEMORY_USE,)
    rule, source = "Offloaded activations have to fit into the host.", "Rule 6 of schedules."
    if problem is None:
        advice = [
            Advice(
                Remedy.HOST_MEMORY,
                "Offload less, or to a host with more memory.",
                unknown="No problem was given.",
            )
        ]
        return Finding(
            cause,
            State.POSSIBLE,
            "What is offloaded is not known.",
            (),
            tools,
            advice,
            needs=("problem",),
        )
    limits = [host.memory_bytes for host in problem.hosts]
    found = context.infeasibility
    if found is not None and found.host_shortages:
        evidence = [
            Evidence(
                "host memory needed",
                own.smallest_limit_bytes,
                Unit.BYTES,
                Speaks.FOR,
                rule,
                source,
                own.limit_bytes,
            )
            for own in found.host_shortages
        ]
        advice = [
            _feasibility_advice(context, remedy)
            for remedy in found.to_document()["remedies"]
            if remedy["remedy"] == "host_memory"
        ]
        weight = max(
            own.smallest_limit_bytes / max(1, own.limit_bytes) - 1 for own in found.host_shortages
        )
        return Finding(cause, State.SUPPORTED, found.summary, evidence, tools, advice, weight)
    if not problem.can_offload or all(limit is None for limit in limits):
        what = "nothing can be offloaded" if not problem.can_offload else "no host has a limit"
        piece = Evidence("host limits", what, Unit.TEXT, Speaks.AGAINST, rule, source)
        return Finding(cause, State.RULED_OUT, f"In this problem {what}.", [piece])
    running = context.running
    if context.request.ops is None or running is None:
        return Finding(
            cause,
            State.POSSIBLE,
            "Which activations are offloaded is not known.",
            (),
            tools,
            (),
            needs=("schedule",),
        )
    peaks = running.schedule.host_peak_memory_bytes
    evidence = [
        Evidence(
            f"host {h}: the plan's peak",
            peak,
            Unit.BYTES,
            Speaks.FOR if peak > limit else Speaks.AGAINST,
            rule,
            source,
            limit,
        )
        for h, (peak, limit) in enumerate(zip(peaks, limits, strict=True))
        if limit is not None
    ]
    return Finding(
        cause, state_of(evidence), "The plan's offloads against the hosts' memory.", evidence, tools
    )
