"""The terminal shows what a training plan says."""

from __future__ import annotations

from typing import Any

import pytest

from client.training import certificate_lines
from tests.unit.client.results import GIB, MS, sharding_result, training_plan, training_result
from tests.unit.client.screen import line_with
from tests.unit.client.screen import shown as shown_as


def shown(result: dict[str, Any], width: int = 120) -> str:
    return shown_as(result, width, "training")


def test_title_and_rates_say_what_was_planned() -> None:
    lines = shown(training_result()).splitlines()
    assert lines[0] == "Training plan: pipeline 2, data 4 on 8 GPUs, 98.000 ms a step"
    assert lines[1] == ("26,384 tokens/s and 12.88 samples/s; MFU 42.5 %. Predicted: 101.000 ms")
    alone = training_result()
    alone["plans"][1] |= {"pipeline_parallel": 1, "data_parallel": 1, "devices": 1}
    assert shown(alone).startswith("Training plan: one GPU on 1 GPUs, ")


def test_the_best_plan_is_marked_in_the_ranking() -> None:
    output = shown(training_result())
    first = line_with("   1     8", output).split()
    figures = "1 8 1 2 4 2 1 1 none no 100.000 – 25,600 41.2 % 30.000 9.000"
    assert first == figures.split()
    best = line_with("   2     8", output)
    assert "98.000" in best
    assert best.endswith("best")
    assert "CP" not in output
    context = training_result()
    context["plans"][0]["context_parallel"] = 2
    assert "CP" in shown(context)


def test_a_ranking_without_schedules_has_no_column_of_them() -> None:
    result = training_result()
    result["plans"][1]["schedule"] = {"makespan_ns": None, "why_not": "The time was up."}
    result["best"]["schedule"] = None
    result["best"]["left_out"]["schedule"] = "The time was up."
    output = shown(result)
    assert "Schedule" not in output
    assert "No schedule: The time was up." in output


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_narrow_terminals_drop_columns_and_cut_no_figure(width: int) -> None:
    output = shown(training_result(), width)
    row = line_with("101.000", output.partition("Plan  GPUs")[2])
    assert row.split()[:2] == ["2", "8"]
    assert ("Tokens/s" in output) == (width > 80)


def test_all_reasons_are_given_for_the_best_and_the_place_of_the_others() -> None:
    output = shown(training_result())
    assert "Plan 1: Place 1.\nPlan 2: Place 2.\n  What the step is made of.\n" in output


def test_what_was_searched_and_dropped_is_counted() -> None:
    output = shown(training_result())
    assert "Searched: 12,345 configurations, 67 worked out, 8 of these fit.\n" in output
    assert "  11,000: states do not fit\n  1,278: the batch cannot be split\n" in output
    assert "  For example pipeline 1: Rank 0 lacks 5 GiB.\n" in output
    assert "pipeline 4" not in output
    partly = training_result()
    partly["searched"]["complete"] = False
    assert "fit; the search was stopped before all were reached." in shown(partly)


def test_the_best_plan_has_its_memory_schedule_and_what_to_post() -> None:
    output = shown(training_result(), 160)
    best = output.partition("Plan 2, the best")[2]
    rank = line_with("   0  ", best).split()
    assert rank == [
        "0",
        "6",
        "2",
        *(f"{gib:.3f}" for gib in (2, 4, 6, 16, 1, 2, 2, 3, 30, 9)),
        "yes",
    ]
    assert "Layers per stage: 6 on each of 2." in best
    assert "Schedule: 65.000 ms, at most 2.000 GiB of activations on a device." in best
    assert "No sharding: tensor_parallel is 1" in best
    assert '{"pipeline_parallel": 2, "zero_stage": 1}' in best
    assert "Warning: Only 1 % is left." in best
    uneven = training_result()
    uneven["plans"][1]["layers_per_stage"] = [7, 5]
    assert "Layers per stage: 7, 5." in shown(uneven)


