"""`loadmaster export`: a file as the service wrote it, printed or stored."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from client import cli, exporting
from client.api import LoadmasterClient

CSV = "device,op\r\n0,F\r\n"
asked: list[httpx.Request] = []


def _answer(request: httpx.Request) -> httpx.Response:
    asked.append(request)
    if request.url.path == "/v1/jobs/j1/export/csv":
        return httpx.Response(200, text=CSV, headers={"Content-Type": "text/csv; charset=utf-8"})
    problem = {"title": "no", "detail": "It is to be had as csv.", "code": "no_export"}
    return httpx.Response(404, json=problem)


@pytest.fixture(autouse=True)
def service(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = httpx.MockTransport(_answer)
    monkeypatch.setattr(
        exporting, "connect", lambda server: LoadmasterClient(server, transport=transport)
    )
    asked.clear()


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.main, ["export", *map(str, arguments)])


def test_a_file_is_printed_as_it_is() -> None:
    result = run("j1", "--to", "csv")
    assert (result.exit_code, result.stdout_bytes) == (0, CSV.encode())
    assert asked[0].headers["Accept"] == "*/*"


@pytest.mark.parametrize("option", ["-o", "--output"])
def test_a_file_is_stored_and_nothing_is_printed(tmp_path: Path, option: str) -> None:
    target = tmp_path / "plan.csv"
    result = run("j1", "--to", "csv", option, target)
    assert (result.exit_code, result.stdout) == (0, "")
    assert target.read_bytes() == CSV.encode()
    assert str(target) in result.stderr


def test_a_format_that_the_job_lacks_is_an_error_that_names_the_others(tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    result = run("j1", "--to", "chrome-trace", "-o", target)
    assert result.exit_code == 1
    assert result.stderr == "error: It is to be had as csv.\n"
    assert not target.exists()


def test_nothing_is_asked_for_what_cannot_be_written(tmp_path: Path) -> None:
    assert run("j1", "--to", "csv", "-o", tmp_path / "none" / "x").exit_code == 2
    assert asked == []
