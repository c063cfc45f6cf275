"""Diagnoses are answered at once, without a job and without a database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.main import create_app
from app.openapi.examples import DIAGNOSED
from app.schemas.diagnoses import DiagnosisView
from app.settings import Settings
from planner.diagnoses.names import Symptom
from tests.integration.conftest import WITHOUT_KEYS
from tests.unit.diagnoses.cases import problem, slower, telemetry

PATH = "/v1/diagnoses"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """The API, whose database is down."""
    settings = Settings(
        database_url=f"postgresql://nobody@/nothing?host={tmp_path}",
        database_timeout_s=1,
        max_body_bytes=100_000,
        max_gpus=16,
        max_micro_batches=64,
        max_stages=16,
        **WITHOUT_KEYS,
    )
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


def test_a_straggler_is_found_and_timed(client: TestClient) -> None:
    document = problem()
    body = {
        "problem": document,
        "telemetry": telemetry(document, change=slower(1.5, stage=1)),
    }
    response = client.post(PATH, json=body)
    assert response.status_code == 200, response.text
    DiagnosisView.model_validate(response.json())
    assert response.json()["symptoms"][0]["symptom"] == "plan_with_bad_throughput"
    straggler = next(own for own in response.json()["causes"] if own["cause"] == "straggler_gpu")
    assert straggler["state"] == "supported"
    assert straggler["remedies"][0]["predicted_effect"]["change"] < 0
    assert client.get(PATH).status_code == 405


@pytest.mark.parametrize("symptom", [*Symptom])
def test_each_symptom_is_answered_by_itself(client: TestClient, symptom: Symptom) -> None:
    response = client.post(PATH, json={"symptoms": [symptom]})
    assert response.status_code == 200
    assert {own["state"] for own in response.json()["causes"]} == {"possible"}
    assert all(own["checks"] for own in response.json()["causes"])


def test_the_example_is_answered(client: TestClient) -> None:
    found = client.post(PATH, json=DIAGNOSED).json()
    assert "straggler_gpu" in {own["cause"] for own in found["causes"]}


@pytest.mark.parametrize(
    ("body", "code", "path"),
    [
        ({}, "invalid_request", "symptoms"),
        ({"symptoms": ["slow"]}, "invalid_request", "symptoms.0"),
        ({"symptoms": ["nan_loss"], "orders": [["F"]]}, "invalid_request", "orders.0.0"),
        ({"problem": problem(micro_batches=65)}, "limit_exceeded", "problem.micro_batches"),
        ({"problem": problem(stages=17)}, "limit_exceeded", "problem.stages"),
        ({"model": "GPT-2", "cluster": "3x8xH100"}, "limit_exceeded", "cluster"),
        (
            {
                "model": "GPT-2",
                "cluster": "1x8xH100",
                "training": {"micro_batches": 65},
            },
            "limit_exceeded",
            "training.micro_batches",
        ),
    ],
)
def test_refusals_name_the_field(
    client: TestClient, body: dict[str, Any], code: str, path: str
) -> None:
    response = client.post(PATH, json=body)
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    error = response.json()
    assert (error["code"], error["errors"][0]["path"]) == (code, path)
    assert error["errors"][0]["remedy"]


@pytest.mark.parametrize(
    ("content", "media_type", "code"),
    [
        (b"{", "application/json", "malformed_body"),
        (b"[]", "application/json", "invalid_request"),
        (b"a=1", "text/plain", "unsupported_media_type"),
        (b" " * 100_001, "application/json", "body_too_large"),
    ],
)
def test_bodies_are_read_as_strictly_as_others(
    client: TestClient, content: bytes, media_type: str, code: str
) -> None:
    response = client.post(PATH, content=content, headers={"content-type": media_type})
    assert response.json()["code"] == code
