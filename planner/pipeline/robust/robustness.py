"""What an answer says about ranks that follow its order instead of its clock."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from planner.errors import Interrupted
from planner.pipeline.pace import (
    SAFETY_VERIFICATIONS,
    SAMPLES_VERIFICATIONS,
    UNLIMITED,
    Closing,
)
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.robust.any_durations import graph_violations
from planner.pipeline.robust.jitter import Jitter, jitter_of_graph
from planner.pipeline.robust.precedence import PrecedenceGraph
from planner.pipeline.robust.waits import waits_and_graph
from planner.pipeline.schedule import Schedule
from planner.pipeline.verify import Violation


@dataclass(frozen=True)
class Robustness:
    """A schedule with its waits, what the proof for any durations finds, and jitter figures.

    Without time for them the schedule has no waits and `graph` and `violations` are None; `jitter`
    is None if there was none for enough samples. `left_out` says what is missing and why.
    """

    schedule: Schedule
    graph: PrecedenceGraph | None = field(compare=False, repr=False)
    violations: tuple[Violation, ...] | None
    jitter: Jitter | None
    left_out: str | None = None

    @property
    def memory_safe(self) -> bool | None:
        """Whether no durations can exceed a memory limit or deadlock; None if that is open."""
        return None if self.violations is None else not self.violations

    def certificate(self) -> dict[str, Any]:
        """The certificate's part: whether memory is safe under jitter, and why."""
        if self.violations is None:
            reason = f"not known, {self.left_out}"
        elif self.violations:
            reason = str(self.violations[0])
        else:
            count = sum(len(wait.after) for wait in self.schedule.waits or ())
            waits = "1 wait" if count == 1 else f"{count} waits"
            reason = f"proven for any durations from the order of the operations and {waits}"
        return {"memory_safe_under_jitter": self.memory_safe, "memory_safety": reason}

    def to_document(self) -> dict[str, Any]:
        """The answer's `robustness`, if there is `jitter`: quantiles of the objective."""
        assert self.jitter is not None
        figures = asdict(self.jitter)
        return {
            "jitter": figures.pop("relative"),
            **figures,
            "memory_safe_for_any_durations": self.memory_safe,
        }


def safety(
    problem: PipelineProblem, schedule: Schedule, closing: Closing = UNLIMITED
) -> Robustness:
    """Derive the waits of a schedule that passes `verify` and prove them, if there is time; jitter
    is for `with_jitter` to add."""
    try:
        if not closing.may_begin(SAFETY_VERIFICATIONS):
            raise Interrupted("there is no time for waits")
        safe, graph = waits_and_graph(problem, schedule, closing.is_over)
        violations = tuple(graph_violations(graph, closing.is_over))
    except Interrupted:
        missing = "no waits, no proof for any durations and no jitter samples"
        return Robustness(schedule, None, None, None, f"{missing}: {closing.reason}")
    return Robustness(safe, graph, violations, None, "no jitter samples: the time was up")


def with_jitter(
    problem: PipelineProblem, robust: Robustness, closing: Closing = UNLIMITED
) -> Robustness:
    """With jitter figures, if there is the graph, and time for enough samples."""
    if robust.graph is None:
        return robust
    figures = _jitter(problem, robust.graph, closing)
    left_out = f"no jitter samples: {closing.reason}" if figures is None else None
    return replace(robust, jitter=figures, left_out=left_out)


def _jitter(problem: PipelineProblem, graph: PrecedenceGraph, closing: Closing) -> Jitter | None:
    if not closing.will_finish(SAMPLES_VERIFICATIONS):
        return None
    try:
        return jitter_of_graph(problem, graph, closing.is_over)
    except Interrupted:
        return None
