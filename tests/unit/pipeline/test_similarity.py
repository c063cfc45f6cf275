"""Which problems have one shape, and how far apart they are."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

from planner.pipeline.documents import read_problem
from planner.pipeline.options import SolveOptions
from planner.pipeline.similarity import (
    differs_only_in_limits,
    distance,
    profile_of,
    shape_hash,
)
from planner.pipeline.spec import AS_POSTED, Candidate, PipelineSpec
from tests.problems import uniform_document


def document() -> dict[str, Any]:
    """Two devices that offload over one link into one host."""
    made = uniform_document(
        devices=2, micro_batches=3, limit=16, offload_bytes=4, offload_ns=5, reload_ns=5,
        hosts=[{"memory_bytes": 40}],
    )  # fmt: skip
    for device in made["devices"]:
        device["host_link"] = "switch"
    return made


def spec(problem: dict[str, Any]) -> PipelineSpec:
    return PipelineSpec((Candidate(AS_POSTED, read_problem(problem)),), SolveOptions())


def profile(problem: dict[str, Any]) -> dict[str, Any]:
    made = profile_of(spec(problem))
    assert made is not None
    return made


def changed(part: str, index: int, **values: Any) -> dict[str, Any]:
    """The document with fields of one device, stage or host changed."""
    other = copy.deepcopy(document())
    other[part][index].update(values)
    return other


SAME_SHAPE = [
    changed("stages", 0, forward_ns=20),
    changed("stages", 0, forward_ns=[1, 2, 3]),
    changed("stages", 1, activation_bytes=6),
    changed("devices", 0, activation_memory_bytes=None),
    changed("devices", 0, epilogue_ns=7),
    changed("hosts", 0, memory_bytes=5),
    {**document(), "devices": [{**d, "host_link": "bus"} for d in document()["devices"]]},
    {**document(), "transfers": [{"forward_ns": 3}]},
]
OTHER_SHAPES = [
    {**document(), "micro_batches": 4},
    {**document(), "micro_batch_order": "free"},
    {**document(), "objective": "steady_span"},
    {**document(), "host_link_duplex": "half"},
    changed("stages", 0, device=1),
    changed("stages", 0, backward_weight_ns=0),
    changed("stages", 0, offload_bytes=0),
    changed("devices", 0, host_link=None),
    changed("devices", 0, host=None),
]


@pytest.mark.parametrize("other", SAME_SHAPE)
def test_times_sizes_limits_and_labels_do_not_change_the_shape(other: dict[str, Any]) -> None:
    assert shape_hash(spec(other)) == shape_hash(spec(document()))
    assert len(profile(other)["values"]) == len(profile(document())["values"])


@pytest.mark.parametrize("other", OTHER_SHAPES)
def test_what_orders_depend_on_changes_the_shape(other: dict[str, Any]) -> None:
    assert shape_hash(spec(other)) != shape_hash(spec(document()))


def test_equal_problems_are_at_no_distance_and_it_is_symmetric() -> None:
    one, other = profile(document()), profile(changed("stages", 0, forward_ns=20))
    assert distance(one, one) == 0
    assert distance(one, other) == distance(other, one) > 0


def test_the_distance_is_the_mean_of_the_logarithms() -> None:
    one, other = profile(document()), profile(changed("stages", 0, forward_ns=20))
    # Per stage 8 values above 0, two limits of devices and one of the host.
    assert distance(one, other) == pytest.approx(math.log(2) / (2 * 8 + 2 + 1))


def test_a_limit_that_only_one_has_counts_as_a_factor_of_e() -> None:
    other = profile(changed("devices", 0, activation_memory_bytes=None))
    assert distance(profile(document()), other) == pytest.approx(1 / (2 * 8 + 2 + 1))


@pytest.mark.parametrize(
    ("other", "only_limits"),
    [
        (changed("devices", 0, activation_memory_bytes=9), True),
        (changed("hosts", 0, memory_bytes=9), True),
        (changed("stages", 0, forward_ns=11), False),
        (changed("stages", 0, forward_ns=[9, 10, 11]), False),
    ],
)
def test_other_limits_are_told_from_other_times(other: dict[str, Any], only_limits: bool) -> None:
    assert differs_only_in_limits(profile(document()), profile(other)) is only_limits


def test_without_a_problem_there_is_nothing_to_compare() -> None:
    nothing = PipelineSpec((), SolveOptions(), static_shortage={"devices": [0]})
    assert shape_hash(nothing) is None
    assert profile_of(nothing) is None
