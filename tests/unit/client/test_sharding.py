"""The terminal shows what a sharding plan says."""

from __future__ import annotations

from typing import Any

import pytest

from client.figures import size
from client.sharding import (
    certificate_lines,
    explanation_line,
    infeasibility_lines,
    provenance_lines,
)
from client.sharding_tables import strategy_words
from tests.unit.client.results import GIB, operator, sharding_result
from tests.unit.client.screen import line_with
from tests.unit.client.screen import shown as shown_as

MIB = 2**20


def shown(result: dict[str, Any], width: int = 100) -> str:
    return shown_as(result, width, "sharding")


def figures_of(name: str, output: str) -> list[str]:
    """The words of a row of a table, whatever lines it has."""
    return line_with(name, output).replace("│", " ").split()


def test_title_says_what_was_planned() -> None:
    title = shown(sharding_result()).splitlines()[0]
    assert title == "2 operators on 4 devices, at most 400.00 MiB on each, alpha 0.1"
    unlimited = sharding_result()
    unlimited["plan"]["device_memory_bytes"] = None
    assert shown(unlimited).splitlines()[0] == "2 operators on 4 devices, alpha 0.1"


def test_each_operator_has_its_strategy_in_words_and_its_figures() -> None:
    words = figures_of("qkv", shown(sharding_result()))
    sizes = ["150.00", "20.00", "40.00", "0.00"]
    assert words == ["qkv", "linear", "data", "2,", "column", "2", *sizes]
    assert "Layers" not in shown(sharding_result())


def test_what_is_resharded_stands_at_the_operator_that_reads_it() -> None:
    result = sharding_result()
    output = shown(result)
    assert figures_of("norm", output)[-2:] == ["40.00", "5.00"]
    assert "counted at the operator that reads it" in " ".join(output.split())
    result["plan"]["resharding"] = []
    assert "Resharded" not in shown(result)


def test_what_layers_hand_to_each_other_is_said_to_be_in_what_is_sent() -> None:
    result = sharding_result()
    own = {"from": "norm", "to": "norm", "tensor": "y", "bytes": 7 * MIB}
    result["plan"]["resharding"] = [{**own, "counted_as": "communication"}]
    output = shown(result)
    assert "Sent of norm has 7.00 MiB in it that go from each layer to the next." in output
    assert "Resharded" not in output
    assert figures_of("norm", output)[-1] == "40.00"


def test_folded_layers_are_counted() -> None:
    result = sharding_result()
    result["plan"]["operators"][0]["layers"] = 24
    output = shown(result)
    assert "Layers" in output
    assert figures_of("qkv", output)[2] == "24"


@pytest.mark.parametrize(
    ("degrees", "more", "words"),
    [
        ((1, 1, 1), {}, "whole"),
        ((2, 1, 1), {}, "data 2"),
        ((2, 4, 1), {}, "data 2, row 4"),
        ((1, 1, 2), {"strategy": "d1-r1-c2-sp"}, "column 2, sequence"),
        ((1, 1, 1), {"spare": 4, "strategy": "d1-r1-c1-x4"}, "repeated on 4"),
        ((2, 1, 1), {"spare": 2, "strategy": "d2-r1-c1-x2"}, "data 2, repeated on 2"),
    ],
)
def test_strategies_in_words(
    degrees: tuple[int, int, int], more: dict[str, Any], words: str
) -> None:
    assert strategy_words(operator("o", "linear", *degrees, memory_bytes=0) | more) == words


def test_baselines_stand_beside_the_plan() -> None:
    output = shown(sharding_result())
    sizes = ["200.00", "260.00", "40.00", "85.00", "48.50"]
    assert figures_of("Loadmaster", output) == ["Loadmaster", *sizes, "1.250", "yes"]
    sizes = ["390.00", "500.00", "96.00", "64.00", "102.40"]
    table = output[output.index("Loadmaster") :]
    assert figures_of("Megatron-LM", table) == ["Megatron-LM", *sizes, "1.000", "OOM"]
    assert "data parallel: the batch of 2 cannot be split over 4 devices" in output
    assert "Megatron-LM, not modelled: its overlap of communication" in output
    assert "keeps less" not in output


def test_a_baseline_that_keeps_less_says_why() -> None:
    result = sharding_result()
    result["baselines"][0]["note"] = "keeps less than the plan, since it computes more."
    assert "Megatron-LM keeps less than the plan, since it computes more." in shown(result)


