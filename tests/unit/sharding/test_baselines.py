"""What people would do otherwise: choices written out by hand, and others against brute force."""

from __future__ import annotations

import itertools
import random
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.progress import never
from planner.sharding import times
from planner.sharding.baselines.baseline import Baseline, pick
from planner.sharding.baselines.checkpointing import least_time
from planner.sharding.baselines.data_parallel import data_parallel, fully_sharded
from planner.sharding.baselines.least_communication import least_communication
from planner.sharding.baselines.megatron import megatron
from planner.sharding.build import Formulation, formulate
from planner.sharding.elimination import TooLarge
from planner.sharding.instance import Totals, totals
from planner.sharding.options import SolveOptions
from planner.sharding.peak import predicted_peak_bytes
from planner.sharding.planning import Budget
from planner.sharding.settings import cost_settings, rule_options
from tests.sharding_instances import every_plan
from tests.unit.sharding.posted import (
    Body,
    bodies,
    extremes,
    formulation,
    graphs,
    linear,
    operator,
    resolved,
    tensor,
    two_layers,
)

OPTIONS = SolveOptions(engine="highs", threads=1)


def budget() -> Budget:
    return Budget(time.monotonic() + 60, never, lambda line: None)


def named(baseline: Baseline) -> dict[str, str]:
    """The strategy of each operator."""
    assert baseline.choice is not None, baseline.reason
    own = baseline.formulation
    return {
        operator.name: own.strategies[v][baseline.choice[v]].name
        for v, operator in enumerate(own.graph.operators)
    }


def resharded(baseline: Baseline) -> int:
    """Bytes that change their layout between operators."""
    assert baseline.choice is not None
    return totals(baseline.formulation.instance(1, None), baseline.choice).resharding_bytes


def of_transformer(transformer: Body, devices: Any, **training: Any) -> Baseline:
    body = {"transformer": transformer, "devices": devices, "training": training}
    return megatron(formulation(body))


ROW, COLUMN = "d1-r4-c1", "d1-r1-c4"

GPT = {
    "tokens": ROW,
    "targets": ROW,
    "embedding": ROW,
    "ln1": ROW,
    "qkv": COLUMN,
    "split_heads": COLUMN,
    "attention": COLUMN,
    "merge_heads": COLUMN,
    "proj": ROW,
    "add1": ROW,
    "ln2": ROW,
    "fc1": COLUMN,
    "gelu": COLUMN,
    "fc2": ROW,
    "add2": ROW,
    "final_norm": ROW,
    "head": COLUMN,
    "loss": COLUMN,
}
"""Shoeybi et al. 2019: the embedding by rows of its vocabulary, the output layer by columns, and
norms and residual additions on every device."""


def test_megatrons_split_of_a_gpt_with_its_vocabulary() -> None:
    found = of_transformer({"preset": "GPT-2", "embeddings": True}, 4)
    assert found.name == "Megatron-LM (tensor 4, data 1)"
    assert named(found) == GPT
    assert resharded(found) == 0


def test_with_sequence_parallelism_what_was_repeated_is_split_by_the_sequence() -> None:
    found = of_transformer({"preset": "GPT-2", "embeddings": True}, 4, sequence_parallel=True)
    inside = ("tokens", "targets", "split_heads", "attention", "merge_heads", "gelu")
    assert named(found) == {
        name: strategy if name in inside and name != "gelu" else f"{strategy}-sp"
        for name, strategy in GPT.items()
    }
    assert resharded(found) == 0


def test_megatrons_split_of_a_bert_layer_without_flash_attention() -> None:
    found = of_transformer("BERT-Large", 4, flash_attention=False, dropout=True)
    assert named(found) == {
        "x": ROW,
        "qkv": COLUMN,
        "split_heads": COLUMN,
        "scores": COLUMN,
        "softmax": COLUMN,
        "attention_dropout": COLUMN,
        "context": COLUMN,
        "merge_heads": COLUMN,
        "proj": ROW,
        "dropout1": ROW,
        "add1": ROW,
        "ln1": ROW,
        "fc1": COLUMN,
        "gelu": COLUMN,
        "fc2": ROW,
        "dropout2": ROW,
        "add2": ROW,
        "ln2": ROW,
    }
    assert resharded(found) == 0


