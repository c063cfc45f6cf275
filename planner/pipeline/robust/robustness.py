"""What an answer says about ranks that follow its order instead of its clock."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from planner.pipeline.problem import PipelineProblem
from planner.pipeline.robust.any_durations import verify_any_durations
from planner.pipeline.robust.jitter import Jitter, jitter
from planner.pipeline.robust.waits import with_waits
from planner.pipeline.schedule import Schedule
from planner.pipeline.verify import Violation


@dataclass(frozen=True)
class Robustness:
    """A schedule with its waits, what the proof for any durations finds, and jitter figures."""

    schedule: Schedule
    violations: tuple[Violation, ...]
    jitter: Jitter

    @property
    def memory_safe(self) -> bool:
        """Whether no durations can exceed a memory limit or deadlock."""
        return not self.violations

    def certificate(self) -> dict[str, Any]:
        """The certificate's part: whether memory is safe under jitter, and why."""
        if self.violations:
            reason = str(self.violations[0])
        else:
            count = sum(len(wait.after) for wait in self.schedule.waits or ())
            waits = "1 wait" if count == 1 else f"{count} waits"
            reason = f"proven for any durations from the order of the operations and {waits}"
        return {"memory_safe_under_jitter": self.memory_safe, "memory_safety": reason}

    def to_document(self) -> dict[str, Any]:
        """The answer's `robustness`: quantiles of the objective under jitter."""
        figures = asdict(self.jitter)
        return {
            "jitter": figures.pop("relative"),
            **figures,
            "memory_safe_for_any_durations": self.memory_safe,
        }


def robustness(problem: PipelineProblem, schedule: Schedule) -> Robustness:
    """Derive the waits of a schedule that passes `verify`, prove them and measure the jitter."""
    safe = with_waits(problem, schedule)
    return Robustness(
        schedule=safe,
        violations=tuple(verify_any_durations(problem, safe)),
        jitter=jitter(problem, safe),
    )
