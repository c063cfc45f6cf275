"""A solve from request to answer: what the referee accepts, and what brute force finds as well."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from planner.progress import SilentReporter
from planner.sharding.instance import totals
from planner.sizes import gib
from tests.chaos.form import by_form
from tests.referee import check_sharding
from tests.sharding_instances import brute_force, every_plan
from tests.unit.sharding.posted import (
    Body,
    StopAfter,
    bodies,
    document,
    extremes,
    instance_of,
    linear,
    repeated,
    solve,
    strategies,
    tensor,
    two_layers,
)

SMALL: Body = {"graph": two_layers(), "devices": 4}
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much]


def check_answer(body: Body, answer: dict[str, Any]) -> None:
    """Whatever the answer is, it is what it says."""
    json.dumps(answer, allow_nan=False)
    limit = body.get("device_memory_bytes")
    least = extremes(body)[0]
    if answer["state"] == "infeasible":
        found = answer["document"]["infeasibility"]
        assert limit is not None
        assert limit < least == found["least_memory_bytes"]
        return
    if answer["state"] == "failed":
        # Something could be kept, but not with what is needed for a moment on top.
        assert limit is not None
        assert least <= limit
        assert "predicted peak" in answer["detail"]
        return
    result = answer["document"]
    plan, certificate = result["plan"], result["certificate"]
    assert check_sharding(result["instance"], plan) == []
    assert certificate["verified"]
    assert certificate["fits"]
    assert certificate["lower_bound"] <= plan["objective"] * (1 + 1e-6)
    if not certificate["proven_optimal"]:
        # Only where the peak binds, and then it says among which plans this one is best.
        (remark, *_) = certificate["scope"]
        assert "local search" in remark or "keep at most" in remark
        assert certificate["gap"] >= 0
    assert answer["objective"] == certificate["objective"] == plan["objective"]
    if plan["device_memory_bytes"] is not None:
        assert plan["memory_bytes"] <= plan["device_memory_bytes"]
        assert plan["predicted_peak_bytes"] <= plan["device_memory_bytes"]


@settings(max_examples=40, deadline=None, suppress_health_check=SLOW)
@given(bodies())
def test_the_referee_accepts_every_plan(body: Body) -> None:
    check_answer(body, solve(body, baselines=False))


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=by_form(25, 300), deadline=None, suppress_health_check=SLOW)
@given(bodies(most_operators=9))
def test_the_referee_accepts_every_plan_of_many(body: Body) -> None:
    check_answer(body, solve(body))


def all_proven(answer: dict[str, Any]) -> bool:
    """Whether no peak bound a plan, which is where different plans may be found."""
    return answer["state"] == "succeeded" and not answer["document"]["certificate"]["scope"]


@settings(max_examples=8, deadline=None, suppress_health_check=SLOW)
@given(bodies(most_operators=4))
def test_both_engines_find_the_same_with_and_without_reductions(body: Body) -> None:
    states, objectives = [], []
    for engine in ("cbc", "highs"):
        for reductions in (True, False):
            solver = {"engine": engine, "reductions": reductions}
            answer = solve({**body, "solver": solver}, baselines=False)
            states.append(answer["state"])
            objectives.append(answer.get("objective", 0.0))
    assert states == [states[0]] * 4
    if all_proven(answer):
        assert objectives == pytest.approx([objectives[0]] * 4, rel=2e-6)


@settings(max_examples=10, deadline=None, suppress_health_check=SLOW)
@given(bodies(most_operators=3))
def test_pins_and_prohibitions_are_heeded_at_the_least_cost(body: Body) -> None:
    free = solve(body, baselines=False)
    assume(free["state"] == "succeeded")
    assume("device_memory_bytes" not in body)
    choices = {row["name"]: row["strategies"] for row in free["document"]["instance"]["operators"]}
    named = strategies(free["document"])
    last = list(named)[-1]
    pin = {last: choices[last][-1]["name"]}
    forbid = {
        name: [strategy]
        for name, strategy in named.items()
        if name != last and len(choices[name]) > 1
    }
    bound = document({**body, "pin": pin, "forbid": forbid}, baselines=False)
    own = strategies(bound)
    assert own[last] == pin[last]
    assert not any(own[name] in names for name, names in forbid.items())
    whole = instance_of(free["document"])
    number = {operator.name: v for v, operator in enumerate(whole.operators)}
    allowed = (
        sums.objective(whole.alpha)
        for choice, sums in every_plan(whole)
        if all(
            whole.operators[v].strategies[choice[v]].name not in forbid.get(name, ())
            and whole.operators[v].strategies[choice[v]].name == pin.get(name, own_name)
            for name, v in number.items()
            for own_name in [whole.operators[v].strategies[choice[v]].name]
        )
    )
    assert bound["plan"]["objective"] == pytest.approx(min(allowed), rel=1e-6)


def test_a_prohibition_of_everything_but_one_is_a_pin() -> None:
    strategy = "d2-r2-c1"
    pinned = document({**SMALL, "pin": {"up": strategy}}, baselines=False)
    everything = ["d1-r1-c4", "d1-r2-c2", "d1-r4-c1", "d2-r1-c2", "d4-r1-c1"]
    forbidden = document({**SMALL, "forbid": {"up": everything}}, baselines=False)
    assert strategies(pinned)["up"] == strategies(forbidden)["up"] == strategy
    assert pinned["plan"] == forbidden["plan"]


@pytest.mark.parametrize("alpha", [0, 1e-6, 1, 1e9])
def test_any_weight_of_communication(alpha: float) -> None:
    result = document({**SMALL, "alpha": alpha}, baselines=False)
    assert check_sharding(result["instance"], result["plan"]) == []
    assert result["plan"]["objective"] == brute_force(instance_of(result))
    assert result["instance"]["alpha"] == alpha


def test_one_device_repeats_and_sends_nothing() -> None:
    result = document({**SMALL, "devices": 1})
    plan = result["plan"]
    assert plan["objective"] == plan["redundant_bytes"] == plan["communication_bytes"] == 0
    assert all(row["relative_throughput"] == 1 for row in result["baselines"])


@pytest.mark.parametrize("devices", [5, 7, 13])
def test_a_prime_number_that_divides_nothing_repeats_the_work_and_says_so(devices: int) -> None:
    result = document({**SMALL, "devices": devices})
    rows = {row["name"]: row for row in result["plan"]["operators"]}
    assert rows["up"]["spare"] == devices
    assert any(warning.startswith("up: ") for warning in result["provenance"]["warnings"])
    megatron = result["baselines"][0]
    assert not megatron["applicable"]
    assert f"{devices} does not divide" in megatron["reason"]
    assert result["plan"]["relative_throughput"] is None


def test_a_batch_smaller_than_the_devices() -> None:
    result = document({"graph": two_layers(batch=2), "devices": 8})
    assert max(row["data"] for row in result["plan"]["operators"]) <= 2
    rows = {row["name"]: row for row in result["baselines"]}
    assert "data 8 does not divide the batch (2)" in rows["data parallel"]["reason"]


def test_devices_on_several_nodes_send_slowly_between_them() -> None:
    """In time, what leaves a node costs more: the plan keeps row and column groups inside."""
    body = {"graph": two_layers(batch=16, width=64), "alpha": 10, "communication": "time"}
    near = document({**body, "devices": "1x4xH100"}, baselines=False)
    far = document({**body, "devices": "4x1xH100"}, baselines=False)
    assert far["plan"]["objective"] > near["plan"]["objective"]
    for result in (near, far):
        assert result["plan"]["objective"] == brute_force(instance_of(result))


def test_layers_written_out_are_never_worse_and_the_folded_plan_knows_by_how_much() -> None:
    body = {"graph": repeated(4), "devices": 4, "training": {"sequence_parallel": True}}
    for alpha in (0.1, 1, 10):
        folded = document({**body, "alpha": alpha}, baselines=False)
        exact = document({**body, "alpha": alpha, "solver": {"exact": True}}, baselines=False)
        assert exact["plan"]["objective"] <= folded["plan"]["objective"]
        apart = folded["certificate"]["layers_apart_bound"]
        assert exact["plan"]["objective"] == pytest.approx(apart, rel=1e-6)
        assert check_sharding(exact["instance"], exact["plan"]) == []
        assert len(exact["plan"]["operators"]) == 3 + 4 * 4
        assert exact["certificate"]["layers_apart_bound"] is None


def test_one_layers_operator_can_be_pinned_where_layers_are_written_out() -> None:
    body = {
        "graph": repeated(3),
        "devices": 4,
        "solver": {"exact": True},
        "pin": {"up": "d2-r1-c2", "layer1.up": "d4-r1-c1"},
        "forbid": {"layer2.down": ["d1-r4-c1", "d2-r2-c1"]},
    }
    own = strategies(document(body, baselines=False))
    ups = [own[f"layer{k}.up"] for k in range(3)]
    assert ups == ["d2-r1-c2", "d4-r1-c1", "d2-r1-c2"]
    assert own["layer2.down"] not in ("d1-r4-c1", "d2-r2-c1")


def test_a_name_that_looks_like_a_layers_is_an_operators_own() -> None:
    graph = {
        "inputs": [tensor("x", 8, 16)],
        "operators": [
            linear("layer0.up", "x", 8, 16, 16),
            linear("layer1.up", "layer0.up", 8, 16, 16),
            linear("up", "layer1.up", 8, 16, 16),
        ],
    }
    pin = {"layer1.up": "d2-r2-c1", "up": "d1-r1-c4"}
    body = {"graph": graph, "devices": 4, "solver": {"exact": True}, "pin": pin}
    own = strategies(document(body, baselines=False))
    assert {name: own[name] for name in pin} == pin


@pytest.mark.parametrize("alphas", [[1, 0.01, 0.1, 10], [0, 100]])
def test_a_sweep_has_the_best_plan_of_each_weight(alphas: list[float]) -> None:
    result = document({**SMALL, "alpha": alphas, "redundancy": "mesh"}, baselines=False)
    instance = instance_of(result)
    rows = result["sweep"]
    assert [row["alpha"] for row in rows] == alphas
    for row in rows:
        own = replace(instance, alpha=row["alpha"])
        sums = totals(own, row["choice"])
        assert row["objective"] == brute_force(own) == sums.objective(row["alpha"])
        assert row["redundant_bytes"] == sums.redundant_bytes
        assert row["communication_bytes"] == sums.communication_bytes + sums.resharding_bytes
        assert row["memory_bytes"] == sums.memory_bytes
        assert row["status"] == "optimal"
    ordered = sorted(rows, key=lambda row: row["alpha"])
    sent = [row["communication_bytes"] for row in ordered]
    assert sent == sorted(sent, reverse=True)
    assert result["plan"]["choice"] == rows[0]["choice"]


class Recorder(SilentReporter):
    """Keeps what a solve reports."""

    def __init__(self) -> None:
        self.found: list[tuple[dict[str, Any], float]] = []
        self.bounds: list[float] = []
        self.phases: list[str] = []

    def phase(self, name: str) -> None:
        self.phases.append(name)

    def bound(self, name: str, value: float) -> None:
        self.bounds.append(value)

    def incumbent(self, document: dict[str, Any], objective: float, found_by: str) -> None:
        self.found.append((document, objective))


def test_a_plan_is_reported_as_soon_as_it_is_there() -> None:
    recorder = Recorder()
    answer = solve({**SMALL, "pareto": True}, reporter=recorder)
    ((kept, objective),) = recorder.found
    json.dumps(kept, allow_nan=False)
    assert recorder.bounds == [answer["lower_bound"]]
    assert objective == answer["objective"]
    assert kept["instance"] == answer["document"]["instance"]
    assert kept["plan"]["choice"] == answer["document"]["plan"]["choice"]
    assert kept["certificate"]["proven_optimal"]
    assert kept["provenance"]["settings"] == answer["document"]["provenance"]["settings"]
    assert recorder.phases == ["strategies", "plan", "front", "baselines"]


DEEP: Body = {
    "transformer": {"preset": "BERT-Large", "layers": 8},
    "devices": 8,
    "device_memory_bytes": 600_000_000,
    "solver": {"exact": True, "reductions": False},
}


class StopAtFirstLogLine(Recorder):
    """Asks for a stop as soon as an engine says something."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked = False

    def log(self, line: str) -> None:
        self.is_asked = True


