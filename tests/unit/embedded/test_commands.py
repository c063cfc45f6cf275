"""What the embedded service tells its children."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.settings import Settings
from embedded import commands


def settings_of_children(monkeypatch: pytest.MonkeyPatch, **own: str) -> Settings:
    environment = commands.child_environment(
        own, database_url="sqlite:///x", broker_url="redis://x", data_dir=Path("/data")
    )
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return Settings()


@pytest.mark.parametrize(("cores", "most"), [(8, 3), (4, 1), (2, 1)])
def test_the_worker_takes_both_queues_and_keeps_a_slot_for_short_solves(
    monkeypatch: pytest.MonkeyPatch, cores: int, most: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    settings = settings_of_children(monkeypatch)
    assert set(settings.worker_queues) == {"short", "long"}
    assert settings.max_running_long == most


def test_the_operator_may_say_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of_children(monkeypatch, LOADMASTER_WORKER_QUEUES='["short"]')
    assert settings.worker_queues == ("short",)
