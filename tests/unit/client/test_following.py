"""`loadmaster runs`: what it asks and what it shows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from client import cli, following
from client.library.retries import NO_RETRIES
from client.library.service import Service
from tests.unit.client.fake_service import FakeService, problem

RUN = "0b0a5c1e-6f0e-4d6e-9d0a-0123456789ab"


def item(**fields: Any) -> dict[str, Any]:
    """A run in a list."""
    return {
        "id": RUN,
        "name": "nightly",
        "state": "active",
        "newest_iteration": 512,
        "newest_version": 3,
        "newest_state": "rolled_back",
        "running_version": 2,
        "predicted_gain": 0.125,
        "measured_gain": None,
        **fields,
    }


def version(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "version": number,
        "state": "confirmed",
        "reason": "stage_time_drift",
        "apply_at_iteration": 100 * number,
        "needs_restart": False,
        "copy_of": None,
        "predicted_gain": 0.063,
        "measured_gain": 0.0412,
        "makespan_ns": 2_488_938_000,
        "acknowledged": 8,
        "of": 8,
        **fields,
    }


def estimate(value: float, **fields: Any) -> dict[str, Any]:
    return {"value": value, "noise": 0.004, "samples": 100, "drift": None, **fields}


def view(**fields: Any) -> dict[str, Any]:
    """A run as a whole."""
    drift = {"kind": "slow", "before": 1e6, "after": 1.5e6, "noise": 1e4, "since": 480}
    return item(
        ranks=8,
        versions=[version(2), version(1, predicted_gain=None, copy_of=7, reason="rolled_back")],
        stages=[
            {"stage": 0, "quantities": {"forward_ns": estimate(1_234_000)}},
            {
                "stage": 1,
                "quantities": {
                    "forward_ns": estimate(1_500_000, drift=drift),
                    "peak_memory_bytes": estimate(8 * 2**30),
                },
            },
        ],
        re_solve={"job_id": "j9", "state": "running", "reason": "interval", "since_iteration": 500},
        events=[event(2, "running"), event(1, "created", iteration=None)],
        **fields,
    )


def event(seq: int, kind: str, iteration: int | None = 400) -> dict[str, Any]:
    at = "2026-01-01T00:00:00Z"
    return {"seq": seq, "at": at, "iteration": iteration, "kind": kind, "detail": f"event {seq}"}


PLAN = {**version(2), "problem": {}, "schedule": {"ops": []}, "running_version": 2}
DIAGNOSIS = {
    "symptoms": [{"symptom": "pcie_bottleneck"}],
    "causes": [
        {
            "cause": "slow_host_copies",
            "state": "supported",
            "summary": "Copies are slow.",
            "checks": [{"command": "nvidia-smi topo -m", "look_for": "SYS"}],
            "remedies": [
                {
                    "detail": "Pin the memory.",
                    "predicted_effect": {"quantity": "iteration_ns", "change": -0.1},
                },
                {"detail": "Offload less.", "predicted_effect": None},
            ],
        },
        {"cause": "rank_lost", "state": "ruled_out", "summary": "None.", "checks": []},
    ],
    "warnings": ["Little telemetry."],
}
PROPOSALS = {
    "imbalance": 1.31,
    "threshold": 1.15,
    "proposals": [
        {
            "kind": "micro_batches",
            "predicted_gain": 0.08,
            "reason": "Twice as many micro-batches.",
            "notes": ["Memory stays."],
            "baseline": {
                "rule": "number x ceil(slowest / median)",
                "micro_batches": 16,
                "predicted_ns": 41_000_000,
                "reason": None,
            },
        }
    ],
    "notes": ["No layers are moved."],
}
BASE = f"/v1/runs/{RUN}"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeService:
    fake = FakeService()
    monkeypatch.setattr(
        following,
        "connect",
        lambda server: Service(server, transport=fake.transport, retries=NO_RETRIES),
    )
    monkeypatch.setattr(following, "LOOK_EVERY_S", 0.0)
    return fake


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, ["runs", *arguments], env={"COLUMNS": "120"})


def test_runs_are_listed(service: FakeService) -> None:
    service.on("GET", "/v1/runs", {"runs": [item()], "next_cursor": None})
    result = run("list", "--state", "active")
    assert result.exit_code == 0
    assert "Running" in result.output.splitlines()[0]
    row = result.output.splitlines()[1]
    figures = ["512", "2", "+12.5", "%", "–", "3", "rolled", "back", "nightly"]
    assert row.split() == [RUN, "active", *figures]
    assert dict(service.requests[0].url.params) == {"state": "active", "limit": "20"}


def test_there_may_be_no_runs(service: FakeService) -> None:
    service.on("GET", "/v1/runs", {"runs": [], "next_cursor": None})
    assert run("list").output == "no runs\n"


def test_a_run_is_shown_with_versions_stages_and_events(service: FakeService) -> None:
    service.on("GET", BASE, view())
    output = run("show", RUN).output
    lines = output.splitlines()
    assert lines[0] == f"run {RUN} (nightly): active"
    assert "iteration 512, 8 ranks" in output
    assert "a new plan is looked for since iteration 500 (interval): job j9, running" in output
    first, second = (line.split() for line in lines if line.split()[1:2] == ["confirmed"])
    assert first[:5] == ["1", "confirmed", "100", "8/8", "2488.938"]
    assert "rolled back to version 7" in " ".join(first)
    assert second[5:9] == ["+6.3", "%", "+4.1", "%"]
    assert "1.234 ± 0.4 %" in output
    assert "8.000 GiB" in output
    assert "stage 1: forward_ns +50.0% since iteration 480" in output
    assert lines[-2:] == [
        "2026-01-01 00:00:00  created: event 1",
        "2026-01-01 00:00:00  iteration 400: running: event 2",
    ]


def test_a_run_that_has_only_begun_is_shown(service: FakeService) -> None:
    nothing = {"versions": [], "stages": [], "events": [], "re_solve": None}
    service.on("GET", BASE, {**view(), **nothing, "newest_iteration": None, "name": None})
    assert run("show", RUN).output == f"run {RUN}: active\niteration –, 8 ranks\n"


def test_a_plan_is_shown(service: FakeService) -> None:
    service.on("GET", f"{BASE}/plan", PLAN)
    assert run("plan", RUN).output.splitlines() == [
        "version 2: confirmed, from iteration 200 on",
        "made for: stage time drift",
        "iteration: 2488.938 ms",
        "predicted gain: +6.3 %",
        "measured gain: +4.1 %",
    ]


def test_a_certain_plan_is_shown(service: FakeService) -> None:
    restart = {"needs_restart": True, "apply_at_iteration": None, "state": "published"}
    service.on("GET", f"{BASE}/plan/5", {**PLAN, **restart, "version": 5})
    output = run("plan", RUN, "--version", "5").output
    assert output.startswith("version 5: published\n")
    assert "when they restart" in output


def test_no_plan_yet_has_an_exit_status_of_its_own(service: FakeService) -> None:
    service.on("GET", f"{BASE}/plan", {"state": "running", "job_id": "j"}, status=202)
    result = run("plan", RUN)
    assert result.exit_code == 5
    assert "no plan yet" in result.output


def test_a_diagnosis_is_shown_without_what_is_ruled_out(service: FakeService) -> None:
    service.on("GET", f"{BASE}/diagnosis", DIAGNOSIS)
    assert run("diagnose", RUN).output.splitlines() == [
        "symptoms: pcie bottleneck",
        "slow host copies (supported): Copies are slow.",
        "  check: nvidia-smi topo -m  (SYS)",
        "  remedy: Pin the memory. (iteration_ns -10.0%)",
        "  remedy: Offload less.",
        "warning: Little telemetry.",
    ]


def test_proposals_are_shown(service: FakeService) -> None:
    service.on("GET", f"{BASE}/proposals", PROPOSALS, {**PROPOSALS, "proposals": []})
    output = run("proposals", RUN).output
    assert "1.31 times" in output
    assert "micro_batches: +8.0 %. Twice as many micro-batches." in output
    assert "  Memory stays." in output
    assert "  number x ceil(slowest / median): 16, 41.000 ms" in output
    nothing = run("proposals", RUN).output.splitlines()
    assert nothing[1:] == ["Nothing to propose.", "No layers are moved."]


@pytest.mark.parametrize(
    ("arguments", "path", "answer"),
    [
        (["list"], "/v1/runs", {"runs": [item()]}),
        (["show", RUN], BASE, view()),
        (["plan", RUN], f"{BASE}/plan", PLAN),
        (["diagnose", RUN], f"{BASE}/diagnosis", DIAGNOSIS),
        (["proposals", RUN], f"{BASE}/proposals", PROPOSALS),
    ],
)
def test_answers_are_to_be_had_as_json(
    arguments: list[str], path: str, answer: Any, service: FakeService
) -> None:
    service.on("GET", path, answer)
    assert json.loads(run(*arguments, "--json").output) == answer


def test_a_run_is_stopped(service: FakeService) -> None:
    service.on("DELETE", BASE, item(state="stopped"))
    assert run("stop", RUN).output == f"run {RUN}: stopped\n"
    assert not service.requests[0].url.params


def test_a_run_is_removed_once_it_is_stopped(service: FakeService) -> None:
    service.on("DELETE", BASE, item(state="stopped"))
    service.on("DELETE", BASE, None, status=204)
    assert run("stop", RUN, "--purge").output == f"run {RUN}: removed\n"
    assert [dict(request.url.params) for request in service.requests] == [{}, {"purge": "true"}]


@pytest.mark.parametrize("as_json", [False, True])
def test_events_are_shown_once_each_until_the_run_is_stopped(
    as_json: bool, service: FakeService
) -> None:
    first, second = event(0, "created"), event(2, "published")
    service.on("GET", BASE, view() | {"events": [first]})
    service.on("GET", BASE, view() | {"events": [second, first]})
    service.on("GET", BASE, view() | {"events": [second, first]})
    last = event(3, "stopped")
    service.on("GET", BASE, view() | {"events": [last, second, first], "state": "stopped"})
    lines = run("watch", RUN, *(["--json"] if as_json else [])).output.splitlines()
    assert len(lines) == 3
    if as_json:
        assert [json.loads(line) for line in lines] == [first, second, last]
    else:
        assert lines[1].endswith("iteration 400: published: event 2")


def test_a_refusal_is_one_line(service: FakeService) -> None:
    service.on("GET", BASE, problem(404, "run_not_found", "run", "is none."), status=404)
    result = run("show", RUN)
    assert result.exit_code == 1
    assert result.output.startswith("error: ")
