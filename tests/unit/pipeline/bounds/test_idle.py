"""Fill, drain and tail: hand-made cases of each argument."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.pipeline.bounds.idle import most_value
from planner.pipeline.bounds.lower_bounds import lower_bounds
from planner.pipeline.documents import read_problem
from planner.pipeline.problem import PipelineProblem
from tests.problems import uniform_document, uniform_problem

WORK = 10 + 12 + 8
FORWARDS_AND_BACK = 4 * 10 + 3 * 12
"""From the start of an F of stage 0 to that of its own B, with four stages."""


def named_ns(problem: PipelineProblem) -> dict[str, int]:
    return {bound.name: bound.value_ns for bound in lower_bounds(problem)}


def test_fill_idle_counts_the_forwards_that_fit_before_the_first_backward() -> None:
    """Room for two activations: of the 76 ns before the first B, 56 are idle on device 0."""
    named = named_ns(uniform_problem(devices=4, micro_batches=8, limit=8))
    assert named["fill idle"] == FORWARDS_AND_BACK + 8 * WORK - 2 * 10


def test_drain_idle_counts_the_work_that_can_wait_beside_the_last_forward() -> None:
    """Beside the last activation fit one more, or two that only wait for their W: 20 ns."""
    named = named_ns(uniform_problem(devices=4, micro_batches=8, limit=8))
    before_last = 8 * WORK - WORK - (12 + 8)
    assert named["drain idle"] == before_last + FORWARDS_AND_BACK + 12 + 8


def test_fill_and_drain_idle_add_up_where_not_all_fits_at_once() -> None:
    few, many = (named_ns(uniform_problem(devices=4, micro_batches=m, limit=8)) for m in (2, 8))
    assert few["fill and drain idle"] == 0
    idle = (FORWARDS_AND_BACK - 2 * 10) + (FORWARDS_AND_BACK - 10 - (12 + 8))
    assert many["fill and drain idle"] == 8 * WORK + idle


def test_tail_counts_the_way_back_after_all_but_the_weights_that_memory_lets_wait() -> None:
    """Device 3, room for one activation: its own W and none other may wait for the last B."""
    named = named_ns(uniform_problem(devices=4, micro_batches=8, limit=4, weight_grad_bytes=4))
    assert named["tail"] == 3 * 10 + 8 * WORK - 8 + (3 * 12 + 8)


def test_a_fused_backward_leaves_no_weights_to_wait() -> None:
    options = {"devices": 4, "micro_batches": 8, "limit": 8}
    named = named_ns(uniform_problem(**options, backward_weight_ns=0, weight_grad_bytes=0))
    assert named["tail"] == 3 * 10 + 8 * 22 + 3 * 12


@pytest.mark.parametrize("field", ["weight_grad_bytes", "backward_workspace_bytes"])
def test_more_that_the_last_backward_holds_lets_fewer_weights_wait(field: str) -> None:
    """A B that takes 9 of 12 bytes leaves room for one W of 2 bytes, or none of 9."""
    less = named_ns(uniform_problem(devices=4, micro_batches=8, limit=12))["tail"]
    size = 9 if field == "weight_grad_bytes" else 6
    more = named_ns(uniform_problem(devices=4, micro_batches=8, limit=12, **{field: size}))["tail"]
    assert more > less


def test_what_the_link_can_carry_away_by_the_first_backward_makes_room_for_forwards() -> None:
    """76 ns hold two O of 30 ns after the first F, three of 20, or none of 70."""

    def fill_ns(offload_ns: int) -> int:
        document = uniform_document(
            devices=4, micro_batches=8, limit=8, offload_bytes=4, offload_ns=offload_ns
        )
        return named_ns(read_problem(document))["fill idle"]

    none = named_ns(uniform_problem(devices=4, micro_batches=8, limit=8))["fill idle"]
    assert fill_ns(70) == none
    assert fill_ns(30) == none - 2 * 10
    assert fill_ns(20) == none - 3 * 10


def test_no_limit_no_idle() -> None:
    named = named_ns(uniform_problem())
    assert [named[name] for name in ("fill idle", "drain idle", "tail", "recycling")] == [0] * 4


items = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 6)), max_size=6)


@given(items, st.integers(0, 20))
def test_most_value_is_never_below_any_choice_that_fits(
    offers: list[tuple[int, int]], room: int
) -> None:
    best = 0
    for taken in product((False, True), repeat=len(offers)):
        chosen = [offer for offer, take in zip(offers, taken, strict=True) if take]
        if sum(weight for _, weight in chosen) <= room:
            best = max(best, sum(value for value, _ in chosen))
    assert best <= most_value(offers, room)
