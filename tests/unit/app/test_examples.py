"""The shipped examples can be posted as they are."""

from __future__ import annotations

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
