"""What a search takes for granted, and what it warns of."""

from __future__ import annotations

from collections.abc import Iterator

from planner.cost.note import Note, note
from planner.training.evaluate import Plan
from planner.training.pareto import SLOWEST
from planner.training.space import CONTEXT_TOKENS, USUAL_CHUNKS
from planner.training.spec import TrainingSpec
from planner.training.words import percent

LONGER_THAN_PREDICTED = 0.05
THIN_HEADROOM = 0.05


def search_notes(spec: TrainingSpec) -> list[Note]:
    """The rules of the space that is searched."""
    choices = spec.choices
    notes = [
        spec.cluster.factors,
        note(
            "degrees",
            f"all that make {' or '.join(map(str, spec.devices))} GPUs",
            "Tensor groups inside a node; data_parallel divides the global batch; Megatron-LM's "
            "order of ranks.",
        ),
        note(
            "interleaving",
            "as given"
            if choices.interleaving is not None
            else f"1, {', '.join(map(str, USUAL_CHUNKS))} and what divides the layers evenly",
            "Where micro-batches are a multiple of the pipeline ranks (Megatron-LM).",
        ),
        note(
            "step time",
            "1F1B in closed form",
            "Busiest rank's work + one micro-batch's work of the other ranks / chunks + transfers "
            "+ gradient reduction and optimizer (Narayanan et al. 2021, section 2.2); never below "
            "a proven bound of the plan's own pipeline problem.",
        ),
        note(
            "memory",
            "1F1B's fullest moment on each rank",
            "Korthikanti et al. 2022; as in /v1/memory-estimates.",
        ),
        note(
            "offload",
            "as little as makes a configuration fit",
            "All but three of a rank's activations in flight may be away (PipeOffload, arXiv "
            "2503.01328); what links need beyond the busiest rank's work lengthens the step.",
        ),
        note(
            "families",
            "one plan per degrees, micro-batch size and chunks",
            "Of those that differ in ZeRO stage, recomputation and offload the fastest that fits "
            "is ranked.",
        ),
    ]
    if choices.context_parallel is None:
        notes.append(
            note(
                "context parallelism",
                f"where a rank keeps {CONTEXT_TOKENS} tokens of a sequence or more",
                "Below that there is little to share; give search.context_parallel for others.",
            )
        )
    if spec.memory_headroom:
        notes.append(
            note(
                "memory headroom",
                f"{percent(spec.memory_headroom)} of each GPU's memory left free",
                "memory_headroom; by default 5 %, about the largest error of the memory estimate "
                "on runs that were measured.",
            )
        )
    if spec.pareto:
        notes.append(
            note(
                "Pareto front",
                "memory in whole GiB",
                f"Of plans on as many GPUs those up to {SLOWEST} times as slow as the fastest.",
            )
        )
    if spec.model.has_router:
        given = spec.routing is not None
        notes.append(
            note(
                "routing",
                "as given" if given else "all experts equally often",
                "routing_frequency." if given else "What a load-balancing loss strives for.",
            )
        )
    return notes


def warnings_of(spec: TrainingSpec, best: Plan, objective_ns: int, complete: bool) -> Iterator[str]:
    """What a reader must not overlook. `objective_ns` is the step by the schedule found."""
    longer = objective_ns / best.total_ns - 1
    if longer > LONGER_THAN_PREDICTED:
        yield (
            f"The schedule found takes {percent(longer)} longer than the step by which the plan "
            "was ranked. A longer solver.time_limit_s may find a shorter one."
        )
    share = best.headroom_bytes / spec.cluster.memory_bytes
    if share < THIN_HEADROOM and spec.memory_headroom < THIN_HEADROOM:
        yield (
            f"Only {percent(share)} of the fullest rank's memory is left; the estimate is not that "
            "exact. memory_headroom leaves more."
        )
    if best.offload is not None:
        yield (
            "The best plan only fits with its offloads, which a memory estimate of its `training` "
            "leaves out, and which the training program has to be able to run. "
            "search.offload: [false] asks for plans without."
        )
    if not complete:
        yield "The search was stopped: configurations that were not reached may be faster."
    if best.gpus < spec.cluster.gpus:
        yield f"{spec.cluster.gpus - best.gpus} of the cluster's GPUs are idle."
