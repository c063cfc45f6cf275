"""Verification: a plan passes, and a plan with any figure changed does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.training.evaluate import Plan
from planner.training.spec import TrainingSpec
from planner.training.verify import MOST_OPERATIONS, verify_plan
from tests.unit.training.posted import body, search_for

REQUEST = body(
    gpu={"memory_bytes": 2 * 2**30},
    training={"tensor_parallel": 1, "pipeline_parallel": 4},
    search={"micro_batch_size": [1, 2]},
)


@pytest.fixture(scope="module")
def found() -> tuple[TrainingSpec, list[Plan]]:
    spec, plans = search_for(REQUEST)
    return spec, plans.ranked


def test_plans_pass_and_take_about_what_is_predicted(
    found: tuple[TrainingSpec, list[Plan]],
) -> None:
    spec, plans = found
    names = set()
    for plan in plans:
        verified = verify_plan(spec, plan)
        assert not verified.violations
        assert verified.carried_out is not None
        assert verified.micro_batches == plan.training.micro_batches
        assert verified.best_known_ns == verified.carried_out.makespan_ns
        assert verified.best_known_ns == pytest.approx(plan.total_ns, rel=0.05)
        assert verified.best_known_ns >= plan.step.bound_ns
        names.add(verified.carried_out.name)
    assert {"1F1B", "interleaved 1F1B"} <= names


def test_plans_with_offloads_pass() -> None:
    spec, found = search_for(
        body(
            gpu={"memory_bytes": 3 * 2**29, "pcie_bytes_per_s": 1e11},
            training={"recomputation": "none", "offload": True, "zero_stage": 0},
            search={"pipeline_parallel": [8], "top": 20},
        )
    )
    plans = [plan for plan in found.ranked if plan.offload]
    assert plans
    for plan in plans:
        verified = verify_plan(spec, plan)
        assert not verified.violations
        assert verified.carried_out is not None
        assert verified.best_known_ns == pytest.approx(plan.total_ns, rel=0.1)


def test_of_long_steps_some_micro_batches_are_carried_out() -> None:
    spec, found = search_for(
        body(
            training={
                "global_batch_size": 4096,
                "pipeline_parallel": 8,
                "micro_batch_size": 1,
                "interleaving": 1,
            }
        )
    )
    verified = verify_plan(spec, found.ranked[0])
    assert 3 * 8 * verified.micro_batches <= MOST_OPERATIONS
    assert verified.micro_batches % 8 == 0
    assert verified.best_known_ns == pytest.approx(found.ranked[0].total_ns, rel=0.01)


def changed(plan: Plan, what: str) -> Plan:
    training, rank = plan.training, plan.ranks[0]
    layers = training.layers_per_stage or ()
    other_layers = (layers[0] + 1, *layers[1:-1], layers[-1] - 1)
    changes: dict[str, Any] = {
        "layers": {"training": replace(training, layers_per_stage=other_layers)},
        "step": {"step": replace(plan.step, bubble_ns=0)},
        "memory": {"ranks": (replace(rank, activations_bytes=0), *plan.ranks[1:])},
        "zero": {"training": replace(training, zero_stage=3)},
        "recomputation": {
            "training": replace(training, recomputation=list(type(training.recomputation))[-1])
        },
    }
    return replace(plan, **changes[what])


@pytest.mark.parametrize("what", ["layers", "step", "memory", "zero", "recomputation"])
def test_a_changed_plan_does_not_pass(found: tuple[TrainingSpec, list[Plan]], what: str) -> None:
    spec, plans = found
    # Two replicas, so that ZeRO makes a difference, and nothing recomputed.
    plan = next(
        own
        for own in plans
        if own.training.recomputation.value == "none" and own.training.degrees.data == 2
    )
    assert verify_plan(spec, changed(plan, what)).violations


def test_a_plan_for_other_gpus_or_another_batch_does_not_pass(
    found: tuple[TrainingSpec, list[Plan]],
) -> None:
    spec, plans = found
    assert "degrees" in verify_plan(replace(spec, devices=(4,)), plans[0]).violations[0]
    tight = replace(spec, cluster=replace(spec.cluster, memory_bytes=plans[0].peak_bytes - 1))
    assert not verify_plan(spec, plans[0]).violations
    assert tight.cluster_fields == spec.cluster_fields


def test_told_to_stop_it_checks_all_but_the_schedule(
    found: tuple[TrainingSpec, list[Plan]],
) -> None:
    spec, plans = found
    verified = verify_plan(spec, plans[0], lambda: True)
    assert verified.carried_out is None
    assert not verified.violations
    assert verified.best_known_ns == plans[0].total_ns
