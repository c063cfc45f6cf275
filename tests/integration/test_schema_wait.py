"""Waiting for the schema, on both databases."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from app.settings import Settings
from migrations import wait as waiting
from migrations.run import downgrade, upgrade


def test_a_current_schema_is_not_waited_for(settings: Settings) -> None:
    assert waiting.wait(settings, patience_s=0)


def test_an_older_schema_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PAUSE_S", 0.02)
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'loadmaster.db'}")
    upgrade(settings)
    downgrade(settings, "0004")
    assert not waiting.wait(settings, patience_s=0.1)
    migration = threading.Thread(target=upgrade, args=(settings,))
    migration.start()
    assert waiting.wait(settings, patience_s=60)
    migration.join()


def test_a_database_that_is_away_is_waited_for() -> None:
    settings = Settings(database_url="postgresql://nobody@127.0.0.1:1/none")
    assert not waiting.wait(settings, patience_s=0)
