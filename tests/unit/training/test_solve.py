"""Whole solves of small requests: plans, finalists, what is reported, stops and failures."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from planner.cost.training import Recomputation
from planner.errors import SolverCrash
from planner.pipeline.request import resolve_request as resolve_pipeline
from planner.progress import SilentReporter, StopCheck, never
from planner.training import finalists, solve
from planner.training.request import resolve_request
from planner.training.search import RULES
from planner.training.space import LEFT_OUT, points
from tests.unit.training.posted import Body, body

MOE = {"experts": 4, "experts_per_token": 2}
PIPELINED = {"pipeline_parallel": 4, "tensor_parallel": 2, "data_parallel": 1, "interleaving": 1}


class Watcher(SilentReporter):
    """Keeps what a solve says."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.bounds: list[tuple[str, float]] = []
        self.incumbents: list[tuple[dict[str, Any], float, str]] = []
        self.lines: list[str] = []

    def log(self, line: str) -> None:
        self.lines.append(line)

    def phase(self, name: str) -> None:
        assert len(name) <= 64
        self.phases.append(name)

    def bound(self, name: str, value: float) -> None:
        self.bounds.append((name, value))

    def incumbent(self, document: dict[str, Any], objective: float, found_by: str) -> None:
        self.incumbents.append((document, objective, found_by))


def answer_of(
    request: Body, should_stop: StopCheck = never, limit_s: float = 60
) -> tuple[dict[str, Any], Watcher]:
    watcher = Watcher()
    spec = json.loads(json.dumps(resolve_request(request).spec))
    answer = solve.run(spec, watcher, should_stop, None, limit_s)
    return json.loads(json.dumps(answer, allow_nan=False)), watcher


def without_solvers(**changes: Any) -> dict[str, Any]:
    changes["search"] = {"finalists": 0} | changes.get("search", {})
    answer, _ = answer_of(body(**changes))
    assert answer["state"] == "succeeded"
    document: dict[str, Any] = answer["document"]
    return document


def test_without_finalists_no_solver_runs() -> None:
    answer, watcher = answer_of(body(search={"finalists": 0, "top": 3}))
    document = answer["document"]
    assert watcher.phases == ["configurations", "verification"]
    assert [plan["rank"] for plan in document["plans"]] == [1, 2, 3]
    steps = [plan["step_time_ns"] for plan in document["plans"]]
    assert steps == sorted(steps)
    best = document["best"]
    assert best["schedule"] is best["sharding"] is best["experts"] is None
    assert set(best["left_out"]) == {"schedule", "sharding", "experts"}
    assert answer["objective"] == best["step_time_ns"] == document["certificate"]["value_ns"]
    assert answer["lower_bound"] <= answer["objective"]
    ((reported, objective, _),) = watcher.incumbents
    assert objective == answer["objective"]
    assert reported["plans"] == document["plans"]
    ((_, bound),) = watcher.bounds
    assert bound == answer["lower_bound"]
    assert "pareto" not in document


def test_a_plan_has_everything_that_a_reader_asks_for() -> None:
    document = without_solvers()
    for plan in document["plans"]:
        parts = plan["step_time"]
        names = ("compute", "bubble", "transfer", "epilogue", "offload_wait")
        assert sum(parts[f"{name}_ns"] for name in names) == plan["step_time_ns"]
        assert parts["bound_ns"] <= plan["step_time_ns"]
        assert plan["fits"]
        assert plan["headroom_bytes"] == plan["limit_bytes"] - plan["peak_bytes"] >= 0
        assert plan["tokens_per_s"] == pytest.approx(32 * 1024 / plan["step_time_ns"] * 1e9)
        assert plan["samples_per_s"] == pytest.approx(32 / plan["step_time_ns"] * 1e9)
        assert 0 < plan["mfu"] < 1
        assert len(plan["memory_per_rank"]) == plan["pipeline_parallel"]
        assert max(rank["total_bytes"] for rank in plan["memory_per_rank"]) == plan["peak_bytes"]
        for rank in plan["memory_per_rank"]:
            fullest = max(rank["logits_bytes"], rank["workspace_bytes"])
            others = (
                "parameters",
                "gradients",
                "optimizer",
                "gathered_parameters",
                "activations",
                "embedding_activations",
                "communication_buffers",
                "reserved",
            )
            whole = fullest + sum(rank[f"{name}_bytes"] for name in others)
            assert rank["total_bytes"] == whole - rank["offloaded_bytes"]
        assert plan["verified"]["step_time_ns"] > 0
        assert len(plan["reasons"]) >= 3


def test_every_plan_can_be_posted_as_it_is() -> None:
    request = body()
    for plan in without_solvers()["plans"]:
        posted = {name: request[name] for name in ("model", "cluster")}
        resolved = resolve_pipeline({**posted, "training": plan["training"]})
        (problem,) = resolved.problems
        assert problem.micro_batches == plan["micro_batches"]
        assert len(problem.stages) == len(plan["layers_per_stage"])


