"""Where a solve starts that is to replace the plan of a run: at the schedule that runs.

The running plan was made for times that have changed since. Its orders, timed on the fresh
problem, are the first answer of the solve, however little time there is, and what the last answer
is compared with (`replacement`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.pipeline.names import StartKind
from planner.pipeline.spec import AS_POSTED


def running_start(running: Mapping[str, Any], **origin: Any) -> dict[str, Any]:
    """What a solve takes as its `start`, from the schedule document of a running plan.

    `running` needs its `ops`; its `waits` count in the comparison. `origin` comes back in the
    answer's `provenance.started_from`, beside `kind`, the re-timed running orders' `objective_ns`,
    and `kept`: whether the orders still keep every limit. Its `noise`, if given, are the relative
    standard errors of the stages' times, by stage.
    """
    return {
        "placement": AS_POSTED,
        "found_by": None,
        "schedule": running,
        "origin": {"kind": StartKind.RUNNING_PLAN, **origin},
    }
