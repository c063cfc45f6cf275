"""Sharding plans by the real planner, in a real solver process."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.database import Database
from app.main import create_app
from app.services.attempts import Attempts
from app.services.kept_plan import result_of_incumbent
from app.settings import Settings
from planner.progress import SilentReporter
from planner.sharding.request import resolve_request
from planner.sharding.solve import run
from tests.integration.helpers import SHARDING_ADDRESS, claim, job, only_solve, supervise
from tests.referee import SHARED

CHECKER = SHARED / "oracle" / "check_sharding.py"
LAYER = {"preset": "BERT-Large", "layers": 2, "batch": 4, "sequence": 128}
BODY: dict[str, Any] = {"transformer": LAYER, "devices": 4, "alpha": 0.5}


class Recorder(SilentReporter):
    """Keeps the last plan that is reported, as it would be stored."""

    def __init__(self) -> None:
        self.incumbent_text = ""
        self.objective = 0.0

    def incumbent(self, document: dict[str, Any], objective: float, found_by: str) -> None:
        self.incumbent_text, self.objective = json.dumps(document), objective


def check(result: dict[str, Any]) -> dict[str, Any]:
    """What the independent checker finds out about a result that it accepts."""
    if not CHECKER.exists():
        pytest.skip("the independent sharding checker is not beside this checkout")
    text = json.dumps({"instance": result["instance"], "plan": result["plan"]})
    command = [sys.executable, str(CHECKER), "-"]
    checked = subprocess.run(command, input=text, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
    facts: dict[str, Any] = json.loads(checked.stdout)
    return facts


def test_a_plan_goes_all_the_way(
    settings: Settings, database: Database, attempts: Attempts
) -> None:
    command = (sys.executable, "-m", "workers.solver_server")
    real = settings.model_copy(update={"solver_command": command})
    with TestClient(create_app(real)) as client:
        job_id = client.post(SHARDING_ADDRESS, json={**BODY, "name": "mine"}).json()["id"]
        supervise(claim(attempts, database), attempts, real)
        view = job(client, job_id)
        assert (view["state"], view["gap"]) == ("succeeded", 0.0)
        result = client.get(f"/v1/jobs/{job_id}/result").json()
        certificate = result["certificate"]
        assert certificate["proven_optimal"]
        objective = certificate["objective"]
        assert objective <= view["best_objective_bytes"] < objective + 1
        assert only_solve(database).proven_optimal
        spelt_out = {
            "solver": {"time_limit_s": 30, "exact": False},
            "alpha": [0.5],
            "devices": 4.0,
            "transformer": dict(reversed(LAYER.items())),
        }
        again = client.post(SHARDING_ADDRESS, json=spelt_out).json()
    assert (again["cache"], again["result"]["plan"]) == ("hit", result["plan"])
    assert check(result)["optimum"] == pytest.approx(objective)


def test_the_last_plan_of_a_lost_solve_is_a_result_that_stands_up() -> None:
    spec = json.loads(json.dumps(resolve_request(BODY).spec))
    recorder = Recorder()
    answer = run(spec, recorder, lambda: False, None, 30.0)
    result = result_of_incumbent(
        spec,
        json.loads(recorder.incumbent_text),
        objective=int(recorder.objective) + 1,
        lower_bound=None,
        reason="cancelled",
        started_from=None,
    )
    assert result["plan"]["objective"] == answer["objective"]
    check(result)


def test_what_is_wrong_with_a_body_is_named(settings: Settings) -> None:
    with TestClient(create_app(settings)) as client:
        for body, path in (
            ({**BODY, "devices": None}, "devices"),
            ({"transformer": {**LAYER, "layer": 2}, "devices": 4}, "transformer.layer"),
            ({**BODY, "devices": "200x8xA100-40GB"}, "devices"),
        ):
            response = client.post(SHARDING_ADDRESS, json=body)
            assert response.status_code == 422
            assert response.json()["errors"][0]["path"] == path
        preview = client.post(f"{SHARDING_ADDRESS}?validate_only=true", json=BODY)
    assert preview.status_code == 200
    assert "linear" in {operator["kind"] for operator in preview.json()["graph"]["operators"]}
