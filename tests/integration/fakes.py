"""Stand-ins for the planner, so that the service is tested without solving anything."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.errors import SpecError

FAKE_SOLVER = Path(__file__).parent / "fake_solver.py"
PROBLEM = {
    "micro_batches": 1,
    "devices": [{}],
    "stages": [{"device": 0, "forward_ns": 3, "backward_input_ns": 4}],
}
SCHEDULE = {
    "ops": [
        {"op": "F", "stage": 0, "micro_batch": 0, "start_ns": 0, "end_ns": 3},
        {"op": "B", "stage": 0, "micro_batch": 0, "start_ns": 3, "end_ns": 7},
    ],
    "makespan_ns": 7,
    "steady_span_ns": 7,
    "peak_memory_bytes": [0],
    "lower_bound_ns": None,
}
START = {"placement": "as_posted", "schedule": SCHEDULE}
INSTANCE = {
    "operators": [
        {
            "name": "linear",
            "strategies": [
                {
                    "name": "d2-r1-c1",
                    "redundant_bytes": 10,
                    "communication_bytes": 5,
                    "memory_bytes": 40,
                }
            ],
        }
    ],
    "edges": [],
    "alpha": 0.1,
    "device_memory_bytes": None,
}
PLAN = {
    "choice": [0],
    "objective": 10.5,
    "memory_bytes": 40,
    "status": "optimal",
    "lower_bound": 10.5,
    "operators": [],
}
SHARDING_START = {
    "instance": INSTANCE,
    "plan": {**PLAN, "status": "feasible", "lower_bound": 9.75},
    "baselines": [],
    "certificate": {"verified": True, "proven_optimal": False, "lower_bound": 9.75},
}

TRAINING_PLAN = {
    "plans": [{"step_time_ns": 7, "tensor_parallel": 2}],
    "best": {"training": {"tensor_parallel": 2}},
    "searched": {"considered": 3},
    "dropped": [],
}
TRAINING_START = {
    **TRAINING_PLAN,
    "certificate": {"proven_optimal": False, "lower_bound_ns": 5},
    "provenance": {"engine": "auto"},
}


@dataclass(frozen=True)
class FakeRequest:
    """What `resolve_fake` makes of a body: its `script` is what the fake solver will do."""

    spec: dict[str, Any]
    spec_hash: str
    engine: str
    engine_named: bool
    time_limit_s: float
    problem_hash: str
    shape_hash: str | None
    profile: dict[str, Any] | None
    mip_gap: float
    is_reproducible: bool
    devices: int = 1
    gpus: int = 1
    stages: int = 1
    micro_batches: int = 1
    operations: int = 3

    def preview(self) -> dict[str, Any]:
        return {"placements": [{"placement": "as_posted", "problem": PROBLEM}]}


def resolve_fake(body: Mapping[str, Any]) -> FakeRequest:
    """Bodies are ``{"script": ..., "engine": ..., "time_limit_s": ...}`` and so on.

    Scripts stand for problems. Those that are ``{"do": ..., "limit": ..., "time": ...}`` are of
    one shape for each "do".
    """
    unknown = set(body) - {"script", "engine", "time_limit_s", "mip_gap", "search_iterations"}
    if unknown:
        raise SpecError((unknown.pop(),), "is not a known field.", "Remove it.")
    script = body.get("script", "answer")
    engine = body.get("engine")
    spec = {
        "kind": "pipeline",
        "script": script,
        "candidates": [{"placement": "as_posted", "problem": PROBLEM}],
        "options": {"engine": engine or "auto"},
    }
    options = [body.get("time_limit_s", 60.0), body.get("mip_gap"), body.get("search_iterations")]
    numbers = {"time": 1, "limit": 1, **(script if isinstance(script, dict) else {})}
    return FakeRequest(
        spec=spec,
        spec_hash=_hash([script, options]),
        engine=engine or "auto",
        engine_named=engine is not None,
        time_limit_s=body.get("time_limit_s", 60.0),
        problem_hash=_hash(script),
        shape_hash=_hash(script["do"]) if isinstance(script, dict) else _hash(script),
        profile={
            "without_limits": str(numbers["time"]),
            "values": [numbers["time"], numbers["limit"]],
        },
        mip_gap=body.get("mip_gap", 0.0),
        is_reproducible="search_iterations" in body,
    )


def resolve_fake_sharding(body: Mapping[str, Any]) -> FakeRequest:
    """Bodies are ``{"script": ..., "engine": ..., "time_limit_s": ..., "devices": ...}``."""
    unknown = set(body) - {"script", "engine", "time_limit_s", "devices"}
    if unknown:
        raise SpecError((unknown.pop(),), "is not a known field.", "Remove it.")
    script, engine = body.get("script", "answer"), body.get("engine")
    time_limit_s = body.get("time_limit_s", 60.0)
    spec = {"kind": "sharding", "script": script, "options": {"engine": engine or "cbc"}}
    return FakeRequest(
        spec=spec,
        spec_hash=_hash(["sharding", script, time_limit_s]),
        engine=engine or "cbc",
        engine_named=engine is not None,
        time_limit_s=time_limit_s,
        problem_hash=_hash(["sharding", script]),
        shape_hash=None,
        profile=None,
        mip_gap=0.0,
        is_reproducible=False,
        devices=len(str(body.get("devices", ""))),
    )


def resolve_fake_training(body: Mapping[str, Any]) -> FakeRequest:
    """Bodies are ``{"script": ..., "time_limit_s": ..., "gpus": ..., "training": ...}``."""
    unknown = set(body) - {"script", "time_limit_s", "gpus", "training"}
    if unknown:
        raise SpecError((unknown.pop(),), "is not a known field.", "Remove it.")
    script, time_limit_s = body.get("script", "answer"), body.get("time_limit_s", 60.0)
    return FakeRequest(
        spec={"kind": "training", "script": script, "options": {"engine": "auto"}},
        spec_hash=_hash(["training", script, time_limit_s]),
        engine="auto",
        engine_named=False,
        time_limit_s=time_limit_s,
        problem_hash=_hash(["training", script]),
        shape_hash=None,
        profile=None,
        mip_gap=0.0,
        is_reproducible=False,
        gpus=body.get("gpus", 8),
    )


def _hash(document: Any) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def succeeded(
    objective: int = 7, lower_bound: int = 7, proven_optimal: bool = True
) -> dict[str, Any]:
    """A result as the planner returns it."""
    return {
        "state": "succeeded",
        "objective": objective,
        "lower_bound": lower_bound,
        "proven_optimal": proven_optimal,
        "document": {
            "problem": PROBLEM,
            "schedule": SCHEDULE,
            "comparison": [],
            "certificate": {"proven_optimal": proven_optimal, "memory_safe_under_jitter": True},
            "provenance": {"engine": "cbc"},
        },
    }


def sharded(
    objective: float = 10.5, lower_bound: float = 10.5, proven_optimal: bool = True
) -> dict[str, Any]:
    """A sharding plan as the planner returns it."""
    return {
        "state": "succeeded",
        "objective": objective,
        "lower_bound": lower_bound,
        "proven_optimal": proven_optimal,
        "document": {
            "instance": INSTANCE,
            "plan": PLAN,
            "baselines": [],
            "certificate": {"proven_optimal": proven_optimal},
            "provenance": {"engine": "cbc"},
        },
    }


def trained(
    objective: int = 7, lower_bound: int = 7, proven_optimal: bool = True
) -> dict[str, Any]:
    """A training plan as the planner returns it."""
    certificate = {"proven_optimal": proven_optimal, "lower_bound_ns": lower_bound}
    return {
        "state": "succeeded",
        "objective": objective,
        "lower_bound": lower_bound,
        "proven_optimal": proven_optimal,
        "document": {**TRAINING_START, "certificate": certificate},
    }


def infeasible() -> dict[str, Any]:
    """An infeasible result as the planner returns it."""
    return {
        "state": "infeasible",
        "document": {
            "problem": PROBLEM,
            "infeasibility": {"devices": [0]},
            "provenance": {},
        },
    }
