"""Health, examples, the OpenAPI document, and the service with its parts away."""

from __future__ import annotations

import importlib.resources
import time
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import text
from starlette.testclient import TestClient

from app.database import Database
from app.dispatch import Dispatcher
from app.main import create_app
from app.repositories.queue import Dispatch
from app.services.attempts import Attempts
from app.settings import Settings
from planner.cost.hardware import read_cluster
from planner.cost.hardware_presets import GPU_PRESETS
from planner.cost.model import read_model
from planner.cost.model_presets import MODEL_PRESETS
from planner.estimates.registry import REQUESTS
from tests.integration.conftest import WITHOUT_KEYS
from tests.integration.fakes import resolve_fake
from tests.integration.helpers import ADDRESS, claim, eventually, lapse_leases, only_solve, post

GOOD_PROBLEM = {
    "micro_batches": 2,
    "devices": [{}, {}],
    "stages": [
        {"device": 0, "forward_ns": 18_000_000, "backward_input_ns": 5},
        {"device": 1, "forward_ns": 3, "backward_input_ns": 5, "backward_weight_ns": 0},
    ],
}


def test_health(client: TestClient) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    response = client.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {
        "status": "degraded",
        "database": "ok",
        "schema": "ok",
        "broker": "unavailable",
    }


def test_ready_with_a_broker(settings: Settings, broker_url: str) -> None:
    with TestClient(create_app(settings.model_copy(update={"broker_url": broker_url}))) as client:
        assert client.get("/readyz").json()["status"] == "ok"


def test_a_dead_broker_holds_up_no_request(settings: Settings, tmp_path: Path) -> None:
    dead = settings.model_copy(update={"broker_url": f"redis+socket://{tmp_path}/none.sock"})
    with TestClient(create_app(dead, resolve_fake)) as client:
        began = time.monotonic()
        for n in range(20):
            assert post(client, f"answer {n}")["state"] == "queued"
        assert time.monotonic() - began < 10
        assert client.get("/readyz").json()["status"] == "degraded"


def test_without_its_database_the_service_is_not_ready(tmp_path: Path) -> None:
    settings = Settings(
        database_url=f"postgresql://nobody@/nothing?host={tmp_path}",
        database_timeout_s=1,
        **WITHOUT_KEYS,
    )
    app = create_app(settings, resolve_fake)
    with TestClient(app, raise_server_exceptions=False) as client:
        response = client.get("/readyz")
        assert (response.status_code, response.json()["status"]) == (503, "down")
        assert response.headers["Retry-After"] == "2"
        response = client.post(ADDRESS, json={})
        assert (response.status_code, response.json()["code"]) == (503, "database_unavailable")
        assert client.get("/healthz").status_code == 200


def test_without_its_tables_the_service_is_not_ready(tmp_path: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'empty.db'}", **WITHOUT_KEYS)
    with TestClient(create_app(settings, resolve_fake)) as client:
        assert client.get("/readyz").status_code == 503


