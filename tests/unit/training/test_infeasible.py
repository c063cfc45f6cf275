"""Where nothing fits: the least memory, what of, and ways out that are right."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cost.hardware_presets import GPU_PRESETS
from planner.training.evaluate import Plan, Shortage
from planner.training.infeasible import explain
from planner.training.least_memory import least_memory
from tests.unit.training.posted import Body, body, evaluator_of, outcomes, search_for, spec_of

TINY = {"memory_bytes": 2**29}


def why_of(request: Body) -> dict[str, Any]:
    spec = spec_of(request)
    return explain(spec, evaluator_of(spec), {}, lambda: False)


def test_the_least_is_that_of_all_configurations() -> None:
    spec = spec_of(body(gpu=TINY))
    every = outcomes(spec)
    assert not any(isinstance(own, Plan) for own in every)
    least = least_memory(spec, evaluator_of(spec), {})
    assert isinstance(least, Shortage)
    assert least.peak_bytes == min(own.peak_bytes for own in every if isinstance(own, Shortage))


def test_what_fits_is_found() -> None:
    spec = spec_of(body())
    assert isinstance(least_memory(spec, evaluator_of(spec), {}), Plan)


def test_the_answer_names_rank_bytes_and_parts() -> None:
    why = why_of(body(gpu=TINY))
    assert why["bytes"] == why["smallest_limit_bytes"] > why["limit_bytes"] == 2**29
    assert sum(part["bytes"] for part in why["parts"]) == why["bytes"]
    assert why["parts"][0]["what"] == why["limited_by"]
    assert why["limited_by"] in why["summary"]
    # With exactly so much memory something fits.
    enough = body(gpu={"memory_bytes": why["smallest_limit_bytes"]})
    assert search_for(enough)[1].ranked
    less = body(gpu={"memory_bytes": why["smallest_limit_bytes"] - 1})
    assert not search_for(less)[1].ranked


def test_the_fewest_gpus_do() -> None:
    why = why_of(body(gpu=TINY))
    gpus = why["smallest_gpus"]
    assert gpus == why["gpus_searched"] > 8
    nodes = gpus // 4
    assert search_for(body(gpu=TINY, cluster={"nodes": nodes}))[1].ranked
    assert not search_for(body(gpu=TINY, cluster={"nodes": nodes // 2}))[1].ranked


def test_every_way_out_is_right() -> None:
    strict = {
        "zero_stage": 0,
        "recomputation": "none",
        "offload": False,
        "micro_batch_size": 4,
        "tensor_parallel": 1,
        "pipeline_parallel": 2,
    }
    request = body(gpu={"memory_bytes": 6 * 2**28}, training=strict)
    assert not search_for(request)[1].ranked
    why = why_of(request)
    remedies = {remedy["remedy"]: remedy for remedy in why["remedies"]}
    assert set(remedies) == {
        "offload",
        "zero_stage",
        "recomputation",
        "micro_batch_size",
        "degrees",
        "together",
        "gpu",
    }
    assert remedies["together"]["fits"]
    for kind, remedy in remedies.items():
        if kind in ("together", "gpu"):
            continue
        names = {"degrees": ("tensor_parallel", "pipeline_parallel")}.get(kind, (kind,))
        lifted = {name: value for name, value in strict.items() if name not in names}
        fits = bool(search_for(body(gpu={"memory_bytes": 6 * 2**28}, training=lifted))[1].ranked)
        assert remedy["fits"] == fits
        assert ("training" in remedy) == fits
        if fits:
            left_out = {f"training.{name}": None for name in names if name in strict}
            assert remedy["request_changes"] == left_out


def test_a_larger_gpu_is_the_smallest_preset_that_does() -> None:
    why = why_of(body(gpu={**TINY, "memory_bytes": 2**29}))
    (remedy,) = (own for own in why["remedies"] if own["remedy"] == "gpu")
    assert remedy["fits"]
    smallest = min(GPU_PRESETS.values(), key=lambda preset: preset.fields["memory_bytes"])
    assert remedy["gpu"] in {smallest.name, "A100-40GB"}
    assert remedy["request_changes"] == {
        "cluster.gpu": remedy["gpu"],
        "cluster.gpu_memory_bytes": None,
    }


def test_a_larger_gpu_comes_without_the_calibration_of_the_smaller_one() -> None:
    calibration = {"gpu": "tiny", "version": 1, "runs": 1, "efficiency": {"compute": 0.5}}
    gpu = {**TINY, "name": "tiny"}
    why = why_of(body(gpu=gpu, cluster={"calibration": calibration}))
    (remedy,) = (own for own in why["remedies"] if own["remedy"] == "gpu")
    assert remedy["fits"]
    assert remedy["request_changes"]["cluster.calibration"] is None


def test_what_the_search_restricts_is_left_out_as_well() -> None:
    fixed = {"recomputation": "none", "offload": False, "micro_batch_size": 4}
    searched = {"zero_stage": [0], "tensor_parallel": [1], "pipeline_parallel": [2]}
    why = why_of(body(gpu={"memory_bytes": 6 * 2**28}, training=fixed, search=searched))
    (together,) = (own for own in why["remedies"] if own["remedy"] == "together")
    assert together["request_changes"] == {
        **{f"training.{name}": None for name in fixed},
        **{f"search.{name}": None for name in searched},
    }


def test_full_hosts_are_told() -> None:
    request = body(
        gpu={"memory_bytes": 5 * 2**28},
        cluster={"host_memory_bytes": 10**6},
        training={"recomputation": "none", "offload": True, "zero_stage": 0, "tensor_parallel": 1},
        search={"pipeline_parallel": [8], "micro_batch_size": [4], "interleaving": [1]},
    )
    spec = spec_of(request)
    (outcome,) = outcomes(spec)
    assert isinstance(outcome, Shortage)
    assert outcome.offload is not None
    assert outcome.offload.where in ("host", "gpu")


@pytest.mark.parametrize("stop", [True])
def test_told_to_stop_it_still_says_something(stop: bool) -> None:
    spec = spec_of(body(gpu=TINY))
    assert least_memory(spec, evaluator_of(spec), {}, lambda: stop) is None
