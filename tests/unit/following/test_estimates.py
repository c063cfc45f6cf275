"""Estimates are medians of what came after the last change, whatever order samples come in."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.following.estimates import (
    LEAST_SAMPLES,
    estimate,
    estimates_from_document,
    estimates_of,
    estimates_to_document,
)
from planner.following.telemetry import Sample
from tests.unit.following.runs import samples


def noisy(count: int, level: float = 100.0, spread: float = 1.0, seed: int = 1) -> list[float]:
    random = Random(seed)
    return [random.gauss(level, spread) for _ in range(count)]


def test_outliers_do_not_move_the_estimate() -> None:
    values = noisy(50)
    spoilt = [value * 30 if i % 10 == 3 else value for i, value in enumerate(values)]
    found = estimate(list(enumerate(spoilt)))
    assert found.value == pytest.approx(100, abs=0.5)
    assert found.outliers == 5
    assert found.samples == 45


def test_the_error_is_that_of_a_median() -> None:
    # Over many windows the medians spread as the estimate says that they do.
    found = [estimate(list(enumerate(noisy(60, seed=seed)))) for seed in range(200)]
    medians = [own.value for own in found]
    centre = sum(medians) / 200
    spread = (sum((m - centre) ** 2 for m in medians) / 199) ** 0.5
    typical = sorted(own.error for own in found)[100]
    assert typical == pytest.approx(spread, rel=0.25)


def test_only_what_comes_after_a_change_of_level_counts() -> None:
    values = [*noisy(60), *noisy(9, level=130, seed=2)]
    found = estimate(list(enumerate(values)))
    assert found.value == pytest.approx(130, abs=1)
    assert found.since == 60


def test_the_last_of_several_changes_counts() -> None:
    values = [*noisy(30), *noisy(30, level=130, seed=2), *noisy(20, level=110, seed=3)]
    assert estimate(list(enumerate(values))).since == 60


def test_noise_alone_is_no_change() -> None:
    cut = sum(estimate(list(enumerate(noisy(100, seed=s)))).since > 0 for s in range(200))
    assert cut <= 2


def test_a_quantity_that_never_varies_has_no_noise() -> None:
    found = estimate([(i, 256.0) for i in range(20)])
    assert (found.value, found.error, found.confidence, found.since) == (256.0, 0.0, 1.0, 0)


def test_a_step_of_a_quantity_that_never_varies_is_seen() -> None:
    found = estimate([(i, 256.0 if i < 20 else 300.0) for i in range(30)])
    assert (found.value, found.since) == (300.0, 20)


def test_more_samples_make_more_confidence() -> None:
    few, many = (estimate(list(enumerate(noisy(n, spread=3)))).confidence for n in (10, 100))
    assert 0 < few < many < 1


def test_stages_are_never_mixed() -> None:
    found = estimates_of(samples(range(30), lambda i, s: 1.0 + s))
    values = [found[s, "forward_ns"].value for s in range(3)]
    assert values == pytest.approx([1e6, 2e6, 3e6], rel=0.01)


def test_too_few_samples_say_nothing() -> None:
    assert estimates_of(samples(range(LEAST_SAMPLES - 1))) == {}


def test_only_iterations_that_count_do() -> None:
    own = samples(range(40), lambda i, s: 3.0 if i < 20 else 1.0)
    found = estimates_of(own, lambda i: i >= 20)
    assert found[0, "forward_ns"].samples == 20


def test_what_is_of_the_whole_iteration_has_no_estimate() -> None:
    names = {name for _, name in estimates_of(samples(range(10), plan_version=1))}
    assert names == {"forward_ns", "backward_input_ns", "backward_weight_ns"}


@given(st.randoms(use_true_random=False), st.integers(0, 3))
@settings(max_examples=25)
def test_shuffled_and_replayed_samples_give_the_same(random: Random, replays: int) -> None:
    own = samples(range(40), lambda i, s: 1.2 if i > 25 else 1.0)
    shuffled = [*own, *random.choices(own, k=replays * 10)]
    random.shuffle(shuffled)
    assert estimates_of(shuffled) == estimates_of(own)


def test_the_first_sample_of_an_iteration_wins() -> None:
    own = [Sample(i, 0, {"forward_ns": 10}) for i in range(10)]
    later = [Sample(i, 0, {"forward_ns": 99}) for i in range(10)]
    assert estimates_of([*own, *later]) == estimates_of(own)


def test_estimates_survive_their_document() -> None:
    found = estimates_of(samples(range(20)))
    assert estimates_from_document(estimates_to_document(found)) == found
