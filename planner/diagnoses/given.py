"""Which fields of a body a request has."""

from __future__ import annotations

from planner.diagnoses.request import DiagnosisRequest

OF_STAGES, OF_ITERATIONS = "telemetry[].stages[].", "telemetry[]."


def is_given(request: DiagnosisRequest, field: str) -> bool:
    """Whether the field, as `Finding.needs` names it, says something. Of telemetry one sample with
    it is enough; of what is none of these, nothing is known."""
    samples = [stage for sample in request.telemetry for stage in sample.stages]
    if field == "telemetry[].stages[]":
        return any(sample.compute_ns is not None for sample in samples)
    if field.startswith(OF_STAGES):
        name = field.removeprefix(OF_STAGES)
        return any(getattr(sample, name) is not None for sample in samples)
    if field.startswith(OF_ITERATIONS):
        name = field.removeprefix(OF_ITERATIONS)
        return any(getattr(sample, name) is not None for sample in request.telemetry)
    return {
        "problem": request.problem is not None,
        "schedule": request.ops is not None,
        "orders": request.orders is not None,
        "plan_versions": bool(request.plan_versions),
        **dict.fromkeys(
            ("model", "cluster", "training", "training.precision"), request.described is not None
        ),
        "solve.spent_s": request.solve is not None and request.solve.spent_s is not None,
        "solve.gap": request.solve is not None and request.solve.gap is not None,
    }.get(field, False)
