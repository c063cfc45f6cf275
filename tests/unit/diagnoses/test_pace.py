"""Time that is lost: stragglers, imbalance, bubbles, jitter, limits, poor plans."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.diagnoses.diagnose import diagnose
from planner.diagnoses.names import Cause, State, Symptom
from planner.diagnoses.request import read_request
from planner.following.batch_sizes import RULE_OF_THUMB
from planner.pipeline.bounds.lower_bounds import lower_bounds
from planner.pipeline.documents import read_problem
from tests.unit.diagnoses.cases import (
    MS,
    answer,
    finding,
    for_of,
    one_at_a_time,
    problem,
    remedy,
    schedule_of,
    slower,
    state,
    telemetry,
)

BAD, UNSTABLE = Symptom.PLAN_WITH_BAD_THROUGHPUT, Symptom.UNSTABLE_THROUGHPUT
SWINGING = Symptom.SWINGING_GPU_UTILISATION
EVEN = problem()
PLAN = schedule_of(EVEN)
WITH_PLAN = {"problem": EVEN, "schedule": PLAN}


def test_a_straggler_is_named_and_its_repair_timed() -> None:
    slow = telemetry(EVEN, change=slower(1.5, stage=2))
    found = finding(Cause.STRAGGLER_GPU, UNSTABLE, **WITH_PLAN, telemetry=slow)
    assert found["state"] == "supported"
    assert [(own["stage"], own["value"]) for own in for_of(found)] == [(2, pytest.approx(1.5))]
    effect = remedy(found, "restore_gpu")["predicted_effect"]
    # At the median it is the plan again.
    assert effect["after"] == pytest.approx(PLAN["makespan_ns"], rel=1e-6)
    assert effect["before"] >= PLAN["makespan_ns"] + 8 * 15 * MS * 0.9
    assert found["weight"] == pytest.approx(-effect["change"])
    around = remedy(found, "plan_with_profile")["predicted_effect"]
    assert around["after"] <= around["before"]
    commands = [check["command"] for check in found["checks"]]
    assert any("nvidia-smi -lgc" in command for command in commands)


def test_a_plan_that_has_taken_up_a_straggler_does_not_hide_it() -> None:
    slow = problem()
    slow["stages"][2] = {
        name: value * 3 // 2 if name.endswith("_ns") else value
        for name, value in slow["stages"][2].items()
    }
    body = {"problem": slow, "schedule": schedule_of(slow), "telemetry": telemetry(slow)}
    request = read_request(body)
    assert not diagnose(request).symptoms
    expected = read_problem(EVEN)
    found = diagnose(replace(request, expected=expected, plan_version=2)).to_document()
    assert [own["symptom"] for own in found["symptoms"]] == [BAD]
    causes = {own["cause"]: own for own in found["causes"]}
    straggler = causes["straggler_gpu"]
    assert straggler["state"] == "supported"
    assert [(own["stage"], own["value"]) for own in for_of(straggler)] == [(2, pytest.approx(1.5))]
    # Nor do layers divided evenly count as uneven, or a plan of the measured times as an old one.
    assert causes["stage_imbalance"]["state"] == "ruled_out"
    assert causes["profile_differs_from_plan"]["state"] == "ruled_out"
    (compared,) = (own for own in found["assumptions"] if own["what"] == "comparison")
    assert "made for" in compared["value"]
    assert "version 2" in compared["value"]


def test_times_without_a_plan_show_a_straggler_too() -> None:
    slow = telemetry(EVEN, change=slower(1.3, stage=0))
    found = finding(Cause.STRAGGLER_GPU, UNSTABLE, telemetry=slow)
    assert (found["state"], for_of(found)[0]["stage"]) == ("supported", 0)
    assert remedy(found, "restore_gpu")["predicted_effect"] is None
    # It may as well be the layers.
    assert state(Cause.STAGE_IMBALANCE, BAD, telemetry=slow) == State.POSSIBLE
    even = telemetry(EVEN)
    assert state(Cause.STRAGGLER_GPU, UNSTABLE, telemetry=even) == State.RULED_OUT
    assert state(Cause.STAGE_IMBALANCE, BAD, telemetry=even) == State.RULED_OUT
    assert state(Cause.STRAGGLER_GPU, UNSTABLE) == State.POSSIBLE


def test_a_stage_that_was_planned_longer_is_no_straggler() -> None:
    uneven = problem()
    uneven["stages"][1] = {**uneven["stages"][1], "forward_ns": 40 * MS}
    body = {"problem": uneven, "schedule": schedule_of(uneven), "telemetry": telemetry(uneven)}
    assert state(Cause.STRAGGLER_GPU, BAD, **body) == State.RULED_OUT
    found = finding(Cause.STAGE_IMBALANCE, BAD, **body)
    assert found["state"] == "supported"
    assert for_of(found)[0]["value"] == pytest.approx(2.0)
    effect = remedy(found, "balance_stages")["predicted_effect"]
    assert effect["after"] < effect["before"]
    assert state(Cause.STAGE_IMBALANCE, BAD, **WITH_PLAN) == State.RULED_OUT


def test_the_bubble_is_what_is_idle_in_the_plan() -> None:
    found = finding(Cause.PIPELINE_BUBBLE, SWINGING, problem=EVEN, schedule=one_at_a_time(EVEN))
    assert found["state"] == "supported"
    # Each device computes 30 ms of the 90 ms that F and B of all four take, W beside them.
    assert for_of(found)[0]["value"] == pytest.approx(2 / 3, abs=0.01)
    other = remedy(found, "another_schedule")
    assert other["predicted_effect"]["after"] <= PLAN["makespan_ns"]
    classic = {row["schedule"]: row["iteration_ns"] for row in other["figures"]}
    # (m + p - 1)(F + B + W), by GPipe's and PipeDream-Flush's formulas.
    assert classic["GPipe"] == classic["1F1B"] == (8 + 3) * 30 * MS
    many = problem(micro_batches=64)
    body = {"problem": many, "schedule": schedule_of(many)}
    assert state(Cause.PIPELINE_BUBBLE, SWINGING, **body) == State.RULED_OUT
    assert state(Cause.PIPELINE_BUBBLE, SWINGING) == State.POSSIBLE


def test_more_micro_batches_are_timed_with_half_of_everything() -> None:
    few = problem(micro_batches=2)
    found = finding(Cause.PIPELINE_BUBBLE, BAD, problem=few, schedule=schedule_of(few))
    effect = remedy(found, "more_micro_batches")["predicted_effect"]
    bound = lower_bounds(read_problem(problem(micro_batches=2)))[0].value_ns
    assert effect["after"] < effect["before"]
    assert effect["after"] >= bound / 2


def test_more_micro_batches_stand_beside_the_rule_of_thumb_and_another_order() -> None:
    slow = problem(micro_batches=4)
    slow["stages"][1] = {**slow["stages"][1], "forward_ns": 35 * MS, "backward_input_ns": 25 * MS}
    found = finding(Cause.PIPELINE_BUBBLE, BAD, problem=slow, schedule=schedule_of(slow))
    more = remedy(found, "more_micro_batches")
    assert [row["micro_batches"] for row in more["figures"]] == [4, 8, 12]
    assert more["figures"][2]["what"] == RULE_OF_THUMB
    assert all(row["iteration_ns"] > 0 for row in more["figures"])
    assert f"{RULE_OF_THUMB}: 12, " in more["detail"]
    assert more["predicted_effect"]["after"] == more["figures"][1]["iteration_ns"]
    poor = finding(Cause.PIPELINE_BUBBLE, BAD, problem=EVEN, schedule=one_at_a_time(EVEN))
    assert remedy(poor, "more_micro_batches")["figures"][0]["iteration_ns"] <= PLAN["makespan_ns"]


def test_an_odd_micro_batch_is_not_halved() -> None:
    request = replace(read_request({"problem": EVEN, "schedule": PLAN}), micro_batch_size=1)
    for symptom, halved in ((replace(request, micro_batch_size=2), True), (request, False)):
        asked = replace(symptom, symptoms=(BAD,))
        causes = diagnose(asked).to_document()["causes"]
        bubble = next(own for own in causes if own["cause"] == Cause.PIPELINE_BUBBLE)
        effect = remedy(bubble, "more_micro_batches")["predicted_effect"]
        assert (effect is not None) == halved


def test_another_order_says_that_one_was_rolled_back() -> None:
    request = read_request(
        {"problem": EVEN, "schedule": one_at_a_time(EVEN), "symptoms": [BAD.value]}
    )
    for versions, says in (((3,), True), ((), False)):
        answer = diagnose(replace(request, rolled_back=versions)).to_document()
        orders = [
            own["detail"]
            for cause in answer["causes"]
            for own in cause["remedies"]
            if own["remedy"] in ("another_schedule", "heuristic_plan", "more_time")
        ]
        assert len(orders) >= 3
        assert all(("Version 3 was rolled back" in detail) == says for detail in orders)


def test_a_plan_far_from_its_bound_says_how_much_there_is_to_gain() -> None:
    found = finding(Cause.PLAN_FAR_FROM_BOUND, BAD, problem=EVEN, schedule=one_at_a_time(EVEN))
    assert found["state"] == "supported"
    assert remedy(found, "heuristic_plan")["predicted_effect"]["after"] <= PLAN["makespan_ns"]
    bound = lower_bounds(read_problem(EVEN))[0].value_ns
    assert remedy(found, "more_time")["predicted_effect"]["after"] == bound
    assert state(Cause.PLAN_FAR_FROM_BOUND, BAD, **WITH_PLAN) == State.RULED_OUT
    assert state(Cause.PLAN_FAR_FROM_BOUND, BAD, problem=EVEN) == State.POSSIBLE
    assert state(Cause.PLAN_FAR_FROM_BOUND, BAD, solve={"gap": 0.5}) == State.SUPPORTED
    assert state(Cause.PLAN_FAR_FROM_BOUND, BAD, solve={"gap": 0.01}) == State.RULED_OUT


def test_memory_limits_are_compared_with_none() -> None:
    tight = problem(limit=100)
    found = finding(Cause.MEMORY_LIMITS_OVERLAP, BAD, problem=tight)
    assert found["state"] == "supported"
    effect = remedy(found, "raise_memory_limit")["predicted_effect"]
    assert effect["after"] < effect["before"]
    assert state(Cause.MEMORY_LIMITS_OVERLAP, BAD, problem=problem(limit=800)) == State.RULED_OUT
    assert state(Cause.MEMORY_LIMITS_OVERLAP, BAD, problem=EVEN) == State.RULED_OUT
    assert state(Cause.MEMORY_LIMITS_OVERLAP, BAD) == State.POSSIBLE


def test_other_times_than_planned_ask_for_a_new_plan() -> None:
    slow = telemetry(EVEN, change=slower(1.5, stage=0))
    cause = Cause.PROFILE_DIFFERS_FROM_PLAN
    found = finding(cause, BAD, **WITH_PLAN, telemetry=slow)
    assert found["state"] == "supported"
    assert for_of(found)[0]["value"] == pytest.approx(0.5)
    effect = remedy(found, "plan_with_profile")["predicted_effect"]
    assert effect["after"] <= effect["before"]
    assert state(cause, BAD, **WITH_PLAN, telemetry=telemetry(EVEN)) == State.RULED_OUT
    assert state(cause, BAD, **WITH_PLAN) == State.POSSIBLE


def test_what_the_operations_do_not_explain_is_outside_of_them() -> None:
    cause = Cause.TIME_OUTSIDE_THE_PIPELINE
    late = telemetry(EVEN, iteration_ns=2 * PLAN["makespan_ns"])
    found = finding(cause, UNSTABLE, **WITH_PLAN, telemetry=late)
    assert found["state"] == "supported"
    assert for_of(found)[0]["value"] == pytest.approx(0.5)
    effect = remedy(found, "overlap_other_work")["predicted_effect"]
    assert (effect["before"], effect["after"]) == (2 * PLAN["makespan_ns"], PLAN["makespan_ns"])
    punctual = telemetry(EVEN, iteration_ns=PLAN["makespan_ns"])
    assert state(cause, UNSTABLE, **WITH_PLAN, telemetry=punctual) == State.RULED_OUT
    assert state(cause, UNSTABLE, **WITH_PLAN) == State.POSSIBLE


def test_times_that_grow_point_at_clocks() -> None:
    def heating(iteration, s, own):
        if s == 1 and iteration >= 30:
            own["forward_ns"] += 6 * MS

    cause = Cause.CLOCK_THROTTLING
    found = finding(cause, UNSTABLE, **WITH_PLAN, telemetry=telemetry(EVEN, 30, change=heating))
    assert (found["state"], for_of(found)[0]["stage"]) == ("supported", 1)
    assert for_of(found)[0]["value"] == pytest.approx(0.2)
    assert remedy(found, "lock_clocks")["predicted_effect"]["change"] < 0
    assert state(cause, UNSTABLE, telemetry=telemetry(EVEN, 30)) == State.RULED_OUT
    assert state(cause, UNSTABLE, telemetry=telemetry(EVEN, 3)) == State.POSSIBLE


def test_jitter_is_the_slowest_twentieth_over_the_median() -> None:
    def rows(slow):
        return [
            {**row, "iteration_ns": slow if row["iteration"] % 10 == 0 else 100}
            for row in telemetry(EVEN, 40)
        ]

    found = finding(Cause.JITTER, UNSTABLE, telemetry=rows(150))
    assert found["state"] == "supported"
    assert for_of(found)[0]["value"] == pytest.approx(1.5)
    effect = remedy(found, "steady_iterations")["predicted_effect"]
    assert (effect["before"], effect["after"]) == (105, 100)
    assert state(Cause.JITTER, UNSTABLE, telemetry=rows(102)) == State.RULED_OUT
    assert state(Cause.JITTER, UNSTABLE, telemetry=rows(108)) == State.POSSIBLE
    assert state(Cause.JITTER, UNSTABLE) == State.POSSIBLE


def test_causes_are_ranked_by_state_and_what_is_at_stake() -> None:
    slow = telemetry(EVEN, change=slower(2.0, stage=3))
    causes = answer([BAD], **WITH_PLAN, telemetry=slow)["causes"]
    places = ["supported", "possible", "ruled_out"]
    keys = [(places.index(own["state"]), -(own["weight"] or 0)) for own in causes]
    assert keys == sorted(keys)
    assert causes[0]["state"] == "supported"
    assert causes[-1]["state"] == "ruled_out"
    assert {own["weight"] for own in causes if own["state"] == "ruled_out"} == {None}