def test_a_stop_keeps_the_best_plan_so_far_and_begins_nothing_more() -> None:
    recorder = StopAtFirstLogLine()
    begun = time.monotonic()
    answer = solve(DEEP, reporter=recorder, should_stop=lambda: recorder.is_asked)
    assert time.monotonic() - begun < 20
    assert answer["state"] == "succeeded"
    plan, certificate = answer["document"]["plan"], answer["document"]["certificate"]
    assert certificate["verified"]
    assert plan["lower_bound"] <= plan["objective"]
    assert 0 <= certificate["gap"] <= 1
    assert certificate["proven_optimal"] is (plan["status"] == "optimal")
    assert certificate["proof"]["ilp"] == "stopped"
    assert plan["memory_bytes"] <= DEEP["device_memory_bytes"]
    assert answer["document"]["baselines"] == []
    assert plan["predicted_step_ns"] is plan["relative_throughput"] is None


def test_a_stop_before_anything_is_there_leaves_no_plan() -> None:
    answer = solve(DEEP, should_stop=lambda: True)
    assert (answer["state"], answer["code"]) == ("failed", "no_plan_within_limit")
    assert "stopped before there was a plan" in answer["detail"]


MUCH_ASKED: Body = {
    "graph": repeated(4),
    "devices": 4,
    "alpha": [1, 0.1, 10],
    "pareto": True,
    "explain": [{"operator": "up", "strategy": "d1-r1-c4"}],
}


