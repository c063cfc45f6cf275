"""Calibrations: fitted to runs, versioned, and used by requests that name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.database import Database
from app.main import create_app
from app.models import CalibrationVersion
from app.repositories.calibrations import CalibrationRepository
from app.settings import Settings
from planner.cost.resolve import resolve
from planner.following.profile import planned
from planner.following.telemetry import TIMES
from planner.pipeline.timing import schedule_from_ops
from tests.integration.conftest import WITHOUT_KEYS
from tests.integration.following import FOLLOW, RUNS, keeper_of, look, start_run
from tests.unit.calibration.cases import GPU, TRUE, base_of, plan_of, request_of, true_problem

CALIBRATIONS = "/v1/calibrations"
ESTIMATE = "/v1/step-time-estimates"
ITERATIONS = 8


@pytest.fixture
def database_url(sqlite_database_url: str) -> str:
    """The queries are as simple as those that other tests make on both databases."""
    return sqlite_database_url


def calibrated(request: dict[str, Any], calibration: Any = "latest") -> dict[str, Any]:
    return {**request, "cluster": {**request["cluster"], "calibration": calibration}}


def run_of(
    client: TestClient,
    database: Database,
    settings: Settings,
    number: int,
    *,
    peak_ratio: float | None = None,
    resolved: dict[str, Any] | None = None,
    **more: Any,
) -> str:
    """A run on GPUs with `TRUE` factors that has reported; its id. `resolved` is what its request
    comes to."""
    request = resolved or request_of(number)
    base = base_of(request)
    response = client.post(
        RUNS,
        json={
            **request_of(number),
            "follow": FOLLOW,
            "name": f"run {number}",
            "plan": {"ops": [op._asdict() for op in plan_of(base)]},
            **more,
        },
    )
    assert response.status_code == 201, response.text
    run_id: str = response.json()["id"]
    report_true(client, run_id, request, peak_ratio)
    look(database, keeper_of(database, settings))
    return run_id


def report_true(
    client: TestClient,
    run_id: str,
    request: dict[str, Any],
    peak_ratio: float | None,
    first_iteration: int = 0,
) -> None:
    problem, base = true_problem(request, TRUE), base_of(request)
    candidate = resolve(request["model"], request["cluster"], request["training"]).candidates[0]
    peaks = schedule_from_ops(base, plan_of(base)).peak_memory_bytes
    stages = []
    for s in range(len(base.stages)):
        times = {name: planned(problem, (s, name)) for name in TIMES}
        stage: dict[str, Any] = {"stage": s} | {
            name: round(time_ns) for name, time_ns in times.items() if time_ns
        }
        if peak_ratio is not None:
            stage["peak_memory_bytes"] = round(peak_ratio * (candidate.static_bytes[s] + peaks[s]))
        stages.append(stage)
    iterations = range(first_iteration, first_iteration + ITERATIONS)
    body = {"iterations": [{"iteration": i, "stages": stages} for i in iterations]}
    assert client.post(f"{RUNS}/{run_id}/telemetry", json=body).status_code == 200


@pytest.fixture
def runs(run_client: TestClient, database: Database, settings: Settings) -> list[str]:
    """Three runs on one kind of GPU."""
    return [
        run_of(run_client, database, settings, number, peak_ratio=1.1 + number / 100)
        for number in range(3)
    ]


def fit(client: TestClient, **body: Any) -> dict[str, Any]:
    response = client.post(CALIBRATIONS, json=body)
    assert response.status_code == 201, response.text
    answer: dict[str, Any] = response.json()
    return answer


def factor_note(answer: dict[str, Any]) -> tuple[str, str]:
    (found,) = (own for own in answer["assumptions"] if own["what"] == "efficiency factors")
    return found["value"], found["basis"]


def test_runs_are_fitted_to_and_estimates_use_it(run_client: TestClient, runs: list[str]) -> None:
    made = fit(run_client, gpu="h100")
    assert (made["gpu"], made["version"]) == (GPU, 1)
    for name, share in TRUE.items():
        assert made["factors"][name]["value"] == pytest.approx(share, rel=0.02)
    assert made["memory_margin"]["value"] == pytest.approx(1.118, abs=0.001)
    assert {run["id"] for run in made["runs"]} == set(runs)
    assert made["errors"]["stage_times"]["basis"] == "left_out"
    assert made["errors"]["stage_times"]["after"]["worst"] < 0.03

    request = request_of(1)
    plain = run_client.post(ESTIMATE, json=request).json()
    asked = run_client.post(ESTIMATE, json=calibrated(request)).json()
    true = {**request, "cluster": {**request["cluster"], "efficiency": TRUE}}
    truth = run_client.post(ESTIMATE, json=true).json()
    assert factor_note(plain)[0] == "built-in factors"
    assert factor_note(asked)[0] == f"calibration 1 of {GPU}"
    assert "3 runs; median error of stage times" in factor_note(asked)[1]
    assert asked["step_time_ns"] == pytest.approx(truth["step_time_ns"], rel=0.01)
    assert asked["step_time_ns"] > 1.2 * plain["step_time_ns"]

    memory = [
        run_client.post("/v1/memory-estimates", json=body).json()["headroom_bytes"]
        for body in (request, calibrated(request))
    ]
    assert memory[1] < memory[0]


def test_what_the_body_gives_itself_counts(run_client: TestClient, runs: list[str]) -> None:
    fit(run_client)
    request = calibrated(request_of(1))
    own = {**request, "cluster": {**request["cluster"], "efficiency": {"compute": 0.9}}}
    answers = [run_client.post(ESTIMATE, json=body).json() for body in (request, own)]
    assert answers[1]["step_time_ns"] < answers[0]["step_time_ns"]
    assert "Given with the request: compute." in factor_note(answers[1])[1]


def test_versions_are_listed_and_shown(run_client: TestClient, runs: list[str]) -> None:
    first = fit(run_client, runs=runs[:1])
    second = fit(run_client, runs=runs[:2])
    assert first["errors"]["stage_times"]["basis"] == "in_sample"
    assert [first["version"], second["version"]] == [1, 2]
    (newest,) = run_client.get(CALIBRATIONS).json()["calibrations"]
    assert (newest["version"], newest["runs"]) == (2, 2)
    versions = run_client.get(f"{CALIBRATIONS}/H100").json()
    assert [own["version"] for own in versions["versions"]] == [2, 1]
    assert run_client.get(first["links"]["self"]).json() == first
    for path in ("/A100-40GB", "/H100/3", "/A100-40GB/1"):
        missing = run_client.get(f"{CALIBRATIONS}{path}")
        assert (missing.status_code, missing.json()["code"]) == (404, "calibration_not_found")
    one, two = (
        run_client.post(ESTIMATE, json=calibrated(request_of(1), version)).json()
        for version in (1, 2)
    )
    assert factor_note(one)[0] == f"calibration 1 of {GPU}"
    assert factor_note(two)[0] == f"calibration 2 of {GPU}"


def test_runs_that_do_not_count_are_named(run_client: TestClient, runs: list[str]) -> None:
    posted = start_run(run_client)
    silent = run_client.post(RUNS, json={**request_of(0), "name": "silent"}).json()["id"]
    made = fit(run_client)
    reasons = {own["id"]: own["reason"] for own in made["left_out"]}
    assert set(reasons) == {posted, silent}
    assert "posted as a problem" in reasons[posted]
    assert "measured enough" in reasons[silent]
    refused = run_client.post(CALIBRATIONS, json={"runs": [posted, silent]})
    assert refused.status_code == 422
    assert len(refused.json()["errors"]) == 3
    other = fit(run_client, gpu="H100", runs=[*runs, posted])
    assert [own["id"] for own in other["left_out"]] == [posted]
    nothing = run_client.post(CALIBRATIONS, json={"gpu": "A100"})
    assert "no run on A100" in nothing.json()["detail"]
    unknown = run_client.post(CALIBRATIONS, json={"runs": [runs[0], "nobody's"]})
    assert unknown.json()["errors"][0]["path"] == "runs.1"
    assert run_client.post(CALIBRATIONS, json={"gpus": 1}).status_code == 422


def test_what_ranks_of_an_older_shape_report_does_not_count(
    run_client: TestClient, database: Database, settings: Settings
) -> None:
    run_id, request = run_of(run_client, database, settings, 0), request_of(0)
    training = request["training"]
    training = {**training, "micro_batches": 2 * training["micro_batches"]}
    change = {"training": training}
    assert run_client.patch(f"{RUNS}/{run_id}", json=change).status_code == 200
    # They have not restarted yet.
    report_true(run_client, run_id, request, None, first_iteration=ITERATIONS)
    refused = run_client.post(CALIBRATIONS, json={"runs": [run_id]})
    assert refused.status_code == 422
    assert "not measured enough iterations" in refused.json()["errors"][1]["message"]


def test_several_kinds_of_gpus_have_to_be_told_apart(
    run_client: TestClient, database: Database, settings: Settings, runs: list[str]
) -> None:
    request = request_of(0)
    own = {**request, "cluster": {**request["cluster"], "gpu": {"preset": "H100", "name": "mine"}}}
    other = run_of(run_client, database, settings, 0, cluster=own["cluster"])
    refused = run_client.post(CALIBRATIONS, json={})
    assert refused.json()["errors"][0]["path"] == "gpu"
    assert {run["id"] for run in fit(run_client, gpu="H100")["runs"]} == set(runs)
    assert {run["id"] for run in fit(run_client, gpu="mine")["runs"]} == {other}
    names = [one["gpu"] for one in run_client.get(CALIBRATIONS).json()["calibrations"]]
    assert names == [GPU, "mine"]
    left = fit(run_client, gpu="mine", runs=[other, runs[0]])["left_out"]
    assert "another kind of GPU" in left[0]["reason"]


def test_a_fit_under_a_key_is_made_once_and_a_preview_is_not_kept(
    run_client: TestClient, runs: list[str]
) -> None:
    looked = run_client.post(f"{CALIBRATIONS}?validate_only=true", json={})
    assert looked.status_code == 200
    assert looked.json()["factors"]["compute"]["is_fitted"]
    assert run_client.get(CALIBRATIONS).json() == {"calibrations": []}
    key = {"Idempotency-Key": "once"}
    made = [run_client.post(CALIBRATIONS, json={}, headers=key) for _ in range(2)]
    assert [one.status_code for one in made] == [201, 201]
    assert made[0].json() == made[1].json()
    assert made[0].headers["Location"] == f"{CALIBRATIONS}/{GPU}/1"
    assert made[1].headers["Idempotency-Replayed"] == "true"
    reused = run_client.post(CALIBRATIONS, json={"gpu": "H100"}, headers=key)
    assert reused.json()["code"] == "idempotency_key_reused"


@pytest.mark.parametrize("asked", ["newest", 0, 2.5, True, 9, [1]])
def test_an_unknown_version_names_the_field_and_what_there_is(
    run_client: TestClient, runs: list[str], asked: Any
) -> None:
    fit(run_client)
    for address in ("/v1/pipeline-schedules", "/v1/training-plans", ESTIMATE, RUNS):
        refused = run_client.post(address, json=calibrated(request_of(0), asked))
        assert refused.status_code == 422
        (error,) = refused.json()["errors"]
        assert error["path"] == "cluster.calibration"
        if asked == 9:
            assert "1 to 1" in error["remedy"]


def test_without_any_calibration_a_body_that_names_one_is_told_how_to_fit(
    run_client: TestClient,
) -> None:
    refused = run_client.post(ESTIMATE, json=calibrated(request_of(0))).json()
    assert "POST /v1/calibrations" in refused["errors"][0]["remedy"]


def test_answers_with_and_without_a_calibration_are_kept_apart(
    run_client: TestClient, runs: list[str]
) -> None:
    fit(run_client, runs=runs[:1])
    fit(run_client)
    request = request_of(1)
    search = {
        "model": "GPT-2",
        "cluster": {"gpu": "H100", "gpus_per_node": 8},
        "training": {"global_batch_size": 16},
    }
    for address, body in (("/v1/pipeline-schedules", request), ("/v1/training-plans", search)):
        bodies = [body, calibrated(body, 1), calibrated(body, 2), calibrated(body)]
        looked = [
            run_client.post(f"{address}?validate_only=true", json=own).json() for own in bodies
        ]
        hashes = [one["spec_hash"] for one in looked]
        assert len(set(hashes)) == 3
        assert hashes[2] == hashes[3]
        assert [factor_note(one)[0] for one in looked] == [
            "built-in factors",
            f"calibration 1 of {GPU}",
            f"calibration 2 of {GPU}",
            f"calibration 2 of {GPU}",
        ]


def test_what_was_the_latest_stays_that_of_a_job_and_of_a_run(
    run_client: TestClient, database: Database, settings: Settings, runs: list[str]
) -> None:
    use = fit(run_client, runs=runs[:1])["use"]
    body = calibrated(request_of(1))
    key = {"Idempotency-Key": "a job"}
    job = run_client.post("/v1/pipeline-schedules", json=body, headers=key).json()["id"]
    cluster, full = calibrated(request_of(0))["cluster"], calibrated(request_of(0), use)
    run = run_of(run_client, database, settings, 0, resolved=full, cluster=cluster)
    fit(run_client)
    again = run_client.post("/v1/pipeline-schedules", json=body, headers=key)
    assert again.json()["id"] == job
    kept = run_client.get(f"/v1/jobs/{job}/request").json()
    kept = kept.get("request", kept)
    assert kept["cluster"]["calibration"]["version"] == 1
    # It can be posted again as it is.
    assert run_client.post("/v1/pipeline-schedules", json=kept).json()["id"]
    assert run_client.patch(f"{RUNS}/{run}", json={"name": "another"}).status_code == 200
    # A run that was calibrated is compared with the built-in factors like any other.
    counted = {own["id"]: own["factors"] for own in fit(run_client)["runs"]}
    assert counted[run]["compute"] == pytest.approx(TRUE["compute"], rel=0.05)


def test_batches_use_calibrations_too(run_client: TestClient, runs: list[str]) -> None:
    fit(run_client)
    requests = [{"kind": "pipeline", "request": calibrated(request_of(1), one)} for one in (1, 7)]
    refused = run_client.post("/v1/batches", json={"requests": requests})
    assert refused.json()["errors"][0]["path"] == "requests.1.request.cluster.calibration"
    assert run_client.post("/v1/batches", json={"requests": requests[:1]}).status_code == 202


def test_of_two_fits_at_once_the_later_takes_the_next_number(
    run_client: TestClient, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(run_client)
    real = CalibrationRepository.versions
    stale: list[list[int]] = [[]]

    def versions(self: CalibrationRepository, tenant: str, gpu: str) -> list[int]:
        return stale.pop() if stale else real(self, tenant, gpu)

    monkeypatch.setattr(CalibrationRepository, "versions", versions)
    assert fit(run_client)["version"] == 2
    assert not stale


def test_old_versions_go(
    run_client: TestClient, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.calibrations.calibrations.VERSIONS_KEPT", 2)
    for _ in range(4):
        fit(run_client, runs=runs[:1])
    versions = run_client.get(f"{CALIBRATIONS}/{GPU}").json()["versions"]
    assert [one["version"] for one in versions] == [4, 3]


def test_another_tenants_calibrations_are_none(
    run_client: TestClient, database: Database, runs: list[str]
) -> None:
    fit(run_client)
    with database.writing() as session:
        for row in session.query(CalibrationVersion):
            row.tenant = "bob"
    assert run_client.get(CALIBRATIONS).json() == {"calibrations": []}
    assert run_client.get(f"{CALIBRATIONS}/H100/1").status_code == 404
    assert run_client.post(ESTIMATE, json=calibrated(request_of(0), 1)).status_code == 422
    assert fit(run_client)["version"] == 1


def test_a_database_that_is_down_is_told_of(tmp_path: Path) -> None:
    settings = Settings(
        database_url=f"postgresql://nobody@/nothing?host={tmp_path}",
        database_timeout_s=1,
        **WITHOUT_KEYS,
    )
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        assert client.post(ESTIMATE, json=request_of(0)).status_code == 200
        for response in (
            client.post(ESTIMATE, json=calibrated(request_of(0))),
            client.get(CALIBRATIONS),
            client.post(CALIBRATIONS, json={}),
        ):
            assert (response.status_code, response.json()["code"]) == (503, "database_unavailable")
