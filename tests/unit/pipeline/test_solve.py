"""The portfolio: what it answers, and that it only answers what is verified."""

from __future__ import annotations

import time
from typing import Any

import pytest

from planner.errors import SolverCrash
from planner.pipeline.classic.rows import NOT_REACHED
from planner.pipeline.documents import read_problem
from planner.pipeline.incumbents import Incumbents
from planner.pipeline.names import StoppedBy
from planner.pipeline.portfolio import heuristics
from planner.pipeline.portfolio.exact import ExactStep
from planner.pipeline.portfolio.trace import Trace
from planner.pipeline.request import resolve_request
from planner.pipeline.schedule import TimedOp
from planner.pipeline.solve import run
from planner.pipeline.spec import Candidate
from planner.pipeline.timing import schedule_from_ops
from planner.progress import SilentReporter
from tests.benchmark_problems import benchmark_document as benchmark
from tests.benchmark_problems import best_known
from tests.referee import check


class Recorder(SilentReporter):
    """Keeps what a solve reports."""

    def __init__(self) -> None:
        self.found: list[tuple[dict[str, Any], float, str]] = []
        self.bounds: list[float] = []

    def bound(self, name: str, value: float) -> None:
        self.bounds.append(value)

    def incumbent(self, document: dict[str, Any], objective: float, found_by: str) -> None:
        self.found.append((document, objective, found_by))


def solve(body: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Resolve a request and solve it in this process."""
    stop = options.pop("should_stop", lambda: False)
    return run(
        resolve_request(body).spec, options.pop("reporter", SilentReporter()), stop, **options
    )


def test_a_comparison_that_was_cut_short_is_made_up_where_time_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("planner.pipeline.solve.CLASSIC_SHARE", 0.0)
    monkeypatch.setattr(ExactStep, "run", lambda self, engine: None)
    problem = benchmark("uneven-8x16-1f1b-memory")
    answer = solve({"problem": problem, "solver": {"engine": "cbc", "time_limit_s": 30}})
    rows = answer["document"]["comparison"]
    assert NOT_REACHED not in {row["reason"] for row in rows}
    assert answer["document"]["provenance"]["stopped_by"] == StoppedBy.NOTHING_LEFT


def test_a_small_problem_is_proven_optimal() -> None:
    problem = benchmark("balanced-4x8-1f1b-memory")
    recorder = Recorder()
    answer = solve({"problem": problem, "solver": {"time_limit_s": 60}}, reporter=recorder)
    assert answer["proven_optimal"]
    assert answer["objective"] == answer["lower_bound"] == 453_000_000
    document = answer["document"]
    violations, facts = check(problem, document["schedule"])
    assert violations == []
    assert facts["makespan_ns"] == 453_000_000
    assert document["certificate"]["bound_name"] == "fill and drain idle"
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
    assert answer["objective"] <= min(fitting)
    placements = answer["document"]["certificate"]["placements"]
    assert len(placements) > 1
    assert answer["lower_bound"] == min(entry["lower_bound_ns"] for entry in placements)
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
    assert again["objective"] <= value == first["objective"]
    origin = again["document"]["provenance"]["started_from"]
    assert origin["kind"] == "earlier_attempt"
    assert origin["objective_ns"] <= value


def test_in_a_hurry_there_is_a_plan_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds and classic schedules of many operations may take all the time there is."""
    problem = benchmark("large-16x128-1f1b-memory")
    at_bounds: list[int] = []

    class AtBounds(Recorder):
        def phase(self, name: str) -> None:
            if name == "lower bounds":
                at_bounds.append(len(self.found))

    for hurried_s_per_operation in (1.0, 1e-6):
        monkeypatch.setattr(heuristics, "HURRIED_S_PER_OPERATION", hurried_s_per_operation)
        reporter = AtBounds()
        solve(
            {"problem": problem, "solver": {"time_limit_s": 30}},
            reporter=reporter,
            should_stop=lambda reporter=reporter: bool(at_bounds) and bool(reporter.found),
        )
    assert at_bounds == [1, 0]


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


@pytest.mark.parametrize("engine", ["auto", "cbc", "highs", "cp_sat"])
def test_the_time_limit_is_kept(engine: str) -> None:
    problem = benchmark("zb-6.2b-8x32-mem0.75")
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
    incumbents = Incumbents(SilentReporter(), Trace(time.monotonic()))
    overlapping = [TimedOp("F", 0, 0, 0, 2), TimedOp("B", 0, 0, 1, 3)]
    incumbents.offer(candidate, schedule_from_ops(problem, overlapping), "nobody")
    assert incumbents.best is None


def test_a_seed_and_an_iteration_budget_give_the_same_answer_again() -> None:
    body = {
        "problem": benchmark("uneven-8x16-1f1b-memory"),
        "solver": {"search_iterations": 4000, "seed": 7},
    }
    one, other = solve(body), solve(body)
    assert one["document"]["schedule"] == other["document"]["schedule"]
    provenance = one["document"]["provenance"]
    assert provenance["stopped_by"] == "search budget used up"
    assert 0 < provenance["search_moves"] <= 4000
    assert provenance["exact"] is None


def test_each_step_says_what_it_reached_and_when() -> None:
    body = {"problem": benchmark("uneven-8x16-1f1b-memory"), "solver": {"time_limit_s": 6}}
    answer = solve(body)
    provenance = answer["document"]["provenance"]
    steps = {entry["step"]: entry for entry in provenance["ablation"]}
    assert list(steps)[:2] == ["classic schedules", "AdaOffload"]
    # Whether local search or CP-SAT gets there first depends on the machine's speed.
    reached = {name: entry["reached_ns"] for name, entry in steps.items() if entry["reached_ns"]}
    assert "local search" in reached
    assert min(reached.values()) == answer["objective"]
    for entry in provenance["ablation"]:
        assert entry["began_s"] <= entry["ended_s"]
        assert entry["best_ns"] >= answer["objective"]
    gaps = provenance["gap_over_time"]
    assert gaps[-1]["best_ns"] == answer["objective"]
    assert gaps[-1]["lower_bound_ns"] == answer["lower_bound"]
    assert [point["seconds"] for point in gaps] == sorted(point["seconds"] for point in gaps)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["offload-4x8-tight", pytest.param("varlen-4x12", marks=pytest.mark.long)]
)
def test_small_problems_are_proven_by_the_exact_engine(name: str) -> None:
    answer = solve({"problem": benchmark(name), "solver": {"time_limit_s": 100}})
    assert answer["proven_optimal"]
    assert answer["objective"] == best_known()[name]["makespan_ns"]
    assert answer["document"]["provenance"]["exact"]["variables"] > 0


def test_a_free_micro_batch_order_is_better_than_the_fixed_one() -> None:
    problem = benchmark("varlen-4x12", micro_batch_order="free")
    body = {"problem": problem, "solver": {"search_iterations": 400_000}}
    answer = solve(body)
    assert answer["objective"] <= 614_120_000
    assert check(problem, answer["document"]["schedule"])[0] == []


def test_a_crash_of_the_proof_leaves_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(self: ExactStep, engine: str) -> None:
        raise SolverCrash("gone", [])

    monkeypatch.setattr(ExactStep, "run", crash)
    body = {"problem": benchmark("uneven-8x16-1f1b-memory"), "solver": {"time_limit_s": 3}}
    assert solve(body)["state"] == "succeeded"
    with pytest.raises(SolverCrash):
        solve(body | {"solver": {"time_limit_s": 3, "engine": "cp_sat"}})
