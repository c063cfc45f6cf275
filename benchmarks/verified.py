"""The planner's verifiers, once more, on the documents of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.pipeline.documents import read_problem
from planner.pipeline.schedule import ops_of_document
from planner.pipeline.timing import schedule_from_ops
from planner.pipeline.verify import verify
from planner.sharding.instance import Plan, read_instance
from planner.sharding.verify import find_violations


def wrong_in_schedule(problem: Mapping[str, Any], schedule: Mapping[str, Any]) -> str | None:
    """What is wrong with a schedule, in a sentence; None if it keeps all rules and takes as long
    as it says."""
    read = read_problem(problem)
    timed = schedule_from_ops(read, ops_of_document(schedule["ops"]))
    violations = verify(read, timed)
    if violations:
        return str(violations[0])
    for name in ("makespan_ns", "steady_span_ns"):
        value = getattr(timed, name)
        if value != schedule[name]:
            return f"has a {name} of {value}, and says {schedule[name]}"
    return None


def wrong_in_plan(instance: Mapping[str, Any], plan: Mapping[str, Any]) -> str | None:
    """What is wrong with a sharding plan, in a sentence; None if it keeps all rules."""
    own = {name: plan[name] for name in ("objective", "memory_bytes", "status", "lower_bound")}
    violations = find_violations(read_instance(instance), Plan(tuple(plan["choice"]), **own))
    return str(violations[0]) if violations else None