def test_megatrons_split_of_a_llama_layer_on_two_nodes() -> None:
    found = of_transformer({"preset": "Llama-3-8B", "batch": 16}, "2x8xH100")
    assert found.name == "Megatron-LM (tensor 8, data 2)"
    row, column = "d2-r8-c1", "d2-r1-c8"
    assert named(found) == {
        "x": row,
        "ln1": row,
        "qkv": column,
        "split_heads": column,
        "attention": column,
        "merge_heads": column,
        "proj": row,
        "add1": row,
        "ln2": row,
        "fc1": column,
        "glu": column,
        "fc2": row,
        "add2": row,
    }
    assert resharded(found) == 0


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_megatrons_split_of_experts_is_inside_each_of_them(sequence_parallel: bool) -> None:
    found = of_transformer("Mixtral-8x7B", 4, sequence_parallel=sequence_parallel)
    own = named(found)
    if sequence_parallel:
        assert (own["router"], own["experts"], own["add2"]) == (
            "d1-r4-c1-sp",
            "d1-r1-c4-sp",
            "d1-r4-c1-sp",
        )
    else:
        # Every device scores all tokens: the router's columns repeat it.
        assert (own["router"], own["experts"], own["add2"]) == (COLUMN, COLUMN, ROW)
        assert resharded(found) == 0


@pytest.mark.parametrize(
    ("transformer", "devices", "name"),
    [
        # 25 heads: only one device divides them, and the samples are 8.
        ("GPT-2-XL", 8, "Megatron-LM (tensor 1, data 8)"),
        # 12 heads on 8 devices: four of them, and two samples at a time.
        ("GPT-2", 8, "Megatron-LM (tensor 4, data 2)"),
        # 8 groups of heads, however many heads there are.
        ({"preset": "Llama-3-8B", "batch": 16}, "1x16xH100", "Megatron-LM (tensor 8, data 2)"),
        # Twelve devices of nodes of eight: six would straddle them.
        ({"preset": "GPT-2", "batch": 12}, 12, "Megatron-LM (tensor 4, data 3)"),
        ("GPT-2", 1, "Megatron-LM (tensor 1, data 1)"),
    ],
)
def test_heads_and_nodes_limit_the_tensor_parallel_degree(
    transformer: Body, devices: Any, name: str
) -> None:
    assert of_transformer(transformer, devices).name == name


def test_where_no_degree_fits_every_reason_is_told() -> None:
    found = of_transformer({"preset": "GPT-2", "batch": 4}, 10)
    assert found.choice is None
    assert found.reason is not None
    assert "data 5 does not divide the batch (4)" in found.reason
    assert "data 10 does not divide the batch (4)" in found.reason


def test_a_norm_of_a_split_tensor_is_on_every_device_all_the_same() -> None:
    graph = {
        "inputs": [tensor("x", 8, 16)],
        "operators": [
            linear("up", "x", 8, 16, 32),
            operator(
                "norm",
                "layer_norm",
                ["up"],
                8,
                32,
                parameters=[{"name": "weight", "shape": [32]}],
            ),
            linear("next", "norm", 8, 32, 16),
        ],
    }
    own = named(megatron(formulation({"graph": graph, "devices": 4})))
    assert own == {"x": ROW, "up": COLUMN, "norm": ROW, "next": COLUMN}


def test_data_parallel_splits_the_batch_of_every_operator() -> None:
    found = data_parallel(formulation({"graph": two_layers(), "devices": 4}))
    assert set(named(found).values()) == {"d4-r1-c1"}
    assert resharded(found) == 0
    weights = 2 * 16 * 64
    sent = totals(found.formulation.instance(1, None), found.choice or ()).communication_bytes
    assert sent == 2 * 3 * weights * 4 // 4


