"""From a run to an observation: its estimates beside what the uncalibrated cost model predicts.

The cost model is asked with the built-in factors, and once more with each factor halved. Since it
divides by factors, what a time grows by is what that part took at the built-in one. Measured
profiles that came with the request are left aside; the run's layers per stage stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from planner.calibration.observations import TERMS, Observation, Peak, Term
from planner.cost.build import Candidate, CostModel
from planner.cost.calibrated import FITTED_FACTORS
from planner.cost.hardware import NAMELESS_GPU, Efficiency, EfficiencyDocument, read_cluster
from planner.cost.resolve import StaticMemoryExceeded, resolve
from planner.cost.spec import read_cost_model
from planner.errors import PlannerError, SpecError
from planner.following.estimates import Estimates
from planner.following.profile import fresh_problem, planned
from planner.following.state import same_shape
from planner.pipeline.problem import LARGEST_VALUE, PipelineProblem
from planner.pipeline.schedule import TimedOp
from planner.pipeline.timing import schedule_from_ops

NOISIEST = 0.1
"""Relative standard error of an estimate beyond which it does not count."""
ROUNDING = 0.002
"""Share of a time below which a change of it is taken for rounding."""
DESCRIBED = ("model", "cluster")
LONGEST_NAME = 100
BUILT_IN = Efficiency(**EfficiencyDocument().model_dump())


class NotCounted(PlannerError):
    """The run says nothing of the cost model, for this reason."""


def observe(
    run: str,
    request: Mapping[str, Any],
    base: PipelineProblem,
    estimates: Estimates,
    ops: Sequence[TimedOp] = (),
) -> Observation:
    """The observation of a run that was posted as `request`, is followed on `base`, measured
    `estimates`, and runs the schedule of `ops` (none: peaks are not compared).

    Raises `NotCounted`.
    """
    gpu = gpu_of(request)
    if not estimates:
        raise NotCounted("it has not measured enough iterations after its warm-up")
    try:
        terms, peaks = _compared(request, base, estimates, ops)
    except (SpecError, StaticMemoryExceeded) as error:
        raise NotCounted(f"its request cannot be read any more: {error}") from error
    if not terms and not peaks:
        raise NotCounted("nothing that it measured is steady enough and predicted as well")
    return Observation(run, gpu, asdict(BUILT_IN), terms, peaks)


def gpu_of(request: Mapping[str, Any]) -> str:
    """The kind of GPU of a run's request. Raises `NotCounted` where it has no name to go by."""
    if any(request.get(name) is None for name in DESCRIBED):
        raise NotCounted("it was posted as a problem, not as a model and a cluster")
    try:
        gpu = read_cluster(request["cluster"]).gpu.name
    except SpecError as error:
        raise NotCounted(f"its request cannot be read any more: {error}") from error
    if gpu == NAMELESS_GPU:
        raise NotCounted("its GPU has neither a preset nor a name")
    if len(gpu) > LONGEST_NAME or "/" in gpu:
        raise NotCounted(f"its GPU's name has a slash or more than {LONGEST_NAME} characters")
    return gpu


def _compared(
    request: Mapping[str, Any],
    base: PipelineProblem,
    estimates: Estimates,
    ops: Sequence[TimedOp],
) -> tuple[tuple[Term, ...], tuple[Peak, ...]]:
    model, cluster = request["model"], request["cluster"]
    training = dict(request.get("training") or {})
    candidate = _candidate_of(resolve(model, cluster, training).candidates, base)
    training.pop("profile", None)
    costs = read_cost_model(model, cluster, training)
    plain = _predicted(costs, BUILT_IN, candidate)
    slower = {name: _predicted(costs, _halved(name), candidate).problem for name in FITTED_FACTORS}
    steady = {
        key: own
        for key, own in estimates.items()
        if key[0] < len(base.stages) and own.noise <= NOISIEST
    }
    terms = _terms(plain.problem, slower, fresh_problem(plain.problem, steady), steady)
    return terms, _peaks(plain, steady, ops)


def _candidate_of(candidates: Sequence[Candidate], base: PipelineProblem) -> Candidate:
    """The placement that the run is followed on."""
    alike = [one for one in candidates if same_shape(one.problem, base)]
    equal = (one for one in alike if one.problem.stages == base.stages)
    found = next(equal, alike[0] if alike else None)
    if found is None:
        raise NotCounted("its request resolves to another shape than it is followed on")
    return found


def _halved(name: str) -> Efficiency:
    return replace(BUILT_IN, **{name: getattr(BUILT_IN, name) / 2})


def _predicted(costs: CostModel, efficiency: Efficiency, candidate: Candidate) -> Candidate:
    # Whether it fits does not matter: it runs.
    roomy = replace(costs.cluster, efficiency=efficiency, memory_bytes=LARGEST_VALUE)
    found = CostModel.of(costs.model, roomy, costs.training).again(candidate)
    if found is None:
        raise NotCounted("its way to offload is not predicted without what was measured for it")
    return found


def _terms(
    plain: PipelineProblem,
    slower: Mapping[str, PipelineProblem],
    measured: PipelineProblem,
    estimates: Estimates,
) -> tuple[Term, ...]:
    terms = []
    for key in sorted(estimates):
        if key[1] not in TERMS:
            continue
        predicted_ns, measured_ns = planned(plain, key), planned(measured, key)
        if not predicted_ns or not measured_ns:
            continue
        added = {
            name: (planned(problem, key) or 0) - predicted_ns for name, problem in slower.items()
        }
        parts = {name: ns for name, ns in added.items() if ns > ROUNDING * predicted_ns}
        work_ns = {name: ns * getattr(BUILT_IN, name) for name, ns in parts.items()}
        fixed_ns = predicted_ns - sum(parts.values())
        terms.append(Term(*key, measured_ns, fixed_ns, work_ns))
    return tuple(terms)


def _peaks(plain: Candidate, estimates: Estimates, ops: Sequence[TimedOp]) -> tuple[Peak, ...]:
    """Of every device whose stages report their peak, in the order that the run computes in."""
    problem = plain.problem
    measured: dict[int, float] = {}
    for s, stage in enumerate(problem.stages):
        own = estimates.get((s, "peak_memory_bytes"))
        if own is not None:
            measured[stage.device] = max(own.value, measured.get(stage.device, 0.0))
    if not measured or not ops:
        return ()
    activations = schedule_from_ops(problem, ops).peak_memory_bytes
    return tuple(
        Peak(device, value, plain.static_bytes[device] + activations[device])
        for device, value in sorted(measured.items())
        if value > 0
    )
