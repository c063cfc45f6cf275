"""Real solves of a problem that no engine finishes: they end at their limit, or when cancelled."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.chaos.asking import ADDRESS, Asker
from tests.chaos.deployments import asking
from tests.chaos.form import LONG_S, by_form, record
from tests.integration.topology import ROOT, Topology

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.timeout(by_form(240, LONG_S))]

PROBLEM = json.loads((ROOT / "benchmarks/problems/zb-14.6b-16x48-mem0.5.json").read_text())
ENGINES = ("auto", "cbc", "highs", "cp_sat")
LIMITS_S = by_form((3,), (10, 60, 120))
# The short form runs beside other tests on few cores: it asks whether, the long form how soon.
LATE_S = by_form(20.0, 2.0)
CANCEL_S = by_form(20.0, 1.0)
OVER = {"succeeded", "failed", "cancelled", "infeasible"}


@pytest.fixture(scope="module")
def asker() -> Iterator[Asker]:
    # One solve at a time, and it has all cores.
    environment = {"LOADMASTER_SOLVER_THREADS": "2", "LOADMASTER_REQUESTS_PER_MINUTE": "0"}
    with (
        Topology(apis=1, workers=1, environment=environment) as topology,
        asking(topology) as asker,
    ):
        yield asker


def begin(asker: Asker, engine: str, limit_s: float) -> str:
    """The id of a job that runs."""
    body = {"problem": PROBLEM, "solver": {"engine": engine, "time_limit_s": limit_s}}
    headers = {"Cache-Control": "no-cache"}
    answer = asker.once("POST", ADDRESS, json=body, headers=headers)
    assert answer.status_code == 202, answer.text
    job_id = str(answer.json()["id"])
    until(asker, job_id, {"running"}, 30)
    return job_id


def until(asker: Asker, job_id: str, states: set[str], within_s: float) -> float:
    """When a job was first seen in one of the states."""
    deadline = time.monotonic() + within_s
    while (state := asker.once("GET", f"/v1/jobs/{job_id}").json()["state"]) not in states:
        assert time.monotonic() < deadline, state
        time.sleep(0.02)
    return time.monotonic()


def result_of(asker: Asker, job_id: str) -> dict[str, Any]:
    answer = asker.once("GET", f"/v1/jobs/{job_id}/result")
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


@pytest.mark.parametrize("limit_s", LIMITS_S)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_answer_comes_soon_after_the_limit(asker: Asker, engine: str, limit_s: int) -> None:
    job_id = begin(asker, engine, limit_s)
    began = time.monotonic()
    over = until(asker, job_id, OVER, limit_s + 30)
    took_s = over - began
    result = result_of(asker, job_id)
    provenance = result["provenance"]
    record(
        "time limit",
        engine=engine,
        limit_s=limit_s,
        seconds=round(took_s, 2),
        stopped_by=provenance.get("stopped_by"),
        makespan_ns=result["schedule"]["makespan_ns"],
    )
    assert result["schedule"]["makespan_ns"] > 0
    assert limit_s - 2 < took_s < limit_s + LATE_S


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cancelled_job_stops_soon_and_keeps_its_plan(asker: Asker, engine: str) -> None:
    job_id = begin(asker, engine, 60)
    while asker.once("GET", f"/v1/jobs/{job_id}").json()["best_makespan_ns"] is None:
        time.sleep(0.05)
    time.sleep(by_form(1, 5))
    best_ns = asker.once("GET", f"/v1/jobs/{job_id}").json()["best_makespan_ns"]
    asked = time.monotonic()
    assert asker.once("DELETE", f"/v1/jobs/{job_id}").status_code in (200, 202)
    # The solver has stopped only when it is no longer said to be stopping.
    while asker.once("GET", f"/v1/jobs/{job_id}").json()["cancel_requested"]:
        assert time.monotonic() < asked + 30
        time.sleep(0.02)
    took_s = until(asker, job_id, {"cancelled"}, 30) - asked
    result = result_of(asker, job_id)
    record("cancel", engine=engine, seconds=round(took_s, 2))
    assert result["schedule"]["makespan_ns"] <= best_ns
    assert took_s < CANCEL_S
