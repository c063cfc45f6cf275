"""What a placement of experts is reported as."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from planner.training.experts.answer import answer_of, mean_load_factor
from planner.training.experts.place import place_experts, place_quickly
from planner.training.experts.problem import ExpertProblem, load_factor
from planner.training.experts.routing import Routing
from tests.unit.training.experts.small import COSTS, group_of, options, problems, time_s

# The tokens per expert of two layers in the example of DeepSeek's EPLB.
COUNTS = (
    (90.0, 132.0, 40.0, 61.0, 104.0, 165.0, 39.0, 4.0, 73.0, 56.0, 183.0, 86.0),
    (20.0, 107.0, 104.0, 64.0, 19.0, 197.0, 187.0, 157.0, 172.0, 86.0, 16.0, 27.0),
)
PROBLEM = ExpertProblem(Routing((*COUNTS, COUNTS[0]), 2), group_of(4, 2, 10**10), COSTS)


def test_an_example() -> None:
    placement = place_experts(PROBLEM, options())
    answer = answer_of(placement)
    json.dumps(answer)
    assert answer["verified"]
    assert answer["status"] == "optimal"
    assert [part["layers"] for part in answer["layers"]] == [[0, 2], [1]]
    first, second = answer["layers"]
    assert first["default_load_factor"] == pytest.approx(330 * 4 / 1033)
    assert second["default_load_factor"] == pytest.approx(516 * 4 / 1156)
    assert first["load_factor"] == pytest.approx(260 * 4 / 1033)
    assert second["load_factor"] == pytest.approx(292 * 4 / 1156)
    assert max(first["load_of_device"]) == pytest.approx(first["load_factor"])
    assert sum(first["load_of_device"]) == pytest.approx(4)
    total = 2 * first["load_factor"] + second["load_factor"]
    assert answer["load_factor"] == mean_load_factor(placement) == pytest.approx(total / 3)
    assert answer["time_s"] == pytest.approx(2 * first["time_s"] + second["time_s"])
    assert answer["gain"] == pytest.approx(1 - answer["time_s"] / answer["default"]["time_s"])
    assert answer["gain"] > 0.2
    assert answer["memory_bytes"] == [9 * 10**9] * 4
    assert answer["memory_limit_bytes"] == [10**10] * 4
    assert answer["default"]["fits"]


def test_what_is_sent_and_where() -> None:
    """A quarter of the copies stays, a quarter goes to the neighbour, half leaves the node."""
    traffic = answer_of(place_quickly(PROBLEM))["traffic"]
    copies = 3 * 4 * COSTS.tokens * 2
    assert traffic == {
        "in_node_bytes": copies // 4 * COSTS.token_bytes,
        "cross_node_bytes": copies // 2 * COSTS.token_bytes,
        "own_share": 0.25,
        "in_node_share": pytest.approx(0.25),
        "cross_node_share": pytest.approx(0.5),
    }


def basis_of(problem: ExpertProblem) -> dict[str, str]:
    return {note["what"]: note["value"] for note in answer_of(place_quickly(problem))["basis"]}


def test_the_basis_says_what_was_assumed() -> None:
    assert basis_of(PROBLEM)["bytes sent"] == "the same in every placement"
    assert basis_of(PROBLEM)["experts per device"] == "3"
    uneven = ExpertProblem(PROBLEM.routing, group_of(3, 2), COSTS, equal_counts=False)
    assert "bytes sent" not in basis_of(uneven)
    assert "experts per device" not in basis_of(uneven)
    narrow = ExpertProblem(PROBLEM.routing, group_of(4, 2, 10**10), COSTS, equal_counts=False)
    assert basis_of(narrow)["experts per device"] == "as memory allows"


def test_a_quick_placement_says_that_no_engine_was_asked() -> None:
    (part, _) = answer_of(place_quickly(PROBLEM))["layers"]
    assert part["status"] == "feasible"
    assert part["gap"] > 0
    assert part["proof"].startswith("found quickly, without an engine; bound by the weights")


@settings(max_examples=50, deadline=None)
@given(problems(layers=2))
def test_sums_and_shares_hold(problem: ExpertProblem) -> None:
    placement = place_quickly(problem)
    answer = answer_of(placement)
    assert answer["verified"]
    for part in answer["layers"]:
        held = tuple(map(tuple, part["experts_of_device"]))
        number = part["layers"][0]
        assert part["time_s"] == pytest.approx(time_s(problem, held, number))
        assert part["time_s"] == pytest.approx(part["compute_s"] + part["exchange_s"])
        assert part["load_factor"] == pytest.approx(
            load_factor(held, problem.routing.frequencies(number))
        )
        assert part["load_factor"] >= 1 - 1e-12
    shares = [
        answer["traffic"][name] for name in ("own_share", "in_node_share", "cross_node_share")
    ]
    assert sum(shares) == pytest.approx(1)
