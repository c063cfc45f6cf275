"""Steps of tests about runs: a small problem, what its ranks report, and answers to its solves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select, update
from starlette.testclient import TestClient

from app.database import Database
from app.models import Run, Solve, SolveState
from app.services.attempts import Attempts, Progress, Standing
from app.services.runs.keeper import RunKeeper
from app.services.submission import Submission
from app.services.transitions import Answered
from app.settings import Settings
from planner.pipeline.documents import read_problem
from planner.pipeline.schedule import TimedOp
from planner.pipeline.timing import schedule_from_ops
from planner.version import __version__

RUNS = "/v1/runs"
STAGES, MICRO_BATCHES, PASS_NS = 2, 2, 1_000
PASSES = ("forward_ns", "backward_input_ns", "backward_weight_ns")
PROBLEM: dict[str, Any] = {
    "micro_batches": MICRO_BATCHES,
    "devices": [{}, {}],
    "stages": [{"device": stage, **dict.fromkeys(PASSES, PASS_NS)} for stage in range(STAGES)],
}
FOLLOW: dict[str, Any] = {"warm_up": 0, "resolve_every": 10, "swap_lead": 5, "measure_over": 10}


def ops() -> list[dict[str, Any]]:
    """A valid plan: all forwards, then the backwards."""
    turns = [
        ("F", 0, 0, 0), ("F", 0, 1, 1), ("F", 1, 0, 1), ("F", 1, 1, 2),
        ("B", 1, 0, 3), ("B", 1, 1, 4), ("W", 1, 0, 5), ("W", 1, 1, 6),
        ("B", 0, 0, 4), ("B", 0, 1, 5), ("W", 0, 0, 6), ("W", 0, 1, 7),
    ]  # fmt: skip
    return [
        {
            "op": op,
            "stage": stage,
            "micro_batch": micro_batch,
            "start_ns": start * PASS_NS,
            "end_ns": (start + 1) * PASS_NS,
        }
        for op, stage, micro_batch, start in turns
    ]


def start_run(client: TestClient, *, planned: bool = True, **more: Any) -> str:
    """A run, by default with a plan that its ranks run already; its id."""
    headers = more.pop("headers", {})
    body = {"problem": PROBLEM, "follow": FOLLOW, **more}
    if planned:
        body["plan"] = {"ops": ops()}
    response = client.post(RUNS, json=body, headers=headers)
    assert response.status_code == 201, response.text
    run_id: str = response.json()["id"]
    return run_id


def telemetry(iteration: int, slowdown: Mapping[int, float] | None = None) -> dict[str, Any]:
    """What both stages report of an iteration; `slowdown` is the factor of some stage's passes."""
    stages = [
        {
            "stage": stage,
            **dict.fromkeys(PASSES, round(PASS_NS * (slowdown or {}).get(stage, 1.0))),
        }
        for stage in range(STAGES)
    ]
    return {"iteration": iteration, "iteration_ns": 8 * PASS_NS, "stages": stages}


def report(
    client: TestClient, run_id: str, iterations: range, slowdown: Mapping[int, float] | None = None
) -> dict[str, Any]:
    """Report these iterations; the answer."""
    body = {"iterations": [telemetry(number, slowdown) for number in iterations]}
    response = client.post(f"{RUNS}/{run_id}/telemetry", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def keeper_of(database: Database, settings: Settings) -> RunKeeper:
    """A keeper whose rounds the test makes."""
    submission = Submission(database, settings, __version__, lambda: None)
    return RunKeeper(database, settings, submission)


def look(database: Database, keeper: RunKeeper) -> int:
    """Let the keeper look at every run that has news, whenever it looked last."""
    with database.writing() as session:
        session.execute(update(Run).values(look_after=0))
    return keeper.round()


def view(client: TestClient, run_id: str) -> dict[str, Any]:
    """The run as it is shown."""
    response = client.get(f"{RUNS}/{run_id}")
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


def kinds(client: TestClient, run_id: str) -> list[str]:
    """What has happened to the run, oldest first."""
    return [event["kind"] for event in reversed(view(client, run_id)["events"])]


def acknowledge(client: TestClient, run_id: str, version: int, *, iteration: int = 0) -> None:
    """Every rank holds the version."""
    for rank in range(STAGES):
        body = {"rank": rank, "iteration": iteration}
        response = client.post(f"{RUNS}/{run_id}/plan/{version}/ack", json=body)
        assert response.status_code == 200, response.text


def queued(database: Database) -> list[str]:
    """The solves that wait."""
    statement = select(Solve.id).where(Solve.state == SolveState.QUEUED)
    with database.reading() as session:
        return list(session.scalars(statement))


def answer_solve(attempts: Attempts, database: Database, *, gain: float | None = None) -> str:
    """End the one solve that waits with a plan of its problem; `gain` is what it saves of the
    running plan. The solve's id."""
    (solve_id,) = queued(database)
    order = attempts.claim(solve_id)
    assert order is not None
    document = order.spec["candidates"][0]["problem"]
    timed = [TimedOp(**op) for op in ops()]
    schedule = schedule_from_ops(read_problem(PROBLEM), timed).to_document(None)
    answer: dict[str, Any] = {
        "problem": document,
        "schedule": schedule,
        "certificate": {"verified": True, "memory_safe_under_jitter": True},
        "provenance": {},
    }
    if gain is not None:
        answer["replacement"] = {
            "running_ns": round(8000 / (1 - gain)),
            "gain": gain,
            "gain_low": gain,
            "running_fits": True,
        }
    ending = {"state": "succeeded", "objective": 8000, "lower_bound": 8000, "proven_optimal": True}
    incumbent = {"placement": "as_posted", "schedule": schedule}
    progress = Progress(incumbent=incumbent, objective=8000, lower_bound=8000)
    ended = attempts.end(order.fence, Answered({**ending, "document": answer}), progress)
    assert ended is Standing.GO_ON
    return solve_id


def stored(database: Database, run_id: str) -> dict[tuple[int, int], Any]:
    """What is stored of a run's telemetry, by iteration and stage."""
    from app.repositories.run_telemetry import TelemetryRepository

    with database.reading() as session:
        rows = TelemetryRepository(session.connection()).window(run_id, 0)
    return {(iteration, stage): json.loads(measures) for iteration, stage, measures in rows}
