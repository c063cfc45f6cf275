"""How throughput grows with the number of GPUs, and a rule of thumb for that number beside it.

The rule: N = T_comp / (T_comm x alpha), alpha by the kind of parallelism. It compares one time for
computation with one for communication that does not depend on N.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from planner.cost.build import CostModel
from planner.cost.note import Note, note
from planner.cost.notes import notes_of
from planner.errors import SpecError
from planner.estimates.request import EstimateRequest, read_costs, read_request
from planner.estimates.scaling.falls import Fall, falls_of
from planner.estimates.scaling.points import Curve, Kind, Point, curve_of, largest_degree, point_at
from planner.estimates.step_time.parts import COMMUNICATION_PARTS

ALPHA = {Kind.TENSOR: (0.6, 0.8), Kind.PIPELINE: (0.4, 0.6), Kind.DATA: (0.8, 0.95)}

_IN_COMPUTATION = {Kind.TENSOR: "tensor_collectives", Kind.DATA: "zero_collectives"}
"""A kind's collectives that layers wait for, and that count as their computation elsewhere."""


class ScalingRequest(EstimateRequest):
    """The documents, and which kind of parallelism to scale."""

    kind: Kind | None = Field(default=None, description="Default: each of them.")


def estimate_scaling(body: Mapping[str, Any]) -> dict[str, Any]:
    """For each kind of parallelism the rule of thumb and the predicted throughput by degree.

    Raises `SpecError` that names the field at fault.
    """
    request = read_request(ScalingRequest, body)
    costs = read_costs(request)
    kinds = list(Kind) if request.kind is None else [request.kind]
    curves = {kind: curve_of(costs, request.training, kind) for kind in kinds}
    found = {
        kind.value: _kind_document(costs, request.training, kind, curves[kind]) for kind in kinds
    }
    if Kind.DATA in curves:
        weak = curve_of(costs, request.training, Kind.DATA, weak=True)
        found[Kind.DATA.value]["weak_scaling"] = _curve_document(weak)
    return {
        "kinds": found,
        "assumptions": [*_notes(), *notes_of(costs, ())],
        "warnings": [
            warning for kind, curve in curves.items() for warning in _warnings(costs, kind, curve)
        ],
    }


def _kind_document(
    costs: CostModel, raw: Mapping[str, Any], kind: Kind, curve: Curve
) -> dict[str, Any]:
    return {
        "rule_of_thumb": _rule(costs, raw, kind),
        "strong_scaling": _curve_document(curve),
    }


