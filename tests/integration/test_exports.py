"""Answers as files: which there are, what they are called, and who may have them."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.database import Database
from app.repositories.job_rows import JobReader
from app.services.attempts import Attempts, Progress
from app.services.transitions import Answered
from planner.export.registry import FORMATS
from tests.integration.fakes import infeasible, succeeded
from tests.integration.helpers import claim, finish, post

REQUEST = {
    "model": "GPT-1.7B",
    "cluster": "1xA100-40GB",
    "training": {"pipeline_parallel": 1, "micro_batches": 1},
}
"""With what schedulers have to know, which the fake requests lack."""


@pytest.fixture
def over(client: TestClient, database: Database, attempts: Attempts) -> str:
    job_id = str(post(client, name='evil"\r\nname')["id"])
    finish(attempts, database)
    return job_id


def exports(client: TestClient, job_id: str) -> list[dict[str, Any]]:
    answer = client.get(f"/v1/jobs/{job_id}/exports")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["exports"]
    return found


def having(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that the answer can be written in; each other one says why it cannot."""
    assert all((entry["href"] is None) == bool(entry["hindrance"]) for entry in listed)
    return [entry for entry in listed if entry["href"] is not None]


def test_each_format_is_listed_and_can_be_fetched(client: TestClient, over: str) -> None:
    listed = exports(client, over)
    assert [entry["format"] for entry in listed] == [own.name for own in FORMATS["pipeline"]]
    for entry in having(listed):
        answer = client.get(entry["href"])
        assert answer.status_code == 200
        assert answer.headers["content-type"] == entry["media_type"]
        name = entry["file_name"]
        assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
        assert name.startswith(f"loadmaster-{over}.")
    rows = list(csv.DictReader(io.StringIO(client.get(listed[0]["href"]).text)))
    assert [row["op"] for row in rows] == ["F", "B"]
    trace = client.get(listed[1]["href"]).json()
    assert [each["dur"] for each in trace["traceEvents"] if each["ph"] == "X"] == [0.003, 0.004]


def test_all_formats_are_listed_with_what_they_carry(client: TestClient) -> None:
    formats = client.get("/v1/exports").json()["formats"]
    listed = {(each["kind"], each["format"]) for each in formats}
    assert listed == {(kind, own.name) for kind, owns in FORMATS.items() for own in owns}
    assert all(each["carries"] and each["leaves_out"] for each in formats)


def test_a_file_is_not_made_again_for_whoever_has_it(client: TestClient, over: str) -> None:
    tags = set()
    for entry in having(exports(client, over)):
        tag = client.get(entry["href"]).headers["etag"]
        again = client.get(entry["href"], headers={"If-None-Match": tag})
        assert (again.status_code, again.content) == (304, b"")
        tags.add(tag)
    result = client.get(f"/v1/jobs/{over}/result").headers["etag"]
    assert len(tags | {result}) == len(having(exports(client, over))) + 1


def test_a_file_with_the_services_address_is_another_by_another_address(
    client: TestClient, over: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobReader, "request", lambda *_: json.dumps(REQUEST))
    paths = {entry["format"]: entry["href"] for entry in having(exports(client, over))}
    assert {"slurm", "jobset", "pytorchjob", "trainjob", "csv"} < paths.keys()
    # By another scheme.
    other = f"https://{client.base_url.host}"
    for name, path in paths.items():
        first = client.get(path)
        tag = {"If-None-Match": first.headers["etag"]}
        assert client.get(path, headers=tag).status_code == 304
        again = client.get(f"{other}{path}", headers=tag)
        if again.status_code == 304:
            assert client.get(f"{other}{path}").content == first.content
        assert again.status_code == (200 if "http://" in first.text and name != "svg" else 304)


def test_there_are_none_before_the_end_and_none_of_a_failure(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = post(client)["id"]
    for path in ("exports", "export/csv"):
        answer = client.get(f"/v1/jobs/{job_id}/{path}")
        assert (answer.status_code, answer.json()["code"]) == (409, "not_over")
    broken = {"state": "failed", "code": "no_plan_in_time", "detail": "None was found."}
    attempts.end(claim(attempts, database).fence, Answered(broken), Progress())
    for path in ("exports", "export/csv"):
        assert client.get(f"/v1/jobs/{job_id}/{path}").status_code == 410


def test_where_nothing_fits_there_is_no_file(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = post(client)["id"]
    attempts.end(claim(attempts, database).fence, Answered(infeasible()), Progress())
    assert exports(client, job_id) == []
    answer = client.get(f"/v1/jobs/{job_id}/export/csv")
    assert (answer.status_code, answer.json()["code"]) == (404, "no_export")


@pytest.mark.parametrize("name", ["pdf", "csv%0d%0aX-Bad:1", "CSV", "schedule-csv"])
def test_other_formats_are_unknown_and_the_known_are_named(
    client: TestClient, over: str, name: str
) -> None:
    answer = client.get(f"/v1/jobs/{over}/export/{name}")
    assert (answer.status_code, answer.json()["code"]) == (404, "no_export")
    assert "csv, chrome-trace" in answer.json()["detail"]
    assert "x-bad" not in answer.headers


def test_another_tenants_answer_exports_the_same(client: TestClient, over: str) -> None:
    """A job that a stored answer serves has the files too, under its own name."""
    hit = post(client)
    assert hit["cache"] == "hit"
    entry = exports(client, hit["id"])[0]
    assert hit["id"] in entry["file_name"]
    assert client.get(entry["href"]).text == client.get(f"/v1/jobs/{over}/export/csv").text


def test_succeeded_answers_have_what_is_written() -> None:
    assert {"problem", "schedule"} <= succeeded()["document"].keys()


def test_any_tag_holds_for_files_that_there_are(client: TestClient, over: str) -> None:
    any_tag = {"If-None-Match": "*"}
    assert client.get(f"/v1/jobs/{over}/export/csv", headers=any_tag).status_code == 304
    assert client.get(f"/v1/jobs/{over}/export/pdf", headers=any_tag).status_code == 404
