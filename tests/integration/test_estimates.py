"""Estimates are answered at once, without a job and without a database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from planner.errors import SpecError
from planner.estimates.registry import ESTIMATES, Estimate
from tests.integration.conftest import WITHOUT_KEYS
from tests.integration.fakes import resolve_fake, resolve_fake_sharding, resolve_fake_training


def stub(name: str) -> Estimate:
    def answer(body: Mapping[str, Any]) -> dict[str, Any]:
        if "model" not in body:
            raise SpecError(("model",), "is missing.", "Give one.")
        return {"estimate": name, "model": body["model"]}

    return answer


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """The API on stubs, whose database is down."""
    settings = Settings(
        database_url=f"postgresql://nobody@/nothing?host={tmp_path}",
        database_timeout_s=1,
        max_body_bytes=1000,
        max_gpus=16,
        **WITHOUT_KEYS,
    )
    stubs = {name: stub(name) for name in ESTIMATES}
    app = create_app(settings, resolve_fake, resolve_fake_sharding, resolve_fake_training, stubs)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.mark.parametrize("name", ESTIMATES)
def test_each_estimate_has_its_address(client: TestClient, name: str) -> None:
    response = client.post(f"/v1/{name}-estimates", json={"model": "GPT-2"})
    assert (response.status_code, response.json()) == (200, {"estimate": name, "model": "GPT-2"})
    assert client.get(f"/v1/{name}-estimates").status_code == 405


def test_a_fault_names_the_field_and_the_remedy(client: TestClient) -> None:
    response = client.post("/v1/memory-estimates", json={})
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    error = response.json()
    assert error["code"] == "invalid_request"
    assert error["errors"] == [{"path": "model", "message": "is missing.", "remedy": "Give one."}]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"training": {"micro_batches": 4097}}, "training.micro_batches"),
        ({"training": {"pipeline_parallel": 257}}, "training.pipeline_parallel"),
        ({"cluster": "3x8xH100"}, "cluster"),
        ({"cluster": {"gpu": "H100", "nodes": 3, "gpus_per_node": 8}}, "cluster"),
    ],
)
def test_what_is_too_large_is_refused(client: TestClient, body: dict[str, Any], path: str) -> None:
    error = client.post("/v1/scaling-estimates", json={"model": "GPT-2", **body}).json()
    assert (error["code"], error["errors"][0]["path"]) == ("limit_exceeded", path)


def test_what_is_no_cluster_is_a_fault_of_the_request(client: TestClient) -> None:
    error = client.post("/v1/memory-estimates", json={"cluster": "many"}).json()
    assert (error["code"], error["errors"][0]["path"]) == ("invalid_request", "cluster")


@pytest.mark.parametrize(
    ("content", "media_type", "code"),
    [
        (b"{", "application/json", "malformed_body"),
        (b"[]", "application/json", "invalid_request"),
        (b"a=1", "text/plain", "unsupported_media_type"),
        (b" " * 1001, "application/json", "body_too_large"),
    ],
)
def test_bodies_are_read_as_strictly_as_others(
    client: TestClient, content: bytes, media_type: str, code: str
) -> None:
    headers = {"content-type": media_type}
    response = client.post("/v1/offload-estimates", content=content, headers=headers)
    assert response.json()["code"] == code


LLAMA: dict[str, Any] = {
    "model": "Llama-3-8B",
    "cluster": "2x8xH100",
    "training": {"micro_batches": 8, "tensor_parallel": 4, "pipeline_parallel": 2},
}


@pytest.mark.parametrize("name", ESTIMATES)
def test_the_planner_answers_each_with_what_it_rests_on(tmp_path: Path, name: str) -> None:
    with TestClient(create_app(Settings(data_dir=tmp_path, **WITHOUT_KEYS))) as client:
        response = client.post(f"/v1/{name}-estimates", json=LLAMA)
        assert response.status_code == 200, response.text
        answer = response.json()
        assert {"what", "value", "basis"} == set(answer["assumptions"][0])
        assert isinstance(answer["warnings"], list)
        for body, path in (
            ({**LLAMA, "modle": 1}, "modle"),
            ({"cluster": "2x8xH100"}, "model"),
            ({**LLAMA, "training": {"tensor_parallel": 3}}, "training.tensor_parallel"),
        ):
            error = client.post(f"/v1/{name}-estimates", json=body).json()
            assert (error["code"], error["errors"][0]["path"]) == ("invalid_request", path)
