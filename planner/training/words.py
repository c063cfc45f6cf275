"""Configurations and what they hold in words, for reasons that people read."""

from __future__ import annotations

from enum import StrEnum

from planner.cost.degrees import in_words
from planner.cost.footprint import RankFootprint
from planner.cost.training import Recomputation, Training
from planner.sizes import gib


class MemoryPart(StrEnum):
    """What a rank's memory holds, as people call it."""

    STATES = "parameters, gradients and optimizer states"
    ACTIVATIONS = "activations"
    LOGITS = "logits"
    WORKSPACE = "workspace of a layer's backward"
    GATHERED = "gathered parameters"
    BUFFERS = "communication buffers"
    RESERVE = "reserve"


def percent(share: float) -> str:
    """A share with one decimal."""
    return f"{100 * share:.1f} %"


def sentence(words: str) -> str:
    """With a capital letter at its beginning."""
    return words[:1].upper() + words[1:]


def configuration(training: Training) -> str:
    """Degrees, micro-batch size and what saves memory."""
    parts = [in_words(training.degrees), f"micro-batch {training.micro_batch_size}"]
    if (training.interleaving or 1) > 1:
        parts.append(f"{training.interleaving} chunks")
    if training.zero_stage:
        parts.append(f"ZeRO stage {training.zero_stage}")
    if training.recomputation is not Recomputation.NONE:
        parts.append(f"{training.recomputation.value} recomputation")
    if training.offload:
        parts.append("offload")
    return ", ".join(parts)


def memory_parts(rank: RankFootprint, offloaded_bytes: int = 0) -> dict[MemoryPart, int]:
    """What a rank holds at its fullest moment, largest first, by what people call it."""
    activations = rank.activations_bytes + rank.embedding_activations_bytes
    parts: dict[MemoryPart, int] = {
        MemoryPart.STATES: rank.static_bytes,
        MemoryPart.ACTIVATIONS: activations - offloaded_bytes,
        MemoryPart.LOGITS if rank.peak_is_loss else MemoryPart.WORKSPACE: max(
            rank.logits_bytes, rank.workspace_bytes
        ),
        MemoryPart.GATHERED: rank.gathered_parameters_bytes,
        MemoryPart.BUFFERS: rank.communication.total_bytes,
        MemoryPart.RESERVE: rank.reserved_bytes,
    }
    return dict(sorted(parts.items(), key=lambda part: -part[1]))


def shortage(rank: RankFootprint, needed_bytes: int) -> str:
    """What a rank would need, and of what most."""
    offloaded = max(0, rank.total_bytes - needed_bytes)
    what, size = next(iter(memory_parts(rank, offloaded).items()))
    return (
        f"rank {rank.rank} would need {gib(needed_bytes)} of {gib(rank.limit_bytes)}, "
        f"{gib(size)} of it for {what}"
    )
