"""Webhooks: who is told of what, when it is tried again, and what is known of the tries."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from ipaddress import ip_address
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import select, text, update
from starlette.testclient import TestClient

from app.database import Database
from app.models import Webhook
from app.services.attempts import Attempts
from app.services.transitions import Answered
from app.services.webhooks.addresses import Address
from app.services.webhooks.notifier import Claimed, Notifier
from app.services.webhooks.sending import NoAnswer, Sender
from app.services.webhooks.targets import Endpoint, WebhookTargets
from app.settings import Settings
from tests.integration.fakes import infeasible, sharded
from tests.integration.helpers import (
    ADDRESS,
    SHARDING_ADDRESS,
    eventually,
    finish,
    job,
    post,
)
from tests.integration.receivers import Receiver, receiver

SECRET = "a secret of sixteen or more"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A service that may tell this machine, and soon tries again."""
    return settings.model_copy(
        update={
            "webhook_allow_private": True,
            "webhook_retries_s": (0.01, 0.01),
            # A receiver whose try is given up may have heard it, and is told again.
            "webhook_timeout_s": 30,
        }
    )


@pytest.fixture
def notifier(database: Database, settings: Settings) -> Iterator[Notifier]:
    """One beside the client's own, whose rounds a test calls."""
    notifier = Notifier(database, settings)
    yield notifier
    notifier.stop(40)


