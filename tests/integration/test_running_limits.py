"""Limits on running solves: of a tenant, and of the queue of long ones."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient

from app.database import Database
from app.models import DEFAULT_TENANT, Solve, Tenant
from app.repositories.queue import Dispatch
from app.services.attempts import Attempts, Progress
from app.services.sweeping import send_unclaimed, send_unsent
from app.services.transitions import Answered
from app.settings import Settings
from tests.integration.fakes import succeeded
from tests.integration.helpers import post, set_columns

LONG_S = 1000


@pytest.fixture
def both_queues(settings: Settings) -> Settings:
    return settings.model_copy(update={"worker_queues": ("short", "long")})


def post_many(client: TestClient, database: Database, count: int, **more: object) -> list[str]:
    """Ids of that many new solves, first in line first."""
    for n in range(count):
        post(client, f"answer {n} {more}", **more)
    with database.reading() as session:
        return list(session.scalars(select(Solve.id).order_by(Solve.created_at, Solve.id)))


def limit_tenant(database: Database, max_running: int) -> None:
    with database.writing() as session:
        session.add(Tenant(name=DEFAULT_TENANT, max_running=max_running))


def put_into(database: Database, solve_id: str, tenant: str) -> None:
    with database.writing() as session:
        solve = session.get_one(Solve, solve_id)
        solve.tenant = tenant


def test_of_many_claims_at_once_no_more_succeed_than_may_run(
    client: TestClient, database: Database, settings: Settings
) -> None:
    limit_tenant(database, 2)
    ids = post_many(client, database, 8)
    workers = [Attempts(database, settings, f"worker {n}", "1") for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        orders = list(pool.map(lambda at: at[0].claim(at[1]), zip(workers, ids, strict=True)))
    assert sum(order is not None for order in orders) == 2


def test_a_refused_claim_is_sent_again_when_another_solve_has_ended(
    client: TestClient, database: Database, settings: Settings
) -> None:
    settings = settings.model_copy(update={"max_running_per_tenant": 1})
    sent: list[Dispatch] = []
    first, second = post_many(client, database, 2)
    attempts = Attempts(database, settings, "worker", "1")
    order = attempts.claim(first)
    assert order is not None
    set_columns(database, dispatched_at=1)
    assert attempts.claim(second) is None
    assert send_unsent(database, sent.append, settings) == 0
    attempts.end(order.fence, Answered(succeeded()), Progress())
    assert send_unsent(database, sent.append, settings) == 1
    assert [dispatch.solve_id for dispatch in sent] == [second]
    assert attempts.claim(second) is not None


def test_no_more_are_sent_than_may_run_and_others_are_not_held_up(
    client: TestClient, database: Database, settings: Settings, attempts: Attempts
) -> None:
    limit_tenant(database, 2)
    ids = post_many(client, database, 5)
    put_into(database, ids[-1], "another")
    sent: list[Dispatch] = []
    assert send_unsent(database, sent.append, settings) == 3
    assert {dispatch.solve_id for dispatch in sent} == {ids[0], ids[1], ids[4]}
    assert send_unsent(database, sent.append, settings) == 0
    assert attempts.claim(ids[0]) is not None
    assert attempts.claim(ids[1]) is not None
    set_columns(database, dispatched_at=1)
    assert send_unclaimed(database, sent.append, settings) == 1
    assert sent[-1].solve_id == ids[4]


def test_a_tenant_that_may_run_nothing_waits(
    client: TestClient, database: Database, settings: Settings, attempts: Attempts
) -> None:
    limit_tenant(database, 0)
    (solve_id,) = post_many(client, database, 1)
    assert send_unsent(database, lambda _: None, settings) == 0
    assert attempts.claim(solve_id) is None


def test_long_solves_leave_slots_to_short_ones(
    client: TestClient, database: Database, both_queues: Settings
) -> None:
    settings = both_queues.model_copy(update={"max_running_long": 1})
    attempts = Attempts(database, settings, "worker", "1")
    ids = post_many(client, database, 2, time_limit_s=LONG_S)
    *_, short = post_many(client, database, 1)
    sent: list[Dispatch] = []
    assert send_unsent(database, sent.append, settings) == 2
    assert [(one.solve_id, one.queue) for one in sent] == [(ids[0], "long"), (short, "short")]
    assert attempts.claim(ids[0]) is not None
    assert attempts.claim(ids[1]) is None
    assert attempts.claim(short) is not None


def test_a_worker_claims_only_from_its_queues(
    client: TestClient, database: Database, settings: Settings, both_queues: Settings
) -> None:
    (solve_id,) = post_many(client, database, 1, time_limit_s=LONG_S)
    set_columns(database, dispatched_at=1)
    assert Attempts(database, settings, "worker", "1").claim(solve_id) is None
    sent: list[Dispatch] = []
    assert send_unsent(database, sent.append, settings) == 1
    assert Attempts(database, both_queues, "worker", "1").claim(solve_id) is not None


def test_solves_that_nobody_takes_do_not_keep_lost_messages_of_others_from_being_sent(
    client: TestClient, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.sweeping.HEAD_OF_LINE", 2)
    post_many(client, database, 3, time_limit_s=LONG_S)
    *_, short = post_many(client, database, 1)
    set_columns(database, dispatched_at=1)
    sent: list[Dispatch] = []
    send_unclaimed(database, sent.append, settings)
    assert short in {dispatch.solve_id for dispatch in sent}
    assert len(sent) == 3
