"""Symptoms that the numbers show by themselves."""

from __future__ import annotations

from planner.cost.spec import read_cost_model
from planner.diagnoses.diagnose import CAUSES_OF
from planner.diagnoses.given import is_given
from planner.diagnoses.names import Cause, Symptom
from planner.diagnoses.request import Described, DiagnosisRequest, SolveObservation
from planner.diagnoses.telemetry import IterationSample, StageSample
from planner.pipeline.documents import read_problem
from tests.unit.diagnoses.cases import (
    Body,
    answer,
    one_at_a_time,
    problem,
    schedule_of,
    setting,
    slower,
    telemetry,
)

EVEN = problem()


def found_in(**body: object) -> dict[str, Body]:
    symptoms = answer(**body)["symptoms"]
    assert {own["found_in"] for own in symptoms} <= {"numbers"}
    return {own["symptom"]: own for own in symptoms}


def test_every_symptom_has_causes_and_every_cause_a_symptom() -> None:
    assert set(CAUSES_OF) == set(Symptom)
    assert {cause for causes in CAUSES_OF.values() for cause in causes} == set(Cause)
    named = answer(list(Symptom))
    assert {own["symptom"] for own in named["symptoms"]} == set(Symptom)
    assert {own["cause"] for own in named["causes"]} == set(Cause)
    for own in named["causes"]:
        assert own["symptoms"] == [s for s in Symptom if own["cause"] in CAUSES_OF[s]]


def test_a_run_as_planned_shows_nothing() -> None:
    plan = schedule_of(EVEN)
    rows = telemetry(
        EVEN,
        iteration_ns=plan["makespan_ns"],
        change=setting(
            gpu_utilisation=0.7,
            link_busy_share=0.1,
            peak_memory_bytes=500,
            memory_limit_bytes=1000,
        ),
    )
    found = answer(problem=EVEN, schedule=plan, telemetry=rows)
    assert found["symptoms"] == []
    assert found["causes"] == []
    assert "no symptom" in found["warnings"][0]


def test_memory_beyond_its_limit_is_out_of_memory() -> None:
    over = telemetry(EVEN, change=setting(peak_memory_bytes=1001, memory_limit_bytes=1000))
    sign = found_in(telemetry=over)["out_of_memory"]["evidence"][0]
    assert (sign["value"], sign["threshold"], sign["stage"]) == (1001, 1000, 0)


def test_a_link_that_is_too_busy_is_a_bottleneck() -> None:
    assert set(found_in(telemetry=telemetry(EVEN, change=setting(link_busy_share=0.86)))) == {
        "pcie_bottleneck"
    }
    assert not found_in(telemetry=telemetry(EVEN, change=setting(link_busy_share=0.85)))


def test_utilisation_swings_over_time_and_between_stages() -> None:
    def over_time(iteration: int, _: int, own: Body) -> None:
        own["gpu_utilisation"] = 0.9 if iteration % 2 else 0.5

    def between(_: int, s: int, own: Body) -> None:
        own["gpu_utilisation"] = 0.9 if s else 0.5

    for change in (over_time, between):
        assert set(found_in(telemetry=telemetry(EVEN, change=change))) == {
            "swinging_gpu_utilisation"
        }


def test_iterations_of_different_length_are_unstable() -> None:
    rows = [
        {**row, "iteration_ns": 120 if row["iteration"] % 10 == 0 else 100}
        for row in telemetry(EVEN, 40)
    ]
    assert set(found_in(telemetry=rows)) == {"unstable_throughput"}


def test_stragglers_and_poor_plans_are_bad_throughput() -> None:
    slow = telemetry(EVEN, change=slower(1.2, stage=3))
    sign = found_in(telemetry=slow)["plan_with_bad_throughput"]["evidence"][0]
    assert (sign["stage"], sign["threshold"]) == (3, 1.15)
    assert not found_in(telemetry=telemetry(EVEN, change=slower(1.1, stage=3)))
    poor = found_in(problem=EVEN, schedule=one_at_a_time(EVEN))
    assert "plan_with_bad_throughput" in poor


def test_a_problem_that_fits_nowhere_has_no_plan() -> None:
    assert set(found_in(problem=problem(limit=50))) == {"no_feasible_plan"}


def test_named_symptoms_come_with_the_numbers_that_show_them() -> None:
    over = telemetry(EVEN, change=setting(peak_memory_bytes=1001, memory_limit_bytes=1000))
    (own,) = answer([Symptom.OUT_OF_MEMORY], telemetry=over)["symptoms"]
    assert own["found_in"] == "request"
    assert own["evidence"][0]["value"] == 1001


def test_warm_up_is_left_aside_where_there_is_more() -> None:
    slow = telemetry(EVEN, 10, first=0, change=slower(3.0, stage=1))
    assert found_in(telemetry=slow)
    assert not found_in(telemetry=[*slow, *telemetry(EVEN, 3)])
    notes = answer(telemetry=[*slow, *telemetry(EVEN, 3)])["assumptions"]
    assert "The first 10 were left out" in notes[-1]["basis"]


def test_order_repetition_and_single_ranks_make_no_difference() -> None:
    rows = telemetry(EVEN, change=slower(1.4, stage=1))
    whole = answer(telemetry=rows)
    apart = [{**row, "stages": [stage]} for row in reversed(rows) for stage in row["stages"]]
    assert answer(telemetry=apart) == whole
    assert answer(telemetry=[*rows, *rows]) == whole


def test_one_outlier_counts_for_nothing() -> None:
    def outlier(iteration: int, s: int, own: Body) -> None:
        if (iteration, s) == (25, 2):
            own["forward_ns"] *= 100

    assert not found_in(telemetry=telemetry(EVEN, change=outlier))


def test_what_would_decide_leaves_out_what_is_there() -> None:
    def needs(**body: object) -> set[str]:
        causes = answer([Symptom.UNSTABLE_THROUGHPUT], **body)["causes"]
        outside = next(own for own in causes if own["cause"] == "time_outside_the_pipeline")
        return set(outside["needs"])

    assert needs() == {"problem", "schedule", "telemetry[].iteration_ns"}
    assert needs(problem=EVEN) == {"schedule", "telemetry[].iteration_ns"}
    assert needs(problem=EVEN, telemetry=telemetry(EVEN, iteration_ns=1)) == {"schedule"}


def test_every_need_is_a_field_of_a_request() -> None:
    """Those that no request can be seen to have are always asked for."""
    known = {"throughput[] (three or more)", "solver.time_limit_s"}
    whole = DiagnosisRequest(
        problem=read_problem(EVEN),
        ops=(),
        orders=(),
        plan_versions=(1,),
        described=Described(read_cost_model("GPT-2", "1xA100-40GB", {"micro_batches": 1}), {}),
        solve=SolveObservation(1.0, 0.5),
        telemetry=(IterationSample(1, (StageSample(0, *(1,) * 5, 1, 1, 1.0),), 1),),
    )
    needed = {need for own in answer(list(Symptom))["causes"] for need in own["needs"]}
    assert {need for need in needed if not is_given(whole, need)} == known