@pytest.mark.parametrize("width", [100, 76, 60, 44])
def test_narrow_terminal_drops_columns_and_cuts_no_figure(width: int) -> None:
    lines = shown(sharding_result(), width).splitlines()
    tables = [line for line in lines if "qkv" in line or "Loadmaster" in line]
    assert all(len(line) <= width for line in tables)
    for words in ("data 2, column 2", "150.00", "200.00", "260.00", "yes"):
        assert words in "\n".join(tables)
    output = "\n".join(lines)
    assert ("linear" in output) == (width > 60)
    assert ("Objective" in output) == (width > 76)


def test_many_operators_are_not_all_listed() -> None:
    result = sharding_result()
    result["plan"]["operators"] = [
        operator(f"op{n}", "linear", 4, 1, 1, memory_bytes=MIB) for n in range(150)
    ]
    output = shown(result)
    assert "op99" in output
    assert "op100" not in output
    assert "and 50 more operators" in output


def test_certificate_in_words() -> None:
    certificate = sharding_result()["certificate"]
    lines = certificate_lines(certificate)
    assert lines[0].startswith("Verified by planner.sharding.verify")
    assert lines[1:] == [
        "Proven optimal: no plan has an objective below 48.50 MiB.",
        "Second opinion, by elimination of operators: agrees: no plan is better.",
        "Scope: among plans that split all 24 layers alike.",
    ]
    gap = {**certificate, "proven_optimal": False, "lower_bound": 40 * MIB, "gap": 0.175}
    assert certificate_lines(gap)[1] == (
        "The best possible objective lies between 40.00 MiB and the 48.50 MiB found: gap 17.50 %."
    )
    assert "nothing is proven" in certificate_lines({**gap, "lower_bound": None})[1]
    assert certificate_lines({**gap, "verified": False})[0] == "NOT verified."


def test_the_front_and_the_weights_mark_the_plan() -> None:
    result = sharding_result()
    assert "Redundancy against" not in shown(result)
    point = {"redundant_bytes": 40 * MIB, "communication_bytes": 85 * MIB}
    points = [
        {**point, "memory_bytes": 200 * MIB, "choice": [3, 0]},
        {**point, "memory_bytes": 300 * MIB, "choice": [2, 0]},
    ]
    result["pareto"] = points
    front = shown(result).partition("Redundancy against communication")[2]
    assert figures_of("200.00", front)[-2:] == ["this", "plan"]
    assert figures_of("300.00", front)[-1] == "300.00"
    result["sweep"] = [{"alpha": 0.1, **points[0]}, {"alpha": 10, "status": "no_plan"}]
    sweep = shown(result).partition("Weights of communication")[2]
    assert figures_of("0.1 ", sweep) == ["0.1", "40.00", "85.00", "200.00", "this", "plan"]
    assert figures_of("10 ", sweep) == ["10", "–", "–", "–"]


def test_each_stage_is_shown_and_what_is_proven_of_all() -> None:
    stages = [{**sharding_result(), "layers": layers} for layers in (13, 11)]
    certificate = {"verified": True, "proven_optimal": False, "objective": 97 * MIB}
    result = {
        "stages": stages,
        "certificate": {**certificate, "lower_bound": 90 * MIB},
        "provenance": {"engine": "cbc", "solve_seconds": 0.04},
    }
    output = shown(result)
    assert output.count("Proven optimal") == 2
    assert "Stage 0 (13 layers): 2 operators on 4 devices" in output
    assert "Stage 1 (11 layers): 2 operators on 4 devices" in output
    assert "between 90.00 MiB and the 97.00 MiB found.\n" in output
    assert output.count("Model built and solved") == 1


def test_a_plan_kept_from_a_lost_solve_has_no_baselines() -> None:
    result = {**sharding_result(), "baselines": [], "provenance": {"engine": "cbc"}}
    assert "Loadmaster" in shown(result)


def test_explanations_say_what_a_strategy_would_cost() -> None:
    asked = {"operator": "qkv", "strategy": "d4-r1-c1"}
    none = {
        "redundant_bytes_difference": 0,
        "communication_bytes_difference": 0,
        "resharding_bytes_difference": 0,
        "memory_bytes_difference": 0,
    }
    costs = {"reason": "the best plan with it costs more", "objective_difference": 3.5 * MIB}
    changes = {"redundant_bytes_difference": 20 * MIB, "memory_bytes_difference": -10 * MIB}
    assert explanation_line({**asked, **costs, **none, **changes}) == (
        "Why not d4-r1-c1 for qkv? The best plan with it costs more: 3.50 MiB "
        "(redundant +20.00 MiB, memory -10.00 MiB)."
    )
    as_good = {"reason": "the best plan with it is as good", "objective_difference": 0.0}
    assert explanation_line({**asked, **none, **as_good}) == (
        "Why not d4-r1-c1 for qkv? The best plan with it is as good."
    )
    impossible = {**asked, "possible": False, "reason": "no plan with it fits"}
    assert explanation_line(impossible) == "Why not d4-r1-c1 for qkv? No plan with it fits."
    assert "Why not" in shown({**sharding_result(), "explanations": [impossible]})


