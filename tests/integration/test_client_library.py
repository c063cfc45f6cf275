"""The Python client against a whole service on loopback, and without one."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from client import (
    ApiError,
    AsyncPlanner,
    Infeasible,
    NoPlan,
    Planner,
    Status,
    WaitTimeout,
    cli,
    demo,
)
from client.library.requests import BatchEntry

pytestmark = pytest.mark.timeout(600)
EXAMPLES = Path(__file__).parents[2] / "examples" / "client"
PROBLEM: dict[str, Any] = {
    "micro_batches": 6,
    "devices": [{"activation_memory_bytes": 400}] * 2,
    "stages": [
        {
            "device": device,
            "forward_ns": 1000,
            "backward_input_ns": 1100,
            "backward_weight_ns": 900,
            "activation_bytes": 100,
            "offload_bytes": 80,
            "offload_ns": 700,
            "reload_ns": 700,
        }
        for device in range(2)
    ],
    "transfers": [{"forward_ns": 10, "backward_ns": 10}],
}
BUDGET = {"search_iterations": 300}
TOO_LITTLE = {**PROBLEM, "devices": [{"activation_memory_bytes": 10}] * 2}
LONG: dict[str, Any] = {
    "model": "GPT-1.7B",
    "cluster": "4xA100-40GB",
    "training": {"micro_batches": 16, "pipeline_parallel": 4},
    "solver": {"time_limit_s": 300},
}
WITHIN_S = 240.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service with everything in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "START_WITHIN_S", 240.0)
        with demo._service(tmp_path_factory.mktemp("service")) as url:
            yield url


@pytest.fixture(params=["service", "local"])
def planner(request: pytest.FixtureRequest) -> Iterator[Planner]:
    """A planner with a service, and one without: the same verbs, the same answers."""
    if request.param == "local":
        with Planner.local() as local:
            yield local
    else:
        with Planner(request.getfixturevalue("server")) as remote:
            yield remote


def test_a_schedule_comes_with_its_proof_and_its_files(planner: Planner) -> None:
    told: list[Status] = []
    job = planner.pipeline_schedule(problem=PROBLEM, solver=BUDGET, name="mine", fresh=True)
    schedule = job.result(WITHIN_S, told.append)
    assert job.state == told[-1].state == "succeeded"
    assert told[-1].best == schedule.makespan_ns >= 6 * 3000
    assert schedule.verified
    assert schedule.gap is not None
    assert schedule.gap >= 0
    assert len(schedule.ops) >= 36
    assert job.document()["provenance"]["attempts"] == 1
    assert job.export("csv").count("\n") == len(schedule.ops) + 1
    assert job.timeline().document["makespan_ns"] == schedule.makespan_ns
    row = next(row for row in schedule.comparison if row["name"] == "1F1B")
    assert job.timeline(row).document["schedule"] == "1F1B"
    assert "<svg" in job._repr_html_()
    assert planner.get(job.id).result().document == schedule.document
    assert job.id in [own.id for own in planner.jobs(name="mine", state="succeeded")]
    assert job.id not in [own.id for own in planner.jobs(kind="sharding")]


def test_both_give_the_same_answer(server: str) -> None:
    with Planner(server) as remote, Planner.local() as local:
        jobs = [
            planner.pipeline_schedule(problem=PROBLEM, solver=BUDGET, fresh=True)
            for planner in (remote, local)
        ]
        first, second = (job.document(WITHIN_S) for job in jobs)
    for part in ("problem", "schedule", "comparison", "certificate", "robustness"):
        assert first[part] == second[part], part
    assert first.keys() == second.keys()
    assert first["provenance"].keys() == second["provenance"].keys()


def test_cancelling_keeps_the_best_plan(planner: Planner) -> None:
    job = planner.pipeline_schedule(LONG, fresh=True)

    def stop(status: Status) -> None:
        if status.best is not None and not status.document["cancel_requested"]:
            job.cancel()

    schedule = job.result(WITHIN_S, stop)
    assert job.state == "cancelled"
    assert schedule.verified
    assert schedule.makespan_ns > 0


def test_what_cannot_be_is_refused_with_field_and_remedy(planner: Planner) -> None:
    with pytest.raises(ApiError) as refused:
        planner.pipeline_schedule(problem={**PROBLEM, "micro_batches": 0})
    assert (refused.value.status, refused.value.code) == (422, "invalid_request")
    assert refused.value.path == "problem.micro_batches"
    assert refused.value.remedy
    with pytest.raises(ApiError) as unknown:
        planner.pipeline_schedule(problem=PROBLEM, priority=77)
    assert unknown.value.path == "priority"
    with pytest.raises(ApiError) as missing:
        planner.get("7e28b0c8-2f0a-4a2f-9d09-6f7f0d1a8f11")
    assert missing.value.status == 404


def test_what_does_not_fit_says_why(planner: Planner) -> None:
    job = planner.pipeline_schedule(problem=TOO_LITTLE)
    with pytest.raises(Infeasible, match="10 bytes") as infeasible:
        job.result(WITHIN_S)
    assert infeasible.value.infeasibility["devices"]
    assert job.state == "infeasible"


def test_a_wait_ends_in_time_and_the_job_goes_on(planner: Planner) -> None:
    job = planner.pipeline_schedule(LONG, fresh=True)
    began = time.monotonic()
    with pytest.raises(WaitTimeout):
        job.wait(timeout=1.0)
    assert time.monotonic() - began < 20
    assert not job.status().is_over
    job.cancel()


def test_a_job_that_was_cancelled_too_early_has_no_plan(planner: Planner) -> None:
    first = planner.pipeline_schedule(LONG, fresh=True)
    second = planner.pipeline_schedule({**LONG, "name": "second"}, fresh=True)
    second.cancel()
    first.cancel()
    with pytest.raises(NoPlan) as without:
        second.result(WITHIN_S)
    assert without.value.code == "no_plan"


def test_a_batch_compares_its_jobs(planner: Planner) -> None:
    entries: list[BatchEntry] = [
        {"kind": "pipeline", "name": "tight", "request": {"problem": PROBLEM, "solver": BUDGET}},
        {
            "kind": "pipeline",
            "request": {"problem": {**PROBLEM, "micro_batches": 7}, "solver": BUDGET},
        },
        {"kind": "sharding", "request": {"transformer": "GPT-2", "devices": 2}},
    ]
    told: list[Mapping[str, Any]] = []
    batch = planner.batch(entries, tags=["sweep"]).wait(WITHIN_S, lambda view: told.append(view))
    rows = batch.comparison()
    assert [row["state"] for row in rows] == ["succeeded"] * 3
    assert [row["name"] for row in rows] == ["tight", None, None]
    assert rows[0]["ratio"] == rows[2]["ratio"] == 1.0
    assert rows[1]["ratio"] > 1
    assert told[-1]["over"]
    assert [job.result().verified for job in batch.jobs()] == [True] * 3
    assert "tight" in batch._repr_html_()
    with pytest.raises(ApiError) as refused:
        planner.batch([entries[0], {"kind": "pipeline", "request": {}}])
    assert refused.value.path.startswith("requests.1.request")


def test_estimates_and_previews_come_at_once(planner: Planner) -> None:
    memory = planner.estimate(
        "memory", model="GPT-2", cluster="4xA100-40GB", training={"micro_batches": 4}
    )
    assert memory["fits"]
    assert memory.assumptions
    preview = planner.preview("pipeline", {"problem": PROBLEM})
    assert preview["placements"][0]["feasible"]


def test_many_are_asked_for_at_once(server: str) -> None:
    async def makespans() -> list[int]:
        async with AsyncPlanner(server) as planner:
            jobs = await asyncio.gather(
                *(
                    planner.pipeline_schedule(
                        problem={**PROBLEM, "micro_batches": count}, solver=BUDGET
                    )
                    for count in (2, 3, 4)
                )
            )
            plans = await asyncio.gather(*(job.result(WITHIN_S) for job in jobs))
            assert (await jobs[0].export("csv")).startswith("device")
            listed = [job.id async for job in planner.jobs(limit=50)]
            assert {job.id for job in jobs} <= set(listed)
            return [plan.makespan_ns for plan in plans]

    found = asyncio.run(makespans())
    assert found == sorted(found)


def test_the_batch_command_compares_files(server: str, tmp_path: Path) -> None:
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for count, file in enumerate(files, start=2):
        body = {"problem": {**PROBLEM, "micro_batches": count}, "solver": BUDGET}
        file.write_text(json.dumps(body))
    words = ["batch", *map(str, files), "--wait", "--server", server]
    result = CliRunner().invoke(cli.main, words)
    assert result.exit_code == 0, result.output
    assert "2 of 2 jobs are over" in result.output


@pytest.mark.parametrize("name", ["schedule", "sweep", "local"])
def test_examples_run(server: str, tmp_path: Path, name: str) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        env={**os.environ, "LOADMASTER_SERVER": server},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert not run.stderr
    wanted = {
        "schedule": ["proven optimal", "trace.json"],
        "sweep": ["100 MiB: nothing fits", "400 MiB:"],
        "local": ["a step with", "schedule.svg"],
    }
    assert all(words in run.stdout for words in wanted[name])
