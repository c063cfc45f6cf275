"""The `loadmaster` command: what it posts, prints and exits with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from client import cli, posting
from client.library import following
from client.library.retries import NO_RETRIES
from client.library.service import Service
from tests.unit.client.fake_service import FakeService, job, problem
from tests.unit.client.results import sharding_result, training_result, two_device_result

POST = ("POST", "/v1/pipeline-schedules")
POST_SHARDING = ("POST", "/v1/sharding-plans")
POST_TRAINING = ("POST", "/v1/training-plans")
ACCEPTED = {"id": "j1", "state": "queued", "cache": "miss", "queue_position": 2}
Run = Callable[..., Result]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeService:
    fake = FakeService()

    def connect(server: str) -> Service:
        return Service(server, transport=fake.transport, retries=NO_RETRIES)

    for module in (cli, posting):
        monkeypatch.setattr(module, "connect", connect)
    monkeypatch.setattr(following, "FIRST_POLL_S", 0.0)
    monkeypatch.delenv("LOADMASTER_SERVER", raising=False)
    return fake


@pytest.fixture
def run(service: FakeService) -> Run:
    def invoke(*arguments: str | Path) -> Result:
        return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])

    return invoke


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text("model: gpt2\ncluster: 8xH100\nsolver: {mip_gap: 0.5}\n")
    return path


def test_solve_posts_the_file_with_the_options_on_top(
    service: FakeService, run: Run, request_file: Path
) -> None:
    service.on(*POST, ACCEPTED, status=202)
    options = ("--time-limit", "5", "--engine", "highs", "--mipgap", "0.1")
    more = ("--threads", "3", "--seed", "0")
    result = run("solve", request_file, *options, *more)
    assert result.exit_code == 0
    assert service.body() == {
        "model": "gpt2",
        "cluster": "8xH100",
        "solver": {
            "mip_gap": 0.1,
            "time_limit_s": 5.0,
            "engine": "highs",
            "threads": 3,
            "seed": 0,
        },
    }
    assert "job j1: queued (miss, position 2 in the queue)" in result.stdout
    assert "loadmaster show j1" in result.stdout


def test_an_iteration_budget_takes_the_place_of_the_files_time_limit(
    service: FakeService, run: Run, tmp_path: Path
) -> None:
    service.on(*POST, ACCEPTED, status=202)
    path = tmp_path / "run.yaml"
    path.write_text("model: gpt2\nsolver: {time_limit_s: 9, seed: 4}\n")
    assert run("solve", path, "--iterations", "500").exit_code == 0
    assert service.body()["solver"] == {"search_iterations": 500, "seed": 4}


def test_solve_waits_and_shows_and_stores_the_answer(
    service: FakeService, run: Run, request_file: Path, tmp_path: Path
) -> None:
    answer = two_device_result()
    service.on(*POST, ACCEPTED, status=202)
    best = {"best_makespan_ns": 70_000_000, "lower_bound_ns": 60_000_000, "gap": 0.142857}
    service.on(
        "GET",
        "/v1/jobs/j1",
        job("queued"),
        job("running", phase="AdaOffload", **best),
        httpx.ConnectError("restarting"),
        job("succeeded", **best),
    )
    service.on("GET", "/v1/jobs/j1/result", answer)
    output = tmp_path / "result.json"
    result = run("solve", request_file, "--wait", "--output", output)
    assert result.exit_code == 0, result.output
    assert "queued (position 1)" in result.stdout
    assert "AdaOffload  best 70.000 ms  bound 60.000 ms  gap 14.29 %" in result.stdout
    assert "device 0" in result.stdout
    assert json.loads(output.read_text()) == answer
    assert list(tmp_path.glob(".*")) == []
    assert "\njob j1\n" in result.stdout
    assert "loadmaster export j1 --to FORMAT" in result.stdout


def test_stored_answer_comes_at_once(service: FakeService, run: Run, request_file: Path) -> None:
    hit = {"id": "j1", "state": "succeeded", "cache": "hit", "result": two_device_result()}
    service.on(*POST, hit)
    result = run("solve", request_file, "--wait")
    assert result.exit_code == 0
    assert "known already" in result.stdout
    assert len(service.requests) == 1


def test_infeasible_answer_has_its_own_exit_status(
    service: FakeService, run: Run, request_file: Path
) -> None:
    service.on(*POST, ACCEPTED, status=202)
    service.on("GET", "/v1/jobs/j1", job("infeasible"))
    service.on("GET", "/v1/jobs/j1/result", {"infeasibility": {"devices": [1], "bytes": [5]}})
    result = run("solve", request_file, "--wait")
    assert result.exit_code == 4
    assert "device 1" in result.stdout
    assert "\njob j1\n" in result.stdout
    assert "loadmaster export" not in result.stdout


def test_job_without_a_plan_has_its_own_exit_status(
    service: FakeService, run: Run, request_file: Path
) -> None:
    service.on(*POST, ACCEPTED, status=202)
    service.on("GET", "/v1/jobs/j1", job("failed"))
    failure = {**problem(410, "no_plan_within_limit"), "detail": "No plan was found."}
    service.on("GET", "/v1/jobs/j1/result", failure, status=410)
    result = run("solve", request_file, "--wait")
    assert result.exit_code == 5
    assert "no plan: No plan was found." in result.stdout


def test_a_script_gets_the_id_and_nothing_else(
    service: FakeService, run: Run, request_file: Path
) -> None:
    service.on(*POST, ACCEPTED, status=202)
    service.on("GET", "/v1/jobs/j1", job("succeeded"))
    service.on("GET", "/v1/jobs/j1/result", two_device_result())
    waited = run("solve", request_file, "--wait", "--id-only")
    assert (waited.exit_code, waited.stdout) == (0, "j1\n")
    assert "device 0" in waited.stderr
    posted = run("solve", request_file, "--id-only")
    assert (posted.exit_code, posted.stdout) == (0, "j1\n")


def test_interrupted_wait_says_how_to_go_on(
    service: FakeService, run: Run, request_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.on(*POST, ACCEPTED, status=202)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("client.solving.wait_for", interrupt)
    result = run("solve", request_file, "--wait", "--server", "http://other:1")
    assert result.exit_code == 130
    assert "loadmaster show j1 --server http://other:1" in result.stderr
    assert "loadmaster cancel j1 --server http://other:1" in result.stderr


def test_refusal_is_one_line_on_stderr(service: FakeService, run: Run, request_file: Path) -> None:
    refusal = problem(422, "invalid_request", "model.layers", "is required.", "Give it.")
    service.on(*POST, refusal, status=422)
    result = run("solve", request_file)
    assert result.exit_code == 1
    assert result.stderr == "error: model.layers: is required. Give it.\n"
    assert result.stdout == ""


def test_no_service_is_one_line_on_stderr(
    service: FakeService, run: Run, request_file: Path
) -> None:
    service.on(*POST, httpx.ConnectError("refused"))
    result = run("solve", request_file)
    assert result.exit_code == 3
    assert result.stderr.startswith("error: no Loadmaster service answers at http://127.0.0.1:8400")
    assert result.stderr.count("\n") == 1


@pytest.fixture
def sharding_file(tmp_path: Path) -> Path:
    path = tmp_path / "layer.yaml"
    path.write_text("transformer: {preset: BERT-Large}\ndevices: 2\nsolver: {exact: true}\n")
    return path


def test_shard_posts_the_file_with_the_options_on_top(
    service: FakeService, run: Run, sharding_file: Path
) -> None:
    service.on(*POST_SHARDING, ACCEPTED, status=202)
    options = ("--devices", "4", "--alpha", "0.1", "--engine", "highs", "--fresh")
    more = ("--time-limit", "5", "--threads", "1", "--mipgap", "0.01")
    result = run("shard", sharding_file, *options, *more)
    assert result.exit_code == 0, result.output
    assert service.body() == {
        "transformer": {"preset": "BERT-Large"},
        "devices": 4,
        "alpha": 0.1,
        "solver": {
            "exact": True,
            "engine": "highs",
            "time_limit_s": 5.0,
            "threads": 1,
            "mip_gap": 0.01,
        },
    }
    assert service.requests[0].headers["cache-control"] == "no-cache"
    assert "loadmaster show j1" in result.stdout


def test_shard_takes_a_bare_graph_and_a_cluster_by_name(
    service: FakeService, run: Run, tmp_path: Path
) -> None:
    service.on(*POST_SHARDING, ACCEPTED, status=202)
    path = tmp_path / "graph.json"
    path.write_text('{"inputs": [], "operators": []}')
    assert run("shard", path, "--devices", "8xA100-40GB").exit_code == 0
    graph = {"inputs": [], "operators": []}
    assert service.body() == {"graph": graph, "devices": "8xA100-40GB"}


def test_shard_of_a_bare_graph_names_the_option_that_is_missing(
    service: FakeService, run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "graph.json"
    path.write_text('{"inputs": [], "operators": []}')
    result = run("shard", path)
    assert result.exit_code == 2
    assert "devices: is missing. Give --devices" in result.stderr
    assert not service.requests


def test_shard_waits_and_shows_and_stores_the_answer(
    service: FakeService, run: Run, sharding_file: Path, tmp_path: Path
) -> None:
    answer = sharding_result()
    service.on(*POST_SHARDING, ACCEPTED, status=202)
    best = {"best_objective_bytes": 48 * 2**20, "lower_bound_bytes": 24 * 2**20, "gap": 0.5}
    service.on("GET", "/v1/jobs/j1", job("running", phase="ILP", **best), job("succeeded"))
    service.on("GET", "/v1/jobs/j1/result", answer)
    output = tmp_path / "result.json"
    result = run("shard", sharding_file, "--output", output)
    assert result.exit_code == 0, result.output
    assert "ILP  best 48.00 MiB  bound 24.00 MiB  gap 50.00 %" in result.stdout
    assert "Megatron-LM" in result.stdout
    assert json.loads(output.read_text()) == answer


def test_show_renders_a_sharding_plan_as_one(service: FakeService, run: Run) -> None:
    service.on("GET", "/v1/jobs/j1", job("succeeded", kind="sharding"))
    service.on("GET", "/v1/jobs/j1/result", sharding_result())
    result = run("show", "j1")
    assert result.exit_code == 0
    assert "data 2, column 2" in result.stdout


def test_an_infeasible_sharding_plan_has_its_own_exit_status(
    service: FakeService, run: Run, sharding_file: Path
) -> None:
    infeasible = {
        "device_memory_bytes": 5,
        "least_memory_bytes": 7,
        "smallest_devices": 8,
        "culprit": "mlp",
        "remedies": [],
    }
    hit = {"id": "j1", "state": "infeasible", "cache": "hit"}
    service.on(*POST_SHARDING, {**hit, "result": {"infeasibility": infeasible}})
    result = run("shard", sharding_file, "--wait")
    assert result.exit_code == 4
    assert (
        "The fewest devices that are known to do: 8; fewer may, with other plans." in result.stdout
    )


@pytest.fixture
def training_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(
        "model: gpt2\ncluster: 8xH100\noptimization: {batch: 64}\n"
        "search: {zero_stage: [1], top: 9}\nsolver: {mip_gap: 0.5}\n"
    )
    return path


def test_plan_posts_the_file_with_the_options_on_top(
    service: FakeService, run: Run, training_file: Path
) -> None:
    service.on(*POST_TRAINING, ACCEPTED, status=202)
    options = ("--time-limit", "5", "--engine", "cp_sat", "--threads", "3", "--seed", "0")
    more = ("--top", "3", "--finalists", "0", "--pareto", "--fresh", "--mipgap", "0.1")
    result = run("plan", training_file, *options, *more)
    assert result.exit_code == 0, result.output
    assert service.body() == {
        "model": "gpt2",
        "cluster": "8xH100",
        "training": {"global_batch_size": 64},
        "search": {"zero_stage": [1], "top": 3, "finalists": 0, "pareto": True},
        "solver": {
            "mip_gap": 0.1,
            "time_limit_s": 5.0,
            "engine": "cp_sat",
            "threads": 3,
            "seed": 0,
        },
    }
    assert service.requests[0].headers["cache-control"] == "no-cache"
    assert "loadmaster show j1" in result.stdout


def test_plan_leaves_alone_what_no_option_is_given_for(
    service: FakeService, run: Run, training_file: Path
) -> None:
    service.on(*POST_TRAINING, ACCEPTED, status=202)
    assert run("plan", training_file).exit_code == 0
    assert service.body()["search"] == {"zero_stage": [1], "top": 9}
    assert service.body()["solver"] == {"mip_gap": 0.5}


def test_plan_waits_and_shows_and_stores_the_answer(
    service: FakeService, run: Run, training_file: Path, tmp_path: Path
) -> None:
    answer = training_result()
    service.on(*POST_TRAINING, ACCEPTED, status=202)
    best = {"best_step_time_ns": 98_000_000, "lower_bound_ns": 90_000_000, "gap": 0.0816}
    service.on("GET", "/v1/jobs/j1", job("running", phase="search", **best), job("succeeded"))
    service.on("GET", "/v1/jobs/j1/result", answer)
    output = tmp_path / "result.json"
    result = run("plan", training_file, "--output", output)
    assert result.exit_code == 0, result.output
    assert "search  best 98.000 ms  bound 90.000 ms  gap 8.16 %" in result.stdout
    assert "Training plan: pipeline 2, data 4 on 8 GPUs" in result.stdout
    assert json.loads(output.read_text()) == answer


def test_show_renders_a_training_plan_as_one(service: FakeService, run: Run) -> None:
    service.on("GET", "/v1/jobs/j1", job("succeeded", kind="training"))
    service.on("GET", "/v1/jobs/j1/result", training_result())
    result = run("show", "j1")
    assert result.exit_code == 0
    assert "Searched: 12,345 configurations" in result.stdout


def test_plan_takes_no_measured_problem(service: FakeService, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "problem.json"
    path.write_text('{"stages": [], "devices": []}')
    result = run("plan", path)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: stages: is not a known key. Known are model, ")
    assert service.requests == []


def test_fault_in_the_file_is_one_line_on_stderr(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("scheduler: {mip_gap: 0.1}\n")
    result = run("solve", path)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: scheduler.mip_gap: is not a known key. Known are ")
    assert run("solve", tmp_path / "absent.yaml").exit_code == 2


def test_unwritable_output_is_refused_before_anything_is_posted(
    service: FakeService, run: Run, request_file: Path, tmp_path: Path
) -> None:
    output = tmp_path / "absent" / "result.json"
    for arguments in (("solve", request_file), ("show", "j1")):
        result = run(*arguments, "--output", output)
        assert result.exit_code == 2
        assert result.stderr == (
            f"error: --output: {output} cannot be written: there is no folder {output.parent}. "
            "Name a file in a folder that exists and that you may write to.\n"
        )
    assert service.requests == []


@pytest.mark.parametrize("option", ["--time-limit", "--mipgap"])
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999"])
def test_number_that_json_cannot_carry_is_refused(
    service: FakeService, run: Run, request_file: Path, option: str, value: str
) -> None:
    result = run("solve", request_file, option, value)
    assert result.exit_code == 2
    assert f"Invalid value for '{option}'" in result.stderr
    assert service.requests == []


def test_demo_refuses_a_time_limit_that_is_no_number(run: Run, tmp_path: Path) -> None:
    result = run("demo", "--data-dir", tmp_path / "demo", "--time-limit", "nan")
    assert result.exit_code == 2
    assert "'--time-limit': nan is not a finite number; give one." in result.stderr
    assert not (tmp_path / "demo").exists()


def test_server_comes_from_the_environment(
    service: FakeService, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADMASTER_SERVER", "http://elsewhere:9")
    service.on("DELETE", "/v1/jobs/j1", job("cancelled"))
    assert run("cancel", "j1").exit_code == 0
    assert service.requests[0].url.host == "elsewhere"


def test_jobs_lists_them(service: FakeService, run: Run) -> None:
    jobs = [job("succeeded", name="mine", tags=["a", "b"], best_makespan_ns=5_000_000, gap=0.0)]
    service.on("GET", "/v1/jobs", {"jobs": jobs, "next_cursor": None})
    result = run("jobs", "--state", "succeeded", "--tag", "a")
    assert result.exit_code == 0
    for word in ("j1", "succeeded", "5.000", "0.00 %", "mine", "a b"):
        assert word in result.stdout
    assert dict(service.requests[0].url.params) == {
        "limit": "20",
        "state": "succeeded",
        "tag": "a",
    }


def test_no_jobs_is_said(service: FakeService, run: Run) -> None:
    service.on("GET", "/v1/jobs", {"jobs": [], "next_cursor": None})
    assert run("jobs").stdout == "no jobs\n"


def test_show_a_running_job(service: FakeService, run: Run) -> None:
    service.on("GET", "/v1/jobs/j1", job("running", phase="cbc", name="[mine]"))
    result = run("show", "j1")
    assert result.exit_code == 0
    assert result.stdout == "job j1 ([mine]): cbc\n"


def test_show_a_finished_job_and_store_it(service: FakeService, run: Run, tmp_path: Path) -> None:
    service.on("GET", "/v1/jobs/j1", job("succeeded"))
    service.on("GET", "/v1/jobs/j1/result", two_device_result())
    result = run("show", "j1", "--output", tmp_path / "r.json")
    assert result.exit_code == 0
    assert "Loadmaster" in result.stdout
    assert json.loads((tmp_path / "r.json").read_text())["problem"]["micro_batches"] == 2


def test_show_an_unknown_job(service: FakeService, run: Run) -> None:
    unknown = {**problem(404, "job_not_found"), "detail": "No job has the id j9."}
    service.on("GET", "/v1/jobs/j9", unknown, status=404)
    result = run("show", "j9")
    assert result.exit_code == 1
    assert result.stderr == "error: No job has the id j9.\n"


def test_show_log_reads_every_page(service: FakeService, run: Run) -> None:
    service.on(
        "GET",
        "/v1/jobs/j1/log",
        {"lines": ["one", "two"], "next_offset": 2, "over": False},
        {"lines": ["three"], "next_offset": 3, "over": True},
        {"lines": [], "next_offset": 3, "over": True},
    )
    result = run("show", "j1", "--log")
    assert result.stdout == "one\ntwo\nthree\n"
    assert [r.url.params["offset"] for r in service.requests] == ["0", "2", "3"]


def test_cancel_says_that_the_solver_is_stopping(service: FakeService, run: Run) -> None:
    service.on("DELETE", "/v1/jobs/j1", job("cancelled", cancel_requested=True))
    assert run("cancel", "j1").stdout == "job j1: cancelled (its solver is stopping)\n"


def test_help_names_the_exit_statuses(run: Run) -> None:
    result = run("--help")
    assert "the problem is infeasible" in result.stdout
    for command in ("serve", "solve", "shard", "plan", "estimate", "jobs", "show", "cancel"):
        assert command in result.stdout
