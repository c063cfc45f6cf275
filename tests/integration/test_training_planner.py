"""Training plans by the real planner, in a real solver process, and as the terminal shows them."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

from rich.console import Console
from starlette.testclient import TestClient

from app.database import Database
from app.main import create_app
from app.services.attempts import Attempts
from app.services.kept_plan import result_of_incumbent
from app.settings import Settings
from client.solving import RENDERERS
from planner.progress import SilentReporter
from planner.training.request import resolve_request
from planner.training.solve import run
from tests.integration.helpers import ADDRESS, TRAINING_ADDRESS, claim, job, only_solve, supervise

BODY: dict[str, Any] = {
    "model": "GPT-1.5B",
    "cluster": "4xA100-40GB",
    "training": {"global_batch_size": 16},
    "search": {"top": 2, "finalists": 1, "pareto": True, "interleaving": [1]},
    "solver": {"time_limit_s": 20},
}
EXPERTS: dict[str, Any] = {
    "model": "Mixtral-8x7B",
    "cluster": "2x8xH100",
    "training": {"global_batch_size": 32, "tensor_parallel": 2, "expert_parallel": 4},
    "search": {"top": 1, "finalists": 0, "interleaving": [1]},
    "routing_frequency": [4, 1, 1, 1, 2, 1, 1, 1],
}
TOO_LARGE: dict[str, Any] = {
    "model": "Llama-3-70B",
    "cluster": "2xA100-40GB",
    "training": {"global_batch_size": 4, "zero_stage": 1},
}


class Recorder(SilentReporter):
    """Keeps the last plan that is reported, as it would be stored."""

    def __init__(self) -> None:
        self.incumbent_text = ""
        self.objective = 0.0

    def incumbent(self, document: dict[str, Any], objective: float, found_by: str) -> None:
        self.incumbent_text, self.objective = json.dumps(document), objective


def shown(result: dict[str, Any], width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    RENDERERS["training"](console, result)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def solved(body: dict[str, Any]) -> dict[str, Any]:
    """The planner's answer, as it comes out of a solver process."""
    spec = json.loads(json.dumps(resolve_request(body).spec))
    answer: dict[str, Any] = json.loads(
        json.dumps(run(spec, SilentReporter(), lambda: False, None, 20.0))
    )
    return answer


def test_a_plan_goes_all_the_way(
    settings: Settings, database: Database, attempts: Attempts
) -> None:
    command = (sys.executable, "-m", "workers.solver_server")
    real = settings.model_copy(update={"solver_command": command})
    with TestClient(create_app(real)) as client:
        job_id = client.post(TRAINING_ADDRESS, json={**BODY, "name": "mine"}).json()["id"]
        supervise(claim(attempts, database), attempts, real)
        view = job(client, job_id)
        assert (view["kind"], view["state"]) == ("training", "succeeded")
        result = client.get(f"/v1/jobs/{job_id}/result").json()
        best = result["best"]
        assert view["best_step_time_ns"] == best["step_time_ns"]
        assert view["lower_bound_ns"] == result["certificate"]["lower_bound_ns"]
        assert best["schedule"]["schedule"]["makespan_ns"] == best["step_time_ns"]
        assert only_solve(database).shape_hash is None
        # The plan can be posted as it is: to have its schedule solved, or to be estimated.
        rest = {key: BODY[key] for key in ("model", "cluster")}
        posted = {**rest, "training": best["training"]}
        preview = client.post(f"{ADDRESS}?validate_only=true", json=posted)
        assert preview.status_code == 200
        estimate = client.post("/v1/step-time-estimates", json=posted)
        plan = result["plans"][best["rank"] - 1]
        assert estimate.json()["step_time_ns"] == plan["step_time_ns"]
        memory = client.post("/v1/memory-estimates", json=posted)
        assert memory.json()["peak_bytes"] == plan["peak_bytes"]
        spelt_out = {
            **dict(reversed(BODY.items())),
            "memory_headroom": 0.05,
            "cluster": {"gpu": "A100-40GB", "nodes": 1, "gpus_per_node": 4.0},
        }
        again = client.post(TRAINING_ADDRESS, json=spelt_out).json()
    assert (again["cache"], again["result"]["plans"]) == ("hit", result["plans"])
    for width in (50, 80, 160):
        output = shown(result, width)
        assert output.startswith("Training plan: ")
        assert "Throughput against headroom and number of GPUs" in output


def test_the_last_plans_of_a_lost_solve_are_a_result_that_can_be_shown() -> None:
    spec = json.loads(json.dumps(resolve_request(BODY).spec))
    recorder = Recorder()
    run(spec, recorder, lambda: False, None, 10.0)
    result = result_of_incumbent(
        spec,
        json.loads(recorder.incumbent_text),
        objective=int(recorder.objective),
        lower_bound=None,
        reason="cancelled",
        started_from=None,
    )
    assert result["certificate"]["proven_optimal"] in (True, False)
    assert result["provenance"]["stopped_by"] == "cancelled"
    assert shown(result).startswith("Training plan: ")


def test_experts_are_shown_with_their_ranks() -> None:
    answer = solved(EXPERTS)
    assert answer["state"] == "succeeded"
    output = shown(answer["document"])
    assert "expert 4 on 16 GPUs" in output
    assert "Experts over 4 ranks: the busiest has " in output


def test_what_fits_nowhere_says_what_would_help(settings: Settings) -> None:
    answer = solved(TOO_LARGE)
    assert answer["state"] == "infeasible"
    output = shown(answer["document"])
    assert output.startswith("Infeasible: no configuration fits\n")
    assert "What would help:" in output


def test_what_is_wrong_with_a_body_is_named(settings: Settings) -> None:
    large_batch = {"global_batch_size": 9216 * 8}
    with TestClient(create_app(settings)) as client:
        for body, path in (
            ({**BODY, "training": {}}, "training.global_batch_size"),
            ({**BODY, "training": {"micro_batches": 4}}, "training.micro_batches"),
            ({**BODY, "search": {"zero": [1]}}, "search.zero"),
            ({**BODY, "cluster": "9216x8xH100", "training": large_batch}, "cluster"),
        ):
            response = client.post(TRAINING_ADDRESS, json=body)
            assert response.status_code == 422
            assert response.json()["errors"][0]["path"] == path
        preview = client.post(f"{TRAINING_ADDRESS}?validate_only=true", json=BODY)
    assert preview.status_code == 200
    assert preview.json()["enumerated"] > 0
