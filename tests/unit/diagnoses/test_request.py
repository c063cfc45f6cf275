"""Bodies of diagnoses: what is read, and which field a refusal names."""

from __future__ import annotations

from typing import Any

import pytest

from planner.diagnoses.names import Symptom
from planner.diagnoses.request import MOST_CELLS, read_request
from planner.errors import SpecError
from tests.unit.diagnoses.cases import Body, problem, schedule_of, telemetry

MODEL: Body = {
    "model": "GPT-2",
    "cluster": "8xA100-40GB",
    "training": {"micro_batches": 8, "pipeline_parallel": 4},
}
OPERATION = {"op": "F", "stage": 0, "micro_batch": 0, "start_ns": 0, "end_ns": 1}


@pytest.mark.parametrize(
    ("body", "path", "words"),
    [
        ({}, "symptoms", "is missing"),
        ({"solver": {"engine": "cbc"}}, "symptoms", "is missing"),
        ({"symptoms": ["slow"]}, "symptoms.0", "out_of_memory"),
        ({"symptom": ["nan_loss"]}, "symptom", "not a known field"),
        ({"model": "GPT-2"}, "cluster", "is missing"),
        ({"problem": problem(), "model": "GPT-2"}, "cluster", "is missing"),
        ({"problem": {**problem(), "micro_batches": 0}}, "problem.micro_batches", "greater"),
        ({**MODEL, "placement": "v_shape_9"}, "placement", "one_chunk"),
        ({"schedule": {"ops": [OPERATION]}}, "schedule", "no problem"),
        (
            {"problem": problem(), "schedule": {"ops": [{**OPERATION, "stage": 4}]}},
            "schedule.ops.0.stage",
            "no stage 4",
        ),
        (
            {"problem": problem(), "schedule": {"ops": [{**OPERATION, "micro_batch": 8}]}},
            "schedule.ops.0.micro_batch",
            "no micro-batch 8",
        ),
        (
            {"problem": problem(stages=3), "telemetry": telemetry(problem(), 1)},
            "telemetry.0.stages.3.stage",
            "no stage 3",
        ),
        (
            {"telemetry": [{"iteration": 1, "stages": [{"stage": 0}, {"stage": 0}]}]},
            "telemetry.0.stages.1.stage",
            "twice",
        ),
        (
            {"telemetry": [{"iteration": 1, "stages": [{"stage": 0, "forward_ns": {}}]}]},
            "telemetry.0.stages.0.forward_ns",
            "median",
        ),
        (
            {"telemetry": [{"iteration": 1, "stages": [{"stage": 0, "gpu_utilisation": 85}]}]},
            "telemetry.0.stages.0.gpu_utilisation",
            "1",
        ),
        ({"orders": [["0F0", "F1"]]}, "orders.0.1", "2F0"),
        ({"orders": [["0SENDF0"]]}, "orders.0.0", "F, B, I, W, O or R"),
        ({"orders": [["0F0"] * MOST_CELLS, ["0F0"]]}, "orders", "at most"),
        ({"throughput": [{"devices": 0, "tokens_per_s": 1}]}, "throughput.0.devices", "1"),
        ({"solve": {"gap": -1}}, "solve.gap", "0"),
    ],
)
def test_faults_name_the_field_and_the_remedy(body: Body, path: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_request(body)
    assert ".".join(map(str, caught.value.path)) == path
    assert words in f"{caught.value.message} {caught.value.remedy}"
    assert caught.value.remedy


def test_the_placement_is_that_which_has_as_many_stages() -> None:
    whole: dict[str, Any] = {**MODEL, "symptoms": ["nan_loss"]}
    first = read_request(whole).problem
    assert first is not None
    assert len(first.stages) == 4
    eight = [{"iteration": 1, "stages": [{"stage": 7, "link_busy_share": 0.1}]}]
    interleaved = read_request({**whole, "telemetry": eight}).problem
    assert interleaved is not None
    assert len(interleaved.stages) == 8
    named = read_request({**whole, "placement": "v_shape"}).problem
    assert named is not None
    assert [stage.device for stage in named.stages] == [0, 1, 2, 3, 3, 2, 1, 0]


def test_a_posted_problem_may_have_its_model_beside_it() -> None:
    read = read_request({**MODEL, "problem": problem(), "symptoms": ["out_of_memory"]})
    assert read.problem is not None
    assert read.problem.stages[0].forward_ns[0] == 10_000_000
    assert read.described is not None
    assert read.described.costs.model.layers == 12


def test_a_request_that_runs_report_is_read_as_it_is() -> None:
    """With fields that a diagnosis does not use."""
    document = problem()
    rows = telemetry(document, 1, plan_version=3)
    rows[0]["stages"][0] |= {
        "transfer_forward_ns": 5,
        "forward_memory_delta_bytes": 10,
        "forward_ns": {"mean": 7, "p95": 9},
    }
    read = read_request({"telemetry": rows})
    first = read.telemetry[0].stages[0].forward_ns
    assert first == 7
    assert read.plan_versions == (3,)


def test_the_schedule_of_an_answer_is_taken_as_it_is() -> None:
    document = problem()
    plan = {**schedule_of(document), "waits": [], "lower_bound_ns": 1}
    read = read_request({"problem": document, "schedule": plan})
    assert read.ops is not None
    assert len(read.ops) == len(plan["ops"])
    assert read.symptoms == ()


def test_symptoms_that_are_named_twice_count_once() -> None:
    read = read_request({"symptoms": ["nan_loss", "nan_loss"]})
    assert read.symptoms == (Symptom.NAN_LOSS,)
