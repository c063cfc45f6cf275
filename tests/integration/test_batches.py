"""Batches: all or nothing, one comparison, cancelling what is left."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import func, select
from starlette.testclient import TestClient

from app.database import Database
from app.models import Batch, Job, Solve, Webhook
from app.services import batches, starts
from app.services.attempts import Attempts, Progress
from app.services.transitions import Answered, Crashed
from tests.integration.fakes import START, infeasible, sharded, succeeded, trained
from tests.integration.helpers import ADDRESS, count_solves, job, post, solve_row

BATCHES = "/v1/batches"
SECRET = "a secret of sixteen or more"


def entry(script: Any, kind: str = "pipeline", **more: Any) -> dict[str, Any]:
    request = {"script": script, **more.pop("request", {})}
    return {"kind": kind, "request": request, **more}


def post_batch(client: TestClient, *entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    response = client.post(BATCHES, json={"requests": list(entries), **more})
    assert response.status_code == 202, response.text
    body: dict[str, Any] = response.json()
    return body


def count(database: Database, table: Any) -> int:
    with database.reading() as session:
        return session.scalars(select(func.count()).select_from(table)).one()


def solve_of(database: Database, job_id: str) -> str:
    with database.reading() as session:
        return session.scalars(select(Job.solve_id).where(Job.id == job_id)).one()


def end(attempts: Attempts, database: Database, job_id: str, ending: Any) -> None:
    order = attempts.claim(solve_of(database, job_id))
    assert order is not None
    attempts.end(order.fence, ending, Progress())


def test_each_request_becomes_a_job_as_if_posted_alone(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    known = post(client, "known")
    end(attempts, database, known["id"], Answered(succeeded()))
    post(client, "running")
    response = client.post(
        BATCHES,
        json={
            "name": "sweep",
            "requests": [
                entry("known"),
                entry("running"),
                entry("new"),
                entry("new"),
                entry("new", "sharding"),
                entry("new", "training"),
            ],
        },
    )
    assert response.status_code == 202
    accepted = response.json()
    assert accepted["jobs"] == 6
    assert accepted["cache"] == {"hit": 1, "joined": 2, "miss": 3}
    assert accepted["states"] == {"succeeded": 1, "queued": 5}
    assert response.headers["Location"] == accepted["links"]["self"]
    view = client.get(accepted["links"]["self"]).json()
    assert (view["name"], view["jobs"], view["over"]) == ("sweep", 6, False)
    rows = view["comparison"]
    assert [row["position"] for row in rows] == list(range(6))
    assert [row["kind"] for row in rows] == ["pipeline"] * 4 + ["sharding", "training"]
    assert [row["cache"] for row in rows] == ["hit", "joined", "miss", "joined", "miss", "miss"]
    for row in rows:
        assert job(client, row["job_id"])["state"] == row["state"]
    assert count_solves(database) == 5


def test_the_comparison_is_with_the_best_of_each_kind(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    batch = post_batch(
        client,
        entry("a", name="first"),
        entry("b"),
        entry("c"),
        entry("d"),
        entry("e"),
        entry("s", "sharding"),
        entry("t", "training"),
    )
    address = batch["links"]["self"]
    ids = [row["job_id"] for row in client.get(address).json()["comparison"]]
    endings: list[Any] = [
        Answered(succeeded(objective=12, lower_bound=6, proven_optimal=False)),
        Answered(succeeded(objective=8, lower_bound=8)),
        Answered(succeeded(objective=8, lower_bound=8)),
        Answered(infeasible()),
        Crashed("boom"),
        Answered(sharded()),
        Answered(trained(objective=70)),
    ]
    for job_id, ending in zip(ids, endings, strict=True):
        for _ in range(3 if isinstance(ending, Crashed) else 1):
            end(attempts, database, job_id, ending)
    view = client.get(address).json()
    assert view["over"] is True
    assert view["states"] == {"succeeded": 5, "infeasible": 1, "failed": 1}
    rows = view["comparison"]
    assert [row["objective"] for row in rows] == [12, 8, 8, None, None, 11, 70]
    assert [row["ratio"] for row in rows] == [1.5, 1.0, 1.0, None, None, 1.0, 1.0]
    assert (rows[0]["name"], rows[0]["bound"], rows[0]["gap"]) == ("first", 6, 0.5)
    assert {kind: best["position"] for kind, best in view["best"].items()} == {
        "pipeline": 1,
        "sharding": 5,
        "training": 6,
    }
    assert view["best"]["pipeline"]["job_id"] == ids[1]


def test_one_wrong_request_and_nothing_is_made(client: TestClient, database: Database) -> None:
    response = client.post(
        BATCHES,
        json={
            "requests": [
                entry("good"),
                {"kind": "pipeline", "request": {"script": "a", "wrong": 1}},
                entry("a", request={"priority": 10}),
                entry("t", "training", request={"gpus": 10**9}),
            ]
        },
    )
    assert response.status_code == 422
    assert [error["path"] for error in response.json()["errors"]] == [
        "requests.1.request.wrong",
        "requests.2.request.priority",
        "requests.3.request.cluster",
    ]
    assert count(database, Solve) == count(database, Job) == count(database, Batch) == 0


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "requests"),
        ({"requests": []}, "requests"),
        ({"requests": {}}, "requests"),
        ({"requests": [1]}, "requests.0"),
        ({"requests": [{"kind": "other", "request": {}}]}, "requests.0.kind"),
        ({"requests": [{"kind": "pipeline"}]}, "requests.0.request"),
        ({"requests": [{"kind": "pipeline", "request": []}]}, "requests.0.request"),
        ({"requests": [entry("a", name="")]}, "requests.0.name"),
        ({"requests": [entry("a", x=1)]}, "requests.0.x"),
        ({"requests": [entry("a")], "priority": 10}, "priority"),
        ({"requests": [entry("a")] * 1001}, "requests"),
    ],
)
def test_a_batch_that_is_none_is_refused(
    client: TestClient, database: Database, body: dict[str, Any], path: str
) -> None:
    response = client.post(BATCHES, json=body)
    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == path
    assert response.json()["errors"][0]["remedy"]
    assert count(database, Job) == 0


def test_a_body_that_is_too_large_is_refused(client: TestClient) -> None:
    services = client.app.state.services  # type: ignore[attr-defined]
    small = services.settings.model_copy(update={"max_batch_body_bytes": 100})
    object.__setattr__(services, "settings", small)
    assert client.post(BATCHES, json={"requests": [entry("a" * 100)]}).status_code == 413


def test_what_the_batch_says_counts_where_a_request_says_nothing(
    client: TestClient, database: Database
) -> None:
    webhook = {"url": "https://hooks.example/", "secret": SECRET}
    own = {"url": "https://own.example/", "secret": SECRET}
    batch = post_batch(
        client,
        entry("a", name="outer"),
        entry(
            "b",
            name="outer",
            request={"name": "inner", "tags": ["x"], "priority": 1, "webhook": own},
        ),
        entry("c"),
        name="sweep",
        tags=["all"],
        priority=7,
        webhook=webhook,
    )
    rows = client.get(batch["links"]["self"]).json()["comparison"]
    jobs = [job(client, row["job_id"]) for row in rows]
    assert [view["name"] for view in jobs] == ["outer", "inner", None]
    assert [view["tags"] for view in jobs] == [["all"], ["all", "x"], ["all"]]
    assert [view["priority"] for view in jobs] == [7, 1, 7]
    with database.reading() as session:
        hooks = session.execute(select(Webhook.job_id, Webhook.origin)).all()
    origins = dict(map(tuple, hooks))
    assert [origins[row["job_id"]] for row in rows] == [
        "https://hooks.example:443",
        "https://own.example:443",
        "https://hooks.example:443",
    ]


def test_validate_only_makes_nothing(client: TestClient, database: Database) -> None:
    body = {"requests": [entry("a", name="n"), entry("b", "sharding")]}
    preview = client.post(f"{BATCHES}?validate_only=true", json=body)
    assert preview.status_code == 200
    assert preview.json()["requests"][0] == {
        "position": 0,
        "kind": "pipeline",
        "name": "n",
        "engine": "auto",
        "operations": 3,
        "time_limit_s": 60.0,
    }
    assert count(database, Job) == 0


def test_no_cache_solves_all_afresh(client: TestClient, database: Database) -> None:
    post(client, "a")
    client.post(BATCHES, json={"requests": [entry("a")]}, headers={"Cache-Control": "no-cache"})
    assert count_solves(database) == 2


def test_a_batch_under_a_key_is_made_once(client: TestClient, database: Database) -> None:
    def send(_: int) -> str:
        answer = client.post(
            BATCHES,
            json={"requests": [entry(f"s{n}") for n in range(5)]},
            headers={"Idempotency-Key": "k"},
        )
        assert answer.status_code == 202, answer.text
        batch_id: str = answer.json()["id"]
        return batch_id

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(send, range(8)))) == 1
    assert (count(database, Job), count(database, Batch)) == (5, 1)


def test_batches_at_once_share_their_solves_whatever_their_order(
    client: TestClient, database: Database
) -> None:
    entries = [entry(f"s{n}") for n in range(30)]

    def send(number: int) -> None:
        post_batch(client, *(entries if number % 2 else reversed(entries)))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(send, range(6)))
    assert (count(database, Solve), count(database, Job)) == (30, 180)


def test_an_unchanged_batch_is_not_sent_again(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    address = post_batch(client, entry("a"))["links"]["self"]
    first = client.get(address)
    assert first.headers["Retry-After"]
    tag = {"If-None-Match": first.headers["ETag"]}
    assert client.get(address, headers=tag).status_code == 304
    job_id = first.json()["comparison"][0]["job_id"]
    end(attempts, database, job_id, Answered(succeeded()))
    changed = client.get(address, headers=tag)
    assert changed.status_code == 200
    assert "Retry-After" not in changed.headers


def test_cancelling_a_batch_cancels_what_is_not_over(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    batch = post_batch(client, entry("a"), entry("b"), entry("c"))
    address = batch["links"]["self"]
    ids = [row["job_id"] for row in client.get(address).json()["comparison"]]
    end(attempts, database, ids[0], Answered(succeeded()))
    other = post(client, "c")["id"]
    for _ in range(2):
        view = client.delete(address).json()
        assert view["over"] is True
        assert view["states"] == {"succeeded": 1, "cancelled": 2}
    # Somebody else still waits for this one.
    assert job(client, other)["state"] == "queued"


def test_batches_are_listed_newest_first(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    ids = [post_batch(client, entry(f"{n}"), entry("x"), name=f"b{n}")["id"] for n in range(3)]
    first = client.get(BATCHES, params={"limit": 2}).json()
    second = client.get(BATCHES, params={"limit": 2, "cursor": first["next_cursor"]}).json()
    found = [*first["batches"], *second["batches"]]
    assert {batch["id"] for batch in found} == set(ids)
    assert second["next_cursor"] is None
    assert [batch["created_at"] for batch in found] == sorted(
        (batch["created_at"] for batch in found), reverse=True
    )
    assert all((batch["jobs"], batch["over"]) == (2, 0) for batch in found)
    client.delete(f"{BATCHES}/{ids[0]}")
    counts = {batch["id"]: batch["over"] for batch in client.get(BATCHES).json()["batches"]}
    assert counts[ids[0]] == 2


@pytest.mark.parametrize("batch_id", ["nonsense", "00000000-0000-0000-0000-000000000000"])
def test_there_is_no_such_batch(client: TestClient, batch_id: str) -> None:
    for method in ("GET", "DELETE"):
        answer = client.request(method, f"{BATCHES}/{batch_id}")
        assert (answer.status_code, answer.json()["code"]) == (404, "batch_not_found")


def test_a_batch_over_the_queues_limit_is_refused_whole(
    client: TestClient, database: Database
) -> None:
    services = client.app.state.services  # type: ignore[attr-defined]
    submission = services.batches._submission
    submission._settings = submission._settings.model_copy(update={"max_queued_per_tenant": 2})
    body = {"requests": [entry(f"s{n}") for n in range(3)]}
    refused = client.post(BATCHES, json=body)
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_queued")
    assert count(database, Job) == count(database, Batch) == 0
    assert client.post(ADDRESS, json={"script": "s"}).status_code == 202


def test_new_solves_of_a_batch_start_from_what_is_stored(
    client: TestClient,
    database: Database,
    attempts: Attempts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = post(client, {"do": "x", "limit": 1, "time": 1})
    order = attempts.claim(solve_of(database, known["id"]))
    assert order is not None
    found = Progress(incumbent=START, objective=9, lower_bound=5)
    attempts.end(
        order.fence,
        Answered(succeeded(objective=9, lower_bound=5, proven_optimal=False)),
        found,
    )
    entries = [
        entry({"do": "x", "limit": 1, "time": 1}, request={"time_limit_s": 70.0}),
        entry({"do": "x", "limit": 2, "time": 1}),
        entry({"do": "y", "limit": 1, "time": 1}),
        entry({"do": "x", "limit": 3, "time": 1}),
    ]
    # Room for the first and second start: what begins within the limit is given whole.
    monkeypatch.setattr(starts, "MOST_BYTES", 400)
    batch = post_batch(client, *entries)
    rows = client.get(batch["links"]["self"]).json()["comparison"]
    begun = [solve_row(database, solve_of(database, row["job_id"])).started_from for row in rows]
    origins = [None if text is None else json.loads(text)["origin"] for text in begun]
    assert [origin and origin["kind"] for origin in origins] == [
        "same_problem",
        "other_limit",
        None,
        None,
    ]
    assert origins[0]["job_id"] == origins[1]["job_id"] == known["id"]
    assert json.loads(begun[0] or "")["schedule"] == START["schedule"]


def test_the_most_urgent_of_equal_requests_sets_the_pace(
    client: TestClient, database: Database
) -> None:
    post(client, "known", priority=2)
    post_batch(
        client,
        entry("known", request={"priority": 6}),
        entry("new", request={"priority": 1}),
        entry("new", request={"priority": 8}),
    )
    with database.reading() as session:
        assert sorted(session.scalars(select(Solve.priority))) == [6, 8]


def test_a_batch_that_resolves_to_too_much_is_refused(
    client: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MOST_RESOLVED_BYTES", 600)
    body = {"requests": [entry(f"s{n}") for n in range(9)]}
    refused = client.post(BATCHES, json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "limit_exceeded")
    assert refused.json()["errors"][0]["path"] == "requests"
    assert count(database, Job) == 0
