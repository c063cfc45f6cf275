"""What the tests of the MILP share: a report that remembers, and settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from planner.pipeline.milp.rounds import MilpSettings
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule, Token
from planner.pipeline.timing import Orders, time_orders

Engine = Literal["cbc", "highs"]


class Remembering:
    """A report that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.bounds: list[tuple[str, float]] = []

    def log(self, line: str) -> None:
        self.lines.append(line)

    def bound(self, name: str, value: float) -> None:
        self.bounds.append((name, value))


def settings(
    engine: Engine = "cbc",
    time_limit_s: float = 60.0,
    *,
    mip_gap: float = 0.0,
    window: int | None = None,
    lower_bound_ns: int = 0,
) -> MilpSettings:
    """Settings of one run on one thread."""
    return MilpSettings(engine, time_limit_s, mip_gap, 1, window, lower_bound_ns)


def never() -> bool:
    """The stop request of a test that never stops."""
    return False


def one_forward_one_backward(problem: PipelineProblem) -> Schedule:
    """1F1B with W right after B, one stage per device."""
    count = problem.micro_batches
    compute = []
    for s in range(len(problem.stages)):
        warm_up = min(count, len(problem.stages) - s)
        tokens = [Token("F", s, m) for m in range(warm_up)]
        for m in range(count):
            tokens += [Token("B", s, m), Token("W", s, m)]
            if warm_up + m < count:
                tokens.append(Token("F", s, warm_up + m))
        compute.append(tuple(tokens))
    return time_orders(problem, Orders(tuple(compute)))


def stop_after(seconds: float, clock: Callable[[], float]) -> Callable[[], bool]:
    """A stop request that comes so many seconds from now."""
    deadline = clock() + seconds
    return lambda: clock() >= deadline
