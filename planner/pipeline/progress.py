"""How a solve tells what it is doing while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

StopCheck = Callable[[], bool]
"""Whether to stop now, keeping what there is."""


def never() -> bool:
    """For callers that never ask a solver to stop."""
    return False


class Report(Protocol):
    """Receives what an engine says. Every call returns at once and never raises."""

    def log(self, line: str) -> None:
        """A line for people to read."""

    def bound(self, name: str, value_ns: int) -> None:
        """The best proven lower bound of the objective so far, and which bound it is."""


class Reporter(Report, Protocol):
    """Receives the progress of one solve, likewise."""

    def phase(self, name: str) -> None:
        """The solve enters another step."""

    def incumbent(self, document: dict[str, Any], objective_ns: int, found_by: str) -> None:
        """A better verified schedule; `document` is what a later attempt can start from."""


class SilentReporter:
    """A reporter for callers that only want the result."""

    def log(self, line: str) -> None:
        """Ignore the line."""

    def phase(self, name: str) -> None:
        """Ignore the step."""

    def bound(self, name: str, value_ns: int) -> None:
        """Ignore the bound."""

    def incumbent(self, document: dict[str, Any], objective_ns: int, found_by: str) -> None:
        """Ignore the schedule."""
