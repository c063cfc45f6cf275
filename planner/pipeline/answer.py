"""The answer of a pipeline solve as JSON: schedule, comparison, certificate and provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from planner.cost.resolve import spec_remedies
from planner.errors import Interrupted, OrderError
from planner.pipeline.bounds.lower_bounds import Bound
from planner.pipeline.documents import problem_to_document
from planner.pipeline.feasibility.decide import Infeasibility, find_infeasibility
from planner.pipeline.incumbents import Incumbent
from planner.pipeline.pace import UNLIMITED, Closing
from planner.pipeline.portfolio.trace import Trace
from planner.pipeline.robust.robustness import Robustness, safety, with_jitter
from planner.pipeline.spec import PipelineSpec
from planner.pipeline.verify import VERIFIER
from planner.progress import StopCheck
from planner.version import __version__

ENGINE_PACKAGES = {
    "auto": ("numba", "ortools"),
    "cbc": ("cbcbox", "mip"),
    "highs": ("highsbox", "mip"),
    "cp_sat": ("ortools",),
}
"""What an engine's answer depends on besides the planner."""


@dataclass(frozen=True)
class Findings:
    """What a portfolio knows when it ends; mappings are keyed by placement. `running` is the
    schedule document of the plan that a run follows, which the answer is to be compared with;
    `is_brief` whether there is no time for more than a safe plan and that comparison."""

    spec: PipelineSpec
    best: Incumbent
    best_of: Mapping[str, Incumbent]
    bounds: Mapping[str, list[Bound]]
    rows: Sequence[Mapping[str, Any]]
    exact: Mapping[str, Mapping[str, Any]]
    trace: Trace
    started_from: Mapping[str, Any] | None
    running: Mapping[str, Any] | None
    is_brief: bool
    moves: int
    stopped_by: str
    solve_seconds: float


def succeeded_answer(findings: Findings, closing: Closing = UNLIMITED) -> dict[str, Any]:
    """The answer with the best verified schedule, ready to be checked outside.

    The answer's `lower_bound` is that of the request, the schedule's that of its placement.
    `closing` is the time for waits, proof and jitter; where it does not do for jitter there is no
    `robustness`, and the provenance says why.
    """
    best = findings.best
    robust = safety(best.candidate.problem, best.schedule, closing)
    compared: dict[str, Any] = {}
    if findings.running is not None:
        # Before the jitter, which says less about whether to swap.
        compared["replacement"] = _replacement(findings, findings.running, robust, closing.is_over)
    if not findings.is_brief:
        robust = with_jitter(best.candidate.problem, robust, closing)
    certificate = certificate_of(findings) | robust.certificate()
    bound_ns = findings.bounds[best.candidate.placement][0].value_ns
    document: dict[str, Any] = {
        "problem": problem_to_document(best.candidate.problem),
        "schedule": robust.schedule.to_document(bound_ns),
        "comparison": list(findings.rows),
        "certificate": certificate,
        "provenance": _provenance(findings),
    }
    if robust.jitter is not None:
        document["robustness"] = robust.to_document()
    if robust.left_out is not None:
        document["provenance"]["left_out"] = robust.left_out
    document |= compared
    return {
        "state": "succeeded",
        "objective": best.objective_ns,
        "lower_bound": request_bound_ns(findings),
        "proven_optimal": certificate["proven_optimal"],
        "document": document,
    }


def _replacement(
    findings: Findings, running: Mapping[str, Any], robust: Robustness, should_stop: StopCheck
) -> dict[str, Any] | None:
    """The new schedule against the one that runs; None where that is of another shape, or where
    there is no time to compare them."""
    # Only here, since few solves follow a run.
    from planner.pipeline.replacement import replacement, running_schedule

    origin = findings.started_from
    if origin is None:
        return None
    problem = findings.best.candidate.problem
    try:
        compared = replacement(
            problem,
            running_schedule(running),
            robust.schedule,
            origin.get("noise") or (0.0,) * len(problem.stages),
            running_fits=origin["kept"],
            candidate_graph=robust.graph,
            seed=findings.spec.options.seed,
            should_stop=should_stop,
        )
    except (OrderError, Interrupted):
        return None
    return compared.to_document()


