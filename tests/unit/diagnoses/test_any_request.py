"""Whatever is asked: there is an answer of the form that the API promises, in bounded time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.schemas.diagnoses import DiagnosisView
from planner.diagnoses.context import LARGEST_OPERATIONS, MOST_ORDERED
from planner.diagnoses.diagnose import diagnose
from planner.diagnoses.names import Symptom
from planner.diagnoses.request import read_request
from planner.errors import OrderError
from planner.pipeline.documents import read_problem
from tests.problems import problem_documents
from tests.random_schedules import random_schedule
from tests.unit.diagnoses.cases import (
    Body,
    answer,
    offloading,
    one_at_a_time,
    problem,
    schedule_of,
    telemetry,
)

times = st.integers(0, 20) | st.fixed_dictionaries(
    {}, optional={name: st.integers(0, 20) for name in ("mean", "median", "p95")}
).filter(bool)
shares = st.floats(0, 1)
OPTIONAL = {
    "forward_ns": times,
    "backward_input_ns": times,
    "backward_weight_ns": times,
    "offload_ns": times,
    "reload_ns": times,
    "peak_memory_bytes": st.integers(0, 30),
    "memory_limit_bytes": st.integers(0, 30),
    "link_busy_share": shares,
    "gpu_utilisation": shares,
}
MODELS: list[Body] = [
    {},
    {
        "model": "GPT-2",
        "cluster": "2xA100-40GB",
        "training": {"micro_batches": 2, "pipeline_parallel": 2},
    },
    {"model": "Llama-3-70B", "cluster": "2xA100-40GB", "training": {"micro_batches": 2}},
]


@st.composite
def samples(draw: st.DrawFn, stages: int) -> list[Body]:
    """Telemetry of some of so many stages, whatever it says."""
    rows = []
    for _ in range(draw(st.integers(0, 12))):
        numbers = draw(st.sets(st.integers(0, stages - 1), min_size=1))
        row: Body = {
            "iteration": draw(st.integers(0, 30)),
            "stages": [
                {"stage": number, **draw(st.fixed_dictionaries({}, optional=OPTIONAL))}
                for number in sorted(numbers)
            ],
        }
        if draw(st.booleans()):
            row["iteration_ns"] = draw(st.integers(0, 1000))
        rows.append(row)
    return rows


@st.composite
def bodies(draw: st.DrawFn) -> Body:
    """Bodies that are valid, most of them at odds with themselves."""
    body: Body = {"symptoms": draw(st.lists(st.sampled_from([*Symptom]), min_size=1))}
    stages = 4
    if draw(st.booleans()):
        document = draw(problem_documents(max_devices=3, max_micro_batches=4))
        body["problem"], stages = document, len(document["stages"])
        if draw(st.booleans()):
            body["schedule"] = draw(schedules(document))
    body |= draw(st.sampled_from(MODELS if "problem" in body else MODELS[:1]))
    body["telemetry"] = draw(samples(stages))
    if draw(st.booleans()):
        cell = st.builds(
            "{}{}{}".format, st.integers(0, 3), st.sampled_from("FBIWOR"), st.integers(0, 3)
        )
        body["orders"] = draw(st.lists(st.lists(cell, max_size=6), min_size=1, max_size=3))
    body["plan_versions"] = draw(st.lists(st.integers(0, 2), max_size=3))
    body["throughput"] = draw(
        st.lists(
            st.fixed_dictionaries(
                {"devices": st.integers(1, 5), "tokens_per_s": st.floats(1e-3, 1e9)},
                optional={
                    name: st.integers(1, 4)
                    for name in ("nodes", "pipeline_parallel", "micro_batches")
                },
            ),
            max_size=4,
        )
    )
    if draw(st.booleans()):
        body["solve"] = {"spent_s": draw(st.floats(0, 100)), "gap": draw(st.floats(0, 10))}
    return body


@st.composite
def schedules(draw: st.DrawFn, document: Body) -> Body:
    """A valid schedule of the problem if it has any, at times with operations lost or moved."""
    own = read_problem(document)
    try:
        ops: list[Any] = [
            op._asdict() for op in random_schedule(own, Random(draw(st.integers()))).ops
        ]
    except OrderError:
        ops = []
    if draw(st.booleans()):
        ops = ops[: draw(st.integers(0, len(ops)))]
    if ops and draw(st.booleans()):
        ops[draw(st.integers(0, len(ops) - 1))] |= {
            "start_ns": 0,
            "end_ns": draw(st.integers(0, 9)),
        }
    return {"ops": ops or [{"op": "F", "stage": 0, "micro_batch": 0, "start_ns": 0, "end_ns": 1}]}


@settings(max_examples=60, deadline=None, suppress_health_check=[*HealthCheck])
@given(bodies())
def test_any_valid_body_is_answered(body: Body) -> None:
    found = answer_of(body)
    assert {own["symptom"] for own in found["symptoms"]} == set(body["symptoms"])
    places = ["supported", "possible", "ruled_out"]
    keys = [(places.index(own["state"]), -(own["weight"] or 0)) for own in found["causes"]]
    assert keys == sorted(keys)
    for cause in found["causes"]:
        voices = {own["speaks"] for own in cause["evidence"]}
        assert (cause["state"] == "supported") == ("for" in voices)
        assert cause["state"] != "ruled_out" or "neither" not in voices
        assert cause["checks"] or cause["state"] == "ruled_out"
        for way in cause["remedies"]:
            assert bool(way["predicted_effect"]) != bool(way["no_prediction"])


def answer_of(body: Body) -> Body:
    """As it goes over the line."""
    document = diagnose(read_request(body)).to_document()
    DiagnosisView.model_validate(document)
    text = json.dumps(document, allow_nan=False)
    read: Body = json.loads(text)
    return read


def large(micro_batches: int) -> Body:
    document = offloading(stages=8, limit=500)
    return {**document, "micro_batches": micro_batches}


@pytest.mark.parametrize("micro_batches", [40, 150, 4096])
def test_large_problems_are_answered_within_bounds(micro_batches: int) -> None:
    document = large(micro_batches)
    body: Body = {
        "symptoms": [*Symptom],
        "problem": document,
        "telemetry": telemetry(document, 30),
    }
    begun = time.thread_time()
    found = answer_of(body)
    # Generous: what is bounded is about a second.
    assert time.thread_time() - begun < 10
    is_small = read_problem(document).operations <= LARGEST_OPERATIONS
    assert any("operations" in warning for warning in found["warnings"]) != is_small
    bubble = next(own for own in found["causes"] if own["cause"] == "pipeline_bubble")
    # What is just small enough may take all the time that there is.
    assert micro_batches == 150 or (bubble["weight"] is not None) == is_small


def test_what_is_not_timed_says_why() -> None:
    found = answer([Symptom.PLAN_WITH_BAD_THROUGHPUT], problem=large(4096))
    reasons = {
        way["no_prediction"]
        for cause in found["causes"]
        for way in cause["remedies"]
        if way["no_prediction"]
    }
    assert any("too many to time here" in reason for reason in reasons)


def test_the_order_of_very_long_schedules_is_not_looked_at() -> None:
    document = problem(stages=4, micro_batches=4096)
    body: Body = {"problem": document, "schedule": one_at_a_time(document)}
    body["schedule"]["ops"] += body["schedule"]["ops"][: MOST_ORDERED + 1 - 4 * 3 * 4096]
    found = answer([Symptom.SCHEDULE_DEADLOCK], **body)
    assert any("order is not looked at" in warning for warning in found["warnings"])
    cycle = next(own for own in found["causes"] if own["cause"] == "order_cycle")
    assert cycle["state"] == "possible"


def test_a_schedule_that_is_not_whole_is_not_timed() -> None:
    document = problem()
    part = {"ops": schedule_of(document)["ops"][:-1]}
    found = answer([Symptom.PLAN_WITH_BAD_THROUGHPUT], problem=document, schedule=part)
    assert any("every operation" in warning for warning in found["warnings"])


def test_nothing_compiled_is_loaded() -> None:
    program = (
        "import sys\n"
        "from tests.unit.diagnoses.test_any_request import large, answer_of\n"
        "from planner.diagnoses.names import Symptom\n"
        "before = set(sys.modules)\n"
        "answer_of({'symptoms': [*Symptom], 'problem': large(140)})\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new & {'numba', 'torch', 'ortools', 'mip', 'highspy'}))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"
