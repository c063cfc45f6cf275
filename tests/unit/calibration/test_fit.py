"""Fitted factors against known ones."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.calibration.fit import LEAST_FACTOR, ORDER, fit
from planner.calibration.observations import Observation, Peak, Term
from planner.cost.calibrated import MOST_MARGIN, CalibrationDocument
from tests.unit.calibration.cases import GPU, TRUE, observation

BUILT_IN = {"compute": 0.74, "hbm": 0.7, "pcie": 0.8, "nvlink": 0.93, "network": 0.8}
Shares = st.floats(0.05, 1.0)


def synthetic(
    number: int, true: dict[str, float], noise: float = 0.0, length: int = 4, scale: float = 1.0
) -> Observation:
    """A run whose computation also waits for NVLink, and whose times are off by `noise`."""
    drawn = random.Random(number)
    factors = {**BUILT_IN, **true}
    terms = []
    for stage in range(length):
        for quantity, fixed_ns, work_ns in (
            ("forward_ns", 1e5, {"compute": 8e5 * (1 + stage), "nvlink": 1e5}),
            ("backward_input_ns", 2e5, {"compute": 1.5e6, "nvlink": 1e5}),
            ("transfer_forward_ns", 6e3, {"nvlink": 1e5} if stage % 2 else {"network": 3e5}),
            ("offload_ns", 1e4, {"pcie": 4e5}),
        ):
            term = Term(stage, quantity, 1.0, fixed_ns, work_ns)
            off = max(0.2, drawn.gauss(1, noise))
            terms.append(replace(term, measured_ns=term.predicted_ns(factors) * off * scale))
    return Observation(f"run-{number:03}", GPU, BUILT_IN, tuple(terms))


def values(observations: list[Observation]) -> dict[str, float]:
    return {name: own.value for name, own in fit(observations).factors.items()}


def test_known_factors_are_recovered_from_the_cost_model_itself() -> None:
    calibration = fit([observation(number) for number in range(3)])
    found = {name: own.value for name, own in calibration.factors.items() if own.is_fitted}
    expected = {name: TRUE[name] for name in ("compute", "nvlink", "network")}
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=0.02)
    times = calibration.errors["stage_times"]
    assert times is not None
    assert times.basis == "left_out"
    assert times.before.median > 0.2
    assert times.after.worst < 0.03
    CalibrationDocument.model_validate(calibration.use(1))


@settings(max_examples=30, deadline=None)
@given(compute=Shares, pcie=Shares, nvlink=Shares, network=Shares, runs=st.integers(3, 6))
def test_known_factors_are_recovered_under_noise(
    compute: float, pcie: float, nvlink: float, network: float, runs: int
) -> None:
    true = {"compute": compute, "pcie": pcie, "nvlink": nvlink, "network": network}
    calibration = fit([synthetic(number, true, noise=0.01) for number in range(runs)])
    for name, own in calibration.factors.items():
        assert 0 < own.value <= 1
        # A factor that is right already need not be fitted; one that is not has to be.
        assert own.value == pytest.approx(true[name], rel=0.06), name
        assert own.is_fitted or own.value == BUILT_IN[name]


@settings(max_examples=20, deadline=None)
@given(st.permutations(list(range(5))))
def test_the_order_of_runs_does_not_matter(order: list[int]) -> None:
    runs = [synthetic(number, TRUE, noise=0.05) for number in range(5)]
    assert fit([runs[place] for place in order]) == fit(runs)


def test_the_fit_is_the_median_of_the_runs_medians() -> None:
    """By hand: computation alone, 1 ms at the peak rate, nothing else."""

    def run(number: int, *implied: float) -> Observation:
        terms = [
            Term(stage, "forward_ns", 1e6 / share, 0.0, {"compute": 1e6})
            for stage, share in enumerate(implied)
        ]
        return Observation(f"run-{number}", GPU, BUILT_IN, tuple(terms))

    runs = [run(0, 0.4, 0.42, 0.5), run(1, 0.46), run(2, 0.44, 0.44)]
    factor = fit(runs).factors["compute"]
    assert factor.value == pytest.approx(median([0.42, 0.46, 0.44]))
    assert (factor.runs, factor.samples) == (3, 6)
    errors = fit(runs).errors["stage_times"]
    assert errors is not None
    # The median of each run, and the median of those. Each run is predicted with the median of the
    # other two.
    before = [1 - 0.42 / 0.74, 1 - 0.46 / 0.74, 1 - 0.44 / 0.74]
    after = [0.5 / 0.45 - 1, 0.46 / 0.43 - 1, 0.0]
    assert errors.before.median == pytest.approx(median(before))
    assert errors.before.worst == pytest.approx(1 - 0.4 / 0.74)
    assert errors.after.median == pytest.approx(median(after))
    assert errors.after.worst == pytest.approx(1 - 0.4 / 0.45)


def test_a_long_run_does_not_outweigh_others() -> None:
    long = synthetic(0, {**TRUE, "compute": 0.9}, length=100)
    short = [synthetic(number, TRUE, length=2) for number in (1, 2)]
    assert values([long, *short])["compute"] == pytest.approx(TRUE["compute"], rel=1e-6)


@settings(max_examples=30, deadline=None)
@given(scale=st.sampled_from([1e-6, 0.1, 10.0, 1e6]), runs=st.integers(4, 7))
def test_a_single_odd_run_moves_nothing_far(scale: float, runs: int) -> None:
    good = [synthetic(number, TRUE, noise=0.01) for number in range(runs)]
    found = values([*good, synthetic(99, TRUE, scale=scale)])
    for name in ORDER:
        assert found[name] == pytest.approx(TRUE[name], rel=0.05)
        assert LEAST_FACTOR <= found[name] <= 1


def test_a_single_run_is_judged_in_sample() -> None:
    calibration = fit([synthetic(0, TRUE)])
    times = calibration.errors["stage_times"]
    assert times is not None
    assert (times.basis, times.runs) == ("in_sample", 1)
    assert times.after.worst < 1e-6
    factor = calibration.factors["compute"]
    assert factor.spread is None
    assert (
        factor.confidence
        < fit([synthetic(n, TRUE) for n in range(6)]).factors["compute"].confidence
    )


def test_runs_that_contradict_each_other_leave_the_built_in_factor() -> None:
    """Each would be predicted worse from the other than it is without any."""
    fast = synthetic(0, {**BUILT_IN, "compute": 1.0})
    slow = synthetic(1, {**BUILT_IN, "compute": 0.5})
    calibration = fit([fast, slow])
    factor = calibration.factors["compute"]
    assert not factor.is_fitted
    assert factor.value == BUILT_IN["compute"]
    assert "worse" in factor.reason
    assert "compute" not in calibration.use(1)["efficiency"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(Shares, Shares, Shares), min_size=1, max_size=5))
def test_no_group_of_times_is_predicted_worse_than_before(
    drawn: list[tuple[float, float, float]],
) -> None:
    runs = [
        synthetic(number, {"compute": compute, "nvlink": nvlink, "network": network}, 0.02)
        for number, (compute, nvlink, network) in enumerate(drawn)
    ]
    calibration = fit(runs)
    errors = calibration.errors["stage_times"]
    assert errors is not None
    assert errors.after.median <= errors.before.median + 1e-12
    assert not any(
        own.value != own.built_in for own in calibration.factors.values() if not own.is_fitted
    )


def test_what_no_run_tells_of_stays() -> None:
    only_compute = replace(
        synthetic(0, TRUE),
        terms=tuple(t for t in synthetic(0, TRUE).terms if "compute" in t.work_ns),
    )
    factors = fit([only_compute]).factors
    assert factors["compute"].is_fitted
    assert (factors["pcie"].value, factors["pcie"].reason) == (0.8, "no run tells of it")
    assert factors["pcie"].confidence == 0


def with_peaks(number: int, *ratios: float) -> Observation:
    peaks = tuple(Peak(device, 1e9 * ratio, 1e9) for device, ratio in enumerate(ratios))
    return replace(synthetic(number, TRUE), peaks=peaks)


def test_the_margin_is_an_upper_quantile_of_the_worst_devices() -> None:
    runs = [with_peaks(number, 0.9, 1 + number / 100) for number in range(11)]
    margin = fit(runs).margin
    assert margin.value == pytest.approx(1.09)
    assert (margin.runs, margin.samples) == (11, 22)
    assert margin.short is not None
    assert margin.short.worst == pytest.approx(1 - 1 / 1.1)
    assert margin.short_after is not None
    assert margin.short_after.worst < margin.short.worst
    assert fit(runs).use(1)["memory_margin"] == pytest.approx(1.09)


def test_the_margin_never_takes_memory_back_and_no_single_run_stretches_it() -> None:
    assert fit([with_peaks(0, 0.7, 0.8)]).margin.value == 1.0
    assert "memory_margin" not in fit([with_peaks(0, 0.7)]).use(1)
    good = [with_peaks(number, 1.02 + number / 1000) for number in range(4)]
    assert fit([*good, with_peaks(9, 40.0)]).margin.value < 1.03
    assert fit([with_peaks(0, 40.0)]).margin.value == MOST_MARGIN
    assert fit([synthetic(0, TRUE)]).margin.reason == "no run reports its peak memory"


def test_runs_on_different_gpus_are_refused() -> None:
    with pytest.raises(ValueError, match="one kind of GPU"):
        fit([synthetic(0, TRUE), replace(synthetic(1, TRUE), gpu="A100-40GB")])
    with pytest.raises(ValueError, match="one kind of GPU"):
        fit([])
