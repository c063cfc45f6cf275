"""The pruned search finds what working out every configuration finds."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.sizes import GIB
from planner.training.evaluate import Plan
from planner.training.pareto import SLOWEST
from planner.training.search import ACTIVATIONS, FITS, MILDER, SLOWER, STATES, search
from planner.training.space import points
from planner.training.spec import TrainingSpec
from tests.unit.training.posted import (
    body,
    evaluator_of,
    fitting,
    ranking,
    search_for,
    spec_of,
)

MEMORIES = st.sampled_from([0.6, 0.9, 1.2, 1.6, 2.2, 3, 5, 9])


@st.composite
def requests(draw: Any) -> dict[str, Any]:
    """Small clusters and models on which some configurations fit and some do not."""
    gpu = {
        "memory_bytes": int(draw(MEMORIES) * GIB),
        "pcie_bytes_per_s": draw(st.sampled_from([2e9, 3e10, 3e12])),
    }
    cluster: dict[str, Any] = {
        "nodes": draw(st.sampled_from([1, 2])),
        "gpus_per_node": 2,
        "host_link_duplex": draw(st.sampled_from(["full", "half"])),
    }
    if draw(st.booleans()):
        cluster["host_memory_bytes"] = draw(st.sampled_from([10**8, 10**9, 10**11]))
    training: dict[str, Any] = {
        "global_batch_size": draw(st.sampled_from([4, 6, 8])),
        "flash_attention": draw(st.booleans()),
    }
    if draw(st.booleans()):
        training["offload"] = draw(st.booleans())
    model = {"layers": draw(st.sampled_from([3, 4, 8])), "sequence": 2048}
    if draw(st.booleans()):
        model |= {"experts": 4, "experts_per_token": 2}
    search = {"top": draw(st.integers(1, 6)), "pareto": draw(st.booleans())}
    return body(gpu=gpu, model=model, cluster=cluster, training=training, search=search)


def same_front(spec: TrainingSpec, front: list[Plan]) -> None:
    plans = fitting(spec)
    fastest = {
        gpus: min(p.total_ns for p in plans if p.gpus == gpus) for gpus in {p.gpus for p in plans}
    }
    figures = {
        (p.gpus, p.total_ns, -(-p.peak_bytes // GIB))
        for p in plans
        if p.total_ns <= SLOWEST * fastest[p.gpus]
    }
    expected = {
        own
        for own in figures
        if not any(
            other != own and all(o <= m for o, m in zip(other, own, strict=True))
            for other in figures
        )
    }
    assert {(p.gpus, p.total_ns, -(-p.peak_bytes // GIB)) for p in front} == expected
    assert len(front) == len(expected)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(requests())
def test_the_top_and_the_front_are_those_of_brute_force(request: dict[str, Any]) -> None:
    spec, found = search_for(request)
    expected = ranking(spec)[: spec.top]
    assert [plan.key for plan in found.ranked[: spec.top]] == [plan.key for plan in expected]
    assert [p.training for p in found.ranked[: spec.top]] == [p.training for p in expected]
    assert found.complete
    assert found.enumerated == found.outcomes.total()
    if spec.pareto:
        same_front(spec, found.front)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(requests())
def test_no_plan_breaks_divisibility_or_memory(request: dict[str, Any]) -> None:
    spec, found = search_for(request)
    for plan in found.ranked:
        training, degrees = plan.training, plan.training.degrees
        assert degrees.gpus == plan.gpus
        assert plan.gpus in spec.devices
        assert spec.cluster.gpus_per_node % degrees.tensor == 0
        assert spec.model.heads % degrees.tensor == 0
        assert spec.model.experts % degrees.expert == 0
        assert degrees.replicas % degrees.expert == 0
        samples = training.micro_batch_size * training.micro_batches * degrees.data
        assert samples == spec.global_batch_size
        chunks = training.interleaving or 1
        assert chunks == 1 or training.micro_batches % degrees.pipeline == 0
        assert training.layers_per_stage is not None
        assert len(training.layers_per_stage) == degrees.pipeline * chunks
        assert sum(training.layers_per_stage) == spec.model.layers
        assert min(training.layers_per_stage) >= 1
        assert plan.peak_bytes <= spec.cluster.memory_bytes
        assert plan.headroom_bytes >= 0
        assert plan.total_ns >= plan.step.bound_ns
        assert found.least_ns is not None
        assert found.least_ns <= plan.step.bound_ns


def test_each_rule_drops_something() -> None:
    _, found = search_for(body(gpu={"memory_bytes": int(1.2 * GIB)}, search={"top": 2}))
    assert {FITS, STATES, ACTIVATIONS, SLOWER, MILDER} == set(found.outcomes)
    assert {dropped.rule for dropped in found.dropped} == {STATES, ACTIVATIONS, SLOWER, MILDER}
    assert found.worked_out < found.enumerated / 10


def test_told_to_stop_it_says_what_was_not_reached() -> None:
    spec = spec_of(body())
    # It is asked once for each point, then for each configuration.
    answers = iter([False] * (len(list(points(spec, Counter()))) + 3))
    found = search(spec, evaluator_of(spec), should_stop=lambda: next(answers, True))
    assert not found.complete
    assert found.outcomes["not_reached"] == found.enumerated - 3
    none = search(spec, evaluator_of(spec), should_stop=lambda: True)
    assert none.outcomes["not_reached"] == none.enumerated == found.enumerated


def test_the_best_so_far_is_told() -> None:
    spec = spec_of(body())
    told: list[Plan] = []
    found = search(spec, evaluator_of(spec), on_best=told.append)
    assert told[-1] is found.ranked[0]
    assert [plan.key for plan in told] == sorted((plan.key for plan in told), reverse=True)


def test_the_load_of_experts_slows_them_down() -> None:
    spec = spec_of(
        body(
            model={"experts": 4, "experts_per_token": 2},
            training={"data_parallel": 8, "expert_parallel": 4},
        )
    )
    even = search(spec, evaluator_of(spec)).ranked[0]
    loaded = search(spec, evaluator_of(spec), {(4, 1): 2.0}).ranked[0]
    assert loaded.training.expert_load == 2.0
    assert loaded.total_ns > even.total_ns


@pytest.mark.parametrize("pareto", [False, True])
def test_devices_are_searched_together(pareto: bool) -> None:
    spec, found = search_for(body(search={"devices": [2, 8], "pareto": pareto}))
    assert spec.devices == (8, 2)
    assert found.ranked[0].gpus == 8
    if pareto:
        assert {plan.gpus for plan in found.front} == {2, 8}