def test_fully_sharded_data_parallel_holds_every_parameter_once() -> None:
    spec = resolved({"graph": two_layers(), "devices": 4})
    whole = replace(cost_settings(spec), zero_stage=3)
    found = fully_sharded(formulate(spec.graph, whole, rule_options(spec)))
    assert set(named(found).values()) == {"d4-r1-c1"}
    assert totals(found.formulation.instance(1, None), found.choice or ()).redundant_bytes == 0


@pytest.mark.parametrize("baseline", [data_parallel, fully_sharded])
def test_a_batch_too_small_is_the_reason(baseline: Any) -> None:
    found = baseline(formulation({"graph": two_layers(batch=2), "devices": 4}))
    assert found.choice is None
    assert found.reason == (
        "x (input) cannot be split d4-r1-c1: data 4 does not divide the batch (2)"
    )


def test_names_are_looked_up_in_every_operator() -> None:
    own = formulation({"graph": two_layers(), "devices": 2})
    assert pick(own, ["d2-r1-c1"] * 4) == (2, 2, 2, 2)
    assert "up (linear) cannot be split d2-r2-c1" in pick(own, ["d2-r1-c1", "d2-r2-c1", "", ""])


def sent_bytes(sums: Totals) -> int:
    return sums.communication_bytes + sums.resharding_bytes


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(bodies(most_operators=3))
def test_nothing_that_fits_sends_less_than_the_least_communication(body: Body) -> None:
    own = formulation(body)
    limit = body.get("device_memory_bytes")
    found = least_communication(own, limit, OPTIONS, budget())
    assert found.choice is not None
    assert found.is_proven
    sums = totals(own.instance(1, limit), found.choice)
    assert limit is None or sums.memory_bytes <= limit
    best = min(
        (sent_bytes(other), other.redundant_bytes)
        for _, other in every_plan(own.instance(1, limit))
    )
    assert (sent_bytes(sums), sums.redundant_bytes) == best


@pytest.mark.parametrize("limited", [False, True])
def test_without_elimination_the_ilp_finds_as_little_to_send(limited: bool) -> None:
    body = {"graph": two_layers(batch=16, width=48), "devices": 6}
    own = formulation(body)
    least, most = extremes(body)
    limit = (3 * least + most) // 4 if limited else None
    name = "planner.sharding.baselines.optimum.find_optimum"
    with patch(name, side_effect=TooLarge("no")):
        found = least_communication(own, limit, OPTIONS, budget())
    assert found.choice is not None
    assert found.is_proven
    instance = own.instance(1, limit)
    best = min(sent_bytes(sums) for _, sums in every_plan(instance))
    assert sent_bytes(totals(instance, found.choice)) == best


def test_where_nothing_fits_there_is_no_least_communication() -> None:
    own = formulation({"graph": two_layers(), "devices": 2})
    found = least_communication(own, 1, OPTIONS, budget())
    assert found.choice is None
    assert found.reason == "no such plan: infeasible"


def timed(body: Body) -> Formulation:
    return formulation({**body, "communication": "time"})


WORK: Body = {"graph": two_layers(batch=512, width=1024), "devices": 2}


def best_time_s(own: Formulation, limit: int) -> float | None:
    """The least time of all strategies, each with and without recomputation, that fit."""
    cluster = own.settings.devices.cluster
    instance = own.instance(1, None)
    best = None
    for choice, sums in every_plan(instance):
        chosen = [own.strategies[v][k] for v, k in enumerate(choice)]
        rows = list(zip(own.graph.operators, chosen, range(len(chosen)), strict=True))
        work_s = sum(times.operator_s(own, o, s, "bf16") for o, s, _ in rows)
        sent_s = sent_bytes(sums) / cluster.link_bytes_per_s
        saved = [times.kept_bytes(own, v, s) if v else 0 for _, s, v in rows]
        again_s = [times.forward_s(own, o, s, "bf16") for o, s, _ in rows]
        for again in itertools.product([0, 1], repeat=len(rows)):
            kept = sum(size for size, yes in zip(saved, again, strict=True) if yes)
            if sums.memory_bytes - kept > limit:
                continue
            found = work_s + sent_s + sum(t for t, yes in zip(again_s, again, strict=True) if yes)
            best = found if best is None else min(best, found)
    return best


