"""Timelines of results: of the schedule itself, and of those that it is compared with."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

from starlette.testclient import TestClient

from app.database import Database
from app.schemas.timelines import TimelineView
from app.services.attempts import Attempts, Progress, Standing
from app.services.transitions import Answered
from planner.pipeline.classic.placement import merged, v_shape
from planner.pipeline.classic.rows import comparison_rows, row_document
from planner.pipeline.documents import problem_to_document
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.spec import AS_POSTED
from tests.integration.fakes import infeasible, sharded, trained
from tests.integration.helpers import (
    SHARDING_ADDRESS,
    TRAINING_ADDRESS,
    claim,
    finish,
    post,
    set_columns,
)
from tests.problems import uniform_problem

TIGHT_BYTES = 10


@cache
def problems() -> dict[str, PipelineProblem]:
    """The same work one stage per device and as a V; four devices, of which not all rows fit."""
    fields = {"offload_bytes": 3, "offload_ns": 2, "reload_ns": 2}
    one_chunk = merged(uniform_problem(devices=4, micro_batches=6, limit=TIGHT_BYTES, **fields))
    return {"one_chunk": one_chunk, "v_shape": v_shape(one_chunk)}


@cache
def answer(*placements: str) -> str:
    """What a solve of these placements (or of the problem as posted) answers with, in short."""
    own = {place: problems()["one_chunk" if place == AS_POSTED else place] for place in placements}
    comparison, schedule = [], None
    for place, problem in own.items():
        for row in comparison_rows(problem):
            if place == AS_POSTED or not row.hypothetical:
                name = {} if place == AS_POSTED else {"placement": place}
                comparison.append(row_document(row) | name)
            if schedule is None and row.fits and not row.hypothetical and row.schedule is not None:
                schedule = row.schedule
    assert schedule is not None
    document = {
        "problem": problem_to_document(own[placements[0]]),
        "schedule": replace(schedule, waits=()).to_document(200),
        "comparison": comparison,
        "certificate": {
            "placements": [{"placement": p, "lower_bound_ns": 200 + len(p)} for p in placements]
        },
        "provenance": {"placement": placements[0]},
    }
    return json.dumps(document)


def solved(
    client: TestClient, database: Database, attempts: Attempts, *placements: str
) -> tuple[str, dict[str, Any]]:
    """The address of the timeline of a solved job, and the job's result."""
    job_id = post(client)["id"]
    document: dict[str, Any] = json.loads(answer(*(placements or (AS_POSTED,))))
    end(attempts, database, {"document": document, "objective": 7, "lower_bound": 7})
    candidates = [
        {"placement": place, "problem": problem_to_document(problem)}
        for place, problem in problems().items()
    ]
    set_columns(database, spec=json.dumps({"candidates": candidates}))
    return f"/v1/jobs/{job_id}/timeline", document


def end(attempts: Attempts, database: Database, result: dict[str, Any]) -> None:
    finish(attempts, database, Answered({"state": "succeeded", "proven_optimal": True} | result))


def row_of(document: dict[str, Any], name: str, placement: str | None = None) -> dict[str, Any]:
    rows = [row for row in document["comparison"] if row["name"] == name]
    found: dict[str, Any] = next(r for r in rows if placement in (None, r["placement"]))
    return found


def check(timeline: dict[str, Any], figures: dict[str, Any]) -> None:
    """The document is as described, and says of the schedule what the result says."""
    TimelineView.model_validate(timeline, strict=True)
    for name in ("makespan_ns", "steady_span_ns"):
        assert timeline[name] == figures[name]
    peaks = [device["peak_bytes"] for device in timeline["devices"]]
    assert peaks == figures["peak_memory_bytes"]
    for device in timeline["devices"]:
        assert device["busy_ns"] + sum(device["idle_ns"].values()) == timeline["makespan_ns"]


