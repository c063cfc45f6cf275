"""How often to keep a layer's input: the checkpoint interval of activation recomputation.

The published rule of thumb K = sqrt(2 x free memory / activations of one layer) stands beside the
best of all choices that frameworks offer, found by trying each (`checkpointing`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor
from typing import Annotated, Any

from pydantic import Field

from planner.cost.build import CostModel
from planner.cost.notes import Note, notes_of
from planner.cost.profile import ProfileDocument
from planner.cost.training import Recomputation
from planner.documents import FiniteNumber
from planner.estimates.recomputation.checkpointing import (
    NOTHING,
    SELECTIVE,
    Choice,
    Method,
    Outcome,
    Rank,
    activation_bytes,
    block_choices,
    least_memory,
    least_memory_interval,
    least_overhead,
    outcome_of,
    pareto_front,
    sequential_choices,
    source_interval,
    uniform_choices,
)
from planner.estimates.recomputation.ranks import pipeline_ranks
from planner.estimates.request import EstimateRequest, read_costs, read_request
from planner.sizes import gib

Share = Annotated[FiniteNumber, Field(ge=0, le=1)]

_METHODS = {
    Method.NONE: "every activation is kept",
    Method.SELECTIVE: "attention scores are computed again in every layer",
    Method.UNIFORM: "every segment of layers_per_segment layers is computed again from its input, "
    "the last one too",
    Method.SEQUENTIAL: "as uniform, but the last segment is kept",
    Method.BLOCK: "the first recomputed_layers layers are computed again, each from its input",
}


class RecomputationRequest(EstimateRequest):
    """The documents, and how much longer a step may take."""

    most_overhead: Share | None = Field(
        default=None,
        description="Also answer the choice of least memory that costs at most this share of the "
        "computation, such as 0.15.",
    )


def estimate_recomputation(body: Mapping[str, Any]) -> dict[str, Any]:
    """Every choice of what to recompute with its memory and time, and the rule of thumb.

    Memory is that of the pipeline rank with the least room, time that of the slowest one, whose
    F + B + W sets the pace. `training.recomputation` does not matter: all are tried. Raises
    `SpecError` that names the field at fault.
    """
    request = read_request(RecomputationRequest, body)
    costs = read_costs(request)
    ranks = pipeline_ranks(costs)
    layers = max(max(rank.layers) for rank in ranks)
    plain = outcome_of(ranks, NOTHING)

    def outcomes(choices: Sequence[Choice]) -> list[Outcome]:
        return [outcome_of(ranks, choice) for choice in choices]

    families = {
        "uniform": outcomes(uniform_choices(layers)),
        "sequential": outcomes(sequential_choices(layers)),
        "block": outcomes(block_choices(layers)),
    }
    has_scores = any(rank.scores_bytes for rank in ranks)
    whole = [plain, *(outcomes([SELECTIVE]) if has_scores else [])]
    everything = [*whole, *(outcome for family in families.values() for outcome in family)]

    def document(outcome: Outcome | None) -> dict[str, Any] | None:
        return None if outcome is None else _outcome_document(outcome, plain)

    answer = {
        "layers": layers,
        "rank": plain.tightest.rank,
        "per_rank": [_rank_document(rank) for rank in ranks],
        "source_formula": _source_document(ranks, plain),
        "least_memory_formula": _least_memory_document(plain.tightest),
        "best": document(least_overhead(everything)),
        "best_interval": document(least_overhead([plain, *families["uniform"]])),
        "least_memory": document(least_memory(everything)),
        "pareto": [document(outcome) for outcome in pareto_front(everything)],
        "whole_layers": [document(outcome) for outcome in whole],
    }
    answer |= {name: [document(o) for o in family] for name, family in families.items()}
    if request.most_overhead is not None:
        cheap = [o for o in everything if o.overhead <= request.most_overhead]
        answer["within_most_overhead"] = document(least_memory(cheap))
    return answer | {
        "methods": {method.value: words for method, words in _METHODS.items()},
        "assumptions": [*_notes(), *notes_of(costs, ())],
        "warnings": _warnings(costs, everything),
    }


def _rank_document(rank: Rank) -> dict[str, Any]:
    kept = activation_bytes(rank, NOTHING)
    return {
        "rank": rank.rank,
        "layers": list(rank.layers),
        "in_flight": list(rank.held),
        "free_bytes": rank.free_bytes,
        "other_bytes": rank.other_bytes,
        "layer_bytes": rank.layer_bytes,
        "layer_input_bytes": rank.input_bytes,
        "activation_bytes": kept,
        "fits": kept <= rank.free_bytes,
        "compute_ns": rank.compute_ns,
        "layer_repeat_ns": rank.forward_ns,
        "source_interval": _rounded(source_interval(rank)),
    }


def _outcome_document(outcome: Outcome, plain: Outcome) -> dict[str, Any]:
    """`memory_saved` compares the fullest ranks, model states included, `activations_saved` the
    activations of the tightest ones."""
    choice, rank = outcome.choice, outcome.tightest
    chunk = max(rank.layers)
    recomputed = choice.recomputed_layers(chunk)
    return {
        "method": choice.method.value,
        "layers_per_segment": choice.segment_layers(chunk) if recomputed else None,
        "recomputed_layers": recomputed,
        "rank": rank.rank,
        "activation_bytes": outcome.activation_bytes,
        "peak_bytes": outcome.peak_bytes,
        "headroom_bytes": outcome.headroom_bytes,
        "fits": outcome.fits,
        "memory_saved": round(1 - outcome.peak_bytes / plain.peak_bytes, 4),
        "activations_saved": round(1 - outcome.activation_bytes / plain.activation_bytes, 4),
        "overhead": round(outcome.overhead, 4),
        "overhead_ns": outcome.pace_ns - plain.pace_ns,
        "how": how_to_ask(choice),
    }


def how_to_ask(choice: Choice) -> str:
    """What to give Megatron-LM, or PyTorch where it has no such choice."""
    if choice.method is Method.NONE:
        return "no recomputation flags"
    if choice.method is Method.SELECTIVE:
        return "--recompute-granularity selective"
    if choice.method is Method.SEQUENTIAL:
        return f"torch.utils.checkpoint.checkpoint_sequential(layers, segments={choice.count}, x)"
    return (
        f"--recompute-granularity full --recompute-method {choice.method} "
        f"--recompute-num-layers {choice.count}"
    )


def _source_document(ranks: Sequence[Rank], plain: Outcome) -> dict[str, Any]:
    """K = sqrt(2 free / A) for the rank with the least room, read as a segment length."""
    rank = plain.tightest
    interval = source_interval(rank)
    document: dict[str, Any] = {
        "formula": "K = sqrt(2 x free memory / activations of one layer)",
        "rank": rank.rank,
        "free_bytes": rank.free_bytes,
        "layer_bytes": rank.layer_bytes,
        "interval": _rounded(interval),
        "remarks": [*_REMARKS],
    }
    if interval is None:
        document["remarks"].append(
            f"No value: model states and reserve leave {gib(rank.free_bytes)} on rank "
            f"{rank.rank}; no recomputation helps. Shard the states (zero_stage, tensor_parallel, "
            "pipeline_parallel) or take larger GPUs."
        )
        return document | {"layers_per_segment": None, "choice": None}
    layers = max(rank.layers)
    read = min(layers, max(1, floor(interval)))
    outcome = outcome_of(ranks, Choice(Method.UNIFORM, read))
    document |= {"layers_per_segment": read, "choice": _outcome_document(outcome, plain)}
    if interval > layers:
        document["remarks"].append(
            f"It exceeds the {layers} layers that there are: read as one segment of all of "
            "them, which rebuilds everything at once and saves nothing."
        )
    if plain.fits:
        document["remarks"].append(
            "Everything fits without recomputation, which the formula cannot say: it recomputes "
            "all layers whatever memory is free."
        )
    if not outcome.fits:
        document["remarks"].append(
            f"With it rank {outcome.tightest.rank} lacks {gib(-outcome.headroom_bytes)}."
        )
    return document


_REMARKS = (
    "Bytes over bytes under the root: a number without unit, not of layers. It has the form of "
    "Young's interval between saves of a program (1974), sqrt(2 x time of a save x time between "
    "failures), where both factors are times.",
    "It knows neither how many layers there are, nor how large a layer's input is, nor how many "
    "micro-batches are in flight, and it grows with free memory, as what a segment rebuilds does.",
    "Every interval recomputes all layers and costs the same time; only memory differs.",
)


def _least_memory_document(rank: Rank) -> dict[str, Any]:
    interval = least_memory_interval(rank)
    return {
        "formula": "K = sqrt(n L I / A): n micro-batches in flight, L layers, I bytes of a layer's "
        "input, A of its activations; L / K segments",
        "rank": rank.rank,
        "interval": _rounded(interval),
        "segments": _rounded(max(rank.layers) / interval),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _notes() -> list[Note]:
    return [
        {
            "what": "what is recomputed",
            "value": "one more forward of each recomputed layer, with its collectives; ZeRO-3 "
            "gathers its parameters no second time",
            "basis": "Chen et al. 2016 (arXiv 1604.06174); Korthikanti et al. 2022, section 5. "
            "Uniform and block recompute the last segment too (Megatron-LM), sequential keeps it "
            "(PyTorch's checkpoint_sequential).",
        },
        {
            "what": "peak of the activations",
            "value": "the largest of: all that is kept with the head at work; with the backward of "
            "a kept layer; with a segment rebuilt by the oldest micro-batch",
            "basis": "A micro-batch's kept layers are gone when its recomputed ones come back, and "
            "its logits before that, as in memory estimates. The problem of a schedule counts "
            "logits and a rebuilt layer of the last rank at once.",
        },
        {
            "what": "micro-batches in flight",
            "value": "as many as 1F1B keeps; the backward in one operation",
            "basis": "Narayanan et al. 2021; Korthikanti et al. 2022, section 4.2.3, for several "
            "chunks. A schedule solver may keep more or fewer.",
        },
        {
            "what": "overhead",
            "value": "by how much F + B + W of the slowest rank grows",
            "basis": "That rank sets the pace of the pipeline; transfers, gradient reduction and "
            "optimizer take as long as before.",
        },
    ]


def _warnings(costs: CostModel, outcomes: Sequence[Outcome]) -> list[str]:
    found = []
    if not any(outcome.fits for outcome in outcomes):
        best = least_memory(outcomes)
        found.append(
            f"Nothing fits: with {best.choice.method} recomputation rank {best.tightest.rank} "
            f"still lacks {gib(-best.headroom_bytes)}. Lower micro_batch_size, raise "
            "tensor_parallel, pipeline_parallel or zero_stage, or offload."
        )
    training = costs.training
    if training.profile != ProfileDocument() and training.recomputation is not Recomputation.NONE:
        found.append(
            "The measured profile is taken as one without recomputation, although "
            f"training.recomputation is {training.recomputation}."
        )
    return found