def certificate_of(findings: Findings) -> dict[str, Any]:
    """What is proven about the answer. Optimal means: no placement's bound lies below it."""
    best = findings.best
    bounds = findings.bounds[best.candidate.placement]
    value = best.objective_ns
    return {
        "verified": True,
        "verifier": VERIFIER,
        "proven_optimal": value <= request_bound_ns(findings),
        "objective": best.candidate.problem.objective.value,
        "value_ns": value,
        "lower_bound_ns": bounds[0].value_ns,
        "bound_name": bounds[0].name,
        "gap": gap(value, bounds[0].value_ns),
        "bounds": [{"name": bound.name, "value_ns": bound.value_ns} for bound in bounds],
        "placements": [
            {
                "placement": placement,
                "lower_bound_ns": own[0].value_ns,
                "best_ns": findings.best_of[placement].objective_ns
                if placement in findings.best_of
                else None,
            }
            for placement, own in findings.bounds.items()
        ],
    }


def request_bound_ns(findings: Findings) -> int:
    """No placement can do better than the least of their bounds."""
    return min(own[0].value_ns for own in findings.bounds.values())


def gap(value_ns: int, bound_ns: int) -> float:
    """The MIP gap: how far the value may be above the optimum, as a share of the value."""
    return round((value_ns - bound_ns) / value_ns, 6) if value_ns else 0.0


def infeasible_answer(
    spec: PipelineSpec, shortages: Sequence[Infeasibility | None], solve_seconds: float
) -> dict[str, Any]:
    """The answer where no schedule exists: who is short of how much, and the ways out.

    `shortages` has one entry per candidate; the one that comes closest to fitting explains.
    """
    if spec.static_shortage is not None:
        problem: dict[str, Any] | None = None
        infeasibility = dict(spec.static_shortage)
    else:
        found = [(s, c) for s, c in zip(shortages, spec.candidates, strict=True) if s is not None]
        shortage, candidate = min(found, key=lambda pair: pair[0].largest_gap_bytes)
        problem = problem_to_document(candidate.problem)
        infeasibility = {"placement": candidate.placement, **shortage.to_document()}
        if spec.source is not None:
            infeasibility["remedies"] = spec_remedies(spec.source, _fits_somewhere)
    return {
        "state": "infeasible",
        "document": {
            "problem": problem,
            "infeasibility": infeasibility,
            "provenance": {
                "planner_version": __version__,
                "solve_seconds": round(solve_seconds, 3),
                "options": spec.options.to_document(),
                "assumptions": [dict(assumption) for assumption in spec.assumptions],
            },
        },
    }


def _fits_somewhere(problems: Sequence[Any]) -> bool:
    return any(find_infeasibility(problem) is None for problem in problems)


def _provenance(findings: Findings) -> dict[str, Any]:
    options = findings.spec.options
    return {
        "planner_version": __version__,
        "engine": options.engine,
        "packages": {name: version(name) for name in ENGINE_PACKAGES[options.engine]},
        "placement": findings.best.candidate.placement,
        "found_by": findings.best.found_by,
        "started_from": findings.started_from,
        "stopped_by": findings.stopped_by,
        "ablation": findings.trace.ablation,
        "steps": findings.trace.improvements,
        "gap_over_time": findings.trace.gap_document(),
        "search_moves": findings.moves,
        "exact": findings.exact.get(findings.best.candidate.placement),
        "solve_seconds": round(findings.solve_seconds, 3),
        "options": options.to_document(),
        "assumptions": [dict(assumption) for assumption in findings.spec.assumptions],
    }