def _rule(costs: CostModel, raw: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    """N = T_comp / (T_comm alpha) from this cost model's times.

    T_comp is what all ranks of one group of the kind compute in a step, one after the other; T_comm
    what one of them waits for this kind's communication, at the present degree, or at 2 where that
    is 1.
    """
    present = getattr(costs.training.degrees, kind.value)
    degree = max(2, present)
    low, high = ALPHA[kind]
    answer: dict[str, Any] = {
        "alpha": [low, high],
        "measured_at_degree": degree,
        "largest_degree": largest_degree(costs, kind),
    }
    try:
        point = point_at(costs, raw, kind, degree)
    except SpecError as error:
        return answer | {"devices": None, "reason": str(error)}
    if "compute" in point.parts_ns and kind is not Kind.PIPELINE:
        reason = "A measured profile does not tell computation from communication."
        return answer | {"devices": None, "reason": reason}
    compute_ns, communication_ns = _rule_times(point, kind)
    answer |= {"compute_ns": compute_ns, "communication_ns": communication_ns}
    if not communication_ns:
        return answer | {"devices": None, "reason": "This kind sends nothing here."}
    others = costs.training.degrees.gpus // present
    devices = [compute_ns / (communication_ns * alpha) for alpha in (high, low)]
    return answer | {
        "devices": devices,
        "gpus": [others * each for each in devices],
        "communication_share_there": [1 / (1 + high), 1 / (1 + low)],
    }


def _rule_times(point: Point, kind: Kind) -> tuple[int, int]:
    """T_comp and T_comm of a step."""
    step, count = point.step, point.costs.training.micro_batches
    if kind is Kind.PIPELINE:
        hop_ns = max(t.forward_ns[0] + t.backward_ns[0] for t in step.problem.transfers)
        return count * sum(step.work_ns), count * step.chunks * hop_ns
    parts = point.parts_ns
    own_ns = parts[_IN_COMPUTATION[kind]]
    reduction_ns = parts.get("gradient_reduction", 0) if kind is Kind.DATA else 0
    return point.degree * (step.time.compute_ns - own_ns), own_ns + reduction_ns


def _curve_document(curve: Curve) -> dict[str, Any]:
    points = curve.points
    if not points:
        return {"points": [], "refused": curve.refused, "best_degree": None}
    best = max(points, key=lambda point: point.tokens_per_s)
    fitting = [point for point in points if point.memory.headroom_bytes >= 0]
    best_fitting = max(fitting, key=lambda point: point.tokens_per_s, default=None)
    return {
        "points": [_point_document(point, points[0]) for point in points],
        "refused": curve.refused,
        "best_degree": best.degree,
        "best_gpus": best.gpus,
        "best_degree_that_fits": best_fitting and best_fitting.degree,
        "negative": [_negative_document(fall) for fall in falls_of(points)],
    }


def _point_document(point: Point, base: Point) -> dict[str, Any]:
    """`efficiency` is throughput per GPU over that of the smallest degree."""
    time, parts = point.step.time, point.parts_ns
    training = point.costs.training
    own = point.tokens_per_s / point.gpus
    communication = sum(parts.get(name, 0) for name in COMMUNICATION_PARTS)
    return {
        "degree": point.degree,
        "gpus": point.gpus,
        "nodes": point.costs.cluster.nodes,
        "global_batch_size": training.global_batch_size,
        "micro_batches": training.micro_batches,
        "step_time_ns": time.total_ns,
        "tokens_per_s": point.tokens_per_s,
        "speedup": point.tokens_per_s / base.tokens_per_s,
        "efficiency": own / (base.tokens_per_s / base.gpus),
        "communication_share": communication / time.total_ns,
        "bubble_share": time.bubble_ns / time.total_ns,
        "peak_bytes": point.memory.total_bytes,
        "fits": point.memory.headroom_bytes >= 0,
    }


def _negative_document(fall: Fall) -> dict[str, Any]:
    before, after = fall.before, fall.after
    return {
        "from_degree": before.degree,
        "to_degree": after.degree,
        "from_gpus": before.gpus,
        "to_gpus": after.gpus,
        "tokens_per_s": [before.tokens_per_s, after.tokens_per_s],
        "cause": fall.cause,
        "part": fall.part,
        "part_growth_ns": fall.growth_ns,
        "reason": fall.words(),
    }


def _warnings(costs: CostModel, kind: Kind, curve: Curve) -> list[str]:
    falls = falls_of(curve.points)
    warnings = []
    if falls:
        more = f" So it is for {len(falls) - 1} further steps." if len(falls) > 1 else ""
        warnings.append(
            f"More GPUs lower throughput: {kind.value}_parallel {falls[0].words()}{more}"
        )
    present = getattr(costs.training.degrees, kind.value)
    best = max(curve.points, key=lambda point: point.tokens_per_s, default=None)
    if best is not None and present > best.degree:
        warnings.append(
            f"{kind.value}_parallel {present} is beyond the best degree, {best.degree}, which "
            f"needs {best.gpus} GPUs."
        )
    return warnings


def _notes() -> list[Note]:
    return [
        note(
            "rule of thumb",
            "N = T_comp / (T_comm x alpha); alpha 0.6-0.8 tensor, 0.4-0.6 pipeline, 0.8-0.95 data",
            "T_comp: what the ranks of one group compute in a step, one after the other, by this "
            "cost model; T_comm: what one of them spends on this kind's communication (tensor: "
            "its all-reduces; pipeline: all transfers over one boundary; data: gradient "
            "reduction and ZeRO's collectives). At N a rank's computation is alpha x T_comm, so "
            "communication takes 1 / (1 + alpha) of the step unless it overlaps: N bounds what can "
            "be sensible, it is no recommendation.",
        ),
        note(
            "what the rule leaves out",
            "bubbles, batch, memory, divisibility, where groups leave a node",
            "T_comm is taken as independent of N, which rings are nearly and the change from "
            "NVLink to the network is not. The predicted throughput has all of these.",
        ),
        note(
            "predicted throughput",
            "the other degrees and the global batch kept (weak scaling: micro-batches per replica)",
            "The closed-form step time of POST /v1/step-time-estimates at each degree, on as many "
            "nodes as it takes, whether the cluster has them or not.",
        ),
    ]
