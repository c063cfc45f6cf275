"""Reading lightly: entity tags, waiting for a change, parts of results, compression."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import zstandard
from starlette.testclient import TestClient

from app.database import Database
from app.models import Job
from app.repositories.job_rows import JobReader
from app.services.attempts import Attempts, Progress
from app.services.transitions import Answered
from client.columnar import rows
from tests.integration.fakes import SCHEDULE, START, succeeded
from tests.integration.helpers import claim, finish, job, post, set_columns

OPERATIONS = [
    {"op": "F", "stage": n % 7, "micro_batch": n, "start_ns": n, "end_ns": n + 1}
    for n in range(5000)
]


def large_result() -> dict[str, Any]:
    result = succeeded()
    schedule = {**SCHEDULE, "ops": OPERATIONS}
    return {**result, "document": {**result["document"], "schedule": schedule}}


def solved(client: TestClient, database: Database, attempts: Attempts) -> str:
    """The address of a result of some 300 kB."""
    job_id = post(client)["id"]
    finish(attempts, database, Answered(large_result()))
    return f"/v1/jobs/{job_id}/result"


def test_a_job_that_has_not_changed_is_not_sent_again(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    address = f"/v1/jobs/{post(client)['id']}"
    first = client.get(address)
    tag = first.headers["ETag"]
    assert tag.startswith('W/"')
    for known in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
        again = client.get(address, headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        for name in ("ETag", "Retry-After", "Cache-Control", "Vary"):
            assert again.headers[name] == first.headers[name]
    order = claim(attempts, database)
    running = client.get(address, headers={"If-None-Match": tag})
    assert (running.status_code, running.json()["state"]) == (200, "running")
    assert running.headers["ETag"] != tag
    # A heartbeat changes its age and the time spent, which is no news.
    tag = running.headers["ETag"]
    attempts.renew(order.fence, Progress(spent_ms=5000))
    assert client.get(address, headers={"If-None-Match": tag}).status_code == 304
    assert job(client, address.rpartition("/")[2])["spent_s"] == 5
    attempts.renew(order.fence, Progress(spent_ms=5000, phase="cbc"))
    assert client.get(address, headers={"If-None-Match": tag}).status_code == 200


def test_a_listing_that_has_not_changed_is_not_sent_again(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client, "one", tags=["a"])
    first = client.get("/v1/jobs")
    headers = {"If-None-Match": first.headers["ETag"]}
    assert client.get("/v1/jobs", headers=headers).status_code == 304
    assert client.get("/v1/jobs?tag=b", headers=headers).status_code == 200
    claim(attempts, database)
    assert client.get("/v1/jobs", headers=headers).status_code == 200


def test_a_result_has_a_tag_for_each_of_its_forms(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    address = solved(client, database, attempts)
    plain = {"Accept-Encoding": "identity"}
    queries = ("", "?form=columnar", "?fields=certificate", "?fields=-certificate")
    tags = [client.get(address + query, headers=plain).headers["ETag"] for query in queries]
    assert len(set(tags)) == len(queries)
    assert all(tag.startswith('"') for tag in tags)
    for query, tag in zip(queries, tags, strict=True):
        headers = {**plain, "If-None-Match": tag}
        again = client.get(address + query, headers=headers)
        assert (again.status_code, again.headers["ETag"]) == (304, tag)
    headers = {**plain, "If-None-Match": tags[0]}
    assert client.get(address + queries[1], headers=headers).status_code == 200
    # Two jobs of one solve have the same result.
    other = post(client)["id"]
    assert client.get(f"/v1/jobs/{other}/result", headers=headers).status_code == 304


def test_results_are_compressed_and_their_tags_say_so(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    address = solved(client, database, attempts)
    plain = client.get(address, headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    assert int(plain.headers["Content-Length"]) == len(plain.content) > 200_000
    tags = {plain.headers["ETag"]}
    for coding in ("zstd", "br", "gzip"):
        headers = {"Accept-Encoding": coding}
        with client.stream("GET", address, headers=headers) as response:
            raw = b"".join(response.iter_raw())
        assert response.headers["Content-Encoding"] == coding
        assert "Accept-Encoding" in response.headers["Vary"]
        assert len(raw) < len(plain.content) / 5
        if coding == "gzip":
            assert gzip.decompress(raw) == plain.content
        if coding == "zstd":
            with zstandard.ZstdDecompressor().stream_reader(raw) as reader:
                assert reader.read() == plain.content
        tag = response.headers["ETag"]
        assert tag == plain.headers["ETag"][:-1] + f'-{coding}"'
        tags.add(tag)
    for tag in tags:
        assert client.get(address, headers={"If-None-Match": tag}).status_code == 304


def test_small_answers_are_sent_as_they_are(client: TestClient) -> None:
    assert "Content-Encoding" not in client.get("/healthz").headers
    problem = client.get("/v1/jobs/none")
    assert "Content-Encoding" not in problem.headers


def test_a_cache_hit_with_a_large_result_arrives_whole(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    solved(client, database, attempts)
    for coding in ("identity", "gzip"):
        hit = client.post(
            "/v1/pipeline-schedules",
            json={"script": "answer"},
            headers={"Accept-Encoding": coding},
        )
        assert hit.json()["result"]["schedule"]["ops"] == OPERATIONS


def test_parts_of_a_result(client: TestClient, database: Database, attempts: Attempts) -> None:
    address = solved(client, database, attempts)
    whole = client.get(address).json()
    kept = client.get(f"{address}?fields=certificate,schedule.makespan_ns").json()
    assert kept == {"schedule": {"makespan_ns": 7}, "certificate": whole["certificate"]}
    left = client.get(f"{address}?fields=-schedule.ops,-provenance").json()
    assert set(left) == set(whole) - {"provenance"}
    assert set(left["schedule"]) == set(whole["schedule"]) - {"ops"}
    columnar = client.get(f"{address}?form=columnar").json()
    operations = columnar["schedule"]["ops"]
    assert operations["length"] == len(OPERATIONS)
    assert operations["columns"]["stage"] == [entry["stage"] for entry in OPERATIONS]
    assert rows(columnar) == whole
    size = len(client.get(f"{address}?form=columnar").content)
    assert size < len(client.get(address).content) / 2


@pytest.mark.parametrize("query", ["fields=plan", "fields=schedule..ops", "form=rowwise"])
def test_parts_that_there_are_not(
    client: TestClient, database: Database, attempts: Attempts, query: str
) -> None:
    response = client.get(f"{solved(client, database, attempts)}?{query}")
    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")
    if query == "fields=plan":
        assert "schedule" in response.json()["errors"][0]["remedy"]


def test_without_a_result_there_is_no_tag(client: TestClient) -> None:
    response = client.get(f"/v1/jobs/{post(client)['id']}/result", headers={"If-None-Match": "*"})
    assert (response.status_code, "ETag" in response.headers) == (409, False)


def test_waiting_for_a_change(client: TestClient, database: Database, attempts: Attempts) -> None:
    job_id = post(client)["id"]
    address = f"/v1/jobs/{job_id}"
    tag = client.get(address).headers["ETag"]
    began = time.monotonic()
    same = client.get(address, headers={"If-None-Match": tag, "Prefer": "wait=1"})
    assert (same.status_code, same.headers["Preference-Applied"]) == (304, "wait=1")
    assert time.monotonic() - began >= 0.9
    timer = threading.Timer(0.5, lambda: claim(attempts, database))
    timer.start()
    changed = client.get(address, headers={"If-None-Match": tag, "Prefer": "wait=60"})
    assert time.monotonic() - began < 30
    assert (changed.status_code, changed.json()["state"]) == (200, "running")
    timer.join()


def test_a_job_that_is_over_is_read_once(
    client: TestClient, database: Database, attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = solved(client, database, attempts)
    tag = client.get(address).headers["ETag"]
    read: list[str] = []

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            read.append(method.__name__)
            return method(*arguments)

        return call

    for name in ("some", "one", "ending"):
        monkeypatch.setattr(JobReader, name, counted(getattr(JobReader, name)))
    assert client.get(address.removesuffix("/result"), headers={"Prefer": "wait=9"}).is_success
    assert read == ["some"]
    assert client.get(address, headers={"If-None-Match": tag}).status_code == 304
    assert read == ["some", "one"]
    assert client.get(address).is_success
    assert read == ["some", "one", "one", "ending"]


def test_waiting_for_the_end(client: TestClient, database: Database, attempts: Attempts) -> None:
    address = f"/v1/jobs/{post(client)['id']}"
    order = claim(attempts, database)

    def end() -> None:
        attempts.renew(order.fence, Progress(incumbent=START, objective=8, lower_bound=1))
        time.sleep(0.3)
        attempts.end(order.fence, Answered(succeeded()), Progress())

    thread = threading.Thread(target=end)
    thread.start()
    over = client.get(address, headers={"Prefer": "wait=60"})
    assert over.json()["state"] == "succeeded"
    assert "Retry-After" not in over.headers
    thread.join()
    # What is over changes no more, so that nobody waits for it.
    began = time.monotonic()
    headers = {"If-None-Match": over.headers["ETag"], "Prefer": "wait=60"}
    assert client.get(address, headers=headers).status_code == 304
    assert time.monotonic() - began < 30


def test_clients_are_asked_to_be_patient(client: TestClient, database: Database) -> None:
    def retry_after(job_id: str) -> int:
        seconds = int(client.get(f"/v1/jobs/{job_id}").headers["Retry-After"])
        result = client.get(f"/v1/jobs/{job_id}/result")
        assert (result.status_code, int(result.headers["Retry-After"])) == (409, seconds)
        return seconds

    ids = [post(client, f"answer {n}")["id"] for n in range(7)]
    assert [retry_after(job_id) for job_id in ids] == [1, 2, 3, 4, 5, 5, 5]

    with database.writing() as session:
        session.query(Job).update({"created_at": Job.created_at - 40_000})
    assert retry_after(ids[0]) == 3
    set_columns(database, created_at=1)
    with database.writing() as session:
        session.query(Job).update({"created_at": 1})
    assert retry_after(ids[0]) == 5


def test_a_view_says_where_a_job_waits_and_what_it_may_cost(client: TestClient) -> None:
    short = job(client, post(client, time_limit_s=60)["id"])
    assert (short["queue"], short["time_limit_s"], short["spent_s"]) == ("short", 60, 0)
    long = job(client, post(client, time_limit_s=600)["id"])
    assert (long["queue"], long["time_limit_s"]) == ("long", 600)
    address = f"/v1/jobs/{long['id']}"
    assert long["links"] == {
        "self": address,
        **{part: f"{address}/{part}" for part in ("result", "log", "progress", "events")},
    }
