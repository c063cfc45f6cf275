"""Why a plan is where it is in the ranking, and what limits it."""

from __future__ import annotations

from collections.abc import Iterator

from planner.cost.training import Recomputation, Training
from planner.sizes import gib
from planner.training.evaluate import Evaluator, Plan, Shortage
from planner.training.space import Saver, savers
from planner.training.spec import TrainingSpec
from planner.training.trainings import as_asked, with_savers
from planner.training.words import memory_parts, percent, shortage

PARTS = {
    "compute_ns": "work of the busiest rank",
    "bubble_ns": "bubble",
    "transfer_ns": "transfers between ranks",
    "epilogue_ns": "gradient reduction and optimizer",
    "offload_wait_ns": "waiting for offloads",
}


def breakdown(plan: Plan) -> dict[str, int]:
    """The parts of the predicted step, in ns."""
    step = plan.step
    return {
        "compute_ns": step.compute_ns,
        "bubble_ns": plan.bubble_ns,
        "transfer_ns": step.transfer_ns,
        "epilogue_ns": step.epilogue_ns,
        "offload_wait_ns": plan.offload_wait_ns,
    }


def reasons(spec: TrainingSpec, evaluator: Evaluator, plan: Plan, first: Plan) -> list[str]:
    """In sentences. `first` is the fastest plan."""
    return [
        _place(plan, first),
        _time(plan),
        *_savers(spec, evaluator, plan),
        _memory(plan),
    ]


def _place(plan: Plan, first: Plan) -> str:
    if plan is first:
        return "The shortest predicted step of all configurations searched that fit."
    mine, its = breakdown(plan), breakdown(first)
    changes = {name: mine[name] - its[name] for name in PARTS}
    longer = sorted((n for n in PARTS if changes[n] > 0), key=lambda name: -changes[name])
    slower = plan.total_ns - first.total_ns
    if not slower:
        return "As fast as the first by prediction; it needs more memory or is less simple."
    what = " and ".join(f"{PARTS[n]} +{changes[n] / 1e6:.1f} ms" for n in longer[:2])
    return (
        f"{slower / 1e6:.1f} ms ({percent(slower / first.total_ns)}) slower than the first: {what}."
    )


def _time(plan: Plan) -> str:
    parts = sorted(breakdown(plan).items(), key=lambda part: -part[1])
    said = ", ".join(
        f"{PARTS[name]} {percent(size / plan.total_ns)}" for name, size in parts if size
    )
    return f"Of the step: {said}."


def _savers(spec: TrainingSpec, evaluator: Evaluator, plan: Plan) -> Iterator[str]:
    """For each saver in use what the next milder one would do."""
    training = plan.training
    mine = (training.zero_stage, training.recomputation, training.offload)
    allowed = savers(spec, training.degrees)
    for place, name in ((0, "ZeRO"), (1, "recomputation"), (2, "offload")):
        milder = [own for own in allowed if _differs_only_in(own, mine, place)]
        order = allowed.index(mine) if mine in allowed else len(allowed)
        milder = [own for own in milder if allowed.index(own) < order]
        if milder:
            yield _without(evaluator, plan, _with(spec, training, milder[-1]), name)
    if plan.offload is not None:
        yield (
            f"Up to {percent(max(plan.offload.shares))} of a rank's activations go to host memory; "
            f"the busiest link is in use {percent(plan.offload.busiest_link)} of the time while "
            "the pipeline is full."
        )


def _with(spec: TrainingSpec, training: Training, saver: Saver) -> Training:
    """The same configuration with other savers, its layers divided anew unless given."""
    chunks = training.interleaving or 1
    return with_savers(as_asked(spec, training), spec, chunks, saver)


def _differs_only_in(saver: Saver, mine: Saver, place: int) -> bool:
    return saver[place] != mine[place] and all(
        own == its for k, (own, its) in enumerate(zip(saver, mine, strict=True)) if k != place
    )


def _without(evaluator: Evaluator, plan: Plan, milder: Training, name: str) -> str:
    used = _in_use(plan.training, name)
    instead = _in_use(milder, name)
    outcome = evaluator.evaluate(milder)
    if isinstance(outcome, Shortage):
        return f"{used}: with {instead} {shortage(outcome.fullest, outcome.peak_bytes)}."
    longer = outcome.total_ns - plan.total_ns
    if longer <= 0:
        more = outcome.peak_bytes - plan.peak_bytes
        return f"{used}: {instead} is as fast and needs {gib(more)} more on the fullest rank."
    return f"{used}: with {instead} the step would take {percent(longer / plan.total_ns)} longer."


def _in_use(training: Training, name: str) -> str:
    if name == "ZeRO":
        return f"ZeRO stage {training.zero_stage}" if training.zero_stage else "no ZeRO"
    if name == "recomputation":
        none = training.recomputation is Recomputation.NONE
        return "no recomputation" if none else f"{training.recomputation.value} recomputation"
    return "offload" if training.offload else "no offload"


def _memory(plan: Plan) -> str:
    sizes = list(zip(plan.ranks, plan.rank_bytes, strict=True))
    rank, size = min(sizes, key=lambda pair: pair[0].limit_bytes - pair[1])
    parts = memory_parts(rank, rank.total_bytes - size)
    largest = [f"{what} {gib(part)}" for what, part in list(parts.items())[:2]]
    return (
        f"Rank {rank.rank} is fullest with {gib(size)} of {gib(rank.limit_bytes)}: "
        f"{', '.join(largest)}."
    )
