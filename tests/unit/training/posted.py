"""Small requests for training plans, and what a search makes of them."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

from planner.training.evaluate import Evaluator, Plan, Shortage
from planner.training.request import resolve_request
from planner.training.search import Found, family_of, search
from planner.training.space import points, savers
from planner.training.spec import TrainingSpec
from planner.training.trainings import states_of, training_of, with_savers

Body = dict[str, Any]

GPU: Body = {
    "memory_bytes": 4 * 2**30,
    "bf16_flop_per_s": 3e14,
    "fp32_flop_per_s": 2e13,
    "hbm_bytes_per_s": 2e12,
    "nvlink_bytes_per_s": 3e11,
    "pcie_bytes_per_s": 3e10,
}
MODEL: Body = {
    "layers": 8,
    "hidden_size": 1024,
    "heads": 16,
    "vocabulary": 32_000,
    "sequence": 1024,
}
SMALL: Body = {
    "memory_headroom": 0.0,
    "model": MODEL,
    "cluster": {"gpu": GPU, "nodes": 2, "gpus_per_node": 4, "reserved_bytes": 2**28},
    "training": {"global_batch_size": 32, "flash_attention": False},
}


def body(**changes: Any) -> Body:
    """The small request with fields of its parts changed: `gpu`, `model`, `cluster`, `training`,
    or whole fields of the body."""
    made = copy.deepcopy(SMALL)
    made["cluster"]["gpu"] = GPU | changes.pop("gpu", {})
    for name in ("model", "cluster", "training"):
        made[name] |= changes.pop(name, {})
    return made | changes


def spec_of(request: Body) -> TrainingSpec:
    """The resolved request."""
    return resolve_request(request).resolved


def evaluator_of(spec: TrainingSpec) -> Evaluator:
    """For all configurations of a spec."""
    return Evaluator(spec.model, spec.cluster, states_of(spec))


def search_for(request: Body) -> tuple[TrainingSpec, Found]:
    """The spec and what its search finds."""
    spec = spec_of(request)
    return spec, search(spec, evaluator_of(spec))


def outcomes(spec: TrainingSpec) -> list[Plan | Shortage]:
    """Every configuration worked out, in the order in which they are enumerated."""
    evaluator = evaluator_of(spec)
    return [
        evaluator.evaluate(with_savers(training, spec, chunks, saver))
        for point in points(spec, Counter())
        for training in [training_of(spec, point, None)]
        for chunks in point.interleavings
        for saver in savers(spec, point.degrees)
    ]


def fitting(spec: TrainingSpec) -> list[Plan]:
    """Those that fit; offloads that are not needed are no configuration of their own."""
    needless = False in spec.choices.offload
    return [
        plan
        for plan in outcomes(spec)
        if isinstance(plan, Plan)
        and not (plan.training.offload and plan.offload is None and needless)
    ]


def ranking(spec: TrainingSpec) -> list[Plan]:
    """By brute force: the first plan of each family, in order."""
    best: dict[tuple[Any, ...], Plan] = {}
    for plan in fitting(spec):
        family = family_of(plan.training)
        if family not in best or plan.key < best[family].key:
            best[family] = plan
    return sorted(best.values(), key=lambda plan: plan.key)
