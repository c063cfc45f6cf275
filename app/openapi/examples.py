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


def add_examples(document: dict[str, Any]) -> None:
    """Put them into every request body."""
    bodies: dict[str, Iterable[Mapping[str, Any]]] = {
        "/v1/pipeline-schedules": example_bodies("pipeline"),
        "/v1/sharding-plans": example_bodies("sharding"),
        "/v1/training-plans": example_bodies("training"),
        "/v1/batches": [_batch()],
    }
    for path, operations in document["paths"].items():
        if "requestBody" not in operations.get("post", {}):
            continue
        content = operations["post"]["requestBody"]["content"]["application/json"]
        examples = bodies.get(path, [ESTIMATED])
        content["examples"] = {
            f"example-{number}": {"summary": body.get("name", "GPT-2 on 8 GPUs"), "value": body}
            for number, body in enumerate(examples, start=1)
        }


def _batch() -> dict[str, Any]:
    requests = [
        {"kind": "pipeline", "request": example_bodies("pipeline")[0]},
        {"kind": "sharding", "request": example_bodies("sharding")[0]},
        {"kind": "training", "request": example_bodies("training")[0]},
    ]
    return {"name": "One of each kind", "requests": requests}
