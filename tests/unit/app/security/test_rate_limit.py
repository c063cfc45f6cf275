"""Requests are counted in each minute, without waiting for anything."""

from __future__ import annotations

import re

import pytest

from app.security import rate_limit
from app.security.rate_limit import RateLimiter
from app.settings import Settings


class Clock:
    """A clock that stands still."""

    now = 600_000.0 * 60 + 15

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(rate_limit, "time", clock)
    return clock


def test_so_many_a_minute(clock: Clock) -> None:
    limiter = RateLimiter(Settings())
    standings = [limiter.hit("a", 3) for _ in range(4)]
    assert [standing.left for standing in standings] == [2, 1, 0, 0]
    assert [standing.exceeded for standing in standings] == [False, False, False, True]
    assert {standing.reset_s for standing in standings} == {45}
    assert not limiter.hit("b", 3).exceeded
    clock.now += 45
    assert limiter.hit("a", 3).left == 2


def test_header_fields_are_those_of_the_draft(clock: Clock) -> None:
    fields = dict(RateLimiter(Settings()).hit("a", 6000).headers())
    assert fields[b"ratelimit-policy"] == b'"requests";q=6000;w=60'
    assert fields[b"ratelimit"] == b'"requests";r=5999;t=45'
    # A structured field (RFC 9651): a list of one string with parameters that are integers.
    for value in fields.values():
        assert re.fullmatch(rb'"[a-z]+"(;[a-z]+=[0-9]{1,15})+', value)


def test_reset_is_never_now(clock: Clock) -> None:
    clock.now += 44.999
    assert RateLimiter(Settings()).hit("a", 3).reset_s == 1


def test_memory_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "MOST_CALLERS", 10)
    limiter = RateLimiter(Settings())
    for caller in range(100):
        limiter.hit(str(caller), 1)
    assert len(limiter._counts) == 10
    assert limiter.hit("3", 1).exceeded
    assert not limiter.hit("99", 1).exceeded
