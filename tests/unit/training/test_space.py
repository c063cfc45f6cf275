"""The space: what divides what, and how many configurations there are."""

from __future__ import annotations

from collections import Counter

import pytest

from planner.cost.degrees import Degrees
from planner.cost.training import Recomputation
from planner.training.space import (
    BATCH,
    OPERATIONS,
    Point,
    count_configurations,
    points,
    savers,
)
from planner.training.trainings import document_of, training_of, with_savers
from tests.unit.training.posted import body, spec_of

NONE, SELECTIVE, FULL = Recomputation


def points_of(**changes: object) -> tuple[list[Point], Counter[str]]:
    left_out: Counter[str] = Counter()
    return list(points(spec_of(body(**changes)), left_out)), left_out


def test_all_degrees_make_all_gpus() -> None:
    found, _ = points_of()
    assert {point.degrees.gpus for point in found} == {8}
    assert {point.degrees.tensor for point in found} == {1, 2, 4}
    assert {point.degrees.pipeline for point in found} == {1, 2, 4, 8}
    assert {point.degrees.context for point in found} == {1}
    for point in found:
        samples = point.micro_batch_size * point.micro_batches * point.degrees.data
        assert samples == 32


def test_the_count_is_that_of_what_is_enumerated() -> None:
    spec = spec_of(body())
    made = {
        (point.degrees, point.micro_batch_size, chunks, saver)
        for point in points(spec, Counter())
        for chunks in point.interleavings
        for saver in savers(spec, point.degrees)
    }
    assert count_configurations(spec).configurations == len(made)


@pytest.mark.parametrize(
    ("sequence", "degrees"), [(4096, {1}), (8192, {1, 2}), (16384, {1, 2, 4}), (16382, {1})]
)
def test_context_ranks_keep_enough_of_a_sequence(sequence: int, degrees: set[int]) -> None:
    found, _ = points_of(model={"sequence": sequence})
    assert {point.degrees.context for point in found} == degrees


def test_listed_degrees_are_taken_as_they_are() -> None:
    found, _ = points_of(search={"context_parallel": [2, 4], "data_parallel": [1, 2]})
    assert {point.degrees.context for point in found} == {2, 4}
    assert {point.degrees.data for point in found} == {1, 2}


def test_experts_are_shared_by_divisors() -> None:
    found, _ = points_of(model={"experts": 6, "experts_per_token": 2})
    assert {p.degrees.expert for p in found if p.degrees.replicas == 8} == {1, 2}
    assert {p.degrees.expert for p in found if p.degrees.replicas == 1} == {1}


def test_interleaving_needs_rounds_of_micro_batches_and_layers() -> None:
    found, _ = points_of(model={"layers": 12}, training={"global_batch_size": 8})
    of = {(p.degrees.pipeline, p.micro_batches): p.interleavings for p in found}
    assert of[1, 1] == (1,)
    assert of[2, 2] == (1, 2, 3, 4, 6)
    assert of[4, 4] == (1, 2, 3)
    assert of[4, 2] == (1,)
    assert of[8, 8] == (1,)


def test_interleaving_as_listed() -> None:
    found, _ = points_of(
        model={"layers": 15}, training={"pipeline_parallel": 2}, search={"interleaving": [5, 7]}
    )
    assert {point.interleavings for point in found} == {(5, 7), (5,), (7,)} & {
        point.interleavings for point in found
    }
    assert all(point.micro_batches % 2 == 0 for point in found)


def test_given_layers_say_how_many_stages_there_are() -> None:
    found, _ = points_of(training={"layers_per_stage": [1, 2, 3, 2]})
    stages = {(p.degrees.pipeline, chunks) for p in found for chunks in p.interleavings}
    assert stages == {(2, 2), (4, 1)}


def test_savers_that_do_nothing_are_left_out() -> None:
    spec = spec_of(body())
    alone, piped = Degrees(1, 4, 2), Degrees(2, 4, 1)
    assert {stage for stage, _, _ in savers(spec, alone)} == {0, 1, 2, 3}
    assert {offload for _, _, offload in savers(spec, alone)} == {False}
    assert {stage for stage, _, _ in savers(spec, piped)} == {0}
    assert {offload for _, _, offload in savers(spec, piped)} == {False, True}
    assert {how for _, how, _ in savers(spec, piped)} == {NONE, SELECTIVE, FULL}
    flash = spec_of(body(training={"flash_attention": True}))
    assert {how for _, how, _ in savers(flash, piped)} == {NONE, FULL}
    only = spec_of(body(training={"flash_attention": True, "recomputation": "selective"}))
    assert {how for _, how, _ in savers(only, piped)} == {SELECTIVE}


def test_what_cannot_be_is_counted() -> None:
    _, left_out = points_of(training={"global_batch_size": 12})
    assert left_out[BATCH] == 1
    _, left_out = points_of(training={"global_batch_size": 2_000_000, "tensor_parallel": 1})
    assert left_out[OPERATIONS] > 10


def test_a_point_becomes_a_training_and_a_document() -> None:
    spec = spec_of(body(training={"precision": "fp32", "optimizer": "sgd"}))
    point = Point(Degrees(2, 4, 1), 4, 8, (1, 2))
    training = training_of(spec, point, None)
    assert (training.zero_stage, training.recomputation, training.offload) == (0, NONE, False)
    assert training.sequence_parallel
    full = with_savers(training, spec, 2, (1, FULL, True))
    assert (full.interleaving, full.zero_stage, full.offload) == (2, 1, True)
    assert not full.split_backward
    assert document_of(spec, full) == {
        "precision": "fp32",
        "optimizer": "sgd",
        "flash_attention": False,
        "global_batch_size": 32,
        "micro_batch_size": 4,
        "tensor_parallel": 4,
        "pipeline_parallel": 2,
        "data_parallel": 1,
        "interleaving": 2,
        "zero_stage": 1,
        "recomputation": "full",
        "offload": True,
    }
