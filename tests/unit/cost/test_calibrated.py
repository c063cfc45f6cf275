"""Calibrations in cluster documents: what they replace, and what answers say of it."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cost.hardware import gpu_named, read_cluster
from planner.errors import SpecError
from planner.pipeline.request import resolve_request as resolve_pipeline
from planner.training.request import read_spec
from planner.training.request import resolve_request as resolve_training

GIB = 2**30
CALIBRATION: dict[str, Any] = {
    "gpu": "H100-80GB",
    "version": 3,
    "runs": 4,
    "efficiency": {"compute": 0.5, "network": 0.6},
    "memory_margin": 1.25,
    "error_before": 0.182,
    "error_after": 0.031,
    "basis": "left_out",
}


def cluster(**more: Any) -> dict[str, Any]:
    return {"gpu": "H100", "gpus_per_node": 8, **more}


def test_a_calibration_stands_for_what_the_body_does_not_give() -> None:
    plain = read_cluster(cluster())
    calibrated = read_cluster(cluster(calibration=CALIBRATION))
    given = read_cluster(
        cluster(calibration=CALIBRATION, efficiency={"compute": 0.9}, memory_margin=1.0)
    )
    assert (calibrated.efficiency.compute, calibrated.efficiency.network) == (0.5, 0.6)
    assert calibrated.efficiency.nvlink == plain.efficiency.nvlink
    assert (given.efficiency.compute, given.efficiency.network) == (0.9, 0.6)
    assert given.reserved_bytes == plain.reserved_bytes


def test_a_margin_reserves_what_it_adds_to_the_formulas() -> None:
    own = read_cluster(cluster(gpu_memory_bytes=100 * GIB, memory_margin=1.25))
    left = own.memory_bytes - own.reserved_bytes
    assert left * 1.25 == pytest.approx(98 * GIB, abs=2)
    full = read_cluster(cluster(gpu_memory_bytes=GIB, memory_margin=1.25))
    assert full.reserved_bytes == 2 * GIB


@pytest.mark.parametrize(
    ("more", "value", "basis"),
    [
        ({}, "built-in factors", "is used where `cluster.calibration` names one"),
        ({"efficiency": {"pcie": 0.8}}, "built-in factors", "Given with the request: pcie."),
        (
            {"efficiency": dict.fromkeys(("compute", "hbm", "pcie", "nvlink", "network"), 0.5)},
            "given",
            "compute, hbm, pcie, nvlink, network",
        ),
        (
            {"calibration": CALIBRATION},
            "calibration 3 of H100-80GB",
            "4 runs; median error of stage times 18.2% before, 3.1% after (each run predicted",
        ),
    ],
)
def test_answers_say_which_factors_they_rest_on(
    more: dict[str, Any], value: str, basis: str
) -> None:
    note = read_cluster(cluster(**more)).factors
    assert note["value"] == value
    assert basis in note["basis"]


@pytest.mark.parametrize(
    ("calibration", "path", "words"),
    [
        ("latest", ("cluster", "calibration"), "only the service knows"),
        (3, ("cluster", "calibration"), "only the service knows"),
        ({**CALIBRATION, "gpu": "A100-40GB"}, ("cluster", "calibration"), "is of A100-40GB"),
        (
            {**CALIBRATION, "efficiency": {"compute": 1.5}},
            ("cluster", "calibration", "efficiency", "compute"),
            "",
        ),
        ({**CALIBRATION, "memory_margin": 0.9}, ("cluster", "calibration", "memory_margin"), ""),
    ],
)
def test_faults_are_named(calibration: Any, path: tuple[str, ...], words: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_cluster(cluster(calibration=calibration))
    assert caught.value.path == path
    assert words in caught.value.message


def test_a_part_of_a_calibration_is_told_how_to_name_a_whole_one() -> None:
    with pytest.raises(SpecError) as caught:
        read_cluster(cluster(calibration={"version": 1}))
    assert caught.value.path == ("cluster", "calibration")
    assert "lacks gpu, runs" in caught.value.message
    assert 'Give "latest", the number of a version, or the whole' in caught.value.remedy


def test_names_of_gpus_are_those_of_their_presets() -> None:
    assert gpu_named("h100_sxm") == "H100-80GB"
    assert gpu_named("my own") == "my own"


def test_a_calibrated_pipeline_is_kept_apart_even_where_nothing_was_fitted() -> None:
    """Its answer names the calibration, which answers of others must not."""
    nothing = {"gpu": "H100-80GB", "version": 1, "runs": 1}
    training = {"micro_batches": 4, "pipeline_parallel": 2}
    plain, calibrated = (
        resolve_pipeline({"model": "GPT-2", "cluster": own, "training": training})
        for own in (cluster(), cluster(calibration=nothing))
    )
    assert plain.problem_hash == calibrated.problem_hash
    assert plain.spec_hash != calibrated.spec_hash


def test_a_training_plan_keeps_calibration_and_headroom_together() -> None:
    body = {
        "model": "GPT-2",
        "cluster": cluster(calibration=CALIBRATION),
        "training": {"global_batch_size": 16},
        "memory_headroom": 0.1,
    }
    spec = resolve_training(body).resolved
    again = read_cluster(spec.cluster_fields)
    assert again.memory_bytes == spec.cluster.memory_bytes
    assert again.reserved_bytes == spec.cluster.reserved_bytes
    assert again.efficiency == spec.cluster.efficiency
    assert read_spec(spec.to_document()).hash() == spec.hash()
    plain = resolve_training({**body, "cluster": cluster()})
    assert plain.spec_hash != resolve_training(body).spec_hash
