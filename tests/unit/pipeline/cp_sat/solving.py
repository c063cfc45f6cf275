"""What the tests of CP-SAT share."""

from __future__ import annotations

from planner.pipeline.cp_sat.messages import CpSatSettings


class Remembering:
    """A report that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.bounds: list[float] = []

    def log(self, line: str) -> None:
        self.lines.append(line)

    def bound(self, name: str, value: float) -> None:
        self.bounds.append(value)


def settings(
    time_limit_s: float = 60.0, *, mip_gap: float = 0.0, lower_bound_ns: int = 0
) -> CpSatSettings:
    """Settings of a run on one thread."""
    return CpSatSettings(time_limit_s, mip_gap, 1, 1, lower_bound_ns)


def never() -> bool:
    """The stop request of a test that never stops."""
    return False
