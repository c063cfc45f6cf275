"""A result made from the last plan that a solver reported before it was lost or killed."""

from __future__ import annotations

import json
from typing import Any

from app.models import PIPELINE
from planner.pipeline.verify import VERIFIER
from planner.version import __version__

TRACES = ("started_from", "queue_seconds", "worker")


def result_of_incumbent(
    spec: dict[str, Any],
    incumbent: dict[str, Any],
    *,
    objective: int,
    lower_bound: int | None,
    reason: str,
    started_from: dict[str, Any] | None,
    bound_name: str | None = None,
) -> dict[str, Any]:
    """The result document of an incumbent of this spec.

    It has the parts of an ordinary result, but no comparison: the plan was verified when it was
    found, and what was not computed then is not made up now. `reason` says why it ended early,
    `started_from` what stored plan the solve had started from, and `bound_name` what proves
    `lower_bound`, which holds for the whole request.
    """
    if spec["kind"] == PIPELINE:
        document = _pipeline_result(spec, incumbent, objective, lower_bound, bound_name)
    else:
        # Reported as a result document, with what was proven when it was found.
        document = incumbent
    provenance = {
        "planner_version": __version__,
        "engine": spec["options"]["engine"],
        **document.get("provenance", {}),
        "started_from": started_from,
        "stopped_by": reason,
    }
    return {**document, "provenance": provenance}


def _pipeline_result(
    spec: dict[str, Any],
    incumbent: dict[str, Any],
    objective_ns: int,
    request_bound_ns: int | None,
    request_bound_name: str | None,
) -> dict[str, Any]:
    """Of ``{"placement", "schedule"}``, with the bounds that are known by now: those of its
    placement when it was found (`bounds`), and that of the whole request, which holds for every
    placement and may be newer."""
    candidate = next(
        entry for entry in spec["candidates"] if entry["placement"] == incumbent["placement"]
    )
    known = {bound["name"]: bound["value_ns"] for bound in incumbent.get("bounds", ())}
    if request_bound_ns is not None and request_bound_name is not None:
        known[request_bound_name] = max(request_bound_ns, known.get(request_bound_name, 0))
    bounds = [
        {"name": name, "value_ns": value_ns}
        for name, value_ns in sorted(known.items(), key=lambda bound: (-bound[1], bound[0]))
    ]
    best = bounds[0] if bounds else {"name": None, "value_ns": request_bound_ns}
    lower_bound_ns = best["value_ns"]
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
            "proven_optimal": objective_ns == request_bound_ns,
            "objective": candidate["problem"].get("objective", "makespan"),
            "value_ns": objective_ns,
            "lower_bound_ns": lower_bound_ns,
            "bound_name": best["name"],
            "gap": gap,
            "bounds": bounds,
            "placements": [],
        },
        "provenance": {"placement": incumbent["placement"]},
    }


def with_provenance(document: dict[str, Any], **entries: Any) -> str:
    """The result document as stored text, its provenance extended."""
    provenance = {**document.get("provenance", {}), **entries}
    return json.dumps({**document, "provenance": provenance}, separators=(",", ":"))


def without_traces(result: str) -> str:
    """A result as another tenant may see it: not from which plan it started, nor when and where
    it was solved."""
    document = json.loads(result)
    known = document.get("provenance", {})
    return with_provenance(document, **{name: None for name in TRACES if name in known})
