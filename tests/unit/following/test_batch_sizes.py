"""The same global batch in other micro-batches."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from planner.following.batch_sizes import numbers_for, resized, typical_micro_batch
from tests.unit.following.pipelines import layered


@pytest.mark.parametrize(
    ("number", "size", "others"),
    [
        (8, 2, [1, 2, 4, 16]),
        (6, 1, [1, 2, 3]),
        (2, 16, [1, 4, 8]),
        (1, 1, []),
        (4, None, [1, 2, 8, 12, 16]),
    ],
)
def test_numbers_keep_the_batch_in_whole_samples(
    number: int, size: int | None, others: list[int]
) -> None:
    assert numbers_for(number, size) == others


def test_a_typical_micro_batch_has_mean_times_and_largest_sizes() -> None:
    problem = layered((1, 1), micro_batches=2)
    stage = replace(
        problem.stages[0],
        forward_ns=(10, 21),
        backward_weight_ns=(0, 1),
        activation_bytes=(5, 9),
    )
    one = typical_micro_batch(replace(problem, stages=(stage, problem.stages[1])))
    assert one.micro_batches == 1
    first = one.stages[0]
    assert (first.forward_ns, first.backward_weight_ns) == ((16,), (1,))
    assert first.activation_bytes == (9,)
    assert one.transfers[0].forward_ns == (10,)


@pytest.mark.parametrize(
    ("ratio", "fixed_share", "factor"),
    [(Fraction(1, 2), 0.0, 0.5), (Fraction(1, 2), 0.2, 0.6), (Fraction(2), 0.2, 1.8)],
)
def test_times_follow_a_line_and_sizes_the_samples(
    ratio: Fraction, fixed_share: float, factor: float
) -> None:
    one = typical_micro_batch(layered((2, 2), offload=True))
    other = resized(one, ratio, fixed_share)
    for before, after in zip(one.stages, other.stages, strict=True):
        for name in ("forward_ns", "backward_input_ns", "backward_weight_ns", "offload_ns"):
            assert getattr(after, name)[0] == round(getattr(before, name)[0] * factor)
        assert after.activation_bytes[0] == before.activation_bytes[0] * ratio
        assert after.backward_workspace_bytes[0] == -(
            -before.backward_workspace_bytes[0] * ratio // 1
        )
    assert other.transfers[0].forward_ns == (round(10 * factor),)
    assert other.devices == one.devices


def test_what_takes_no_time_takes_none_and_what_takes_some_takes_some() -> None:
    one = typical_micro_batch(layered((1, 1)))
    stage = replace(one.stages[0], forward_ns=(1,), backward_weight_ns=(0,))
    other = resized(replace(one, stages=(stage, one.stages[1])), Fraction(1, 8), 0.0)
    assert (other.stages[0].forward_ns, other.stages[0].backward_weight_ns) == ((1,), (0,))
