"""The dispatcher leaves a broker that takes nothing alone until its next sweep."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from app.database import Database
from app.dispatch import Dispatcher
from app.repositories.queue import Dispatch
from app.services.sweeping import InDoubt, send_unsent
from app.settings import Settings
from tests.integration.helpers import eventually, only_solve, post


class Broker:
    """Takes messages, or does not."""

    def __init__(self) -> None:
        self.is_away = True
        self.tried: list[str] = []

    def __call__(self, dispatch: Dispatch) -> None:
        self.tried.append(dispatch.solve_id)
        if self.is_away:
            raise ConnectionError("nobody there")


class Unreliable(Database):
    """Commits what marks a solve as sent, but does not say so the first time."""

    has_failed = False

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A session whose commit goes without an answer."""
        with super().writing() as session:
            yield session
        if not self.has_failed and only_solve(self).dispatched_at is not None:
            self.has_failed = True
            raise OperationalError("COMMIT", {}, Exception("no answer"))


class Flaky(Database):
    """Takes nothing the second time."""

    writes = 0

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A session, or not."""
        self.writes += 1
        if self.writes == 2:
            raise OperationalError("BEGIN", {}, Exception("nobody there"))
        with super().writing() as session:
            yield session


def test_what_a_commit_without_an_answer_marked_is_sent_in_the_next_round(
    client: TestClient, database: Database, settings: Settings
) -> None:
    post(client)
    patient = settings.model_copy(update={"sweep_s": 0.1, "resend_after_s": 3600.0})
    broker = Broker()
    broker.is_away = False
    unreliable = Unreliable(patient)
    dispatcher = Dispatcher(unreliable, patient, broker)
    dispatcher.start()
    try:
        eventually(lambda: broker.tried)
        time.sleep(0.3)
    finally:
        dispatcher.stop()
        unreliable.dispose()
    assert unreliable.has_failed
    assert broker.tried == [only_solve(database).id]


def test_what_cannot_be_marked_as_unsent_stays_in_doubt_until_it_can(
    client: TestClient, database: Database, settings: Settings
) -> None:
    post(client)
    broker, flaky, in_doubt = Broker(), Flaky(settings), InDoubt()
    with pytest.raises(OperationalError):
        send_unsent(flaky, broker, settings, in_doubt)
    flaky.dispose()
    assert only_solve(database).dispatched_at is not None
    in_doubt.settle(database)
    broker.is_away = False
    assert send_unsent(database, broker, settings, in_doubt) == 1
    in_doubt.settle(database)
    assert only_solve(database).dispatched_at is not None, "what was sent is in doubt no more"


def test_a_fault_of_its_own_is_told_with_where_it_was(
    database: Database, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    dispatcher = Dispatcher(database, settings.model_copy(update={"sweep_s": 0.05}), None)
    dispatcher.sweep = fail  # type: ignore[method-assign]
    dispatcher.start()
    try:
        eventually(lambda: "ZeroDivisionError" in caplog.text)
        dispatcher.sweep = (swept := threading.Event()).set  # type: ignore[method-assign]
        assert swept.wait(10)
    finally:
        dispatcher.stop()


def test_requests_do_not_make_it_try_again_and_again(
    client: TestClient, database: Database, settings: Settings
) -> None:
    for number in range(3):
        post(client, f"problem {number}")
    broker = Broker()
    dispatcher = Dispatcher(database, settings.model_copy(update={"sweep_s": 4.0}), broker)
    dispatcher.start()
    try:
        eventually(lambda: broker.tried)
        for _ in range(10):
            dispatcher.wake()
            time.sleep(0.02)
        assert len(broker.tried) == 1
        broker.is_away = False
        eventually(lambda: len(broker.tried) == 4)
        post(client, "another problem")
        dispatcher.wake()
        eventually(lambda: len(broker.tried) == 5)
    finally:
        dispatcher.stop()
