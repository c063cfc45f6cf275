"""What recomputing some of a pipeline rank's layers saves and costs, choice by choice.

A rank has L layers. The first j of them are recomputed, in segments of K neighbouring layers: of
a segment only its input is kept from forward to backward, and its backward first runs its forward
again, which rebuilds the activations of all its layers at once (Chen et al. 2016, Training Deep
Nets with Sublinear Memory Cost, arXiv 1604.06174). The other L - j layers keep everything. What
frameworks offer of this, and beside it:

- uniform: j = L. Every segment is recomputed, the last one too (Megatron-LM).
- sequential: n segments of L div n layers, of which the last one takes what is left over and keeps
  everything, as its backward follows its forward at once where one micro-batch is in flight
  (`torch.utils.checkpoint.checkpoint_sequential`).
- block: K = 1, and j is chosen (Megatron-LM).
- selective: of every layer only the attention scores are dropped and computed again (Korthikanti
  et al. 2022, arXiv 2205.05198).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt

from planner.cost.memory import ceil_div


class Method(StrEnum):
    """How frameworks choose what is recomputed."""

    NONE = "none"
    SELECTIVE = "selective"
    UNIFORM = "uniform"
    SEQUENTIAL = "sequential"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Rank:
    """One pipeline rank, per GPU and micro-batch where nothing else is said.

    `layers` has the layers of each of its chunks, `held` the micro-batches of which each chunk
    keeps activations. `layer_bytes` is what one layer keeps where nothing is recomputed,
    `input_bytes` its input and `scores_bytes` its attention scores; `workspace_bytes` is what its
    backward takes besides, and `selective_workspace_bytes` if that computes the scores again.
    `forward_ns` is a layer's forward once more, `scores_ns` that of its scores. `embedding_bytes`
    and `head_bytes` are kept beside the layers, the latter of one micro-batch only, as the head's
    backward follows its forward. `compute_ns` is F + B + W of all chunks without recomputation.
    `free_bytes` is what the device has for activations, `other_bytes` what model states and
    communication take.
    """

    rank: int
    layers: tuple[int, ...]
    held: tuple[int, ...]
    layer_bytes: int
    input_bytes: int
    scores_bytes: int
    workspace_bytes: int
    selective_workspace_bytes: int
    embedding_bytes: int
    head_bytes: int
    forward_ns: int
    scores_ns: int
    compute_ns: int
    free_bytes: int
    other_bytes: int


@dataclass(frozen=True, slots=True)
class Choice:
    """What every chunk recomputes. `count` is, by method, the layers of a segment (uniform), the
    number of segments (sequential) or of recomputed layers (block)."""

    method: Method
    count: int = 0

    def segment_layers(self, layers: int) -> int:
        """K: how many of a chunk's layers are recomputed together."""
        if self.method is Method.UNIFORM:
            return min(layers, self.count)
        if self.method is Method.SEQUENTIAL:
            return layers // min(layers, self.count)
        return 1

    def recomputed_layers(self, layers: int) -> int:
        """j: how many of a chunk's layers run forward twice."""
        if self.method is Method.UNIFORM:
            return layers
        if self.method is Method.SEQUENTIAL:
            return (min(layers, self.count) - 1) * self.segment_layers(layers)
        return min(layers, self.count)


NOTHING, SELECTIVE = Choice(Method.NONE), Choice(Method.SELECTIVE)


def uniform_choices(layers: int) -> list[Choice]:
    """Every length of a segment, for chunks of so many layers."""
    return [Choice(Method.UNIFORM, each) for each in range(1, layers + 1)]


def sequential_choices(layers: int) -> list[Choice]:
    """Every number of segments; one alone would recompute nothing."""
    return [Choice(Method.SEQUENTIAL, segments) for segments in range(2, layers + 1)]


def block_choices(layers: int) -> list[Choice]:
    """Every number of recomputed layers."""
    return [Choice(Method.BLOCK, count) for count in range(1, layers + 1)]


def activation_bytes(rank: Rank, choice: Choice) -> int:
    """The most that the rank's activations take at one time, on each GPU.

    With A bytes of a layer and I of its input, each micro-batch keeps ceil(j/K) I + (L - j) A of a
    chunk. The peak is one of these moments: the newest forward has ended, and the head is at work;
    the backward of a kept layer has begun; the oldest backward, whose kept layers are gone, has
    rebuilt a whole segment.
    """
    kept = [_kept_bytes(rank, choice, layers) for layers in rank.layers]
    held = sum(count * size for count, size in zip(rank.held, kept, strict=True))
    held += rank.held[0] * rank.embedding_bytes
    moments = [held + rank.head_bytes]
    for layers, size in zip(rank.layers, kept, strict=True):
        recomputed = choice.recomputed_layers(layers)
        if recomputed < layers:
            moments.append(held + _workspace_bytes(rank, choice))
        if recomputed:
            rebuilt = _rebuilt_bytes(rank, recomputed, choice.segment_layers(layers))
            moments.append(held - size + rebuilt + rank.workspace_bytes)
    return max(moments)