@pytest.mark.parametrize("reductions", [True, False])
def test_a_stop_at_any_time_keeps_what_was_found_until_then(reductions: bool) -> None:
    body = {**MUCH_ASKED, "solver": {"reductions": reductions, "threads": 1}}
    whole = document(body)
    never_stopped = StopAfter()
    solve(body, should_stop=never_stopped)
    states = []
    for looks in range(0, never_stopped.looks, never_stopped.looks // 8):
        recorder = Recorder()
        answer = solve(body, reporter=recorder, should_stop=StopAfter(looks))
        states.append(answer["state"])
        assert bool(recorder.found) == (answer["state"] == "succeeded")
        if recorder.found:
            result = answer["document"]
            assert check_sharding(result["instance"], result["plan"]) == []
            assert result["certificate"]["lower_bound"] <= whole["plan"]["objective"] * (1 + 1e-6)
            assert len(result["sweep"]) == 3
            assert len(result["explanations"]) == 1
            assert len(result["baselines"]) in (0, len(whole["baselines"]))
            assert set(result) == set(whole)
    assert set(states) == {"failed", "succeeded"}


def test_the_end_of_the_time_gives_a_plan_with_its_bound() -> None:
    answer = solve({**DEEP, "alpha": [1, 2, 3], "pareto": True}, time_left_s=0.0, baselines=False)
    result = answer["document"]
    certificate = result["certificate"]
    assert certificate["proof"]["ilp"] == "time_limit"
    assert certificate["lower_bound"] <= certificate["objective"]
    assert [row["status"] for row in result["sweep"]][1:] == ["no_plan", "no_plan"]
    assert result["pareto"] == []
    assert not result["pareto_complete"]


def test_what_only_just_fits_and_what_only_just_does_not() -> None:
    least, _ = extremes(SMALL)
    short = solve({**SMALL, "device_memory_bytes": least - 1})
    assert short["state"] == "infeasible"
    just = solve({**SMALL, "device_memory_bytes": least})
    assert just["state"] == "failed"
    assert just["code"] == "no_plan_within_limit"
    assert f"keeps {gib(least)}, the least of all" in just["detail"]
    peak = int(just["detail"].rsplit(" bytes", 1)[0].rsplit("(", 1)[1])
    fitting = document({**SMALL, "device_memory_bytes": peak}, baselines=False)
    assert fitting["plan"]["predicted_peak_bytes"] <= peak


PEAKY: Body = {"transformer": {"preset": "GPT-2", "layers": 1, "batch": 8}, "devices": 4}


def test_where_the_peak_binds_a_plan_is_found_that_fits_and_says_what_is_known() -> None:
    free = document(PEAKY, baselines=False)["plan"]
    peak, bound = free["predicted_peak_bytes"], free["objective"]
    seen = set()
    for less in (1, 10**6, 10**7, 3 * 10**7):
        body = {**PEAKY, "device_memory_bytes": peak - less}
        result = document(body, baselines=False)
        plan, certificate = result["plan"], result["certificate"]
        assert plan["predicted_peak_bytes"] <= peak - less == plan["device_memory_bytes"]
        assert plan["objective"] > bound
        assert check_sharding(result["instance"], plan) == []
        assert bound * (1 - 1e-9) <= certificate["lower_bound"] <= plan["objective"]
        if certificate["proven_optimal"]:
            assert "cheapest plan" in certificate["proof"]["elimination"]
            seen.add("proven")
            continue
        # Best among plans that keep less is not best of all that fit.
        assert certificate["gap"] > 0
        (remark,) = certificate["scope"]
        kept = result["instance"]["device_memory_bytes"]
        by_local_search = "local search" in remark
        assert by_local_search or f"keep at most {kept} of the {peak - less} bytes" in remark
        seen.add("local search" if by_local_search else "keeps less")
    assert "proven" in seen
    assert len(seen) > 1


def test_less_memory_never_makes_a_better_plan() -> None:
    """Nor does more memory lose one that was found with less."""
    peak = document(PEAKY, baselines=False)["plan"]["predicted_peak_bytes"]
    states = []
    for share in (1.0, 0.9, 0.8, 0.7):
        answer = solve({**PEAKY, "device_memory_bytes": int(share * peak)}, baselines=False)
        states.append(answer["state"] == "succeeded")
    assert states == sorted(states, reverse=True)
    assert states[0]
    assert not states[-1]
