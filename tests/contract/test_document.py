"""The OpenAPI document is whole, and docs/openapi.json is the one that the service answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from app.callers import Scope
from app.openapi.__main__ import FILE, document_text
from app.openapi.document import TAGS
from app.schemas.calibrations import CalibrationRequest
from app.schemas.runs import AckRequest
from planner.diagnoses import request as diagnosis_request
from planner.estimates.registry import ESTIMATES
from planner.following.settings import read_follow
from planner.following.telemetry import read_telemetry
from planner.pipeline import request as pipeline_request
from planner.sharding import request as sharding_request
from planner.training import request as training_request
from tests.contract.surface import compare, openapi_surface


def resolve_run(body: dict[str, Any]) -> None:
    read_follow(body["follow"])
    pipeline_request.resolve_request({key: body[key] for key in body if key != "follow"})


RESOLVE: dict[str, Any] = {
    "/v1/runs": resolve_run,
    "/v1/runs/{run_id}": lambda body: read_follow(body["follow"]),
    "/v1/runs/{run_id}/telemetry": lambda body: read_telemetry(body, stages=1),
    "/v1/runs/{run_id}/plan/{version}/ack": AckRequest.model_validate,
    "/v1/pipeline-schedules": pipeline_request.resolve_request,
    "/v1/sharding-plans": sharding_request.resolve_request,
    "/v1/training-plans": training_request.resolve_request,
    **{f"/v1/{name}-estimates": estimate for name, estimate in ESTIMATES.items()},
    "/v1/calibrations": CalibrationRequest.model_validate,
    "/v1/diagnoses": diagnosis_request.read_request,
}
WITHOUT_BODY = {"204", "304"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(document_text())
    return parsed


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_the_kept_document_is_up_to_date() -> None:
    kept, now = FILE.read_text("utf-8"), document_text()
    surfaces = [openapi_surface(json.loads(text)) for text in (kept, now)]
    assert kept == now, compare(*surfaces).message("python -m app.openapi")


def test_every_answer_has_a_schema(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        for status, answer in operation["responses"].items():
            contents = answer.get("content", {})
            assert bool(contents) == (status not in WITHOUT_BODY), (path, method, status)
            for content in contents.values():
                assert content.get("schema") or content.get("itemSchema"), (path, method, status)
            assert "X-Request-ID" in answer["headers"]


def test_every_operation_says_which_scope_it_needs(document: dict[str, Any]) -> None:
    needed = {
        (path, method): [
            scope for either in operation["security"] for scope in either["HTTPBearer"]
        ]
        for path, method, operation in operations(document)
        if "security" in operation
    }
    assert {scope for scopes in needed.values() for scope in scopes} == set(Scope)
    assert all(needed.values())
    assert needed["/v1/jobs/{job_id}", "delete"] == [Scope.SUBMIT, Scope.ADMIN]
    assert needed["/metrics", "get"] == [Scope.METRICS]
    assert needed["/v1/memory-estimates", "post"] == [Scope.READ]


def test_every_operation_is_described_under_a_tag(document: dict[str, Any]) -> None:
    described = {tag["name"] for tag in document["tags"]}
    used = {tag for _, _, operation in operations(document) for tag in operation["tags"]}
    assert used == described == {name for name, _ in TAGS}
    assert all(operation["description"] for _, _, operation in operations(document))


def test_every_body_has_examples_that_are_accepted(document: dict[str, Any]) -> None:
    for path, _, operation in operations(document):
        if "requestBody" not in operation:
            continue
        examples = operation["requestBody"]["content"]["application/json"]["examples"]
        bodies = [example["value"] for example in examples.values()]
        assert bodies
        if path == "/v1/batches":
            assert {entry["kind"] for entry in bodies[0]["requests"]} == {
                "pipeline", "sharding", "training",
            }  # fmt: skip
        else:
            for body in bodies:
                own = {name: body[name] for name in body if name not in ("name", "tags")}
                RESOLVE[path](own)
