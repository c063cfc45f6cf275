"""Reasons: what they say is what the configurations come to."""

from __future__ import annotations

from planner.training.dropped import dropped_documents
from planner.training.reasons import breakdown, reasons
from planner.training.search import search
from tests.unit.training.posted import body, evaluator_of, search_for, spec_of


def test_the_first_is_said_to_be_it_and_others_to_be_slower() -> None:
    spec, found = search_for(body())
    evaluator = evaluator_of(spec)
    first, second = found.ranked[:2]
    assert reasons(spec, evaluator, first, first)[0].startswith("The shortest predicted step")
    said = reasons(spec, evaluator, second, first)[0]
    over_ms = (second.total_ns - first.total_ns) / 1e6
    assert said.startswith((f"{over_ms:.1f} ms", "As fast as the first"))


def test_the_parts_are_the_whole_step() -> None:
    _, found = search_for(body())
    for plan in found.ranked:
        assert sum(breakdown(plan).values()) == plan.total_ns


def test_savers_are_justified_by_what_would_be_without_them() -> None:
    request = body(
        gpu={"memory_bytes": 9 * 2**28},
        training={"tensor_parallel": 1, "pipeline_parallel": 1, "micro_batch_size": 4},
    )
    spec = spec_of(request)
    evaluator = evaluator_of(spec)
    plan = search(spec, evaluator).ranked[0]
    said = " ".join(reasons(spec, evaluator, plan, plan))
    assert f"ZeRO stage {plan.training.zero_stage}: with" in said
    assert f"{plan.training.recomputation.value} recomputation: with" in said
    assert "would need" in said
    assert "Rank 0 is fullest" in said


def test_offloads_are_explained() -> None:
    request = body(
        gpu={"memory_bytes": 3 * 2**29},
        training={"recomputation": "none", "zero_stage": 0},
        search={"tensor_parallel": [1], "pipeline_parallel": [8], "top": 20},
    )
    spec, found = search_for(request)
    plan = next(own for own in found.ranked if own.offload)
    said = " ".join(reasons(spec, evaluator_of(spec), plan, plan))
    assert "offload: with no offload rank" in said
    assert "of a rank's activations go to host memory" in said


def test_data_parallelism_alone_is_always_accounted_for() -> None:
    spec, found = search_for(body(gpu={"memory_bytes": 3 * 2**29}))
    evaluator = evaluator_of(spec)
    listed = [plan for plan in found.ranked if plan.training.degrees.pipeline > 1]
    documents = dropped_documents(spec, evaluator, found.dropped, listed)
    (alone,) = (own for own in documents if own["rule"] == "data_parallelism")
    assert "data 8" in alone["configuration"]
    assert "it fits; predicted step" in alone["detail"]
    # Where it is among the plans there is nothing to say.
    only = [plan for plan in found.ranked if plan.training.degrees.data == 8]
    if only:
        documents = dropped_documents(spec, evaluator, found.dropped, only)
        assert not [own for own in documents if own["rule"] == "data_parallelism"]
