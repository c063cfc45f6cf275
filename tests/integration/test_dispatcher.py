"""The dispatcher leaves a broker that takes nothing alone until its next sweep."""

from __future__ import annotations

import time

from starlette.testclient import TestClient

from app.database import Database
from app.dispatch import Dispatcher
from app.repositories.queue import Dispatch
from app.settings import Settings
from tests.integration.helpers import eventually, post


class Broker:
    """Takes messages, or does not."""

    def __init__(self) -> None:
        self.is_away = True
        self.tried: list[str] = []

    def __call__(self, dispatch: Dispatch) -> None:
        self.tried.append(dispatch.solve_id)
        if self.is_away:
            raise ConnectionError("nobody there")


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
