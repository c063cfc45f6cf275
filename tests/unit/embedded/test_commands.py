"""What the embedded service tells its children."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.settings import Settings
from embedded import commands


def settings_of_children(monkeypatch: pytest.MonkeyPatch, slots: int = 1, **own: str) -> Settings:
    addresses = {"database_url": "sqlite:///x", "broker_url": "redis://x"}
    environment = commands.child_environment(own, slots=slots, data_dir=Path("/data"), **addresses)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return Settings()


@pytest.mark.parametrize(("slots", "most"), [(4, 3), (2, 1), (1, 1)])
def test_the_worker_takes_both_queues_and_keeps_a_slot_for_short_solves(
    monkeypatch: pytest.MonkeyPatch, slots: int, most: int
) -> None:
    settings = settings_of_children(monkeypatch, slots)
    assert set(settings.worker_queues) == {"short", "long"}
    assert settings.max_running_long == most


def test_a_wrong_setting_is_left_to_who_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADMASTER_SOLVER_THREADS", "x")
    own = {"LOADMASTER_SOLVER_THREADS": "3"}
    assert settings_of_children(monkeypatch, **own).solver_threads == 3


def test_the_operator_may_say_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of_children(monkeypatch, LOADMASTER_WORKER_QUEUES='["short"]')
    assert settings.worker_queues == ("short",)
