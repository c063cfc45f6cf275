"""The answer as a document: every figure adds up, and says what it depends on."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from unittest.mock import patch

import pytest

from planner.progress import never
from planner.sharding.build import Formulation
from planner.sharding.elimination import TooLarge
from planner.sharding.instance import Plan, totals
from planner.sharding.planning import Budget, Found, find_plan
from planner.sharding.proof import second_opinion
from planner.sharding.settings import effective_alpha, joules_per_byte, joules_per_flop
from planner.sharding.verify import VERIFIER
from tests.referee import check_sharding
from tests.unit.sharding.posted import (
    Body,
    document,
    formulation,
    repeated,
    resolved,
    solve,
    two_layers,
)

LAYERED: Body = {
    "transformer": {"preset": "GPT-2", "layers": 3, "embeddings": True},
    "devices": 4,
    "training": {"micro_batches": 2, "zero_stage": 1},
    "alpha": 0.7,
}


def test_the_operators_rows_add_up_to_the_plan() -> None:
    plan = document(LAYERED)["plan"]
    rows = plan["operators"]
    for key in ("redundant_bytes", "communication_bytes", "memory_bytes"):
        assert sum(row[key] for row in rows) == plan[key]
    sent = plan["communication_bytes"] + plan["resharding_bytes"]
    assert plan["objective"] == pytest.approx(plan["redundant_bytes"] + 0.7 * sent)
    assert plan["predicted_peak_bytes"] > 0
    assert plan["device_memory_bytes"] is None
    for row in rows:
        assert row["data"] * row["row"] * row["column"] * row["spare"] == 4
        assert row["layers"] == (3 if row["name"] in ("qkv", "fc1", "add2") else row["layers"])
    assert {row["layers"] for row in rows} == {1, 3}


def resharded(plan: Body) -> int:
    return sum(row["bytes"] for row in plan["resharding"] if row["counted_as"] == "resharding")


@pytest.mark.parametrize("exact", [True, False])
def test_what_is_resharded_adds_up_too(exact: bool) -> None:
    result = document({**LAYERED, "solver": {"exact": exact}}, baselines=False)
    plan = result["plan"]
    assert resharded(plan) == plan["resharding_bytes"] > 0
    names = {row["name"] for row in plan["operators"]}
    for row in plan["resharding"]:
        assert {row["from"], row["to"]} <= names
        assert row["bytes"] > 0


def test_the_certificate_of_an_optimum() -> None:
    result = document({"graph": two_layers(), "devices": 4})
    certificate = result["certificate"]
    assert certificate == {
        "verified": True,
        "verifier": VERIFIER,
        "proven_optimal": True,
        "objective": result["plan"]["objective"],
        "lower_bound": result["plan"]["objective"],
        "gap": 0.0,
        "proof": {
            "ilp": "not run: the reductions leave one plan",
            "elimination": "agrees: no plan is better",
        },
        "fits": True,
        "layers_apart_bound": None,
        "scope": [],
    }


def test_the_provenance_says_what_numbers_depend_on() -> None:
    body = {**LAYERED, "solver": {"engine": "highs", "time_limit_s": 20}}
    answer = solve(body)
    provenance = answer["document"]["provenance"]
    assert provenance["engine"] == "highs"
    assert set(provenance["packages"]) == {"highsbox", "mip"}
    assert 0 < provenance["solve_seconds"] <= provenance["total_seconds"]
    (model,) = provenance["model"]
    assert model["operators"] == len(answer["document"]["plan"]["operators"])
    assert model["reduced_operators"] <= model["operators"]
    assert provenance["options"]["time_limit_s"] == 20
    chosen = provenance["settings"]
    assert chosen["training"]["zero_stage"] == 1
    assert chosen["alphas"] == [0.7]
    assert chosen["gpu_is_assumed"]
    whats = [note["what"] for note in provenance["assumptions"]]
    assert {"model", "batch", "vocabulary", "devices"} <= set(whats)


def test_equal_layers_are_said_to_be_best_where_they_are() -> None:
    result = document({"graph": repeated(5), "devices": 4}, baselines=False)
    (remark,) = result["certificate"]["scope"]
    assert result["certificate"]["layers_apart_bound"] == result["plan"]["objective"]
    assert remark.startswith("among all plans: none whose 5 layers differ is better")


WORSE_FOLDED: Body = {"graph": repeated(3), "devices": 8, "alpha": 3}


def test_layers_that_differ_are_said_to_be_better_where_they_are() -> None:
    folded = document(WORSE_FOLDED, baselines=False)
    exact = document({**WORSE_FOLDED, "solver": {"exact": True}}, baselines=False)
    own, apart = folded["plan"]["objective"], exact["plan"]["objective"]
    assert apart < own * (1 - 1e-6)
    assert folded["certificate"]["layers_apart_bound"] == apart
    (remark,) = folded["certificate"]["scope"]
    assert f"whose layers differ has an objective of {apart:.0f}" in remark
    assert "solver.exact finds" in remark


def test_under_a_limit_layers_that_differ_give_a_bound() -> None:
    free = document(WORSE_FOLDED, baselines=False)
    limit = free["plan"]["predicted_peak_bytes"] - 400
    certificate = document({**WORSE_FOLDED, "device_memory_bytes": limit})["certificate"]
    assert certificate["layers_apart_bound"] == free["certificate"]["layers_apart_bound"]
    assert "no plan whose layers differ has an objective below" in " ".join(certificate["scope"])


@pytest.mark.parametrize(
    "terms",
    [
        {"computation_imbalance": 0.001},
        {"energy": 1e6},
        {"energy": 1e6, "computation_imbalance": 1},
    ],
)
def test_further_terms_are_told_apart_from_redundancy(terms: Body) -> None:
    body: Body = {"graph": two_layers(batch=6, width=64), "devices": 4}
    plain = document(body, baselines=False)
    assert "further_terms" not in plain["plan"]
    result = document({**body, "objective": terms}, baselines=False)
    plan, told = result["plan"], result["plan"]["further_terms"]
    own = formulation(body)
    redundant = sum(
        times * costs[k].redundant_bytes
        for times, costs, k in zip(own.times, own.costs, plan["choice"], strict=True)
    )
    assert plan["redundant_bytes"] == redundant + told["bytes"]
    flops = sum(
        (rule.flops + rule.backward_flops)
        / (strategy.degrees.data if rule.divides_work.data else 1)
        / (strategy.degrees.row if rule.divides_work.row else 1)
        / (strategy.degrees.column if rule.divides_work.column else 1)
        for strategies, k in zip(own.strategies, plan["choice"], strict=True)
        for strategy in [strategies[k]]
        for rule in [strategy.rule]
    )
    even = sum(rule.flops + rule.backward_flops for s in own.strategies for rule in [s[0].rule]) / 4
    assert told["excess_flops"] == pytest.approx(flops - even)
    spec = resolved({**body, "objective": terms})
    sent = plan["communication_bytes"] + plan["resharding_bytes"]
    computing = flops * joules_per_flop(spec)
    assert told["joules"] == pytest.approx(computing + sent * joules_per_byte(spec))
    weighed = terms.get("computation_imbalance", 0) * (flops - even)
    weighed += terms.get("energy", 0) * computing
    assert told["bytes"] == pytest.approx(weighed, abs=len(own.strategies))
    assert result["instance"]["alpha"] == effective_alpha(spec, 1.0)
    assert (result["instance"]["alpha"] > 1) == ("energy" in terms)
    assert check_sharding(result["instance"], plan) == []


def test_an_even_share_is_worth_more_than_repeated_work() -> None:
    """With a high price on imbalance no linear layer repeats its work."""
    body: Body = {"graph": two_layers(batch=6, width=64), "devices": 4}
    result = document({**body, "objective": {"computation_imbalance": 1e6}}, baselines=False)
    least = min(
        sum(own.flops for own in [strategy.rule]) / 4
        for strategy in formulation(body).strategies[1]
    )
    assert least > 0
    assert result["plan"]["further_terms"]["excess_flops"] <= 0.01 * least


STAGED: Body = {
    "transformer": {"preset": "GPT-2", "layers": 6, "embeddings": True, "batch": 4},
    "devices": "1x6xA100-40GB",
    "stages": 3,
    "alpha": [1, 0.1],
    "pareto": True,
    "training": {"micro_batches": 4},
}


def test_stages_each_have_a_document_and_one_certificate_together() -> None:
    answer = solve(STAGED)
    result = answer["document"]
    assert set(result) == {"stages", "certificate", "provenance"}
    assert sum(stage["layers"] for stage in result["stages"]) == 6
    assert [stage["micro_batches_in_flight"] for stage in result["stages"]] == [3, 2, 1]
    for stage in result["stages"]:
        assert check_sharding(stage["instance"], stage["plan"]) == []
        assert stage["devices"] == 2
        assert len(stage["sweep"]) == 2
        assert stage["pareto_complete"]
        assert len(stage["baselines"]) == 5
    certificate = result["certificate"]
    objectives = [stage["plan"]["objective"] for stage in result["stages"]]
    assert certificate["objective"] == answer["objective"] == sum(objectives)
    assert certificate["lower_bound"] == answer["lower_bound"]
    assert certificate["proven_optimal"] is answer["proven_optimal"] is True
    assert certificate["verified"]
    assert certificate["fits"]
    assert certificate["gap"] == 0
    assert len(result["provenance"]["model"]) == 3
    json.dumps(answer, allow_nan=False)


SMALL: Body = {"graph": two_layers(), "devices": 4, "solver": {"reductions": False}}


def found_plan(body: Body) -> tuple[Formulation, Found]:
    spec, own = resolved(body), formulation(body)
    budget = Budget(time.monotonic() + 30, never, lambda line: None)
    found = find_plan(own, spec.alphas[0], spec.memory_limits[0], spec.options, budget)
    assert found.plan is not None
    return own, found


def worse(found: Found, status: str) -> Found:
    """With another plan in the place of the best, and what is claimed of it."""
    plan = found.plan
    assert plan is not None
    choice = (*plan.choice[:-1], (plan.choice[-1] + 1) % 6)
    sums = totals(found.instance, choice)
    objective = sums.objective(found.instance.alpha)
    assert objective > plan.objective
    bound = objective if status == "optimal" else 0.0
    own = Plan(choice, objective, sums.memory_bytes, "optimal", bound)
    return replace(found, plan=replace(own, status=status), status=status)


def test_a_plan_that_was_not_proven_in_time_is_proven_by_elimination() -> None:
    own, found = found_plan(SMALL)
    assert found.plan is not None
    doubted = replace(found, plan=replace(found.plan, status="feasible", lower_bound=1.0))
    better, proof = second_opinion(own, doubted, None, never)
    assert better.plan == found.plan
    assert better.status == "optimal"
    assert proof.elimination == "agrees: no plan is better"


@pytest.mark.parametrize(("status", "ilp"), [("optimal", "refuted"), ("feasible", "proven")])
def test_a_plan_that_is_not_the_best_is_replaced(status: str, ilp: str) -> None:
    own, found = found_plan(SMALL)
    better, proof = second_opinion(own, worse(found, status), None, never)
    assert better.plan is not None
    assert found.plan is not None
    assert better.plan.objective == found.plan.objective
    assert better.status == better.plan.status == "optimal"
    assert better.found_by == "elimination"
    assert proof.ilp == ilp
    assert proof.elimination.startswith("found this plan")


def test_a_better_plan_whose_peak_does_not_fit_is_a_bound_only() -> None:
    own, found = found_plan(SMALL)
    assert found.plan is not None
    kept = worse(found, "feasible")
    same, proof = second_opinion(own, kept, (found.peak_bytes or 0) - 1, never)
    assert same.plan is not None
    assert kept.plan is not None
    assert same.plan.choice == kept.plan.choice
    assert same.plan.status == "feasible"
    assert same.plan.lower_bound == found.plan.objective
    assert "peak exceeds the memory" in proof.elimination


def test_without_elimination_the_ilp_stands_alone() -> None:
    own, found = found_plan(SMALL)
    with patch("planner.sharding.proof.find_optimum", side_effect=TooLarge("no")):
        same, proof = second_opinion(own, found, None, never)
    assert same is found
    assert proof.elimination.startswith("not tried")
