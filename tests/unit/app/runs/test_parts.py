"""Changes of a run's body, names of its jobs, and what diagnoses are given of its telemetry."""

from __future__ import annotations

from typing import Any

from app.services.runs.advice import iterations_of, shape_of, versions_by_stage
from app.services.runs.making import merged
from app.services.runs.naming import job_name
from planner.following.telemetry import Sample

DESCRIBED: dict[str, Any] = {
    "model": "GPT-1.5B",
    "cluster": "4xA100-40GB",
    "training": {"micro_batch_size": 2, "micro_batches": 8, "pipeline_parallel": 4},
    "follow": {"window": 50, "min_gain": 0.02},
}


def test_parts_are_replaced_as_a_whole_and_settings_one_by_one() -> None:
    changed = merged(DESCRIBED, {"cluster": "8xA100-40GB", "follow": {"min_gain": 0.1}})
    assert changed == {
        **DESCRIBED, "cluster": "8xA100-40GB", "follow": {"window": 50, "min_gain": 0.1},
    }  # fmt: skip
    measured = merged(DESCRIBED, {"problem": {"micro_batches": 1}})
    assert measured.keys() == {"problem", "follow"}
    assert "problem" not in merged(measured, {"model": "GPT-2", "cluster": "8xA100-40GB"})


def test_names_of_jobs_end_with_the_iteration_however_long_the_runs_is() -> None:
    assert job_name("night", 40) == "night: iteration 40"
    assert job_name(None, None) == "run"
    name = job_name("x" * 200, 123456)
    assert len(name) == 200
    assert name.endswith("x: iteration 123456")


def test_versions_are_those_of_one_iteration() -> None:
    samples = [
        Sample(7, 0, {"plan_version": 2}),
        Sample(6, 0, {"plan_version": 1}),
        Sample(6, 1, {"plan_version": 1}),
        Sample(5, 0, {"plan_version": 1}),
        Sample(5, 1, {}),
    ]
    # Stage 1 has not reported iteration 7 yet: that is no disagreement.
    assert versions_by_stage(samples) == (1, 1)
    assert versions_by_stage([*samples, Sample(7, 1, {"plan_version": 1})]) == (2, 1)
    assert versions_by_stage(samples[:2]) == ()


def test_stages_without_times_are_left_out_of_a_diagnosis() -> None:
    times = {"forward_ns": 3, "backward_input_ns": 4}
    samples = [
        Sample(2, 0, {**times, "iteration_ns": 9, "gpu_utilisation": 0.5}),
        Sample(1, 0, times),
        Sample(2, 1, {"peak_memory_bytes": 1}),
    ]
    first, second = iterations_of(samples)
    assert (first.iteration, second.iteration) == (1, 2)
    assert [stage.stage for stage in second.stages] == [0]
    assert second.stages[0].compute_ns == 7
    assert second.stages[0].gpu_utilisation == 0.5
    assert second.iteration_ns == 9


def test_layers_are_known_of_what_was_described() -> None:
    layers, elasticity = shape_of(DESCRIBED, 4)
    assert elasticity.micro_batch_size == 2
    assert layers is not None
    assert len(layers.per_stage) == 4
    assert layers.static_bytes > 0
    assert shape_of(DESCRIBED, 5)[0] is None
    assert shape_of({"problem": {}}, 4)[0] is None