@pytest.fixture
def quiet_client(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> TestClient:
    """A client whose service leaves webhooks to the test."""
    monkeypatch.setattr(Notifier, "start", lambda self: None)
    client: TestClient = request.getfixturevalue("client")
    return client


def hook(known: Receiver, **more: Any) -> dict[str, Any]:
    return {"url": known.url, "secret": SECRET, **more}


def deliveries(client: TestClient, job_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"/v1/jobs/{job_id}/webhooks").json()["webhooks"]
    return found


def settled(client: TestClient, job_id: str) -> dict[str, Any]:
    """The only webhook of a job, once nothing more will be tried."""

    def over() -> dict[str, Any] | None:
        (found,) = deliveries(client, job_id)
        return found if found["state"] in ("delivered", "failed") else None

    delivery: dict[str, Any] = eventually(over)
    return delivery


def test_a_receiver_is_told_of_the_end_and_can_tell_who_told(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    with receiver() as known:
        job_id = post(client, name="mine", tags=["a"], webhook=hook(known))["id"]
        (waiting,) = deliveries(client, job_id)
        assert (waiting["state"], waiting["attempts"]) == ("waiting", [])
        assert not known.received
        finish(attempts, database)
        delivery = settled(client, job_id)
    assert delivery["state"] == "delivered"
    assert delivery["next_attempt_at"] is None
    assert delivery["finished_at"] is not None
    (attempt,) = delivery["attempts"]
    assert (attempt["number"], attempt["status"], attempt["error"]) == (1, 204, None)
    assert attempt["duration_ms"] >= 0
    ((path, headers, body),) = known.received
    assert path == "/hook?token=secret"
    assert headers["content-type"] == "application/json"
    assert headers["webhook-id"] == delivery["id"]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(SECRET.encode(), signed, hashlib.sha256).digest())
    assert headers["webhook-signature"] == f"v1,{expected.decode()}"
    message = json.loads(body)
    view = job(client, job_id)
    assert message["type"] == "job.over"
    assert message["timestamp"] == view["finished_at"]
    assert message["data"] == {
        "id": job_id,
        "kind": "pipeline",
        "name": "mine",
        "tags": ["a"],
        "state": "succeeded",
        "cache": "miss",
        "objective": 7,
        "bound": 7,
        "unit": "ns",
        "gap": 0.0,
        "created_at": view["created_at"],
        "finished_at": view["finished_at"],
        "links": view["links"],
    }


def test_neither_log_nor_views_show_secrets(client: TestClient) -> None:
    with receiver() as known:
        job_id = post(client, webhook=hook(known))["id"]
    (delivery,) = deliveries(client, job_id)
    assert delivery["url"] == f"http://127.0.0.1:{known.port}/hook"
    for address in (f"/v1/jobs/{job_id}", f"/v1/jobs/{job_id}/webhooks", "/v1/jobs"):
        assert "secret" not in client.get(address).text


@pytest.mark.parametrize("ending", ["infeasible", "failed", "cancelled"])
def test_any_end_is_told(
    client: TestClient, database: Database, attempts: Attempts, ending: str
) -> None:
    failed = {"state": "failed", "code": "no_plan_within_limit", "detail": "too late"}
    with receiver() as known:
        job_id = post(client, webhook=hook(known))["id"]
        if ending == "cancelled":
            client.delete(f"/v1/jobs/{job_id}")
        else:
            result = infeasible() if ending == "infeasible" else failed
            finish(attempts, database, Answered(result))
        settled(client, job_id)
    ((_, _, body),) = known.received
    assert json.loads(body)["data"]["state"] == ending


def test_a_job_that_leaves_is_told_at_once_and_the_others_at_the_end(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    with receiver() as known, receiver() as other:
        leaving = post(client, webhook=hook(known))["id"]
        staying = post(client, webhook=hook(other))["id"]
        client.delete(f"/v1/jobs/{leaving}")
        settled(client, leaving)
        assert not other.received
        finish(attempts, database)
        settled(client, staying)
    assert json.loads(known.received[0][2])["data"]["state"] == "cancelled"
    assert json.loads(other.received[0][2])["data"]["state"] == "succeeded"


def test_a_stored_answer_is_told_too_in_the_unit_of_its_kind(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client, address=SHARDING_ADDRESS)
    finish(attempts, database, Answered(sharded()))
    with receiver() as known:
        hit = post(client, address=SHARDING_ADDRESS, webhook=hook(known))
        settled(client, hit["id"])
    news = json.loads(known.received[0][2])["data"]
    assert (news["cache"], news["objective"], news["unit"]) == ("hit", 11, "bytes")


def test_a_receiver_that_fails_is_tried_again_with_the_same_id_and_body(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    with receiver(statuses=[500, 302, 200]) as known:
        job_id = post(client, webhook=hook(known))["id"]
        finish(attempts, database)
        delivery = settled(client, job_id)
    assert delivery["state"] == "delivered"
    assert [attempt["status"] for attempt in delivery["attempts"]] == [500, 302, 200]
    assert len({headers["webhook-id"] for _, headers, _ in known.received}) == 1
    assert len({body for _, _, body in known.received}) == 1


def test_after_the_last_wait_it_has_failed(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    with receiver(statuses=[503]) as known:
        job_id = post(client, webhook=hook(known))["id"]
        finish(attempts, database)
        delivery = settled(client, job_id)
        assert delivery["state"] == "failed"
        assert [attempt["number"] for attempt in delivery["attempts"]] == [1, 2, 3]
        assert len(known.received) == 3


def test_a_receiver_that_is_gone_is_not_tried_again(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    with receiver(statuses=[410]) as known:
        job_id = post(client, webhook=hook(known))["id"]
        finish(attempts, database)
        delivery = settled(client, job_id)
    assert (delivery["state"], len(delivery["attempts"])) == ("failed", 1)


def test_the_services_secret_signs_where_there_is_no_other(
    quiet_client: TestClient, database: Database, settings: Settings
) -> None:
    with receiver() as known:
        without = quiet_client.post(ADDRESS, json={"webhook": {"url": known.url}})
        assert without.status_code == 422
        assert without.json()["errors"][0]["path"] == "webhook.secret"
        secret = SecretStr("the secret of the service")
        own = settings.model_copy(update={"webhook_secret": secret})
        job_id = post(quiet_client, webhook=hook(known))["id"]
        quiet_client.delete(f"/v1/jobs/{job_id}")
        with database.writing() as session:
            session.execute(update(Webhook).values(secret=None, state="pending", attempts=0))
        signing = Notifier(database, own)
        signing.round()
        eventually(lambda: known.received)
        signing.stop(20)
    _, headers, body = known.received[-1]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.new(secret.get_secret_value().encode(), signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"


@pytest.mark.parametrize(
    ("webhook", "path"),
    [
        ({"url": "http://127.0.0.1:8080/", "secret": SECRET}, "webhook.url"),
        ({"url": "http://2130706433/", "secret": SECRET}, "webhook.url"),
        ({"url": "ftp://hooks.example/", "secret": SECRET}, "webhook.url"),
        ({"url": "https://hooks.example/", "secret": "too short"}, "webhook.secret"),
        ({"url": "https://hooks.example/"}, "webhook.secret"),
        ({"secret": SECRET}, "webhook.url"),
        ({"url": "https://hooks.example/", "secret": SECRET, "x": 1}, "webhook.x"),
        ("https://hooks.example/", "webhook"),
    ],
)
def test_a_webhook_that_cannot_be_is_refused_when_it_is_posted(
    settings: Settings, client: TestClient, webhook: Any, path: str
) -> None:
    strict = settings.model_copy(update={"webhook_allow_private": False})
    client.app.state.services.pipeline_schedules._targets._settings = strict  # type: ignore[attr-defined]
    for query in ("", "?validate_only=true"):
        refused = client.post(f"{ADDRESS}{query}", json={"webhook": webhook})
        assert refused.status_code == 422
        (error,) = refused.json()["errors"]
        assert error["path"] == path
        assert error["remedy"]
        assert "too short" not in refused.text
        assert "items" not in refused.text


class _Recorder(Sender):
    """Sends nothing."""

    def __init__(self) -> None:
        self.tried: list[Sequence[Address]] = []

    def post(self, endpoint: Endpoint, addresses: Sequence[Address], *_: Any) -> int:
        self.tried.append(addresses)
        raise NoAnswer("nobody is there")


def test_a_name_that_leads_elsewhere_meanwhile_is_not_followed(
    quiet_client: TestClient, database: Database, settings: Settings
) -> None:
    strict = settings.model_copy(
        update={"webhook_allow_private": False, "webhook_retries_s": (0.0,)}
    )
    answers = iter([[ip_address("8.8.8.8")], [ip_address("169.254.169.254")]])
    looked_up: list[str] = []

    def resolve(host: str, port: int) -> Sequence[Address]:
        looked_up.append(host)
        return next(answers)

    recorder = _Recorder()
    notifier = Notifier(database, strict, WebhookTargets(strict, resolve), recorder)
    url = "https://hooks.example/"
    job_id = post(quiet_client, webhook={"url": url, "secret": SECRET})["id"]
    quiet_client.delete(f"/v1/jobs/{job_id}")
    rounds_until(quiet_client, notifier, job_id)
    (delivery,) = deliveries(quiet_client, job_id)
    notifier.stop(20)
    assert recorder.tried == [[ip_address("8.8.8.8")]]
    # Once for each try: what was checked is what is connected to.
    assert looked_up == ["hooks.example", "hooks.example"]
    assert [attempt["error"] for attempt in delivery["attempts"]] == [
        "nobody is there",
        "the address leads to an address that is not public",
    ]
    assert "169.254" not in json.dumps(delivery)


def test_what_a_name_that_is_not_known_means(
    quiet_client: TestClient, database: Database, settings: Settings
) -> None:
    def unknown(host: str, port: int) -> Sequence[Address]:
        raise OSError("no such name")

    once = settings.model_copy(update={"webhook_retries_s": ()})
    notifier = Notifier(database, once, WebhookTargets(once, unknown))
    webhook = {"url": "https://hooks.example/", "secret": SECRET}
    job_id = post(quiet_client, webhook=webhook)["id"]
    quiet_client.delete(f"/v1/jobs/{job_id}")
    rounds_until(quiet_client, notifier, job_id)
    (delivery,) = deliveries(quiet_client, job_id)
    notifier.stop(20)
    assert delivery["attempts"][0]["error"] == "the name could not be looked up"


def test_many_notifiers_deliver_each_once(
    client: TestClient, database: Database, settings: Settings
) -> None:
    with receiver() as known, ExitStack() as stack:
        ids = [post(client, f"s{n}", webhook=hook(known))["id"] for n in range(12)]
        for _ in range(3):
            notifier = Notifier(database, settings)
            notifier.start()
            stack.callback(notifier.stop, 40)
        for job_id in ids:
            assert client.delete(f"/v1/jobs/{job_id}").is_success
        for job_id in ids:
            assert settled(client, job_id)["state"] == "delivered"
        told = [json.loads(body)["data"]["id"] for _, _, body in known.received]
    assert sorted(told) == sorted(ids)


def test_slow_receivers_do_not_hold_up_others(quiet_client: TestClient, notifier: Notifier) -> None:
    with receiver(delay_s=15) as slow, receiver() as quick:
        late = [post(quiet_client, f"s{n}", webhook=hook(slow))["id"] for n in range(10)]
        prompt = post(quiet_client, "prompt", webhook=hook(quick))["id"]
        for job_id in (*late, prompt):
            quiet_client.delete(f"/v1/jobs/{job_id}")
        began = time.monotonic()
        notifier.round()
        settled(quiet_client, prompt)
        assert time.monotonic() - began < 12
        # The other eight wait: one receiver has two tries at a time.
        eventually(lambda: len(slow.received) >= 2)
        assert len(slow.received) == 2


def claimed_by(notifier: Notifier, client: TestClient, known: Receiver) -> Claimed:
    """The webhook of a new job that is over, whose try is the notifier's to make."""
    job_id = post(client, webhook=hook(known))["id"]
    client.delete(f"/v1/jobs/{job_id}")
    notifier._release()
    due = notifier._next_due()
    assert due is not None
    claimed = notifier._claim(due)
    assert claimed is not None
    return claimed


def test_what_a_lost_process_was_trying_is_tried_again(
    quiet_client: TestClient, database: Database, notifier: Notifier
) -> None:
    with receiver() as known:
        claimed = claimed_by(notifier, quiet_client, known)
        job_id = claimed.webhook.job_id
        # Nobody else takes it, neither by what was seen before nor by looking again.
        assert notifier._claim(claimed.due) is None
        notifier.round()
        assert not known.received
        with database.writing() as session:
            session.execute(text("UPDATE webhooks SET not_before = 1"))
        rounds_until(quiet_client, notifier, job_id)
        (delivery,) = deliveries(quiet_client, job_id)
    assert [attempt["number"] for attempt in delivery["attempts"]] == [2]


def test_a_claim_that_was_overtaken_writes_nothing(
    quiet_client: TestClient, database: Database, notifier: Notifier
) -> None:
    with receiver() as known:
        claimed = claimed_by(notifier, quiet_client, known)
        with database.writing() as session:
            session.execute(text("UPDATE webhooks SET attempts = 2, not_before = 1"))
        notifier._begin(claimed)
        eventually(lambda: not notifier._under_way)
    (delivery,) = deliveries(quiet_client, claimed.webhook.job_id)
    assert (delivery["state"], delivery["attempts"]) == ("pending", [])


def test_webhooks_of_nobodys_job_are_not_shown(client: TestClient) -> None:
    unknown = client.get("/v1/jobs/00000000-0000-0000-0000-000000000000/webhooks")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "job_not_found")


def test_the_secret_stays_out_of_what_is_read_by_the_way(
    client: TestClient, database: Database
) -> None:
    with receiver() as known:
        post(client, webhook=hook(known))
    with database.reading() as session:
        webhook = session.scalars(select(Webhook)).one()
    assert "secret" not in vars(webhook)


def rounds_until(client: TestClient, notifier: Notifier, job_id: str) -> None:
    """Rounds until nothing more will be tried."""

    def over() -> bool:
        notifier.round()
        (found,) = deliveries(client, job_id)
        return found["state"] in ("delivered", "failed")

    eventually(over)
