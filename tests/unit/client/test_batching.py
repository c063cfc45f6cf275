"""`loadmaster batch`: what it posts, shows and exits with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from client import batching, cli
from client.library import following
from client.library.retries import NO_RETRIES
from client.library.service import Service
from tests.unit.client.fake_service import FakeService, problem

ACCEPTED = {"id": "b1", "jobs": 2, "cache": {"miss": 2}, "states": {"queued": 2}}
Run = Callable[..., Result]


def view(*states: str, **fields: Any) -> dict[str, Any]:
    rows = [
        {
            "position": position,
            "job_id": f"j{position}",
            "name": f"run-{position}",
            "kind": "sharding" if position else "pipeline",
            "state": state,
            "engine": "auto",
            "objective": 2**20 * 50 if state == "succeeded" else None,
            "bound": None,
            "gap": None,
            "ratio": None,
            **fields,
        }
        for position, state in enumerate(states)
    ]
    over = not any(state in ("queued", "running") for state in states)
    return {"id": "b1", "jobs": len(states), "over": over, "comparison": rows}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeService:
    fake = FakeService()

    def connect(server: str) -> Service:
        return Service(server, transport=fake.transport, retries=NO_RETRIES)

    monkeypatch.setattr(batching, "connect", connect)
    monkeypatch.setattr(following, "FIRST_POLL_S", 0.0)
    return fake


@pytest.fixture
def run(service: FakeService) -> Run:
    def invoke(*arguments: str | Path) -> Result:
        return CliRunner().invoke(cli.main, ["batch", *map(str, arguments)])

    return invoke


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    texts = {
        "a.yaml": "model: gpt2\ncluster: 8xH100\nscheduler: {mipgap: 0.1}\n",
        "b.json": '{"inputs": [], "operators": []}',
        "c.yaml": "model: gpt2\ncluster: 8xH100\nsearch: {top: 2}\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return [tmp_path / name for name in texts]


def test_files_become_entries_of_their_kind(
    service: FakeService, run: Run, files: list[Path]
) -> None:
    service.on("POST", "/v1/batches", ACCEPTED, status=202)
    service.on("GET", "/v1/batches/b1", view("queued", "queued"))
    result = run(*files, "--name", "sweep", "--tag", "night", "--fresh")
    assert result.exit_code == 0, result.output
    assert service.body() == {
        "name": "sweep",
        "tags": ["night"],
        "requests": [
            {
                "kind": "pipeline",
                "name": "a",
                "request": {"model": "gpt2", "cluster": "8xH100", "solver": {"mip_gap": 0.1}},
            },
            {
                "kind": "sharding",
                "name": "b",
                "request": {"graph": {"inputs": [], "operators": []}},
            },
            {
                "kind": "training",
                "name": "c",
                "request": {"model": "gpt2", "cluster": "8xH100", "search": {"top": 2}},
            },
        ],
    }
    assert service.requests[0].headers["cache-control"] == "no-cache"
    assert "batch b1: 2 jobs (2 miss)" in result.stdout
    assert "queued" in result.stdout


def test_kind_can_be_said(service: FakeService, run: Run, files: list[Path]) -> None:
    service.on("POST", "/v1/batches", ACCEPTED, status=202)
    service.on("GET", "/v1/batches/b1", view("queued"))
    assert run(files[0], "--kind", "training").exit_code == 0
    assert service.body()["requests"][0]["kind"] == "training"


@pytest.mark.parametrize(
    ("states", "status"),
    [
        (("succeeded", "succeeded"), 0),
        (("succeeded", "infeasible"), 4),
        (("failed", "infeasible"), 5),
        (("succeeded", "cancelled"), 5),
    ],
)
def test_wait_compares_and_tells_by_its_exit_status(
    service: FakeService,
    run: Run,
    files: list[Path],
    tmp_path: Path,
    states: tuple[str, ...],
    status: int,
) -> None:
    service.on("POST", "/v1/batches", ACCEPTED, status=202)
    service.on("GET", "/v1/batches/b1", view("queued", "running"), view(*states))
    output = tmp_path / "comparison.json"
    result = run(*files[:2], "--output", output)
    assert result.exit_code == status, result.output
    assert "2 of 2 jobs are over" in result.stdout
    assert json.loads(output.read_text()) == view(*states)


def test_figures_have_the_unit_of_their_kind(
    service: FakeService, run: Run, files: list[Path]
) -> None:
    service.on("POST", "/v1/batches", ACCEPTED, status=202)
    service.on("GET", "/v1/batches/b1", view("succeeded", "succeeded"))
    result = run(*files[:2], "--wait")
    assert "52.429 ms" in result.stdout
    assert "50.00 MiB" in result.stdout


def test_refusal_names_the_entry(service: FakeService, run: Run, files: list[Path]) -> None:
    refusal = problem(422, "invalid_request", "requests.1.request.devices", "is missing.", "Say.")
    service.on("POST", "/v1/batches", refusal, status=422)
    result = run(*files)
    assert result.exit_code == 1
    assert result.stderr == "error: requests.1.request.devices: is missing. Say.\n"
