"""How a solve tells what it is doing while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from planner.errors import Interrupted

Item = TypeVar("Item")
StopCheck = Callable[[], bool]
"""Whether to stop now, keeping what there is."""


def never() -> bool:
    """For callers that never ask a solver to stop."""
    return False


ITEMS_BETWEEN_CHECKS = 2_000
"""At 25 microseconds an item, the most that any loop over operations takes, 0.05 s."""


def watched(
    items: Iterable[Item], should_stop: StopCheck, between: int = ITEMS_BETWEEN_CHECKS
) -> Iterator[Item]:
    """The items one by one. Raises `Interrupted` where `should_stop` says so; it is asked before
    the first of each `between` items."""
    for position, item in enumerate(items):
        if position % between == 0:
            check(should_stop)
        yield item


def check(should_stop: StopCheck) -> None:
    """Raise `Interrupted` if it is time to stop."""
    if should_stop():
        raise Interrupted("told to stop before it was finished")


class Report(Protocol):
    """Receives what an engine says. Every call returns at once and never raises."""

    def log(self, line: str) -> None:
        """A line for people to read."""

    def bound(self, name: str, value: float) -> None:
        """The best proven lower bound of the objective so far, in its unit (ns, bytes), and which
        bound it is."""


class Reporter(Report, Protocol):
    """Receives the progress of one solve, likewise."""

    def phase(self, name: str) -> None:
        """The solve enters another step."""

    def incumbent(self, document: dict[str, Any], objective: float, found_by: str) -> None:
        """A better verified plan; `document` is what a later attempt can start from."""


class SilentReporter:
    """A reporter for callers that only want the result."""

    def log(self, line: str) -> None:
        """Ignore the line."""

    def phase(self, name: str) -> None:
        """Ignore the step."""

    def bound(self, name: str, value: float) -> None:
        """Ignore the bound."""

    def incumbent(self, document: dict[str, Any], objective: float, found_by: str) -> None:
        """Ignore the plan."""
