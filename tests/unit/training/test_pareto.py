"""The front has no dominated point, and every point that is not dominated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from planner.sizes import GIB
from planner.training.pareto import SLOWEST, Front


@dataclass(frozen=True)
class Point:
    """What a front looks at of a plan."""

    gpus: int
    total_ns: int
    peak_bytes: int
    number: int

    @property
    def key(self) -> tuple[int, ...]:
        return (self.total_ns, self.peak_bytes, self.gpus, self.number)

    @property
    def figures(self) -> tuple[int, int, int]:
        return (self.gpus, self.total_ns, -(-self.peak_bytes // GIB))


def front_of(points: list[Point]) -> tuple[Front, list[Point]]:
    front = Front()
    for point in points:
        front.add(cast(Any, point))
    return front, cast(Any, front.plans())


@st.composite
def some_points(draw: Any) -> list[Point]:
    figures = st.tuples(st.integers(1, 3), st.integers(5, 14), st.integers(1, 5 * GIB))
    drawn = draw(st.lists(figures, min_size=1, max_size=30))
    return [Point(*own, number) for number, own in enumerate(drawn)]


@given(some_points())
def test_no_point_is_dominated_and_none_is_missing(points: list[Point]) -> None:
    _, kept = front_of(points)
    fastest = {p.gpus: min(o.total_ns for o in points if o.gpus == p.gpus) for p in points}
    worth = [p for p in points if p.total_ns <= SLOWEST * fastest[p.gpus]]

    def dominated(point: Point) -> bool:
        return any(
            other.figures != point.figures
            and all(o <= m for o, m in zip(other.figures, point.figures, strict=True))
            for other in worth
        )

    assert {p.figures for p in kept} == {p.figures for p in worth if not dominated(p)}
    assert len({p.figures for p in kept}) == len(kept)
    for own in kept:
        assert own.key == min(p.key for p in worth if p.figures == own.figures)


@given(some_points(), st.integers(1, 3))
def test_what_is_above_the_limit_never_comes_on_the_front(points: list[Point], gpus: int) -> None:
    front, before = front_of(points)
    # No faster than any that is known.
    step_ns = max(point.total_ns for point in points)
    limit = front.limit_bytes(gpus, step_ns)
    if limit is None:
        return
    front.add(cast(Any, Point(gpus, step_ns, limit + 1, len(points))))
    after = {point.figures for point in cast(Any, front.plans())}
    assert after == {point.figures for point in before}


def test_most_gpus_come_first() -> None:
    points = [Point(1, 30, GIB, 0), Point(2, 20, GIB, 1), Point(2, 16, 2 * GIB, 2)]
    assert [p.number for p in front_of(points)[1]] == [2, 1, 0]
