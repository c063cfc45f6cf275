"""What a worker does with a message while it shuts down, and while the database is away."""

from __future__ import annotations

import logging

import pytest
from sqlalchemy.exc import OperationalError

from app.services.attempts import WorkOrder
from workers import runtime, tasks
from workers.shutdown import ShutdownFlag

AWAY = OperationalError("BEGIN", {}, Exception("nobody there"))


class Rows:
    """Attempts whose database is away; each claim that fails is told to `flag`."""

    def __init__(self, flag: ShutdownFlag, *, is_back: bool) -> None:
        self._flag = flag
        self._is_back = is_back
        self.refused: list[str] = []

    def claim(self, solve_id: str) -> WorkOrder | None:
        self._flag.set()
        raise AWAY

    def refuse(self, solve_id: str) -> None:
        self.refused.append(solve_id)
        if not self._is_back:
            raise AWAY


@pytest.fixture
def flag(monkeypatch: pytest.MonkeyPatch) -> ShutdownFlag:
    flag = ShutdownFlag()
    monkeypatch.setattr(tasks, "shutdown_flag", flag)
    monkeypatch.setattr(tasks, "AGAIN_S", 0.0)
    return flag


@pytest.mark.parametrize("is_back", [True, False])
@pytest.mark.parametrize("was_claiming", [True, False])
def test_a_worker_that_shuts_down_in_an_outage_passes_its_message_on(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    flag: ShutdownFlag,
    is_back: bool,
    was_claiming: bool,
) -> None:
    caplog.set_level(logging.INFO)
    rows = Rows(flag, is_back=is_back)
    monkeypatch.setattr(runtime, "attempts", lambda: rows)
    if not was_claiming:
        flag.set()
    tasks.solve("a solve")
    assert rows.refused == ["a solve"]
    assert ("cannot pass on solve a solve" in caplog.text) is not is_back
    assert "not to be run here" not in caplog.text