def test_examples_are_listed(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert isinstance(client.get("/v1/examples").json(), list)
    monkeypatch.setattr(importlib.resources, "files", lambda package: tmp_path)
    assert client.get("/v1/examples").json() == []
    folder = tmp_path / "examples"
    folder.mkdir()
    (folder / "b.json").write_text('{"script": "b"}')
    (folder / "a.json").write_text('{"script": "a"}')
    (folder / "note.txt").write_text("no example")
    assert client.get("/v1/examples").json() == [{"script": "a"}, {"script": "b"}]
    for kind in ("sharding", "training"):
        (folder / kind).mkdir()
        (folder / kind / "c.json").write_text(f'{{"script": "{kind}"}}')
        assert client.get(f"/v1/examples?kind={kind}").json() == [{"script": kind}]
    assert client.get("/v1/examples").json() == [{"script": "a"}, {"script": "b"}]


def test_presets_are_what_requests_may_name(client: TestClient) -> None:
    presets = client.get("/v1/presets").json()
    assert [model["name"] for model in presets["models"]] == list(MODEL_PRESETS)
    assert [gpu["name"] for gpu in presets["gpus"]] == list(GPU_PRESETS)
    for model in presets["models"]:
        for alias in model["aliases"]:
            assert read_model(alias) == read_model(model["name"])
    for gpu in presets["gpus"]:
        for alias in gpu["aliases"]:
            assert read_cluster(f"1x{alias}") == read_cluster(f"1x{gpu['name']}")
    (large,) = (model for model in presets["models"] if model["name"] == "GPT-3-175B")
    assert "GPT-3" in large["aliases"]
    assert large["fields"]["layers"] == 96
    assert 174e9 < large["parameters"] < 176e9


def test_the_openapi_document_is_complete(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    operations = {
        operation["operationId"]: operation
        for path in document["paths"].values()
        for operation in path.values()
    }
    assert set(operations) == {
        "submit_pipeline_schedule",
        "submit_sharding_plan",
        "submit_training_plan",
        "estimate_memory",
        "estimate_step_time",
        "estimate_recomputation",
        "estimate_scaling",
        "estimate_offload",
        "estimate_communication",
        "estimate_checkpoints",
        "diagnose",
        "start_run",
        "list_runs",
        "get_run",
        "change_run",
        "stop_run",
        "post_telemetry",
        "get_run_plan",
        "get_run_plan_version",
        "get_run_plan_timeline",
        "acknowledge_plan",
        "get_run_proposals",
        "get_run_diagnosis",
        "fit_calibration",
        "list_calibrations",
        "list_calibration_versions",
        "get_calibration",
        "list_jobs",
        "get_job",
        "get_job_result",
        "get_job_log",
        "get_job_progress",
        "get_job_request",
        "get_job_timeline",
        "list_job_exports",
        "get_job_export",
        "stream_events",
        "stream_job_events",
        "cancel_job",
        "get_liveness",
        "get_readiness",
        "list_examples",
        "list_export_formats",
        "list_presets",
        "submit_batch",
        "list_batches",
        "get_batch",
        "cancel_batch",
        "list_job_webhooks",
        "list_audit_entries",
        "get_metrics",
    }
    for name in ("submit_pipeline_schedule", "submit_sharding_plan", "submit_training_plan"):
        submit = operations[name]
        assert {"200", "202", "400", "413", "415", "422", "503"} <= set(submit["responses"])
        named = {parameter["name"] for parameter in submit["parameters"]}
        assert named == {"validate_only", "cache-control", "prefer", "idempotency-key"}
    schemas = document["components"]["schemas"]
    assert {"graph", "transformer", "devices", "alpha", "solver", "name", "tags"} <= set(
        schemas["ShardingPlanRequest"]["properties"]
    )
    assert {"problem", "model", "solver", "name", "tags", "priority"} <= set(
        schemas["PipelineScheduleRequest"]["properties"]
    )
    assert {"model", "cluster", "training", "search", "solver", "name", "tags"} <= set(
        schemas["TrainingPlanRequest"]["properties"]
    )
    for name, request in REQUESTS.items():
        operation = operations[f"estimate_{name.replace('-', '_')}"]
        refusals = {"400", "403", "413", "415", "421", "422", "429", "503"}
        assert {"200", *refusals} == set(operation["responses"])
        content = operation["requestBody"]["content"]["application/json"]
        assert content["schema"]["$ref"] == f"#/components/schemas/{request.__name__}"
        assert {"model", "cluster", "training"} <= set(schemas[request.__name__]["properties"])
    described = {name for kind in ("schemas", "headers") for name in document["components"][kind]}
    assert _references(document) <= described
    assert client.get("/docs").status_code == 200


def _references(part: object) -> set[str]:
    if isinstance(part, dict):
        own = {part["$ref"].rpartition("/")[2]} if isinstance(part.get("$ref"), str) else set()
        return own.union(*map(_references, part.values()))
    if isinstance(part, list):
        return set().union(*map(_references, part))
    return set()


def test_equal_requests_to_the_real_planner_share_a_solve(settings: Settings) -> None:
    with TestClient(create_app(settings)) as client:
        first = client.post(ADDRESS, json={"problem": GOOD_PROBLEM, "name": "first"})
        assert (first.status_code, first.json()["cache"]) == (202, "miss")
        spelt_out = {
            "solver": {"threads": 2, "mip_gap": 0, "time_limit_s": 60},
            "problem": {
                **dict(reversed(GOOD_PROBLEM.items())),
                "objective": "makespan",
                "micro_batches": 2.0,
                "name": "another name",
                "transfers": [{}],
            },
        }
        assert client.post(ADDRESS, json=spelt_out).json()["cache"] == "joined"
        other = {"problem": {**GOOD_PROBLEM, "micro_batches": 3}}
        assert client.post(ADDRESS, json=other).json()["cache"] == "miss"
        bad = {"problem": {**GOOD_PROBLEM, "stages": []}}
        response = client.post(ADDRESS, json=bad)
        assert (response.status_code, response.json()["errors"][0]["path"]) == (
            422,
            "problem.stages",
        )


def test_the_dispatcher_sends_what_is_queued_and_outlives_errors(
    settings: Settings, client: TestClient, database: Database, attempts: Attempts
) -> None:
    sent: list[str] = []
    failures = iter([ConnectionError("away"), RuntimeError("strange")])

    def publish(dispatch: Dispatch) -> None:
        for failure in failures:
            raise failure
        sent.append(dispatch.solve_id)

    hasty = settings.model_copy(update={"sweep_s": 0.1})
    dispatcher = Dispatcher(database, hasty, publish)
    dispatcher.start()
    post(client)
    dispatcher.wake()
    eventually(lambda: sent == [only_solve(database).id], 10)
    dispatcher.stop()


def has_sent(sent: list[str], times: int) -> bool:
    return len(sent) >= times


def test_a_starting_worker_has_what_was_sent_to_an_earlier_broker_sent_again(
    settings: Settings, client: TestClient, database: Database
) -> None:
    sent: list[str] = []

    def publish(dispatch: Dispatch) -> None:
        sent.append(dispatch.solve_id)

    post(client)
    patient = settings.model_copy(update={"sweep_s": 0.1, "resend_after_s": 3600.0})
    solve_id = only_solve(database).id
    for afresh, times in ((False, 1), (False, 1), (True, 2)):
        dispatcher = Dispatcher(database, patient, publish)
        dispatcher.start(afresh=afresh)
        eventually(partial(has_sent, sent, times), 10)
        dispatcher.stop()
        assert sent == [solve_id] * times


def test_the_dispatcher_takes_back_what_lost_workers_held(
    settings: Settings, client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client)
    claim(attempts, database)
    lapse_leases(database)
    dispatcher = Dispatcher(database, settings, None)
    dispatcher.start()
    eventually(lambda: only_solve(database).losses == 1, 10)
    dispatcher.stop()


def test_a_schema_that_is_too_old_is_named(client: TestClient, database: Database) -> None:
    post(client, "an answer")
    _rename_column(database, "model", "no_model")
    try:
        response = client.get("/v1/jobs")
    finally:
        _rename_column(database, "no_model", "model")
    assert (response.status_code, response.json()["code"]) == (503, "database_unavailable")
    assert "loadmaster db migrate" in response.json()["detail"]
    assert int(response.headers["retry-after"]) > 0
    assert client.get("/v1/jobs").status_code == 200


def _rename_column(database: Database, old: str, new: str) -> None:
    with database.engine.begin() as connection:
        connection.execute(text(f"ALTER TABLE jobs RENAME COLUMN {old} TO {new}"))
