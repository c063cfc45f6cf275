"""Deadlocks and wrong gradients: what the orders of ranks show."""

from __future__ import annotations

from typing import Any

import pytest

from planner.diagnoses.names import Cause, State, Symptom
from planner.diagnoses.waiting import first_mismatch, wait_cycle
from planner.export.torch_csv.cells import Cell, parsed
from tests.unit.diagnoses.cases import (
    MS,
    Body,
    answer,
    finding,
    for_of,
    offloading,
    problem,
    remedy,
    schedule_of,
    state,
    telemetry,
)

DEADLOCK, NAN = Symptom.SCHEDULE_DEADLOCK, Symptom.NAN_LOSS
GOOD = [["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]]
CROSSED = [["0F0", "0B0", "0F1", "0B1"], ["1F1", "1F0", "1B1", "1B0"]]
"""Rank 1 wants micro-batch 1 first, which rank 0 sends only once micro-batch 0 is back."""


def cells(orders: list[list[str]]) -> list[list[Cell]]:
    read = [[parsed(text) for text in order] for order in orders]
    return [[cell for cell in order if cell is not None] for order in read]


def test_ranks_that_wait_for_each_other_are_named() -> None:
    found = finding(Cause.ORDER_CYCLE, DEADLOCK, orders=CROSSED)
    assert found["state"] == "supported"
    assert "rank 0 waits at 0B0" in found["summary"]
    assert "rank 1 waits at 1F1" in found["summary"]
    assert any("py-spy" in check["command"] for check in found["checks"])
    assert state(Cause.ORDER_CYCLE, DEADLOCK, orders=GOOD) == State.RULED_OUT
    assert state(Cause.ORDER_CYCLE, DEADLOCK) == State.POSSIBLE


def test_a_deadlock_is_seen_without_being_named() -> None:
    shown = answer(orders=CROSSED)["symptoms"]
    assert [(own["symptom"], own["found_in"]) for own in shown] == [(DEADLOCK, "numbers")]
    assert answer(orders=GOOD)["symptoms"] == []


def test_a_cycle_of_one_rank_and_one_of_three() -> None:
    alone = cells([["0B0", "0F0"]])
    assert wait_cycle(alone) == [(0, Cell(0, "B", 0))]
    three = cells(
        [
            ["0F0", "0B0", "0F1", "0B1"],
            ["1F0", "1F1", "1B0", "1B1"],
            ["2F0", "2B0", "2F1", "2B1"],
        ]
    )
    assert wait_cycle(three) == [(0, Cell(0, "B", 0)), (1, Cell(1, "F", 1))]


def test_who_waits_for_what_nobody_runs_is_in_no_cycle() -> None:
    orders = [["0F0", "0B0"], ["1F0"]]
    assert wait_cycle(cells(orders)) == []
    found = finding(Cause.INCOMPLETE_ORDER, DEADLOCK, orders=orders)
    assert found["state"] == "supported"
    assert "1B0" in found["summary"]


def test_orders_alone_that_are_incomplete_are_a_symptom() -> None:
    shown = answer(orders=[["0F0", "0B0"], ["1F0"]])
    [symptom] = shown["symptoms"]
    assert (symptom["symptom"], symptom["found_in"]) == (DEADLOCK, "numbers")
    assert "1B0" in symptom["evidence"][0]["what"]
    assert shown["causes"][0]["cause"] == Cause.INCOMPLETE_ORDER
    assert not any("no symptom" in warning for warning in shown["warnings"])


@pytest.mark.parametrize(
    ("orders", "word"),
    [
        ([["0F0", "0F0", "0B0"]], "twice"),
        ([["0B0", "0F0"]], "before"),
        ([["0F0", "0I0"]], "0W0"),
        ([["0F0", "0B0"], ["0F1"]], "rank 0 already"),
        ([[]], "no rank runs anything"),
    ],
)
def test_orders_that_are_not_complete(orders: list[list[str]], word: str) -> None:
    found = finding(Cause.INCOMPLETE_ORDER, NAN, orders=orders)
    assert found["state"] == "supported"
    assert word in found["summary"].lower() or word in found["summary"]


def test_complete_orders_and_plans_are_no_cause() -> None:
    assert state(Cause.INCOMPLETE_ORDER, NAN, orders=GOOD) == State.RULED_OUT
    assert state(Cause.INCOMPLETE_ORDER, NAN, orders=CROSSED) == State.RULED_OUT
    assert state(Cause.INCOMPLETE_ORDER, NAN) == State.POSSIBLE
    document = problem()
    plan = schedule_of(document)
    body: dict[str, Any] = {"problem": document, "schedule": plan}
    assert state(Cause.INCOMPLETE_ORDER, NAN, **body) == State.RULED_OUT
    body["schedule"] = {"ops": plan["ops"][1:]}
    assert state(Cause.INCOMPLETE_ORDER, NAN, **body) == State.SUPPORTED


def chunks(limit: int) -> Body:
    """Two stages on one device, and room for so much."""
    document = problem(stages=2, micro_batches=2, limit=limit)
    document["devices"] = document["devices"][:1]
    document["stages"] = [{**stage, "device": 0} for stage in document["stages"]]
    return document


def test_memory_that_is_freed_too_late_is_a_deadlock() -> None:
    plan = schedule_of(chunks(400))
    both = sorted(plan["ops"], key=lambda op: (op["op"] != "F", op["start_ns"]))
    now = 0
    for op in both:
        op["start_ns"], op["end_ns"] = now, now + 10 * MS
        now += 10 * MS
    found = finding(Cause.MEMORY_DEADLOCK, DEADLOCK, problem=chunks(300), schedule={"ops": both})
    assert found["state"] == "supported"
    assert "needs" in for_of(found)[0]["value"]
    assert remedy(found, "change_order")["predicted_effect"]["after"] > 0
    free = {"problem": chunks(400), "schedule": {"ops": both}}
    assert state(Cause.MEMORY_DEADLOCK, DEADLOCK, **free) == State.RULED_OUT
    assert state(Cause.MEMORY_DEADLOCK, DEADLOCK, problem=problem()) == State.RULED_OUT
    assert state(Cause.MEMORY_DEADLOCK, DEADLOCK) == State.POSSIBLE


def test_messages_in_another_order_are_possible_trouble() -> None:
    swapped = [["0F0", "0F1", "0B1", "0B0"], ["1F1", "1F0", "1B1", "1B0"]]
    assert first_mismatch(cells(swapped)) == (0, 1, Cell(0, "F", 0), Cell(0, "F", 1))
    assert first_mismatch(cells(GOOD)) is None
    assert state(Cause.RECEIVE_ORDER_MISMATCH, DEADLOCK, orders=swapped) == State.POSSIBLE
    assert state(Cause.RECEIVE_ORDER_MISMATCH, DEADLOCK, orders=GOOD) == State.RULED_OUT
    assert state(Cause.RECEIVE_ORDER_MISMATCH, DEADLOCK) == State.POSSIBLE


def test_split_and_whole_backwards_send_the_same() -> None:
    split = [["0F0", "0I0", "0W0"], ["1F0", "1B0"]]
    assert first_mismatch(cells(split)) is None
    assert wait_cycle(cells(split)) == []


def test_ranks_on_different_versions_deadlock() -> None:
    cause = Cause.RANKS_ON_DIFFERENT_VERSIONS
    found = finding(cause, DEADLOCK, plan_versions=[3, 3, 4])
    assert (found["state"], found["evidence"][0]["value"]) == ("supported", 2)
    assert state(cause, DEADLOCK, plan_versions=[3, 3]) == State.RULED_OUT
    assert state(cause, DEADLOCK) == State.POSSIBLE
    told = [
        {"iteration": 20, "plan_version": version, "stages": [{"stage": stage}]}
        for stage, version in enumerate((1, 2))
    ]
    assert state(cause, DEADLOCK, telemetry=told) == State.SUPPORTED


def test_a_stage_that_stopped_reporting_is_lost() -> None:
    rows = telemetry(problem())
    for row in rows[5:]:
        row["stages"] = [own for own in row["stages"] if own["stage"] != 1]
    found = finding(Cause.RANK_LOST, DEADLOCK, telemetry=rows)
    assert (found["state"], for_of(found)[0]["stage"]) == ("supported", 1)
    assert for_of(found)[0]["value"] == 7
    assert state(Cause.RANK_LOST, DEADLOCK, telemetry=telemetry(problem())) == State.POSSIBLE
    assert state(Cause.RANK_LOST, DEADLOCK) == State.POSSIBLE


def test_fp16_supports_overflow_and_bf16_rules_it_out() -> None:
    def trained(precision: str) -> Body:
        return {
            "model": "GPT-2",
            "cluster": "1xA100-40GB",
            "training": {"micro_batches": 4, "precision": precision},
        }

    found = finding(Cause.FP16_OVERFLOW, NAN, **trained("fp16"))
    assert found["state"] == "supported"
    assert remedy(found, "use_bf16")["request_changes"] == {"training.precision": "bf16"}
    assert remedy(found, "use_bf16")["no_prediction"]
    assert state(Cause.FP16_OVERFLOW, NAN, **trained("bf16")) == State.RULED_OUT
    assert state(Cause.FP16_OVERFLOW, NAN) == State.POSSIBLE
    assert state(Cause.DATA_OR_HYPERPARAMETERS, NAN) == State.POSSIBLE


def test_the_last_stage_has_to_run_micro_batches_in_order() -> None:
    cause = Cause.LAST_STAGE_OUT_OF_ORDER
    found = finding(cause, NAN, orders=CROSSED)
    assert found["state"] == "supported"
    assert "Micro-batch 1 is forward number 0" in found["summary"]
    assert state(cause, NAN, orders=GOOD) == State.RULED_OUT
    assert state(cause, NAN) == State.POSSIBLE


def test_a_backward_before_its_reload_is_a_race() -> None:
    document = offloading(stages=2, limit=150)
    document["devices"] = document["devices"][:1]
    document["stages"] = [{**stage, "device": 0} for stage in document["stages"]]
    plan = schedule_of(document)
    body: dict[str, Any] = {"problem": document, "schedule": plan}
    assert any(op["op"] == "R" for op in plan["ops"])
    assert state(Cause.OFFLOAD_RACE, NAN, **body) == State.POSSIBLE
    late = [
        {**op, "start_ns": op["start_ns"] + 1000 * MS, "end_ns": op["end_ns"] + 1000 * MS}
        if op["op"] == "R"
        else op
        for op in plan["ops"]
    ]
    found = finding(Cause.OFFLOAD_RACE, NAN, problem=document, schedule={"ops": late})
    assert found["state"] == "supported"
    assert "B of stage" in found["summary"]
    assert any("CUDA_LAUNCH_BLOCKING" in check["command"] for check in found["checks"])
    assert state(Cause.OFFLOAD_RACE, NAN, problem=problem()) == State.RULED_OUT
    assert state(Cause.OFFLOAD_RACE, NAN) == State.POSSIBLE
