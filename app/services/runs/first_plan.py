"""The first plan of a run: whether there can be one, and what it is solved for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.errors import InvalidRequest
from planner.following.profile import fresh_problem
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.problem import PipelineProblem


def check_fits(problems: Sequence[PipelineProblem]) -> None:
    """Raises `InvalidRequest` with the ways out where no plan of any placement fits."""
    closest = None
    for problem in problems:
        found = find_infeasibility(problem)
        if found is None:
            return
        if closest is None or found.largest_gap_bytes < closest.largest_gap_bytes:
            closest = found
    if closest is not None:
        ways = "; ".join(remedy.detail.rstrip(".") for remedy in closest.remedies)
        raise InvalidRequest.of("problem", f"no plan fits. {closest.summary}", f"{ways}.")


def with_headroom(
    request: Mapping[str, Any], problem: PipelineProblem, headroom: float
) -> tuple[Mapping[str, Any], str | None]:
    """The request whose plan leaves the headroom (a share of each device's activation memory), if
    there may be such a plan; else the request as it is, and why, in words.

    `problem` is what the request resolves to.
    """
    roomy = replace(problem, devices=fresh_problem(problem, {}, headroom).devices)
    if roomy == problem:
        return request, None
    whole = "The first plan may use all of the memory that it is given, later ones leave "
    whole += f"{headroom:.1%} free: "
    if "problem" not in request:
        return request, f"{whole}a model and a cluster are planned as they are posted."
    if find_infeasibility(roomy) is not None:
        return request, f"{whole}nothing would fit."
    devices = [
        device
        if own.activation_memory_bytes is None
        else {**device, "activation_memory_bytes": own.activation_memory_bytes}
        for device, own in zip(request["problem"]["devices"], roomy.devices, strict=True)
    ]
    return {**request, "problem": {**request["problem"], "devices": devices}}, None
