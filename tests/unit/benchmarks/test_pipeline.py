"""The benchmark measures what a service answers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from benchmarks.pipeline import figures_of, measure, read_engines
from benchmarks.solver_memory import SolverMemory
from client.library.planner import Planner
from client.library.service import Service
from planner.pipeline.feasibility.decide import sequential_schedule
from tests.benchmark_problems import benchmark_problem
from tests.unit.client.fake_service import FakeService, job, problem
from tests.unit.client.results import MS, two_device_result

GIB = 2**30
NAME = "balanced-4x8-1f1b-memory"


def answer() -> dict[str, Any]:
    result = two_device_result()
    result["provenance"] |= {
        "found_by": "CP-SAT",
        "stopped_by": "time limit",
        "planner_version": "0",
        "steps": [{"found_by": "1F1B", "seconds": 0.1}, {"found_by": "CP-SAT", "seconds": 4.5}],
    }
    return result


def one_at_a_time() -> dict[str, Any]:
    """An answer with a valid schedule, though not a good one."""
    schedule = sequential_schedule(benchmark_problem(NAME))
    return answer() | {"schedule": schedule.to_document(None)}


def measured(service: FakeService, known: dict[str, Any]) -> dict[str, Any]:
    arguments = argparse.Namespace(time_limit=7.0, checker=None, server="http://elsewhere")
    service.on("POST", "/v1/pipeline-schedules", {"id": "j1", "state": "queued"})
    with Planner.over(Service(transport=service.transport)) as planner:
        return measure(planner, NAME, known, "auto", arguments)


def test_every_problem_is_solved_afresh_with_the_engine_asked_for() -> None:
    result = one_at_a_time()
    service = FakeService()
    service.on("GET", "/v1/jobs/j1", job("succeeded"))
    service.on("GET", "/v1/jobs/j1/result", result)
    found = measured(service, {"makespan_ns": 65 * MS})
    assert service.body(0)["solver"] == {"engine": "auto", "time_limit_s": 7.0}
    assert service.requests[0].headers["Cache-Control"] == "no-cache"
    assert found["ok"]
    assert found["makespan_ns"] == result["schedule"]["makespan_ns"]
    assert found["solver_peak_bytes"] is None


def test_without_a_service_the_planner_of_this_machine_solves() -> None:
    arguments = argparse.Namespace(time_limit=30.0, checker=None, server=None)
    with Planner.local(threads=1) as planner:
        found = measure(planner, NAME, {"makespan_ns": 453 * MS}, "auto", arguments)
    assert found["ok"]
    assert found["proven_optimal"]
    assert found["makespan_ns"] == 453 * MS


@pytest.mark.parametrize("broken", ["order", "figure"])
def test_a_schedule_that_the_verifier_refuses_is_not_ok(broken: str) -> None:
    result = one_at_a_time()
    if broken == "order":
        first = result["schedule"]["ops"][0]
        first["start_ns"], first["end_ns"] = first["start_ns"] + MS, first["end_ns"] + MS
    else:
        result["schedule"]["makespan_ns"] -= 1
    service = FakeService()
    service.on("GET", "/v1/jobs/j1", job("succeeded"))
    service.on("GET", "/v1/jobs/j1/result", result)
    found = measured(service, {})
    assert not found["ok"]
    assert found["error"]


def test_an_answer_that_never_came_is_not_ok() -> None:
    service = FakeService()
    service.on("GET", "/v1/jobs/j1", job("failed"))
    service.on("GET", "/v1/jobs/j1/result", problem(410, "solver_crashed"), status=410)
    assert not measured(service, {})["ok"]


@pytest.mark.parametrize("expected", [True, False])
def test_infeasible_is_right_only_where_it_is_known(expected: bool) -> None:
    service = FakeService()
    service.on("GET", "/v1/jobs/j1", job("infeasible"))
    service.on("GET", "/v1/jobs/j1/result", {"infeasibility": {"devices": [1]}})
    assert measured(service, {"infeasible": True} if expected else {})["ok"] == expected


def test_figures_of_an_answer() -> None:
    result = answer()
    limits: dict[str, Any] = {"devices": [{"activation_memory_bytes": 4 * GIB}, {}]}
    figures = figures_of(limits, result)
    assert figures["best_at_s"] == 4.5
    assert figures["device_memory_share"] == 0.5
    assert figures["best_classic_ns"] == 70 * MS  # neither OOM nor hypothetical
    assert figures["bound_name"] == "critical path"
    assert figures_of({"devices": [{}, {}]}, result)["device_memory_share"] is None


def test_a_plan_kept_from_a_lost_solver_has_figures_too() -> None:
    result = answer()
    del result["provenance"]["steps"], result["provenance"]["found_by"]
    result["comparison"] = []
    figures = figures_of({"devices": [{}, {}]}, result)
    assert figures["best_at_s"] is None
    assert figures["found_by"] is None


def test_engines_are_read_from_a_list() -> None:
    assert read_engines("auto,cp_sat,auto") == ("auto", "cp_sat")
    with pytest.raises(argparse.ArgumentTypeError, match="gurobi"):
        read_engines("auto,gurobi")


def test_solver_memory_adds_up_the_solver_and_its_engines(tmp_path: Path) -> None:
    def process(pid: int, parent: int, command: str, peak_kb: int | None) -> None:
        folder = tmp_path / str(pid)
        folder.mkdir(exist_ok=True)
        peak = "" if peak_kb is None else f"VmHWM:\t{peak_kb:>8} kB\n"
        (folder / "status").write_text(f"Name:\tx\nPPid:\t{parent}\n{peak}")
        (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode() + b"\0")

    memory = SolverMemory(tmp_path)
    process(1, 0, "init", 50)
    process(2, 1, "kernel", None)
    (tmp_path / "3").mkdir()  # ended while it was looked at
    memory.sample()
    assert memory.peak_bytes is None
    process(9, 1, "python -m workers.solver_server", 500)
    process(10, 9, "python -m workers.solver_server", 100)
    process(11, 10, "python -m planner.pipeline.cp_sat.child", 30)
    process(12, 11, "helper", 2)
    process(20, 9, "python -m workers.solver_server", 7)
    memory.sample()
    assert memory.peak_bytes == 132 * 1024
    process(11, 10, "python -m planner.pipeline.cp_sat.child", 10)
    memory.sample()
    assert memory.peak_bytes == 132 * 1024