def test_what_to_know_about_the_figures_is_said() -> None:
    provenance = {
        "engine": "highs",
        "solve_seconds": 0.0421,
        "settings": {"gpu": "A100-80GB", "gpu_is_assumed": True},
        "warnings": ["rope: unknown kind"],
    }
    assert provenance_lines(provenance) == [
        "Model built and solved in 0.042 s by highs.",
        "Throughput is that of A100-80GB, since only a count was given.",
        "Warning: rope: unknown kind",
    ]


@pytest.mark.parametrize(
    ("sizes", "by"),
    [
        ([(0, 1)], " by cbc."),
        ([(27, 0)], ", by comparing all 27 plans that the reductions leave; no engine ran."),
        ([(1, 0)], "; no engine had to run."),
        ([(0, 0)], "; no engine had to run."),
        ([(27, 0), (0, 2)], " by cbc."),
        ([(1, 0), (1, 0)], "; no engine had to run."),
    ],
)
def test_an_engine_is_named_only_where_it_ran(sizes: list[tuple[int, int]], by: str) -> None:
    model = [{"compared_plans": plans, "engine_runs": runs} for plans, runs in sizes]
    provenance = {"engine": "cbc", "solve_seconds": 0.01, "model": model}
    assert provenance_lines(provenance) == [f"Model built and solved in 0.010 s{by}"]


INFEASIBILITY = {
    "least_memory_bytes": 20 * GIB,
    "device_memory_bytes": 16 * GIB,
    "smallest_devices": 8,
    "devices_searched": 8,
    "culprit": "mlp_up",
    "remedies": [
        {"change": "activation checkpointing", "memory_bytes": 15 * GIB, "fits": True},
        {"change": "ZeRO stage 3", "memory_bytes": 18 * GIB, "fits": False},
    ],
}


def test_infeasibility_names_the_least_memory_and_the_ways_out() -> None:
    assert infeasibility_lines(INFEASIBILITY) == [
        f"Infeasible: no plan fits into the 16.000 GiB ({16 * GIB} bytes) of a device.",
        f"The least that any plan keeps on a device: 20.000 GiB ({20 * GIB} bytes); "
        "mlp_up takes the largest part.",
        "The fewest devices that are known to do: 8; fewer may, with other plans.",
        "What would help:",
        "  activation checkpointing: 15.000 GiB on a device, fits",
        "  ZeRO stage 3: 18.000 GiB on a device, does not fit",
    ]
    ruled_out = infeasibility_lines({**INFEASIBILITY, "fewer_devices_ruled_out": True})
    assert (
        "The fewest devices that do: 8; on any number between those asked for and that, every plan "
        "keeps too much."
    ) in ruled_out
    none = infeasibility_lines({**INFEASIBILITY, "smallest_devices": None, "remedies": []})
    assert none[-1] == (
        "No larger number of devices is known to do, of those up to 8; more were not tried."
    )


def test_infeasibility_names_stage_pins_and_what_is_needed_for_a_moment() -> None:
    stage = infeasibility_lines({**INFEASIBILITY, "stage": 2, "layers": 6})
    assert "no plan of stage 2 (6 layers) fits" in stage[0]
    pins = {"pins_are_the_reason": True, "least_memory_with_pins_bytes": 17 * GIB}
    pinned = infeasibility_lines({**INFEASIBILITY, **pins})
    assert f"strategies: 17.000 GiB ({17 * GIB} bytes)." in pinned[2]
    moment = infeasibility_lines({**INFEASIBILITY, "least_memory_bytes": 15 * GIB})
    assert "for a moment" in moment[2]


def test_infeasible_results_are_shown_as_such() -> None:
    output = shown({"instance": {}, "infeasibility": INFEASIBILITY, "provenance": {}}, 200)
    assert output.startswith("Infeasible: ")


@pytest.mark.parametrize(
    ("size_bytes", "words"),
    [
        (None, "–"),
        (0, "0 bytes"),
        (1_000.5, "1000 bytes"),
        (1024, "1.00 KiB"),
        (1024 * 1023.5, "1023.50 KiB"),
        (1.5 * MIB, "1.50 MiB"),
        (GIB, "1.000 GiB"),
    ],
)
def test_sizes_in_the_unit_that_suits_them(size_bytes: float | None, words: str) -> None:
    assert size(size_bytes) == words
