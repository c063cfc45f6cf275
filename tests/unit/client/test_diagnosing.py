"""`loadmaster diagnose` reads what there is, and shows causes with checks and remedies."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from client import cli, diagnosing
from client.diagnosing import read_diagnosis_request, render_diagnosis
from client.errors import InputError
from client.library.service import Service
from planner.diagnoses.names import Symptom
from tests.unit.client.fake_service import FakeService
from tests.unit.client.fake_service import problem as refusal
from tests.unit.diagnoses.cases import Body, answer, problem, schedule_of, slower, telemetry

SLOW = telemetry(problem(), 2, change=slower(1.5, stage=1))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeService:
    """A service that the command finds at any address."""
    fake = FakeService()
    monkeypatch.setattr(
        diagnosing, "connect", lambda server: Service(server, transport=fake.transport)
    )
    return fake


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(cli.main, ["diagnose", *map(str, arguments)])


def shown(document: Body, width: int = 120, *, shows_all: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    render_diagnosis(console, document, shows_all=shows_all)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_command_posts_what_files_and_options_say(service: FakeService, tmp_path: Path) -> None:
    document = problem()
    found = answer(problem=document, telemetry=SLOW)
    service.on("POST", "/v1/diagnoses", found)
    plan = tmp_path / "result.json"
    plan.write_text(json.dumps({"problem": document, "schedule": schedule_of(document)}))
    rows = tmp_path / "run.jsonl"
    rows.write_text("\n".join(map(json.dumps, SLOW)))
    file = tmp_path / "training.yaml"
    file.write_text("model: GPT-2\ncluster: 8xA100-40GB\nname: mine\ntags: [a]\n")
    output = tmp_path / "answer.json"
    ran = run(
        file, "--symptom", "nan_loss", "--result", plan, "--telemetry", rows, "--output", output
    )
    assert ran.exit_code == 0, ran.output
    body = service.body()
    assert set(body) == {"model", "cluster", "symptoms", "problem", "schedule", "telemetry"}
    assert body["symptoms"] == ["nan_loss"]
    assert body["telemetry"] == SLOW
    assert json.loads(output.read_text()) == found
    assert "straggler gpu (supported)" in ran.output


def test_the_answer_as_json(service: FakeService) -> None:
    found = answer([Symptom.NAN_LOSS])
    service.on("POST", "/v1/diagnoses", found)
    assert json.loads(run("--symptom", "nan_loss", "--json").output) == found


def test_a_refusal_is_one_line(service: FakeService) -> None:
    fault = refusal(422, "invalid_request", "symptoms.0", "Input should be …", "Choose nan_loss.")
    service.on("POST", "/v1/diagnoses", fault, status=422)
    ran = run("--symptom", "slow")
    assert ran.exit_code == 1
    assert "symptoms.0" in ran.output


def test_causes_are_shown_with_what_speaks_checks_and_helps() -> None:
    document = problem()
    found = answer(problem=document, schedule=schedule_of(document), telemetry=SLOW)
    output = shown(found, 200)
    assert output.startswith("Symptoms: plan with bad throughput")
    assert "+ straggler gpu (supported)" in output
    assert "over the median of stages: 1.5 (rule: 1.15)" in output
    assert "Check: nvidia-smi -lgc" in output
    assert "  Effect: iteration " in output
    assert "Ruled out: " in output
    whole = shown(found, 200, shows_all=True)
    assert "Ruled out: " not in whole
    assert "- memory limits overlap (ruled out)" in whole


@pytest.mark.parametrize("width", [40, 80, 160])
def test_every_symptom_can_be_shown_in_any_terminal(width: int) -> None:
    found = answer([*Symptom], problem=problem())
    words = " ".join(shown(found, width, shows_all=True).split())
    for cause in found["causes"]:
        assert cause["cause"].replace("_", " ") in words


def test_files_that_are_something_else_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "plan.json"
    other.write_text('{"problem": {}}')
    with pytest.raises(InputError, match="has no `schedule`"):
        read_diagnosis_request(None, (), other, None)
    broken = tmp_path / "run.jsonl"
    broken.write_text("{\n")
    with pytest.raises(InputError, match="line by line"):
        read_diagnosis_request(None, (), None, broken)
    with pytest.raises(InputError, match="cannot be read"):
        read_diagnosis_request(None, (), None, tmp_path / "none.jsonl")
    listed = tmp_path / "run.json"
    listed.write_text('{"iterations": 1}')
    with pytest.raises(InputError, match="is no list"):
        read_diagnosis_request(None, (), None, listed)


def test_telemetry_of_one_iteration_or_of_several(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps(SLOW[0]))
    assert read_diagnosis_request(None, (), None, file) == {"telemetry": SLOW[:1]}
    file.write_text(json.dumps({"iterations": SLOW}))
    assert read_diagnosis_request(None, (), None, file) == {"telemetry": SLOW}
