"""What frameworks and cluster schedulers are told of a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.export.run_shape import MEASURED, NOT_KEPT, Arrangement, RunShape, run_shape
from tests.unit.export.answers import MODEL, TRAINING, measured, pipeline, training


def placed(devices: tuple[int, ...]) -> RunShape:
    return RunShape(4, devices, None, None, None)


def test_a_schedule_of_a_model_says_how_it_runs() -> None:
    shape = run_shape(pipeline())
    assert (shape.pipeline_parallel, shape.micro_batches, shape.interleaving) == (2, 4, 1)
    assert shape.has_split_backward
    assert not shape.has_offloads
    assert shape.undescribed is None
    run = shape.run
    assert run is not None
    assert (run.gpus, run.nodes, run.gpus_per_node, run.partial_node) == (8, 2, 4, None)
    assert run.layers_per_stage == (4, 4)
    assert run.model.hidden_size == MODEL["hidden_size"]
    assert run.training.global_batch_size == 8


def test_layers_that_nobody_gave_are_those_of_the_placement() -> None:
    open_layers = {name: value for name, value in TRAINING.items() if name != "layers_per_stage"}
    for shape, stages in (("one_chunk", 2), ("v_shape", 4)):
        run = run_shape(pipeline({**open_layers, "interleaving": None}, shape=shape)).run
        assert run is not None
        assert len(run.layers_per_stage) == stages
        assert sum(run.layers_per_stage) == MODEL["layers"]


def test_a_training_plan_says_what_its_best_plan_is() -> None:
    for solved in (True, False):
        shape = run_shape(training(solved=solved))
        assert (shape.pipeline_parallel, shape.micro_batches) == (2, 4)
        assert (shape.schedule is not None) == solved
        assert shape.run is not None
        assert shape.run.training.degrees.tensor == 2


def test_how_much_is_offloaded_says_the_schedule_or_the_plan() -> None:
    # Three of the first stage's four micro-batches.
    shape = run_shape(pipeline(offloads=3))
    assert shape.has_offloads
    assert shape.offload_share == 0.75
    unsolved = run_shape(training(solved=False, offload_share=0.4))
    assert unsolved.offload_share == 0.4
    assert not run_shape(training(solved=True, offload_share=0.4)).has_offloads


def test_a_measured_problem_says_no_model_and_what_to_post_instead() -> None:
    shape = run_shape(measured())
    assert (shape.pipeline_parallel, shape.micro_batches) == (2, 4)
    assert shape.run is None
    assert shape.undescribed == MEASURED


def test_without_its_request_a_schedule_says_no_model() -> None:
    shape = run_shape(replace(pipeline(), request=None))
    assert (shape.run, shape.undescribed) == (None, NOT_KEPT)


def test_a_request_that_is_not_read_any_more_is_explained() -> None:
    shape = run_shape(pipeline(model="No-such-model"))
    assert shape.run is None
    assert "No-such-model" in str(shape.undescribed)


def test_part_of_a_node_is_said() -> None:
    six: dict[str, Any] = {**TRAINING, "data_parallel": 3, "tensor_parallel": 1}
    run = run_shape(pipeline(six)).run
    assert run is not None
    assert (run.gpus, run.nodes) == (6, 2)
    assert "6 GPUs" in str(run.partial_node)
    small: dict[str, Any] = {**TRAINING, "data_parallel": 1, "tensor_parallel": 1}
    alone = run_shape(pipeline(small)).run
    assert alone is not None
    assert (alone.nodes, alone.gpus_per_node, alone.partial_node) == (1, 2, None)


@pytest.mark.parametrize(
    ("devices", "arrangement", "interleaving"),
    [
        ((0, 1), Arrangement.ONE_CHUNK, 1),
        ((0,), Arrangement.ONE_CHUNK, 1),
        ((0, 1, 0, 1), Arrangement.LOOPED, 2),
        ((0, 1, 1, 0), Arrangement.V_SHAPE, 2),
        ((0, 0, 1, 1), Arrangement.CONTIGUOUS, 2),
        ((0, 0, 1), Arrangement.CONTIGUOUS, None),
        ((1, 0), Arrangement.OTHER, 1),
        ((0, 1, 0), Arrangement.OTHER, None),
    ],
)
def test_how_stages_lie(
    devices: tuple[int, ...], arrangement: Arrangement, interleaving: int | None
) -> None:
    shape = placed(devices)
    assert (shape.arrangement, shape.interleaving) == (arrangement, interleaving)
