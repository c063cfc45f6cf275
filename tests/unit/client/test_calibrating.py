"""`loadmaster calibrations`: what it asks and what it shows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from client import calibrating, cli
from client.library.retries import NO_RETRIES
from client.library.service import Service
from planner.calibration.fit import fit
from tests.unit.calibration.cases import GPU, TRUE
from tests.unit.calibration.test_fit import synthetic
from tests.unit.client.fake_service import FakeService, problem

FITTED = fit([synthetic(number, TRUE) for number in range(3)])
LEFT_OUT = {"id": "r9", "name": None, "reason": "it was posted as a problem"}
DRY = {
    "gpu": GPU,
    **FITTED.to_document(),
    "runs": [{"id": run, "name": None} for run in FITTED.runs],
    "left_out": [LEFT_OUT],
}
VERSION = {**DRY, "version": 2, "created_at": "2026-01-01T00:00:00Z", "use": FITTED.use(2)}
ITEM: dict[str, Any] = {
    **{name: VERSION[name] for name in ("gpu", "version", "created_at", "errors")},
    "runs": 3,
    "factors": FITTED.use(2)["efficiency"],
    "memory_margin": 1.0,
}
PATH = "/v1/calibrations"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeService:
    fake = FakeService()
    monkeypatch.setattr(
        calibrating,
        "connect",
        lambda server: Service(server, transport=fake.transport, retries=NO_RETRIES),
    )
    return fake


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, ["calibrations", *arguments], env={"COLUMNS": "140"})


def test_the_newest_are_listed_and_the_versions_of_one(service: FakeService) -> None:
    service.on("GET", PATH, {"calibrations": [ITEM]})
    service.on("GET", f"{PATH}/{GPU}", {"gpu": GPU, "versions": [ITEM, {**ITEM, "version": 1}]})
    listed = run("list")
    assert listed.exit_code == 0
    assert listed.output.splitlines()[1].split()[:3] == [GPU, "2", "3"]
    versions = run("list", GPU).output.splitlines()
    assert [line.split()[1] for line in versions[1:]] == ["2", "1"]
    assert json.loads(run("list", "--json").output) == {"calibrations": [ITEM]}


def test_none_are_said_to_be_none(service: FakeService) -> None:
    service.on("GET", PATH, {"calibrations": []})
    assert run("list").output.strip() == "no calibrations"


def test_one_is_shown_with_its_errors_and_what_was_left_out(service: FakeService) -> None:
    service.on("GET", f"{PATH}/{GPU}", {"gpu": GPU, "versions": [ITEM]})
    service.on("GET", f"{PATH}/{GPU}/2", VERSION)
    shown = run("show", GPU)
    assert shown.exit_code == 0
    assert f"calibration of {GPU}, version 2" in shown.output
    (compute,) = (line for line in shown.output.splitlines() if line.startswith("compute"))
    assert "50" in compute
    assert "74" in compute
    assert "stage times: error" in shown.output
    assert "left out: r9: it was posted as a problem" in shown.output
    assert run("show", GPU, "2").output == shown.output


def test_a_fit_names_gpu_and_runs_and_carries_a_key(service: FakeService) -> None:
    service.on("POST", PATH, VERSION, status=201)
    result = run("fit", "--gpu", "H100", "--run", "a", "--run", "b")
    assert result.exit_code == 0
    assert service.body() == {"gpu": "H100", "runs": ["a", "b"]}
    assert service.requests[0].headers["Idempotency-Key"]
    assert "version 2" in result.output


def test_a_dry_run_keeps_nothing(service: FakeService) -> None:
    service.on("POST", PATH, DRY)
    result = run("fit", "--dry-run")
    assert "not kept" in result.output
    assert service.requests[0].url.params["validate_only"] == "true"
    assert service.body() == {}


def test_a_refusal_is_a_line_and_a_status(service: FakeService) -> None:
    service.on("POST", PATH, problem(422, "invalid_request"), status=422)
    assert run("fit").exit_code == 1
