"""Where the experts of a plan lie, and how much more the busiest of their ranks has to do."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from planner.cost.blocks import activation_shape
from planner.cost.hardware import Cluster
from planner.cost.memory import StateBytes
from planner.cost.model import Model
from planner.cost.parameters import Shard, layer_shard
from planner.cost.times import compute_s
from planner.cost.training import Training
from planner.errors import SpecError
from planner.progress import StopCheck
from planner.training.experts.answer import answer_of, mean_load_factor
from planner.training.experts.place import (
    Placement,
    PlacementOptions,
    place_experts,
    place_quickly,
)
from planner.training.experts.problem import ExpertCosts, ExpertGroup, ExpertProblem
from planner.training.experts.routing import Routing
from planner.training.space import points
from planner.training.spec import TrainingSpec
from planner.training.trainings import states_of, training_of

LOAD_PARTS = 1_000_000


@dataclass(frozen=True)
class PlacedExperts:
    """The placement as JSON, and the load of the busiest expert rank over the mean."""

    document: dict[str, Any]
    load: float


Kind = tuple[int, int]
"""Expert and tensor degree: what the best placement depends on. Computing and exchanging both grow
with the micro-batch, so its size does not matter."""


def place_experts_of(
    spec: TrainingSpec,
    time_limit_s: float,
    should_stop: StopCheck,
    on_log: Callable[[str], None],
) -> dict[Kind, PlacedExperts]:
    """The best placement found for every expert and tensor degree that is searched, by CBC unless
    HiGHS is asked for; none where the load is given instead. Without finalists no engine runs.

    Raises `SolverCrash` if the engine dies by itself.
    """
    if not spec.model.has_router or "expert_load" in spec.request["training"]:
        return {}
    model = spec.model
    even = Routing(((1.0,) * model.experts,) * model.layers, model.experts_per_token)
    routing = spec.routing or even
    trainings: dict[Kind, Training] = {}
    for point in points(spec, Counter()):
        kind = (point.degrees.expert, point.degrees.tensor)
        if kind[0] > 1 and kind not in trainings:
            with suppress(SpecError):
                trainings[kind] = training_of(spec, point, None)
    problems = {
        kind: expert_problem(model, spec.cluster, training, states_of(spec), routing)
        for kind, training in trainings.items()
    }
    deadline = time.monotonic() + time_limit_s
    placed = {}
    for number, (kind, problem) in enumerate(problems.items()):
        if spec.finalists:
            share_s = max(0.0, deadline - time.monotonic()) / (len(problems) - number)
            options = _options(spec, share_s, should_stop, on_log)
            placement = place_experts(problem, options)
        else:
            placement = place_quickly(problem, should_stop)
        document = {
            "expert_parallel": kind[0],
            "tensor_parallel": kind[1],
            "micro_batch_size": trainings[kind].micro_batch_size,
            **answer_of(placement),
        }
        placed[kind] = PlacedExperts(document, _load(placement))
    return placed


def _options(
    spec: TrainingSpec, time_limit_s: float, should_stop: StopCheck, on_log: Callable[[str], None]
) -> PlacementOptions:
    return PlacementOptions(
        engine="highs" if spec.options.engine == "highs" else "cbc",
        time_limit_s=time_limit_s,
        mip_gap=spec.options.mip_gap,
        threads=spec.options.threads,
        seed=spec.options.seed,
        should_stop=should_stop,
        on_log=on_log,
    )


def expert_problem(
    model: Model, cluster: Cluster, training: Training, states: StateBytes, routing: Routing
) -> ExpertProblem:
    """The experts of all layers on the ranks of one expert group, which are `tensor` GPUs apart.

    Each rank starts with its part of a micro-batch's tokens; an expert's matrix products take
    2 FLOPs per weight and token in each of F, B and W.
    """
    degrees, shape = training.degrees, activation_shape(training)
    matrices = 3 if model.gated else 2
    weights = matrices * model.hidden_size * model.ffn_hidden_size
    flops = 3 * 2 * weights * shape.unsplit_ranks // degrees.tensor
    own = model.experts // degrees.expert
    one = layer_shard(model, degrees.tensor, degrees.expert).expert // own
    return ExpertProblem(
        routing=routing,
        group=ExpertGroup(
            node_of_device=tuple(
                rank * degrees.tensor // cluster.gpus_per_node for rank in range(degrees.expert)
            ),
            link_bytes_per_s=cluster.link_bytes_per_s,
            network_bytes_per_s=cluster.network_bytes_per_s,
        ),
        costs=ExpertCosts(
            state_bytes=states.on_rank(Shard(0, one), training.zero_stage, degrees),
            tokens=shape.tokens // shape.unsplit_ranks,
            token_bytes=model.hidden_size * shape.element_bytes,
            token_compute_s=compute_s(flops, cluster, training.precision),
        ),
    )


def _load(placement: Placement) -> float:
    """Rounded up, so that the document that is posted says no less."""
    factor = max(1.0, mean_load_factor(placement))
    return math.ceil(factor * LOAD_PARTS - 1e-3) / LOAD_PARTS
