"""A run's estimates beside what the uncalibrated cost model predicts."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

import pytest

from planner.calibration.observe import BUILT_IN, NotCounted, gpu_of, observe
from planner.cost.resolve import resolve
from planner.following.profile import planned
from planner.pipeline.timing import schedule_from_ops
from tests.unit.calibration.cases import (
    GPU,
    TRUE,
    base_of,
    estimate,
    measured,
    observation,
    plan_of,
    request_of,
    true_problem,
)

BUILT = {name: getattr(BUILT_IN, name) for name in TRUE}


@pytest.mark.parametrize("number", range(3))
def test_predictions_are_those_of_the_cost_model_for_any_factors(number: int) -> None:
    """The terms against a cost model that is asked afresh."""
    request = request_of(number)
    terms = observation(number).terms
    for factors in (BUILT, TRUE, {**BUILT, "compute": 0.3}, {**BUILT, "nvlink": 0.2}):
        problem = true_problem(request, factors)
        for term in terms:
            expected = planned(problem, (term.stage, term.quantity))
            assert expected is not None
            # The cost model rounds each block to whole microseconds.
            assert term.predicted_ns(factors) == pytest.approx(expected, rel=0.02, abs=2_000)


def test_what_a_term_implies_is_the_factor_that_makes_it_true() -> None:
    for term in observation(2).terms:
        owner = term.owner(BUILT)
        if owner is not None:
            implied = term.implied(owner, TRUE)
            assert term.predicted_ns({**TRUE, owner: implied}) == pytest.approx(term.measured_ns)
            assert implied == pytest.approx(TRUE[owner], rel=0.05)


def test_computation_tells_of_flops_and_transfers_of_their_link() -> None:
    in_node, between = observation(1), observation(2)
    own = {term.quantity: term.owner(BUILT) for term in in_node.terms if term.stage == 1}
    assert own["forward_ns"] == own["backward_input_ns"] == "compute"
    assert own["transfer_forward_ns"] == "nvlink"
    links = {
        term.stage: term.owner(BUILT)
        for term in between.terms
        if term.quantity == "transfer_forward_ns"
    }
    assert links == {0: "nvlink", 1: "nvlink", 2: "nvlink", 3: "network", 4: "nvlink",
                     5: "nvlink", 6: "nvlink"}  # fmt: skip
    assert in_node.terms_of("network") == []


def test_what_the_request_says_of_rates_is_left_aside() -> None:
    """A run that was calibrated already, or came with a profile, is compared with the built-in
    factors all the same."""
    plain = request_of(0)
    resolved = resolve(plain["model"], plain["cluster"], plain["training"])
    layers = list(resolved.candidates[0].layers_per_stage)
    plain["training"] = {**plain["training"], "layers_per_stage": layers}
    estimates = measured(true_problem(plain, TRUE))
    calibration = {"gpu": GPU, "version": 1, "runs": 1, "efficiency": {"compute": 0.9}}
    profile = {"layer": {"forward_ns": 1_000_000}}
    calibrated = {**plain, "cluster": {**plain["cluster"], "calibration": calibration}}
    profiled = {**plain, "training": {**plain["training"], "profile": profile}}
    terms = [
        observe("run", request, base_of(request), estimates).terms
        for request in (plain, calibrated, profiled)
    ]
    assert terms[0] == terms[1] == terms[2]


def test_peaks_are_states_and_the_activations_of_the_plan_that_runs() -> None:
    request = request_of(1)
    base = base_of(request)
    candidate = resolve(request["model"], request["cluster"], request["training"]).candidates[0]
    expected = [
        static + activations
        for static, activations in zip(
            candidate.static_bytes,
            schedule_from_ops(base, plan_of(base)).peak_memory_bytes,
            strict=True,
        )
    ]
    peaks = observation(1, peaks={0: expected[0] * 1.1, 3: expected[3] * 0.9}).peaks
    assert [peak.device for peak in peaks] == [0, 3]
    assert [peak.ratio for peak in peaks] == pytest.approx([1.1, 0.9])


def test_noisy_estimates_do_not_count() -> None:
    request = request_of(0)
    estimates = measured(true_problem(request, TRUE))
    noisy = {key: replace(own, error=own.value / 5) for key, own in estimates.items()}
    with pytest.raises(NotCounted, match="steady enough"):
        observe("run", request, base_of(request), noisy)
    some = {**noisy, (0, "forward_ns"): estimates[0, "forward_ns"]}
    assert len(observe("run", request, base_of(request), some).terms) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cluster": None}, "posted as a problem"),
        ({"cluster": {"gpu": "H100"}}, "cannot be read any more: cluster.gpus_per_node"),
        ({"cluster": {"gpu": "H100", "nodes": 1, "gpus_per_node": 2}}, "cannot be read"),
        (
            {
                "cluster": {
                    "gpu": {"preset": "H100", "name": "a/b"},
                    "nodes": 4,
                    "gpus_per_node": 4,
                }
            },
            "slash",
        ),
        (
            {
                "training": {
                    "micro_batches": 8,
                    "micro_batch_size": 4,
                    "pipeline_parallel": 2,
                    "interleaving": 1,
                }
            },
            "another shape",
        ),
    ],
)
def test_runs_that_say_nothing_are_named_with_the_reason(
    change: dict[str, Any], reason: str
) -> None:
    request = request_of(0)
    estimates = {(0, "forward_ns"): estimate(1e6)}
    with pytest.raises(NotCounted, match=reason):
        observe("run", {**request, **change}, base_of(request), estimates)


def test_a_run_without_estimates_says_so() -> None:
    request = request_of(0)
    with pytest.raises(NotCounted, match="measured enough"):
        observe("run", request, base_of(request), {})


def test_the_kind_of_gpu_is_the_presets_name_however_it_is_spelled() -> None:
    assert gpu_of(request_of(0)) == GPU
    assert gpu_of({**request_of(0), "cluster": "4x4xh100-sxm"}) == GPU
    own = {"memory_bytes": 10**10, "hbm_bytes_per_s": 1e12, "pcie_bytes_per_s": 1e10}
    with pytest.raises(NotCounted, match="neither a preset nor a name"):
        gpu_of({**request_of(0), "cluster": {"gpu": own, "gpus_per_node": 4}})


def test_a_merged_backward_is_compared_as_one() -> None:
    """A plan without W: who measures one runs it within B."""
    request = request_of(0)
    request["training"] = {**request["training"], "split_backward": False}
    base = base_of(request)
    backward_ns = planned(base, (0, "backward_input_ns"))
    assert backward_ns is not None
    estimates = {
        (0, "backward_input_ns"): estimate(backward_ns / 2),
        (0, "backward_weight_ns"): estimate(backward_ns / 2),
    }
    (term,) = observe("run", request, base, estimates).terms
    assert term.measured_ns == pytest.approx(backward_ns)
    assert median([term.error(BUILT)]) < 0.01
