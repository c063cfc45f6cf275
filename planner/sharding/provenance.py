"""How an answer came about: versions, times, sizes, and all that its numbers depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from planner.sharding.spec import ShardingSpec
from planner.sharding.stage_answer import StageAnswer
from planner.version import __version__

ENGINE_PACKAGES = {"cbc": ("cbcbox", "mip"), "highs": ("highsbox", "mip")}


def provenance_of(
    spec: ShardingSpec, stages: Sequence[StageAnswer], seconds: float
) -> dict[str, Any]:
    """The `provenance` part of an answer after `seconds`."""
    options = spec.options
    warnings = dict.fromkeys(text for answer in stages for text in answer.formulation.warnings)
    return {
        "planner_version": __version__,
        "engine": options.engine,
        "packages": {name: version(name) for name in ENGINE_PACKAGES[options.engine]},
        "solve_seconds": round(sum(answer.solve_seconds for answer in stages), 4),
        "total_seconds": round(seconds, 3),
        "model": [_model_size(answer) for answer in stages],
        "options": options.to_document(),
        "warnings": list(warnings),
        "assumptions": [dict(assumption) for assumption in spec.assumptions],
        "settings": _settings(spec),
    }


def _settings(spec: ShardingSpec) -> Mapping[str, Any]:
    """What a number of the answer depends on, written out."""
    document = spec.to_document()
    names = ("training", "communication", "redundancy", "terms", "memory_limits", "alphas")
    return {name: document[name] for name in names} | {
        "devices": spec.devices.count,
        "devices_per_node": spec.devices.devices_per_node,
        "gpu": spec.devices.cluster.gpu.name,
        "gpu_is_assumed": spec.devices.is_assumed,
        "stages": spec.stages,
    }


def _model_size(answer: StageAnswer) -> dict[str, Any]:
    found = answer.found
    return {
        "operators": len(found.instance.operators),
        "strategies": sum(len(o.strategies) for o in found.instance.operators),
        "edges": len(found.instance.edges),
        "reduced_operators": found.reduced_operators,
        "reduced_strategies": found.reduced_strategies,
        "compared_plans": found.ilp.compared,
        "columns": found.ilp.columns,
        "rows": found.ilp.rows,
        "engine_runs": found.ilp.rounds,
        "engine_seconds": round(found.ilp.engine_s, 4),
    }