def test_the_timeline_of_a_schedule(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    address, document = solved(client, database, attempts)
    response = client.get(address)
    assert response.status_code == 200
    timeline = response.json()
    check(timeline, document["schedule"])
    assert (timeline["schedule"], timeline["placement"]) == ("Loadmaster", AS_POSTED)
    assert (timeline["fits"], timeline["reason"]) == (True, None)
    assert timeline["lower_bound_ns"] == 200
    assert timeline["micro_batches"] == 6
    assert [stage["device"] for stage in timeline["stages"]] == [0, 1, 2, 3]
    assert len(timeline["ops"]["op"]) == len(document["schedule"]["ops"])
    same = client.get(address, params={"schedule": "Loadmaster", "placement": AS_POSTED})
    assert same.json() == timeline


def test_the_timelines_of_the_comparison(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    address, document = solved(client, database, attempts)
    shown = 0
    for row in document["comparison"]:
        chosen = {"schedule": row["name"], "placement": row["placement"]}
        response = client.get(address, params=chosen)
        if row["makespan_ns"] is None:
            assert response.status_code == 404
            assert row["reason"] in response.json()["detail"]
            continue
        timeline = response.json()
        check(timeline, row)
        for name, value in {**chosen, "fits": row["fits"], "reason": row["reason"]}.items():
            assert timeline[name] == value
        has_bound = row["fits"] and not row["hypothetical"]
        assert (timeline["lower_bound_ns"] is not None) == has_bound
        assert timeline["ops"]["op"].count("O") == row["offloads"]
        shown += 1
    assert shown > 10
    assert {row["fits"] for row in document["comparison"]} == {True, False}
    assert any(row["hypothetical"] for row in document["comparison"])


def test_memory_beyond_the_limit_is_shown(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    address, _ = solved(client, database, attempts)
    timeline = client.get(address, params={"schedule": "GPipe"}).json()
    assert not timeline["fits"]
    assert timeline["reason"].startswith("out of memory")
    shortage = timeline["shortage"]
    assert shortage["limit_bytes"] == TIGHT_BYTES
    device = timeline["devices"][shortage["device"]]
    assert shortage["needed_bytes"] == device["peak_bytes"]
    device = timeline["devices"][0]
    assert max(device["memory"]["bytes"]) == device["peak_bytes"] > TIGHT_BYTES
    assert device["limit_bytes"] == TIGHT_BYTES


def test_a_schedule_in_another_placement_than_the_answers(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    address, document = solved(client, database, attempts, "one_chunk", "v_shape")
    timeline = client.get(address, params={"schedule": "V-Half"}).json()
    check(timeline, row_of(document, "V-Half"))
    assert timeline["placement"] == "v_shape"
    # It needs more memory than there is, and a bound holds for what fits.
    assert (timeline["fits"], timeline["lower_bound_ns"]) == (False, None)
    assert [stage["device"] for stage in timeline["stages"]] == [0, 1, 2, 3, 3, 2, 1, 0]
    one = client.get(address, params={"schedule": "PipeOffload", "placement": "one_chunk"}).json()
    check(one, row_of(document, "PipeOffload", "one_chunk"))
    assert (one["fits"], one["lower_bound_ns"]) == (True, 209)
    unclear = client.get(address, params={"schedule": "PipeOffload"})
    assert unclear.status_code == 422
    assert unclear.json()["errors"][0]["path"] == "placement"
    assert "one_chunk, v_shape" in unclear.json()["errors"][0]["remedy"]


def test_names_that_there_are_not(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    address, _ = solved(client, database, attempts)
    for query, path in (
        ({"schedule": "1F2B"}, "schedule"),
        ({"schedule": "1F1B", "placement": "v_shape"}, "schedule"),
        ({"placement": "v_shape"}, "placement"),
    ):
        response = client.get(address, params=query)
        assert (response.status_code, response.json()["code"]) == (404, "no_timeline")
        assert response.json()["errors"][0]["path"] == path
    assert "Loadmaster, GPipe, 1F1B" in client.get(address + "?schedule=1F2B").text


def test_a_schedule_that_this_version_makes_otherwise_is_not_shown(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    address, document = solved(client, database, attempts)
    row_of(document, "1F1B")["makespan_ns"] += 1
    set_columns(database, result=json.dumps(document))
    response = client.get(address, params={"schedule": "1F1B"})
    assert (response.status_code, response.json()["code"]) == (404, "no_timeline")
    assert "no-cache" in response.json()["errors"][0]["remedy"]


def test_each_timeline_has_a_tag(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    address, _ = solved(client, database, attempts)
    plain = {"Accept-Encoding": "identity"}
    addresses = [address, address + "?schedule=1F1B", address + "?schedule=GPipe"]
    tags = [client.get(one, headers=plain).headers["ETag"] for one in addresses]
    result = client.get(address.replace("timeline", "result"), headers=plain).headers["ETag"]
    assert len({*tags, result}) == 4
    for one, tag in zip(addresses, tags, strict=True):
        again = client.get(one, headers={**plain, "If-None-Match": tag})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["ETag"] == tag
    assert client.get(addresses[1], headers={"If-None-Match": tags[0]}).status_code == 200
    any_tag = {"If-None-Match": "*"}
    assert client.get(address, headers=any_tag).status_code == 304
    assert client.get(f"{address}?schedule=none", headers=any_tag).status_code == 404


def test_the_schedule_of_a_training_plan(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = post(client, address=TRAINING_ADDRESS)["id"]
    document: dict[str, Any] = trained()["document"]
    schedule = json.loads(answer("one_chunk"))
    end(
        attempts,
        database,
        {**trained(), "document": {**document, "best": {**document["best"], "schedule": schedule}}},
    )
    address = f"/v1/jobs/{job_id}/timeline"
    check(client.get(address).json(), schedule["schedule"])
    compared = client.get(address, params={"schedule": "1F1B"}).json()
    check(compared, row_of(schedule, "1F1B"))


def test_jobs_without_a_schedule(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    waiting = f"/v1/jobs/{post(client, 'other')['id']}/timeline"
    response = client.get(waiting)
    assert (response.status_code, response.json()["code"]) == (409, "not_over")
    assert int(response.headers["Retry-After"]) >= 1
    client.delete(waiting.removesuffix("/timeline"))
    response = client.get(waiting)
    assert (response.status_code, response.json()["code"]) == (404, "no_plan")
    for place, result in (
        (SHARDING_ADDRESS, sharded()),
        (TRAINING_ADDRESS, trained()),
        ("/v1/pipeline-schedules", infeasible()),
    ):
        job_id = post(client, address=place)["id"]
        order = claim(attempts, database)
        assert attempts.end(order.fence, Answered(result), Progress()) is Standing.GO_ON
        response = client.get(f"/v1/jobs/{job_id}/timeline")
        assert (response.status_code, response.json()["code"]) == (404, "no_timeline"), place
        assert response.json()["errors"][0]["message"]


def test_a_solve_that_failed(client: TestClient, database: Database, attempts: Attempts) -> None:
    job_id = post(client)["id"]
    failure = {"state": "failed", "code": "no_plan_within_limit", "detail": "Nothing found."}
    order = claim(attempts, database)
    assert attempts.end(order.fence, Answered(failure), Progress()) is Standing.GO_ON
    response = client.get(f"/v1/jobs/{job_id}/timeline")
    assert (response.status_code, response.json()["code"]) == (410, "no_plan_within_limit")
