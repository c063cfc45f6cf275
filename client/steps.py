"""How an answer came about: the start, what found the plan, and what each step reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from client.figures import milliseconds
from client.tables import Column, plain_table, texts

BOUND, UNTIL = "Bound ms", "Until s"
LEAST_IMPORTANT = (BOUND, UNTIL)
"""What a narrow terminal does without, in this order."""


def start_line(provenance: Mapping[str, Any]) -> str | None:
    """Which stored plan the solve started from, in words; None if from none."""
    start = provenance.get("started_from")
    if not isinstance(start, Mapping):
        return None
    job = start.get("job_id")
    value = start.get("objective_ns")
    here = "" if value is None else f", {milliseconds(value)} ms here"
    match start["kind"]:
        case "same_problem":
            return f"Started from the best plan known of this problem (job {job}{here})."
        case "other_limit":
            return f"Started from a plan of this problem under another limit (job {job}{here})."
        case "nearest_profile":
            near = f"{start['distance']:.3g} away"
            return (
                f"Started from the plan of the nearest profile solved before "
                f"(job {job}, {near}{here})."
            )
        case "earlier_attempt":
            return "Went on from the best plan of an earlier attempt."
        case "verification":
            return "Started from the schedule that the training plan was verified with."
    return None


def found_line(provenance: Mapping[str, Any]) -> str | None:
    """What found the plan and when, and why the solve ended; None for a plan that was only kept."""
    steps = provenance.get("steps")
    if not steps:
        return None
    return (
        f"Found by {provenance['found_by']} after {steps[-1]['seconds']:.1f} s; "
        f"ended after {provenance['solve_seconds']:.1f} s: {provenance['stopped_by']}."
    )


def step_table(provenance: Mapping[str, Any], width: int) -> Table | None:
    """What each step of the solve reached by itself, and the best plan and bound after it.

    In a narrow terminal it has fewer columns; None if the answer names no steps.
    """
    steps: Sequence[Mapping[str, Any]] = provenance.get("ablation") or ()
    if not steps:
        return None
    columns = [
        Column("Step", texts(step["step"] for step in steps)),
        Column(UNTIL, texts(f"{step['ended_s']:.1f}" for step in steps), True),
        Column("Reached ms", texts(milliseconds(step["reached_ns"]) for step in steps), True),
        Column("Best ms", texts(milliseconds(step["best_ns"]) for step in steps), True),
        Column(BOUND, texts(milliseconds(step["lower_bound_ns"]) for step in steps), True),
    ]
    return plain_table(columns, width, LEAST_IMPORTANT)
