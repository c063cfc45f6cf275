"""Configurations worked out: the same figures as by way of the whole pipeline problem."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.cost.build import CostModel
from planner.cost.footprint import footprints
from planner.cost.placement import interleaved
from planner.cost.spec import read_cost_model
from planner.cost.step import step_time
from planner.training.evaluate import Plan, Shortage
from planner.training.trainings import document_of
from tests.unit.training.posted import body, fitting, outcomes, search_for, spec_of

MODERATE = body(
    gpu={"memory_bytes": 3 * 2**29},
    training={"global_batch_size": 16},
    search={"micro_batch_size": [1, 4], "zero_stage": [0, 1, 3], "tensor_parallel": [1, 4]},
)


def test_every_plan_is_what_its_document_resolves_to() -> None:
    spec = spec_of(MODERATE)
    plans = fitting(spec)
    assert any(plan.offload for plan in plans)
    for plan in plans:
        costs = read_cost_model(
            MODERATE["model"], MODERATE["cluster"], document_of(spec, plan.training)
        )
        chunks = plan.training.interleaving or 1
        (problem,) = (candidate.problem for candidate in costs.candidates()[:1])
        assert problem.micro_batches == plan.training.micro_batches
        assert step_time(problem, chunks, plan.training.micro_batches) == plan.step
        assert footprints(costs, chunks, plan.training.layers_per_stage or ()) == plan.ranks


def test_layers_are_divided_as_by_the_cost_model() -> None:
    spec = spec_of(MODERATE)
    for outcome in outcomes(spec):
        training = outcome.training
        chunks = training.interleaving or 1
        open_layers = replace(training, layers_per_stage=None)
        costs = CostModel.of(spec.model, spec.cluster, open_layers)
        placement = interleaved(training.degrees.pipeline, chunks)
        assert costs.layers_per_stage(placement) == training.layers_per_stage


def test_given_layers_per_stage_are_kept() -> None:
    layers = [1, 3, 3, 1]
    request = body(training={"layers_per_stage": layers, "tensor_parallel": 2, "data_parallel": 1})
    spec, found = search_for(request)
    assert spec.choices.pipeline_parallel is None
    for plan in found.ranked:
        assert plan.training.layers_per_stage == tuple(layers)
        assert plan.training.degrees.pipeline * (plan.training.interleaving or 1) == 4


def test_a_shortage_says_how_much_is_missing() -> None:
    spec = spec_of(body(gpu={"memory_bytes": 2**30}, training={"offload": False}))
    found = [outcome for outcome in outcomes(spec) if isinstance(outcome, Shortage)]
    for shortage in found:
        assert shortage.peak_bytes > shortage.fullest.limit_bytes
        assert shortage.peak_bytes == shortage.fullest.total_bytes
    assert {shortage.is_of_states for shortage in found} == {True, False}


def test_plans_of_equal_time_are_in_a_fixed_order() -> None:
    plans = fitting(spec_of(MODERATE))
    keys = [plan.key for plan in plans]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("offload", [False, True])
def test_offloads_only_save_memory(offload: bool) -> None:
    spec = spec_of(MODERATE | {"training": MODERATE["training"] | {"offload": offload}})
    for plan in (own for own in outcomes(spec) if isinstance(own, Plan)):
        assert all(
            size <= rank.total_bytes for rank, size in zip(plan.ranks, plan.rank_bytes, strict=True)
        )
        assert (plan.offload is not None) <= offload