def _kept_bytes(rank: Rank, choice: Choice, layers: int) -> int:
    recomputed = choice.recomputed_layers(layers)
    each = rank.layer_bytes
    if choice.method is Method.SELECTIVE:
        each -= rank.scores_bytes
    inputs = ceil_div(recomputed, choice.segment_layers(layers)) * rank.input_bytes
    return inputs + (layers - recomputed) * each


def _workspace_bytes(rank: Rank, choice: Choice) -> int:
    is_selective = choice.method is Method.SELECTIVE
    return rank.selective_workspace_bytes if is_selective else rank.workspace_bytes


def _rebuilt_bytes(rank: Rank, recomputed: int, length: int) -> int:
    """What one micro-batch holds of its recomputed layers when the most of them is rebuilt: K A on
    top of the inputs of the segments before it, at the last segment of full length K. Its own input
    is one of what it rebuilds."""
    full_segments = recomputed // length
    return (full_segments - 1) * rank.input_bytes + length * rank.layer_bytes


def repeated_ns(rank: Rank, choice: Choice) -> int:
    """What the choice adds to the rank's time for each micro-batch."""
    if choice.method is Method.SELECTIVE:
        return sum(rank.layers) * rank.scores_ns
    return sum(map(choice.recomputed_layers, rank.layers)) * rank.forward_ns


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a choice, made on all ranks, comes to.

    `tightest` is the rank with the least room left, `peak_bytes` the most that any rank allocates
    in all, `overhead` by how much the slowest rank's F + B + W grows.
    """

    choice: Choice
    tightest: Rank
    activation_bytes: int
    headroom_bytes: int
    peak_bytes: int
    pace_ns: int
    overhead: float

    @property
    def fits(self) -> bool:
        """Whether no rank runs out of memory."""
        return self.headroom_bytes >= 0


def outcome_of(ranks: Sequence[Rank], choice: Choice) -> Outcome:
    """Memory of the tightest rank and time of the slowest, which sets the pace of the pipeline."""
    tightest = min(ranks, key=lambda rank: rank.free_bytes - activation_bytes(rank, choice))
    used = activation_bytes(tightest, choice)
    before_ns = max(rank.compute_ns for rank in ranks)
    pace_ns = max(rank.compute_ns + repeated_ns(rank, choice) for rank in ranks)
    return Outcome(
        choice=choice,
        tightest=tightest,
        activation_bytes=used,
        headroom_bytes=tightest.free_bytes - used,
        peak_bytes=max(rank.other_bytes + activation_bytes(rank, choice) for rank in ranks),
        pace_ns=pace_ns,
        overhead=(pace_ns - before_ns) / before_ns if before_ns else 0.0,
    )


def least_overhead(outcomes: Sequence[Outcome]) -> Outcome | None:
    """Of those that fit the one that costs least time, then least memory; None if none fits."""
    fitting = [outcome for outcome in outcomes if outcome.fits]
    return min(fitting, key=lambda o: (o.overhead, o.peak_bytes), default=None)


def least_memory(outcomes: Sequence[Outcome]) -> Outcome:
    """The one that takes least memory on the tightest rank, then least time."""
    return min(outcomes, key=lambda o: (-o.headroom_bytes, o.overhead, o.peak_bytes))


def pareto_front(outcomes: Sequence[Outcome]) -> Iterator[Outcome]:
    """Those that no other beats in both room left and time, the fastest first."""
    most_room: int | None = None
    for outcome in sorted(outcomes, key=lambda o: (o.overhead, -o.headroom_bytes)):
        if most_room is None or outcome.headroom_bytes > most_room:
            most_room = outcome.headroom_bytes
            yield outcome


def least_memory_interval(rank: Rank) -> float:
    """The real K that minimises n (L/K) I + K A, what a chunk's n micro-batches keep of inputs and
    one rebuilds: sqrt(n L I / A) layers per segment, hence sqrt(L A / (n I)) segments. With A = I
    and n = 1 both are the square root of L of Chen et al."""
    layers, held = max(zip(rank.layers, rank.held, strict=True))
    return sqrt(held * layers * rank.input_bytes / rank.layer_bytes)


def source_interval(rank: Rank) -> float | None:
    """sqrt(2 free / A), free being the memory left for activations and A one layer's; None where
    nothing is free."""
    if rank.free_bytes <= 0 or rank.layer_bytes <= 0:
        return None
    return sqrt(2 * rank.free_bytes / rank.layer_bytes)