def test_what_was_searched_adds_up() -> None:
    document = without_solvers(gpu={"memory_bytes": 3 * 2**29}, training={"global_batch_size": 12})
    searched = document["searched"]
    assert searched["enumerated"] == searched["fits"] + sum(searched["dropped"].values())
    assert searched["left_out"]
    assert searched["complete"]
    assert set(searched["rules"]) == set(searched["dropped"]) | set(searched["left_out"])
    assert set(searched["rules"].values()) <= {*RULES.values(), *LEFT_OUT.values()}
    assert document["dropped"]
    for example in document["dropped"]:
        assert example["why"]
        assert example.get("bytes", 2**40) > example.get("limit_bytes", 0)


def test_the_front_is_there_where_it_is_asked_for() -> None:
    document = without_solvers(search={"pareto": True, "finalists": 0})
    points = document["pareto"]
    assert {point["devices"] for point in points} >= {8, 4}
    figures = [
        (point["devices"], point["step_time_ns"], -(-point["peak_bytes"] // 2**30))
        for point in points
    ]
    for mine in figures:
        assert not any(
            other != mine and all(o <= m for o, m in zip(other, mine, strict=True))
            for other in figures
        )


def test_thin_headroom_and_idle_gpus_are_warned_of() -> None:
    tight = without_solvers(search={"top": 1}, gpu={"memory_bytes": 2**31}, memory_headroom=0)
    peak = tight["plans"][0]["peak_bytes"]
    warned = without_solvers(gpu={"memory_bytes": peak}, search={"top": 1}, memory_headroom=0)[
        "warnings"
    ]
    assert any("memory_headroom" in warning for warning in warned)
    idle = without_solvers(search={"devices": [4]})["warnings"]
    assert any("4 of the cluster's GPUs are idle" in warning for warning in idle)


def test_finalists_are_scheduled_and_the_best_is_sharded() -> None:
    answer, watcher = answer_of(
        body(
            model={"layers": 4},
            training={**PIPELINED, "pipeline_parallel": 2, "data_parallel": 2},
            search={"finalists": 2, "top": 3, "micro_batch_size": [4, 8]},
        )
    )
    document = answer["document"]
    best, plans = document["best"], document["plans"]
    solved = [plan["schedule"] for plan in plans]
    assert solved[-1] is None or len(plans) < 3
    makespans = [own["makespan_ns"] for own in solved if own and own["makespan_ns"]]
    assert answer["objective"] == min(makespans) == best["step_time_ns"]
    assert best["schedule"]["certificate"]["verified"]
    assert best["schedule"]["certificate"]["value_ns"] == answer["objective"]
    assert document["certificate"]["schedule"] == best["schedule"]["certificate"]
    assert plans[best["rank"] - 1]["training"] == best["training"]
    assert best["sharding"]["certificate"]["verified"]
    assert best["sharding"]["instance"]["operators"]
    assert set(best["left_out"]) == {"experts"}
    assert watcher.incumbents[-1][1] == answer["objective"]
    objectives = [objective for _, objective, _ in watcher.incumbents]
    assert objectives == sorted(objectives, reverse=True)
    assert {"configurations", "verification", "schedule 1 of 2", "sharding"} <= set(watcher.phases)


def test_one_stage_is_proven_best_where_its_bound_is_the_least() -> None:
    answer, _ = answer_of(
        body(
            training={
                "tensor_parallel": 1,
                "pipeline_parallel": 1,
                "micro_batch_size": 1,
                "zero_stage": 1,
                "recomputation": "none",
            },
            search={"finalists": 1},
        )
    )
    assert answer["proven_optimal"]
    assert answer["objective"] == answer["lower_bound"]
    assert answer["document"]["certificate"]["gap"] == 0
    assert "tensor_parallel is 1" in answer["document"]["best"]["left_out"]["sharding"]


def test_experts_are_placed_and_their_load_counts() -> None:
    skewed = without_solvers(
        model=MOE,
        training={"data_parallel": 8, "expert_parallel": 4},
        routing_frequency=[5, 3, 1, 1],
    )
    experts = skewed["best"]["experts"]
    assert experts["verified"]
    assert experts["expert_parallel"] == 4
    # One expert per rank: the busiest has 5 of 10 where the mean is 2.5.
    assert experts["load_factor"] == pytest.approx(2)
    assert skewed["best"]["training"]["expert_load"] == pytest.approx(2, abs=1e-6)
    even = without_solvers(model=MOE, training={"data_parallel": 8, "expert_parallel": 4})
    assert even["best"]["experts"]["load_factor"] == 1
    assert even["plans"][0]["step_time_ns"] < skewed["plans"][0]["step_time_ns"]
    given = without_solvers(
        model=MOE, training={"data_parallel": 8, "expert_parallel": 4, "expert_load": 2}
    )
    assert given["plans"][0]["step_time_ns"] == skewed["plans"][0]["step_time_ns"]
    assert "expert_load" in given["best"]["left_out"]["experts"]


def test_where_nothing_fits_the_answer_says_why() -> None:
    answer, watcher = answer_of(body(gpu={"memory_bytes": 2**29}))
    assert answer["state"] == "infeasible"
    document = answer["document"]
    assert document["infeasibility"]["remedies"]
    assert document["searched"]["fits"] == 0
    assert document["provenance"]["options"]["time_limit_s"] == 60
    assert watcher.phases[-1] == "explaining why nothing fits"
    assert not watcher.incumbents


def test_a_stop_keeps_the_best() -> None:
    spec = resolve_request(body()).resolved
    calls = iter(range(10**6))
    # It is asked once for each point, then for each configuration: enough to find some plans.
    enough = len(list(points(spec, Counter()))) + 30
    answer, _ = answer_of(body(), should_stop=lambda: next(calls) > enough)
    assert answer["state"] == "succeeded"
    document = answer["document"]
    assert not document["searched"]["complete"]
    assert document["searched"]["dropped"]["not_reached"] > 0
    assert answer["lower_bound"] is None
    assert any("stopped" in warning for warning in document["warnings"])
    assert document["best"]["schedule"] is None


def test_a_stop_before_anything_is_a_failure_that_says_so() -> None:
    answer, _ = answer_of(body(), should_stop=lambda: True)
    assert (answer["state"], answer["code"]) == ("failed", "no_plan_within_limit")
    assert "not reached" in answer["detail"]


def test_an_engine_that_dies_costs_only_its_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> dict[str, Any]:
        raise SolverCrash("died", [])

    monkeypatch.setattr("planner.pipeline.solve.run", crash)
    answer, watcher = answer_of(body(training=PIPELINED, search={"finalists": 1, "top": 1}))
    plan = answer["document"]["plans"][0]
    assert plan["schedule"] == {"makespan_ns": None, "why_not": "The engine died: died"}
    assert answer["document"]["best"]["schedule"] is None
    assert any("died" in line for line in watcher.lines)


def test_no_schedule_is_begun_without_time() -> None:
    answer, _ = answer_of(
        body(training=PIPELINED, search={"finalists": 1}), limit_s=finalists.LEAST_S
    )
    assert answer["document"]["plans"][0]["schedule"]["why_not"] == "The time was up."


def test_plans_that_fail_verification_are_not_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    real = solve.verify_plan
    refused: list[Any] = []

    def strict(spec: Any, plan: Any, should_stop: StopCheck) -> Any:
        verified = real(spec, plan, should_stop)
        if not refused:
            refused.append(plan)
            verified.violations.append("memory: made up")
        return verified

    monkeypatch.setattr(solve, "verify_plan", strict)
    document = without_solvers(search={"top": 2})
    assert len(document["plans"]) == 2
    (example,) = (own for own in document["dropped"] if own["rule"] == "verification")
    assert example["detail"] == "memory: made up"


def test_recomputation_is_named_as_in_documents() -> None:
    plans = without_solvers(training={"recomputation": "full"})["plans"]
    assert {plan["recomputation"] for plan in plans} == {Recomputation.FULL.value}


def test_headroom_is_kept_by_every_plan_and_its_schedule() -> None:
    answer, _ = answer_of(
        body(
            memory_headroom=0.5,
            training=PIPELINED,
            search={"finalists": 1, "top": 2, "micro_batch_size": [4]},
        )
    )
    document = answer["document"]
    for plan in document["plans"]:
        assert plan["peak_bytes"] <= plan["limit_bytes"] == 2 * 2**30
    for device in document["best"]["schedule"]["problem"]["devices"]:
        assert device["activation_memory_bytes"] < 2 * 2**30
    assert any(note["what"] == "memory headroom" for note in document["assumptions"])


def test_where_the_fastest_need_offloads_the_fastest_without_stands_beside() -> None:
    """A quick path to the host makes offloads faster than recomputing by prediction. Each finalist
    is solved from the schedule that it was verified with, so that none ends up slower."""
    request = body(
        search={"finalists": 1, "top": 1, "pipeline_parallel": [4]},
        gpu={"memory_bytes": 3 * 2**29, "pcie_bytes_per_s": 3e11},
        training={"micro_batch_size": 2},
    )
    answer, _ = answer_of(request, limit_s=20)
    first, last = answer["document"]["plans"]
    assert first["offloading"] is not None
    assert (last["offload"], last["offloading"]) == (False, None)
    assert first["step_time_ns"] < last["step_time_ns"]
    assert first["schedule"]["makespan_ns"] <= first["verified"]["step_time_ns"]
    best = answer["document"]["best"]
    assert best["step_time_ns"] <= first["verified"]["step_time_ns"]
    started = best["schedule"]["provenance"]["started_from"]
    assert started["kind"] == "verification"
    warned = any("offloads" in warning for warning in answer["document"]["warnings"])
    assert warned == (best["rank"] == 1)
