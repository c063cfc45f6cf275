"""The offload time factor: what it scales, how it rounds, and what the answer says of it."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import SpecError
from planner.pipeline.offload_time import read_factor
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.request import ResolvedRequest, resolve_request
from tests.problems import uniform_document

FROM_MODEL = {
    "model": "GPT-1.5B",
    "cluster": "4xA100-40GB",
    "training": {"micro_batch_size": 1, "micro_batches": 4},
}


def posted(factor: Any = None, **stage: Any) -> ResolvedRequest:
    """Two stages with O of 30 and R of 7 ns, two micro-batches."""
    stage = {"offload_bytes": 4, "offload_ns": 30, "reload_ns": 7, **stage}
    problem = uniform_document(devices=2, micro_batches=2, **stage)
    solver = {} if factor is None else {"offload_time_factor": factor}
    return resolve_request({"problem": problem, "solver": solver})


def times(problem: PipelineProblem) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [(stage.offload_ns, stage.reload_ns) for stage in problem.stages]


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        (1, [((30, 30), (7, 7))] * 2),
        (0.5, [((15, 15), (4, 4))] * 2),
        # As decimal numbers: 30 x 0.1 is 3, although the float product is above it.
        (0.1, [((3, 3), (1, 1))] * 2),
        ([0.5, 1], [((15, 15), (4, 4)), ((30, 30), (7, 7))]),
        ([0.5, [1, 0.1]], [((15, 15), (4, 4)), ((30, 3), (7, 1))]),
    ],
)
def test_both_times_are_scaled_and_rounded_up(factor: Any, expected: Any) -> None:
    assert times(posted(factor).problems[0]) == expected


def test_problems_made_from_a_model_are_scaled_alike() -> None:
    plain = resolve_request(FROM_MODEL)
    scaled = resolve_request({**FROM_MODEL, "solver": {"offload_time_factor": 0.5}})
    for one, other in zip(plain.problems, scaled.problems, strict=True):
        for before, after in zip(one.stages, other.stages, strict=True):
            assert after.offload_ns == tuple(-(-time // 2) for time in before.offload_ns)
            assert after.forward_ns == before.forward_ns
    assert scaled.resolved.assumptions[:-1] == plain.resolved.assumptions


def test_the_answer_will_say_that_its_times_are_scaled() -> None:
    (note,) = posted([0.5, [1, 0.1]]).resolved.assumptions
    assert note["value"] == "x 0.1 to 1, by stage or micro-batch"
    assert "unscaled" in note["basis"]
    assert posted().resolved.assumptions == ()


def test_a_factor_of_one_is_no_factor_however_it_is_written() -> None:
    assert read_factor([1, [1, 1.0]]) == 1.0
    assert posted([1, [1, 1]]).spec_hash == posted().spec_hash


def test_scaled_problems_do_not_share_answers_with_problems_posted_that_way() -> None:
    scaled, as_posted = posted(0.5), posted(offload_ns=15, reload_ns=4)
    assert scaled.problems == as_posted.problems
    assert scaled.problem_hash != as_posted.problem_hash
    assert scaled.shape_hash == as_posted.shape_hash


@pytest.mark.parametrize(
    ("factor", "path"),
    [
        (0, ()),
        (1.5, ()),
        ([], ()),
        ("half", ()),
        ([0.5], ()),
        ([0.5, 0.5, 0.5], ()),
        ([0.5, [0.5, 2]], (1, 1)),
        ([0.5, [0.5]], (1,)),
        ([0.5, ["x", 1]], (1, 0)),
    ],
)
def test_what_is_wrong_is_named(factor: Any, path: tuple[int, ...]) -> None:
    with pytest.raises(SpecError) as caught:
        posted(factor)
    assert caught.value.path == ("solver", "offload_time_factor", *path)
