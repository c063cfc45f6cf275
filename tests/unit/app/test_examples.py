"""The shipped examples can be posted as they are."""

from __future__ import annotations

import pytest

from app.errors import LimitExceeded
from app.schemas.requests import split_body
from app.services.examples import example_bodies
from app.services.limits import check_raw_size, check_resolved_size
from app.settings import Settings
from planner.pipeline.request import resolve_request


def test_every_example_is_within_the_limits_and_resolves() -> None:
    hashes = set()
    for body in example_bodies():
        _, rest = split_body(body)
        check_raw_size(rest, Settings())
        resolved = resolve_request(rest)
        check_resolved_size(resolved, Settings())
        hashes.add(resolved.spec_hash)
    assert len(hashes) == len(example_bodies())


def test_an_iteration_budget_needs_a_service_that_allows_its_ceiling() -> None:
    body = {**example_bodies()[0], "solver": {"search_iterations": 1}}
    _, rest = split_body(body)
    resolved = resolve_request(rest)
    check_resolved_size(resolved, Settings(max_time_limit_s=3600))
    with pytest.raises(LimitExceeded) as caught:
        check_resolved_size(resolved, Settings(max_time_limit_s=600))
    assert caught.value.errors[0].path == "solver.search_iterations"
