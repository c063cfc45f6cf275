"""Bodies that can be posted as they are, as the document shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from app.services.examples import example_bodies

ESTIMATED: dict[str, Any] = {
    "model": "GPT-2",
    "cluster": "8xA100-40GB",
    "training": {"micro_batches": 8, "micro_batch_size": 1, "pipeline_parallel": 4},
}
DIAGNOSED: dict[str, Any] = {
    **ESTIMATED,
    "symptoms": ["plan_with_bad_throughput", "unstable_throughput"],
    "telemetry": [
        {
            "iteration": iteration,
            "iteration_ns": 28_000_000,
            "stages": [
                {
                    "stage": stage,
                    "forward_ns": forward_ns,
                    "backward_input_ns": {"median": backward_ns},
                    "backward_weight_ns": weight_ns,
                    "gpu_utilisation": 0.7,
                }
                for stage, (forward_ns, backward_ns, weight_ns) in enumerate(
                    [
                        (112_000, 134_000, 66_000),
                        (545_000, 670_000, 315_000),
                        (760_000, 940_000, 440_000),
                        (1_307_000, 955_000, 406_000),
                    ]
                )
            ],
        }
        for iteration in (20, 21)
    ],
}


REPORTED: dict[str, Any] = {
    "iteration": 40,
    "iteration_ns": 28_000_000,
    "plan_version": 1,
    "stages": [
        {
            "stage": 0,
            "forward_ns": {"median": 545_000, "p95": 561_000},
            "backward_input_ns": 670_000,
            "backward_weight_ns": 315_000,
            "peak_memory_bytes": 31_000_000_000,
            "link_busy_share": 0.4,
        }
    ],
}


def add_examples(document: dict[str, Any]) -> None:
    """Put them into every request body."""
    bodies: dict[str, Iterable[Mapping[str, Any]]] = {
        "/v1/pipeline-schedules": example_bodies("pipeline"),
        "/v1/sharding-plans": example_bodies("sharding"),
        "/v1/training-plans": example_bodies("training"),
        "/v1/batches": [_batch()],
        "/v1/diagnoses": [DIAGNOSED],
        "/v1/calibrations": [{"gpu": "H100"}],
        "/v1/runs": [_run()],
        "/v1/runs/{run_id}": [{"follow": {"min_gain": 0.03}}],
        "/v1/runs/{run_id}/telemetry": [REPORTED, {"iterations": [REPORTED]}],
        "/v1/runs/{run_id}/plan/{version}/ack": [{"rank": 0, "iteration": 40}],
    }
    taking_a_body = [
        (path, operation)
        for path, operations in document["paths"].items()
        for operation in operations.values()
        if "requestBody" in operation
    ]
    for path, operation in taking_a_body:
        content = operation["requestBody"]["content"]["application/json"]
        examples = bodies.get(path, [ESTIMATED])
        content["examples"] = {
            f"example-{number}": {"summary": body.get("name", "GPT-2 on 8 GPUs"), "value": body}
            for number, body in enumerate(examples, start=1)
        }


def _run() -> dict[str, Any]:
    return {**example_bodies("pipeline")[0], "follow": {"resolve_every": 100, "ranks": 8}}


def _batch() -> dict[str, Any]:
    requests = [
        {"kind": "pipeline", "request": example_bodies("pipeline")[0]},
        {"kind": "sharding", "request": example_bodies("sharding")[0]},
        {"kind": "training", "request": example_bodies("training")[0]},
    ]
    return {"name": "One of each kind", "requests": requests}