def test_sharding_and_experts_of_the_best_plan() -> None:
    result = training_result()
    part = {"layers": [0, 2], "experts_of_device": [[0, 3], [1, 2]]}
    result["best"] |= {
        "sharding": sharding_result(),
        "experts": {
            "expert_parallel": 2,
            "status": "feasible",
            "gap": 0.025,
            "load_factor": 1.1,
            "default": {"load_factor": 1.5},
            "layers": [part, *({**part, "layers": [layer]} for layer in (1, 3, 4, 5))],
        },
    }
    output = shown(result, 160)
    assert "Sharding of one layer over its tensor group: 200.00 MiB on a device. Proven" in output
    assert "Experts over 2 ranks: the busiest has 1.100 times the mean load (gap 2.50 %)" in output
    assert "  2 layers: 0, 3; 1, 2\n  layer 1: 0, 3; 1, 2\n" in output
    assert "and other layers otherwise" in output
    least = {"device_memory_bytes": 5, "least_memory_bytes": 7, "smallest_devices": 8}
    result["best"]["sharding"] = {"infeasibility": {**least, "culprit": "mlp", "remedies": []}}
    assert "Sharding: Infeasible: no plan fits into the " in shown(result)


def test_the_front_is_shown_up_to_a_number_of_points() -> None:
    result = training_result()
    result["pareto"] = [training_plan(1, 100 + n, headroom_bytes=n * GIB) for n in range(25)]
    output = shown(result).partition("Throughput against headroom and number of GPUs")[2]
    assert "119.000" in output
    assert "120.000" not in output
    assert "and 5 more points" in output


def test_certificate_in_words() -> None:
    certificate = training_result()["certificate"]
    assert certificate_lines(certificate) == [
        "Verified by loadmaster training plan verifier 1.",
        "No configuration has a step below 90.000 ms (bound: busiest rank's work); the best found "
        "takes 98.000 ms: gap 8.16 %.",
    ]
    optimal = {**certificate, "proven_optimal": True}
    assert certificate_lines(optimal)[1] == (
        "Proven optimal: no configuration has a step below 98.000 ms."
    )
    assert "nothing is proven" in certificate_lines({**certificate, "lower_bound_ns": None})[1]
    assert certificate_lines({**certificate, "verified": False})[0] == "NOT verified."


INFEASIBILITY: dict[str, Any] = {
    "summary": "Of all configurations pipeline 2 needs the least memory.",
    "parts": [{"what": "activations", "bytes": 5 * GIB}, {"what": "logits", "bytes": 0}],
    "offload": None,
    "smallest_gpus": 64,
    "gpus_searched": 64,
    "remedies": [
        {"remedy": "zero_stage", "fits": True, "detail": "With zero_stage left open it fits."},
        {"remedy": "gpu", "fits": False, "detail": "Does not fit with B200 either."},
    ],
}


def test_infeasibility_names_the_least_memory_and_the_ways_out() -> None:
    searched = {key: training_result()[key] for key in ("searched", "dropped")}
    output = shown({"infeasibility": INFEASIBILITY, **searched})
    assert output.startswith(
        "Infeasible: no configuration fits\n"
        "Of all configurations pipeline 2 needs the least memory.\n"
        "Its parts: activations 5.000 GiB.\n"
        "The fewest GPUs of this kind that would do, by doubling the nodes: 64.\n"
        "What would help:\n"
        "  zero stage: yes. With zero_stage left open it fits.\n"
        "  gpu: no. Does not fit with B200 either.\n"
    )
    assert "Searched: 12,345 configurations" in output
    none: dict[str, Any] = {
        "smallest_gpus": None,
        "offload": "The host has too little.",
        "remedies": [],
    }
    output = shown({"infeasibility": {**INFEASIBILITY, **none}, **searched})
    assert "The host has too little.\nNor does anything fit on up to 64 GPUs" in output


def test_times_are_those_of_the_schedule_where_there_is_one() -> None:
    result = training_result()
    result["best"] |= {"rank": 1, "step_time_ns": 100 * MS}
    assert shown(result).startswith("Training plan: pipeline 2, data 4 on 8 GPUs, 100.000 ms")
