"""From a request body to the canonical spec and its hash."""

from __future__ import annotations

import copy
import os
from typing import Any

import pytest

from planner.errors import SpecError
from planner.pipeline.request import resolve_request
from planner.pipeline.spec import read_spec

STAGE = {"forward_ns": 10, "backward_input_ns": 10, "backward_weight_ns": 5, "activation_bytes": 4}


def posted() -> dict[str, Any]:
    """A problem of two stages as a client might post it."""
    return {
        "problem": {
            "micro_batches": 3,
            "devices": [{"activation_memory_bytes": 8}, {"activation_memory_bytes": 8}],
            "stages": [{"device": 0, **STAGE}, {"device": 1, **STAGE}],
        },
        "solver": {"time_limit_s": 60},
    }


def from_model() -> dict[str, Any]:
    """The same kind of request from presets."""
    return {
        "model": "GPT-1.5B",
        "cluster": {"gpu": "A100-40GB", "nodes": 1, "gpus_per_node": 4},
        "training": {"micro_batch_size": 1, "micro_batches": 4},
    }


def test_spelling_order_names_and_written_out_defaults_do_not_change_the_hash() -> None:
    same = copy.deepcopy(posted())
    same["solver"] = {"threads": 2, "mip_gap": 0.0, "time_limit_s": 6e1, "seed": 0}
    problem = same["problem"]
    problem["name"] = "mine"
    problem["objective"] = "makespan"
    problem["micro_batches"] = 3.0
    problem["stages"][0]["forward_ns"] = [1e1, 10, 10]
    problem["stages"][1]["name"] = "last"
    problem["transfers"] = [{"forward_ns": 0, "backward_ns": 0}]
    same["problem"] = dict(reversed(problem.items()))
    assert resolve_request(same).spec_hash == resolve_request(posted()).spec_hash


@pytest.mark.parametrize(
    "change",
    [
        {"solver": {"time_limit_s": 61}},
        {"solver": {"time_limit_s": 60, "mip_gap": 0.01}},
        {"solver": {"time_limit_s": 60, "offload_strategy": "aggressive"}},
        {"solver": {"time_limit_s": 60, "seed": 1}},
        {"solver": {"search_iterations": 60}},
    ],
)
def test_options_change_the_hash_of_the_spec_and_not_of_the_problem(change: dict[str, Any]) -> None:
    changed = resolve_request(posted() | change)
    assert changed.spec_hash != resolve_request(posted()).spec_hash
    assert changed.problem_hash == resolve_request(posted()).problem_hash


def test_the_engine_is_kept_apart_from_the_hash() -> None:
    named = posted() | {"solver": {"time_limit_s": 60, "engine": "highs"}}
    assert resolve_request(named).spec_hash == resolve_request(posted()).spec_hash
    assert resolve_request(named).engine == "highs"
    assert resolve_request(named).engine_named
    assert not resolve_request(posted()).engine_named


def test_the_default_engine_is_not_a_named_one() -> None:
    named = resolve_request(posted() | {"solver": {"engine": "auto"}})
    assert (named.engine, named.engine_named) == ("auto", False)
    assert resolve_request(posted()).engine == "auto"


def test_a_number_of_the_problem_changes_the_hash() -> None:
    other = posted()
    other["problem"]["stages"][0]["forward_ns"] = 11
    assert resolve_request(other).spec_hash != resolve_request(posted()).spec_hash
    assert resolve_request(other).problem_hash != resolve_request(posted()).problem_hash
    assert resolve_request(other).shape_hash == resolve_request(posted()).shape_hash


def test_labels_of_a_client_stay_with_it() -> None:
    labelled = posted()
    labelled["problem"]["devices"][0]["name"] = "secret-host"
    assert "secret-host" not in str(resolve_request(labelled).spec)


