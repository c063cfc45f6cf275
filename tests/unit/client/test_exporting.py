"""`loadmaster export`: a file as the service wrote it, printed or stored."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from client import cli, exporting
from client.library.service import Service
from planner.version import __version__

CSV = "device,op\r\n0,F\r\n"
TABLE = {"format": "csv", "title": "Operations (CSV)", "written_for": None}
STOCK = {"format": "torch-csv", "title": "Order of operations", "written_for": "PyTorch 2.13"}
VERSION = {"Loadmaster-Version": __version__}
asked: list[httpx.Request] = []


def _answer(request: httpx.Request) -> httpx.Response:
    asked.append(request)
    if request.url.path == "/v1/jobs/j1/export/csv":
        return httpx.Response(200, text=CSV, headers={"Content-Type": "text/csv; charset=utf-8"})
    if request.url.path == "/v1/exports":
        said = {"kind": "pipeline", "carries": "Operations.", "leaves_out": "Memory."}
        return httpx.Response(
            200, headers=VERSION, json={"formats": [{**TABLE, **said}, {**STOCK, **said}]}
        )
    if request.url.path == "/v1/jobs/j1/exports":
        hindered = {**STOCK, "hindrance": "It offloads. Take torch-schedule."}
        return httpx.Response(
            200, headers=VERSION, json={"exports": [{**TABLE, "hindrance": None}, hindered]}
        )
    if request.url.path == "/v1/jobs/j2/exports":
        return httpx.Response(200, headers=VERSION, json={"exports": []})
    problem = {"title": "no", "detail": "It is to be had as csv.", "code": "no_export"}
    return httpx.Response(404, json=problem)


@pytest.fixture(autouse=True)
def service(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = httpx.MockTransport(_answer)
    monkeypatch.setattr(exporting, "connect", lambda server: Service(server, transport=transport))
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


def formats(*arguments: str) -> str:
    result = CliRunner().invoke(cli.main, ["formats", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_all_formats_are_listed_with_what_they_carry() -> None:
    lines = formats().splitlines()
    assert lines[:4] == ["pipeline:", "  csv", "    Operations (CSV)", "    carries: Operations."]
    assert "    for PyTorch 2.13" in lines
    assert "    leaves out: Memory." in lines


def test_the_formats_of_a_job_are_listed_and_why_it_lacks_one() -> None:
    lines = formats("j1").splitlines()
    assert lines[0] == "  csv"
    assert lines[-1] == "    not to be had of this plan: It offloads. Take torch-schedule."
    assert formats("j2") == "There is no plan to export.\n"
