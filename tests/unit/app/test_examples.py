"""The shipped examples can be posted as they are."""

from __future__ import annotations

import pytest

from app.errors import LimitExceeded
from app.schemas.requests import split_body
from app.services.examples import example_bodies
from app.services.limits import PipelineLimits, ShardingLimits, TrainingLimits
from app.settings import Settings
from planner.pipeline.request import resolve_request
from planner.sharding.request import resolve_request as resolve_sharding
from planner.training.request import resolve_request as resolve_training


def test_every_example_is_within_the_limits_and_resolves() -> None:
    limits = PipelineLimits(Settings())
    hashes = set()
    for body in example_bodies("pipeline"):
        _, rest = split_body(body)
        limits.check_body(rest)
        resolved = resolve_request(rest)
        limits.check_resolved(resolved)
        hashes.add(resolved.spec_hash)
    assert len(hashes) == len(example_bodies("pipeline"))


def test_every_example_of_a_sharding_plan_is_within_the_limits_and_resolves() -> None:
    limits = ShardingLimits(Settings())
    hashes = set()
    for body in example_bodies("sharding"):
        _, rest = split_body(body)
        limits.check_body(rest)
        resolved = resolve_sharding(rest)
        limits.check_resolved(resolved)
        hashes.add(resolved.spec_hash)
    assert len(hashes) == len(example_bodies("sharding")) > 0


def test_every_example_of_a_training_plan_is_within_the_limits_and_resolves() -> None:
    limits = TrainingLimits(Settings())
    hashes = set()
    for body in example_bodies("training"):
        _, rest = split_body(body)
        limits.check_body(rest)
        resolved = resolve_training(rest)
        limits.check_resolved(resolved)
        hashes.add(resolved.spec_hash)
    assert len(hashes) == len(example_bodies("training")) > 0


def test_an_iteration_budget_needs_a_service_that_allows_its_ceiling() -> None:
    body = {**example_bodies("pipeline")[0], "solver": {"search_iterations": 1}}
    _, rest = split_body(body)
    resolved = resolve_request(rest)
    PipelineLimits(Settings(max_time_limit_s=3600)).check_resolved(resolved)
    with pytest.raises(LimitExceeded) as caught:
        PipelineLimits(Settings(max_time_limit_s=600)).check_resolved(resolved)
    assert caught.value.errors[0].path == "solver.search_iterations"
