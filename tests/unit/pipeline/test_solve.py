"""The portfolio: what it answers, and that it only answers what is verified."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from planner.pipeline.documents import read_problem
from planner.pipeline.incumbents import Incumbents
from planner.pipeline.progress import SilentReporter
from planner.pipeline.request import resolve_request
from planner.pipeline.schedule import TimedOp
from planner.pipeline.solve import run
from planner.pipeline.spec import Candidate
from planner.pipeline.timing import schedule_from_ops
from tests.referee import check

PROBLEMS = Path(__file__).resolve().parents[3] / "benchmarks" / "problems"


class Recorder(SilentReporter):
    """Keeps what a solve reports."""

    def __init__(self) -> None:
        self.found: list[tuple[dict[str, Any], int, str]] = []
        self.bounds: list[int] = []

    def bound(self, name: str, value_ns: int) -> None:
        self.bounds.append(value_ns)

    def incumbent(self, document: dict[str, Any], objective_ns: int, found_by: str) -> None:
        self.found.append((document, objective_ns, found_by))


def benchmark(name: str) -> dict[str, Any]:
    """A benchmark problem as it is posted."""
    problem: dict[str, Any] = json.loads((PROBLEMS / f"{name}.json").read_text())
    return problem


def solve(body: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Resolve a request and solve it in this process."""
    stop = options.pop("should_stop", lambda: False)
    return run(
        resolve_request(body).spec, options.pop("reporter", SilentReporter()), stop, **options
    )


def test_a_small_problem_is_proven_optimal() -> None:
    problem = benchmark("balanced-4x8-1f1b-memory")
    recorder = Recorder()
    answer = solve({"problem": problem, "solver": {"time_limit_s": 60}}, reporter=recorder)
    assert answer["proven_optimal"]
    assert answer["objective_ns"] == answer["lower_bound_ns"] == 453_000_000
    document = answer["document"]
    violations, facts = check(problem, document["schedule"])
    assert violations == []
    assert facts["makespan_ns"] == 453_000_000
    assert document["certificate"]["bound_name"] == "cbc"
    assert document["provenance"]["stopped_by"] == "proven optimal"
    values = [value for _, value, _ in recorder.found]
    assert values == sorted(values, reverse=True)
    assert max(recorder.bounds) == 453_000_000


def test_infeasible_names_the_device_and_the_smallest_limit() -> None:
    problem = benchmark("infeasible-4x4")
    answer = solve({"problem": problem})
    assert answer["state"] == "infeasible"
    infeasibility = answer["document"]["infeasibility"]
    assert infeasibility["devices"] == [1]
    assert infeasibility["smallest_limit_bytes"] == [268_435_456]
    problem["devices"][1]["activation_memory_bytes"] = 268_435_456
    assert solve({"problem": problem, "solver": {"time_limit_s": 1}})["state"] == "succeeded"


def test_the_answer_is_no_worse_than_any_row_of_its_comparison_that_fits() -> None:
    body = {
        "model": "GPT-1.5B",
        "cluster": "4xA100-40GB",
        "training": {"micro_batch_size": 1, "micro_batches": 8},
        "solver": {"time_limit_s": 5},
    }
    answer = solve(body)
    rows = answer["document"]["comparison"]
    assert {"GPipe", "1F1B", "ZB-H1", "ZB-H2", "ZB-V", "Interleaved 1F1B"} <= {
        row["name"] for row in rows
    }
    fitting = [row["makespan_ns"] for row in rows if row["fits"] and row["makespan_ns"]]
    assert answer["objective_ns"] <= min(fitting)
    assert not any(row["hypothetical"] for row in rows)
    violations, _ = check(answer["document"]["problem"], answer["document"]["schedule"])
    assert violations == []


def test_a_spec_that_cannot_fit_lists_computed_remedies() -> None:
    body = {
        "model": "GPT-14.2B",
        "cluster": {"gpu": "A100-40GB", "nodes": 1, "gpus_per_node": 8},
        "training": {"micro_batch_size": 16, "micro_batches": 4, "offload": False},
    }
    answer = solve(body)
    assert answer["state"] == "infeasible"
    remedies = answer["document"]["infeasibility"]["remedies"]
    helpful = [remedy for remedy in remedies if remedy["fits"]]
    assert helpful
    changed = body | {"training": helpful[0]["training"], "solver": {"time_limit_s": 1}}
    assert solve(changed)["state"] == "succeeded"


def test_a_stored_incumbent_is_where_the_next_attempt_starts() -> None:
    body = {"problem": benchmark("uneven-8x16-1f1b-memory"), "solver": {"time_limit_s": 2}}
    recorder = Recorder()
    first = solve(body, reporter=recorder)
    start, value, _ = recorder.found[-1]
    again = solve(body, start=start, time_left_s=1)
    assert again["objective_ns"] <= value == first["objective_ns"]
    assert again["document"]["provenance"]["started_from"] == "stored schedule"


def test_an_unusable_start_is_set_aside() -> None:
    start = {"placement": "as_posted", "schedule": {"ops": []}}
    body = {"problem": benchmark("infeasible-4x4"), "solver": {"time_limit_s": 1}}
    body["problem"]["devices"][1]["activation_memory_bytes"] = None
    answer = solve(body, start=start)
    assert answer["state"] == "succeeded"
    assert answer["document"]["provenance"]["started_from"] is None


def test_asked_to_stop_at_once_there_is_still_an_answer() -> None:
    problem = benchmark("offload-8x16-shared-switch")
    started = time.monotonic()
    answer = solve({"problem": problem}, should_stop=lambda: True)
    assert time.monotonic() - started < 20
    assert answer["state"] == "succeeded"
    assert answer["document"]["provenance"]["stopped_by"] == "asked to stop"
    assert check(problem, answer["document"]["schedule"])[0] == []


@pytest.mark.parametrize("engine", ["cbc", "highs"])
def test_the_time_limit_is_kept(engine: str) -> None:
    problem = benchmark("half-memory-8x16")
    started = time.monotonic()
    answer = solve({"problem": problem, "solver": {"time_limit_s": 8, "engine": engine}})
    assert time.monotonic() - started < 20
    assert answer["document"]["provenance"]["stopped_by"] == "time limit"
    assert check(problem, answer["document"]["schedule"])[0] == []


def test_a_gap_that_is_asked_for_ends_the_solve() -> None:
    problem = benchmark("half-memory-8x16")
    answer = solve({"problem": problem, "solver": {"mip_gap": 0.9}})
    assert answer["document"]["provenance"]["stopped_by"] == "MIP gap reached"
    assert not answer["proven_optimal"]


def test_a_schedule_that_breaks_a_rule_never_becomes_an_incumbent() -> None:
    problem = read_problem(
        {
            "micro_batches": 1,
            "devices": [{}],
            "stages": [{"device": 0, "forward_ns": 2, "backward_input_ns": 2}],
        }
    )
    candidate = Candidate("as_posted", problem)
    incumbents = Incumbents(SilentReporter(), time.monotonic())
    overlapping = [TimedOp("F", 0, 0, 0, 2), TimedOp("B", 0, 0, 1, 3)]
    incumbents.offer(candidate, schedule_from_ops(problem, overlapping), "nobody")
    assert incumbents.best is None
