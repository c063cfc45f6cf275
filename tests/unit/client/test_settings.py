"""A variable of the environment that says nothing sensible is named in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import BaseModel, ValidationError
from pydantic_settings import SettingsError

from app.settings import Settings, settings_fault
from client import cli

WRONG = {
    "LOADMASTER_SOLVER_THREADS": "hidden",
    "LOADMASTER_WORKER_QUEUES": "hidden",
    "LOADMASTER_LOG_LEVEL": "hidden",
    "LOADMASTER_MAX_CRASHES": "-1234567",
    "LOADMASTER_WEBHOOK_SECRET": "hidden",
}


@pytest.mark.parametrize("name", WRONG)
def test_the_value_is_never_repeated(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, WRONG[name])
    with pytest.raises((ValidationError, SettingsError)) as found:
        Settings()
    said = settings_fault(found.value)
    assert said.startswith(f"{name}: ")
    assert said.count("\n") == 0
    assert WRONG[name] not in said


@pytest.mark.parametrize("name", ["LOADMASTER_SOLVER_THREADS", "LOADMASTER_WORKER_QUEUES"])
@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["db", "check"], ["keys", "list"]])
def test_commands_end_with_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, command: list[str]
) -> None:
    monkeypatch.setenv(name, "short")
    monkeypatch.setattr(cli, "serve", lambda _: Settings())
    done = CliRunner().invoke(cli.main, [*command, "--data-dir", str(tmp_path)])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {name}: ")
    assert done.stderr.count("\n") == 1


def test_other_mistakes_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(BaseModel):
        number: int

    monkeypatch.setattr(cli, "serve", lambda _: Other.model_validate({"number": "x"}))
    done = CliRunner().invoke(cli.main, ["serve"])
    assert isinstance(done.exception, ValidationError)
