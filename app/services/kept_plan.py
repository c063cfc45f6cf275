"""A result made from the last plan that a solver reported before it was lost or killed."""

from __future__ import annotations

import json
from typing import Any

from planner.pipeline.verify import VERIFIER
from planner.version import __version__


def result_of_incumbent(
    spec: dict[str, Any],
    incumbent: dict[str, Any],
    *,
    objective_ns: int,
    lower_bound_ns: int | None,
    reason: str,
    started_from: dict[str, Any] | None,
) -> dict[str, Any]:
    """The result document of an incumbent (``{"placement", "schedule"}``) of this spec.

    It has the parts of an ordinary result, but no comparison: the plan was verified when it was
    found, and what was not computed then is not made up now. `reason` says why it ended early,
    `started_from` what stored plan the solve had started from.
    """
    candidate = next(
        entry for entry in spec["candidates"] if entry["placement"] == incumbent["placement"]
    )
    gap = None
    if lower_bound_ns is not None:
        gap = round((objective_ns - lower_bound_ns) / objective_ns, 6) if objective_ns else 0.0
    return {
        "problem": candidate["problem"],
        "schedule": {**incumbent["schedule"], "lower_bound_ns": lower_bound_ns},
        "comparison": [],
        "certificate": {
            "verified": True,
            "verifier": VERIFIER,
            "proven_optimal": gap == 0,
            "objective": candidate["problem"].get("objective", "makespan"),
            "value_ns": objective_ns,
            "lower_bound_ns": lower_bound_ns,
            "bound_name": None,
            "gap": gap,
            "bounds": [],
            "placements": [],
        },
        "provenance": {
            "planner_version": __version__,
            "engine": spec["options"]["engine"],
            "placement": incumbent["placement"],
            "started_from": started_from,
            "stopped_by": reason,
        },
    }


def with_provenance(document: dict[str, Any], **entries: Any) -> str:
    """The result document as stored text, its provenance extended."""
    provenance = {**document.get("provenance", {}), **entries}
    return json.dumps({**document, "provenance": provenance}, separators=(",", ":"))
