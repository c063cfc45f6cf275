"""What workers and the sweep note of a solve as they change it."""

from __future__ import annotations

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient

from app.database import Database
from app.models import SolveEvent
from app.services.attempts import Attempts, Progress
from app.services.sweeping import take_back_lapsed
from app.services.transitions import Answered, Crashed, GivenBack
from app.settings import Settings
from tests.integration.fakes import START, succeeded
from tests.integration.helpers import claim, lapse_leases, post, set_columns


def events(database: Database) -> list[SolveEvent]:
    with database.reading() as session:
        return list(session.scalars(select(SolveEvent).order_by(SolveEvent.seq)))


def test_every_change_of_state_is_noted_with_its_reason(
    client: TestClient, database: Database, settings: Settings, attempts: Attempts
) -> None:
    post(client)
    order = claim(attempts, database)
    attempts.end(order.fence, Crashed("killed by SIGSEGV"), Progress(spent_ms=10))
    order = claim(attempts, database)
    attempts.end(order.fence, GivenBack(), Progress(spent_ms=20))
    claim(attempts, database)
    lapse_leases(database)
    take_back_lapsed(database, settings)
    set_columns(database, not_before=0)
    order = claim(attempts, database)
    attempts.end(order.fence, Answered(succeeded()), Progress(spent_ms=30))
    noted = events(database)
    assert [event.seq for event in noted] == list(range(8))
    assert [(event.state, event.attempt, event.detail) for event in noted] == [
        ("running", 1, None),
        ("queued", 1, "solver crashed: killed by SIGSEGV"),
        ("running", 2, None),
        ("queued", 2, "given back"),
        ("running", 3, None),
        ("queued", 3, "worker lost"),
        ("running", 4, None),
        ("succeeded", 4, None),
    ]
    last = noted[-1]
    assert (last.best_objective, last.lower_bound, last.spent_ms) == (7, 7, 30)
    assert noted[0].at <= last.at


def test_a_step_is_noted_as_it_is_stored(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client)
    fence = claim(attempts, database).fence
    found = Progress(5, phase="search", incumbent=START, objective=9, lower_bound=4, is_step=True)
    attempts.renew(fence, found)
    attempts.renew(fence, Progress(6))
    assert len(events(database)) == 2
    step = events(database)[-1]
    assert (step.state, step.phase, step.spent_ms) == ("running", "search", 5)
    assert (step.best_objective, step.lower_bound) == (9, 4)


def test_cancelling_a_solve_that_waits_is_noted(client: TestClient, database: Database) -> None:
    client.delete(f"/v1/jobs/{post(client)['id']}")
    assert [event.state for event in events(database)] == ["cancelled"]


def test_an_attempt_that_lost_its_lease_notes_nothing(
    client: TestClient, database: Database, settings: Settings, attempts: Attempts
) -> None:
    post(client)
    fence = claim(attempts, database).fence
    lapse_leases(database)
    take_back_lapsed(database, settings)
    attempts.renew(fence, Progress(5, phase="search", is_step=True))
    attempts.end(fence, Answered(succeeded()), Progress())
    assert [event.state for event in events(database)] == ["running", "queued"]


def test_after_very_many_events_only_changes_of_state_are_noted(
    client: TestClient,
    database: Database,
    attempts: Attempts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.repositories.event_log.MOST_STEPS", 3)
    post(client)
    fence = claim(attempts, database).fence
    for n in range(5):
        attempts.renew(fence, Progress(n, lower_bound=n, is_step=True))
    assert len(events(database)) == 3
    attempts.end(fence, Crashed("x" * 1000), Progress())
    last = events(database)[-1]
    assert (last.seq, last.state, len(last.detail or "")) == (3, "queued", 200)