@pytest.mark.parametrize("by_ilp", [False, True])
@pytest.mark.parametrize("share", [1.0, 0.3, 0.05, -0.01, -0.2])
def test_the_least_time_within_the_memory_of_all_plans(share: float, by_ilp: bool) -> None:
    """Below the least that is kept without recomputation too."""
    own = timed(WORK)
    least, most = extremes(WORK)
    limit = int(least + share * (most - least))
    name = "planner.sharding.baselines.optimum.find_optimum"
    peak = patch("planner.sharding.baselines.checkpointing.predicted_peak_bytes", lambda *_: 0)
    with patch(name, side_effect=TooLarge("no")) if by_ilp else nullcontext(), peak:
        found = least_time(own, "bf16", limit, OPTIONS, budget())
    best_s = best_time_s(own, limit)
    if best_s is None:
        assert found.choice is None
        assert share < -0.1
        return
    assert found.choice is not None
    assert found.is_proven
    sums = totals(own.instance(1, None), found.choice)
    assert sums.memory_bytes - found.saved_bytes <= limit
    spent = times.step_time(own, found.choice, "bf16")
    found_s = spent.compute_s + spent.communication_s + found.repeated_s
    # The ILP counts whole nanoseconds.
    assert found_s == pytest.approx(best_s, rel=1e-4, abs=2e-8)
    assert (found.saved_bytes > 0) == (found.repeated_s > 0)
    assert found.saved_bytes > 0 or limit >= least


def test_with_memory_enough_nothing_is_computed_again() -> None:
    found = least_time(timed(WORK), "bf16", None, OPTIONS, budget())
    assert found.saved_bytes == 0
    assert found.repeated_s == 0


def needed_and_spent(found: Baseline) -> tuple[int, float]:
    """Kept or held for a moment, and the time of a step without the optimizer's part."""
    own, choice = found.formulation, found.choice
    assert choice is not None
    kept = totals(own.instance(1, None), choice).memory_bytes
    spent = times.step_time(own, choice, "bf16")
    needed = max(kept, predicted_peak_bytes(own, choice)) - found.saved_bytes
    return needed, spent.compute_s + spent.communication_s + found.repeated_s


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(most_operators=4), st.sampled_from([2, 4]), st.randoms(use_true_random=False))
def test_where_a_plan_fits_one_with_checkpointing_fits_that_is_no_slower(
    graph: Body, devices: int, numbers: random.Random
) -> None:
    own = timed({"graph": graph, "devices": devices})
    plan = [numbers.randrange(len(strategies)) for strategies in own.strategies]
    known = Baseline("plan", "", "", own, tuple(plan))
    limit, known_s = needed_and_spent(known)
    found = least_time(own, "bf16", limit, OPTIONS, budget(), plan)
    needed, spent_s = needed_and_spent(found)
    assert needed <= limit
    # The ILP counts whole nanoseconds, of each operator and each edge.
    assert spent_s <= known_s + 2e-8
    free = least_time(own, "bf16", None, OPTIONS, budget())
    assert free.note is None
    assert needed_and_spent(free)[1] <= spent_s + 2e-8


def test_where_no_plans_peak_fits_the_row_says_so() -> None:
    own = timed(WORK)
    kept = min(sums.memory_bytes for _, sums in every_plan(own.instance(1, None)))
    with patch(
        "planner.sharding.baselines.checkpointing.predicted_peak_bytes", lambda *_: 100 * kept
    ):
        found = least_time(own, "bf16", 2 * kept, OPTIONS, budget(), [0] * len(own.strategies))
    assert found.note is not None
    assert "no plan was found whose peak does" in found.note


def test_an_unknown_activation_does_not_change_megatrons_split() -> None:
    graph = two_layers()
    graph["operators"][1]["kind"] = "swirl"
    own = named(megatron(formulation({"graph": graph, "devices": 4})))
    assert own == {"x": ROW, "up": COLUMN, "act": COLUMN, "down": ROW}
