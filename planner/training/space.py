"""Every configuration that a request leaves open: degrees of parallelism, micro-batch sizes and
what saves memory.

The rules are Megatron-LM's: tensor groups inside a node, the batch divided evenly over data ranks
and micro-batches, and with interleaving as many micro-batches as a multiple of the pipeline ranks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import isqrt

from planner.cost.degrees import Degrees, expert_degrees, tensor_degrees
from planner.cost.spec import LARGEST_OPERATIONS
from planner.cost.training import (
    LARGEST_INTERLEAVING,
    LARGEST_MICRO_BATCHES,
    Recomputation,
)
from planner.training.spec import Choices, TrainingSpec

LARGEST_MICRO_BATCH = 2**16
CONTEXT_TOKENS = 4096
"""Tokens that a context rank keeps at the least, where the degree is not asked for."""
USUAL_CHUNKS = (2, 4)
"""Chunks per device that are tried even where layers do not divide evenly into them."""

BATCH, OPERATIONS, SEQUENCE = "batch", "operations", "sequence"
LEFT_OUT = {
    BATCH: "data_parallel does not divide the global batch",
    OPERATIONS: f"more than {LARGEST_OPERATIONS:,} operations, or {LARGEST_MICRO_BATCHES:,} "
    "micro-batches, per step",
    SEQUENCE: "the sequence cannot be divided so",
}


Saver = tuple[int, Recomputation, bool]
"""ZeRO stage, recomputation, offload."""


@dataclass(frozen=True, slots=True)
class Point:
    """Degrees and a micro-batch size, with the chunks per device that they allow."""

    degrees: Degrees
    micro_batch_size: int
    micro_batches: int
    interleavings: tuple[int, ...]


@dataclass
class Count:
    """How many configurations there are, and how many points were left out by rule."""

    configurations: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def points(spec: TrainingSpec, left_out: Counter[str]) -> Iterator[Point]:
    """All degrees and micro-batch sizes, by number of GPUs; counts in `left_out` what cannot be."""
    for devices in spec.devices:
        for degrees in _degrees(spec, devices):
            if spec.global_batch_size % degrees.data:
                left_out[BATCH] += 1
                continue
            samples = spec.global_batch_size // degrees.data
            for size in _micro_batch_sizes(spec.choices, samples):
                count = samples // size
                if (
                    count > LARGEST_MICRO_BATCHES
                    or 3 * degrees.pipeline * count > LARGEST_OPERATIONS
                ):
                    left_out[OPERATIONS] += 1
                    continue
                chunks = _interleavings(spec, degrees.pipeline, count)
                if chunks:
                    yield Point(degrees, size, count, chunks)


def count_configurations(spec: TrainingSpec) -> Count:
    """Without making them."""
    count = Count()
    for point in points(spec, count.left_out):
        count.configurations += len(point.interleavings) * len(savers(spec, point.degrees))
    return count


def savers(spec: TrainingSpec, degrees: Degrees) -> list[tuple[int, Recomputation, bool]]:
    """ZeRO stage, recomputation and offload, mildest first.

    ZeRO is one thing where nothing is replicated, selective recomputation nothing beside flash
    attention, and one micro-batch at a time leaves nothing to offload.
    """
    stages = spec.choices.zero_stage
    if degrees.replicas == 1:
        stages = stages[:1]
    recomputations = spec.choices.recomputation
    if spec.fixed["flash_attention"] and Recomputation.NONE in recomputations:
        recomputations = tuple(r for r in recomputations if r is not Recomputation.SELECTIVE)
    offloads = spec.choices.offload
    if degrees.pipeline == 1:
        offloads = offloads[:1]
    return [(z, r, o) for o in offloads for r in recomputations for z in stages]


def _degrees(spec: TrainingSpec, devices: int) -> Iterator[Degrees]:
    choices, model = spec.choices, spec.model
    for tensor in choices.tensor_parallel or tensor_degrees(model, spec.cluster):
        if devices % tensor:
            continue
        for context in choices.context_parallel or _context_degrees(spec, devices // tensor):
            if devices // tensor % context:
                continue
            groups = devices // tensor // context
            for pipeline in _divisors(groups):
                data = groups // pipeline
                if (
                    pipeline > model.layers
                    or not _allowed(choices.pipeline_parallel, pipeline)
                    or not _allowed(choices.data_parallel, data)
                ):
                    continue
                for expert in expert_degrees(model, data * context):
                    if _allowed(choices.expert_parallel, expert):
                        yield Degrees(pipeline, tensor, data, context, expert)


def _context_degrees(spec: TrainingSpec, groups: int) -> list[int]:
    """Sequences are shared where each rank keeps enough of one to be worth it."""
    sequence = spec.fixed.get("sequence", spec.model.sequence)
    return [
        degree
        for degree in _divisors(groups)
        if degree == 1 or (sequence % (2 * degree) == 0 and sequence // degree >= CONTEXT_TOKENS)
    ]


def _micro_batch_sizes(choices: Choices, samples: int) -> Sequence[int]:
    if choices.micro_batch_size is None:
        return [size for size in _divisors(samples) if size <= LARGEST_MICRO_BATCH]
    return [size for size in choices.micro_batch_size if samples % size == 0]


def _interleavings(spec: TrainingSpec, pipeline: int, count: int) -> tuple[int, ...]:
    layers, given = spec.model.layers, spec.fixed.get("layers_per_stage")
    if given is not None:
        tried: Sequence[int] = [] if len(given) % pipeline else [len(given) // pipeline]
    else:
        tried = range(1, min(layers // pipeline, LARGEST_INTERLEAVING) + 1)
    wanted = spec.choices.interleaving
    return tuple(
        chunks
        for chunks in tried
        if (chunks == 1 or (pipeline > 1 and count % pipeline == 0))
        and _allowed(wanted, chunks)
        and (wanted is not None or _is_usual(chunks, pipeline, layers) or given is not None)
    )


def _is_usual(chunks: int, pipeline: int, layers: int) -> bool:
    return chunks == 1 or chunks in USUAL_CHUNKS or layers % (pipeline * chunks) == 0


def _allowed(wanted: Sequence[int] | None, value: int) -> bool:
    return wanted is None or value in wanted


@lru_cache(maxsize=4096)
def _divisors(number: int) -> tuple[int, ...]:
    """Ascending; those above `LARGEST_MICRO_BATCH` may be missing."""
    small = [d for d in range(1, min(isqrt(number), LARGEST_MICRO_BATCH) + 1) if number % d == 0]
    large = [number // d for d in small if number // d > isqrt(number)]
    return (*small, *reversed(large))