def test_an_iteration_budget_takes_the_place_of_the_time_limit() -> None:
    resolved = resolve_request(posted() | {"solver": {"search_iterations": 1000, "seed": 7}})
    options = resolved.resolved.options
    assert (options.search_iterations, options.seed) == (1000, 7)
    assert resolved.is_reproducible
    assert resolved.time_limit_s == 3600


def test_an_iteration_budget_and_a_time_limit_exclude_each_other() -> None:
    with pytest.raises(SpecError, match=r"search_iterations.*time_limit_s"):
        resolve_request(posted() | {"solver": {"search_iterations": 9, "time_limit_s": 60}})


def test_threads_are_at_most_the_cores_that_there_are() -> None:
    options = resolve_request(posted() | {"solver": {"threads": 64}}).resolved.options
    assert options.threads == 64
    assert options.threads_here() == min(64, len(os.sched_getaffinity(0)))


def test_specs_stored_before_an_option_existed_are_read_with_its_default() -> None:
    stored = resolve_request(posted()).spec
    for name in ("seed", "search_iterations", "offload_time_factor"):
        del stored["options"][name]
    assert read_spec(stored).options == resolve_request(posted()).resolved.options


SCALED = {"solver": {"offload_time_factor": [0.5, [1, 0.25, 1]]}}


@pytest.mark.parametrize(
    "body",
    [posted(), from_model(), posted() | SCALED],
)
def test_a_spec_reads_back_as_it_was_written(body: dict[str, Any]) -> None:
    spec = resolve_request(body).spec
    assert read_spec(spec).to_document() == spec


def test_a_model_gives_a_candidate_per_placement() -> None:
    resolved = resolve_request(from_model())
    placements = [candidate.placement for candidate in resolved.resolved.candidates]
    assert placements[0] == "one_chunk"
    assert {"interleaved_2", "v_shape"} <= set(placements)
    assert resolved.operations >= 3 * 4 * 4


def test_preview_has_the_problem_and_bounds_of_each_placement() -> None:
    preview = resolve_request(from_model()).preview()
    for entry in preview["placements"]:
        assert entry["feasible"]
        assert entry["lower_bound_ns"] == max(bound["value_ns"] for bound in entry["bounds"])
    assert all(assumption["basis"] for assumption in preview["assumptions"])


def test_a_model_too_large_for_its_devices_says_so_and_how_to_fit() -> None:
    body = from_model() | {"model": "Llama-3-70B"}
    preview = resolve_request(body).preview()
    assert preview["placements"] == []
    assert preview["static_shortage"]["devices"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, ("model",)),
        ({"model": "GPT-1.5B"}, ("cluster",)),
        (posted() | {"model": "GPT-1.5B"}, ("model",)),
        (posted() | {"colour": 1}, ("colour",)),
        (posted() | {"solver": {"time_limit_s": 0}}, ("solver", "time_limit_s")),
        (posted() | {"solver": {"time_limit_s": float("nan")}}, ("solver", "time_limit_s")),
        (posted() | {"solver": {"engine": "gurobi"}}, ("solver", "engine")),
        (posted() | {"solver": {"mip_gap": 1.5}}, ("solver", "mip_gap")),
        (posted() | {"solver": {"seed": -1}}, ("solver", "seed")),
        (posted() | {"solver": {"search_iterations": 0}}, ("solver", "search_iterations")),
        (
            posted() | {"solver": {"search_iterations": 9, "engine": "cbc"}},
            ("solver", "search_iterations"),
        ),
    ],
)
def test_what_is_wrong_is_named(body: dict[str, Any], path: tuple[str, ...]) -> None:
    with pytest.raises(SpecError) as caught:
        resolve_request(body)
    assert caught.value.path == path


def test_a_bare_problem_is_told_where_it_goes() -> None:
    with pytest.raises(SpecError) as refused:
        resolve_request({"micro_batches": 2, "devices": [{}], "stages": []})
    assert refused.value.path == ("micro_batches",)
    assert "problem" in refused.value.remedy
