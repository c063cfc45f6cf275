"""From a client's request to the canonical spec of a solve."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from pydantic import Field, ValidationError

from planner.cost.resolve import StaticMemoryExceeded, resolve
from planner.documents import Document, spec_error_from
from planner.errors import SpecError
from planner.pipeline.bounds.lower_bounds import lower_bounds
from planner.pipeline.documents import (
    ProblemDocument,
    problem_from_document,
    problem_to_document,
    read_problem,
)
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.offload_time import UNSCALED, note, scaled
from planner.pipeline.options import SolveOptions, SolverDocument
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.similarity import profile_of, shape_hash
from planner.pipeline.spec import AS_POSTED, Candidate, PipelineSpec
from planner.resolved_request import ResolvedSpec

PREVIEW_BOUNDS_S = 2.0
"""How long computing bounds for a preview may go on before the next one is left out."""


class PipelineRequest(Document):
    """What a client posts: a `problem`, or `model`, `cluster` and `training`; and `solver`."""

    problem: ProblemDocument | None = None
    model: str | dict[str, Any] | None = Field(
        default=None, description="A preset's name, or fields (a `preset` among them if wanted)."
    )
    cluster: str | dict[str, Any] | None = Field(
        default=None, description="Such as `8xA100-40GB` or `4x8xH100`, or fields."
    )
    training: dict[str, Any] | None = Field(
        default=None, description="Micro-batches, parallel degrees, precision, recomputation, …"
    )
    solver: SolverDocument = Field(default_factory=SolverDocument)


class ResolvedRequest(ResolvedSpec[PipelineSpec]):
    """A resolved request for a pipeline schedule."""

    @cached_property
    def shape_hash(self) -> str | None:
        """Equal for problems whose schedules can be adapted to each other; None without any."""
        return shape_hash(self.resolved)

    @cached_property
    def profile(self) -> dict[str, Any] | None:
        """What `planner.pipeline.similarity.distance` compares; None without a problem."""
        return profile_of(self.resolved)

    @property
    def is_reproducible(self) -> bool:
        """Whether the answer may depend on nothing but the request: it has an iteration budget."""
        return self.resolved.options.search_iterations is not None

    @property
    def problems(self) -> list[PipelineProblem]:
        """The problems of all placements."""
        return [candidate.problem for candidate in self.resolved.candidates]

    @property
    def stages(self) -> int:
        """The largest number of stages of any placement."""
        return max((len(problem.stages) for problem in self.problems), default=0)

    @property
    def micro_batches(self) -> int:
        """Micro-batches of one iteration."""
        return max((problem.micro_batches for problem in self.problems), default=0)

    @property
    def operations(self) -> int:
        """The largest number of compute operations of any placement."""
        return max((problem.operations for problem in self.problems), default=0)

    def preview(self) -> dict[str, Any]:
        """The resolved problem of each placement with its bounds, without solving anything. Of
        bounds, those that take long are left out where somebody would wait for them."""
        spec = self.resolved
        ends = time.monotonic() + PREVIEW_BOUNDS_S
        placements = []
        for candidate in spec.candidates:
            infeasibility = find_infeasibility(candidate.problem)
            bounds = lower_bounds(candidate.problem, lambda: time.monotonic() >= ends)
            placements.append(
                {
                    "placement": candidate.placement,
                    "problem": problem_to_document(candidate.problem),
                    "feasible": infeasibility is None,
                    "infeasibility": infeasibility and infeasibility.to_document(),
                    "lower_bound_ns": bounds[0].value_ns,
                    "bounds": [{"name": b.name, "value_ns": b.value_ns} for b in bounds],
                }
            )
        return {
            "spec_hash": self.spec_hash,
            "options": spec.options.to_document(),
            "placements": placements,
            "assumptions": [dict(assumption) for assumption in spec.assumptions],
            "static_shortage": spec.static_shortage and dict(spec.static_shortage),
        }


def resolve_request(body: Mapping[str, Any]) -> ResolvedRequest:
    """Validate a request body and resolve it into the spec that a worker solves.

    Raises `SpecError` that names the field at fault and the remedy.
    """
    if "micro_batches" in body and "problem" not in body:
        raise SpecError(
            ("micro_batches",),
            "is a field of a problem, not of a request.",
            'Post the problem as {"problem": {…}, "solver": {…}}.',
        )
    try:
        request = PipelineRequest.model_validate(body)
    except ValidationError as error:
        raise spec_error_from(error) from error
    described = [
        name for name in ("model", "cluster", "training") if getattr(request, name) is not None
    ]
    if request.problem is not None and described:
        raise SpecError(
            (described[0],),
            "cannot be combined with a posted `problem`.",
            "Post either `problem` or `model`, `cluster` and `training`.",
        )
    options = request.solver.resolve()
    if request.problem is not None:
        posted = problem_from_document(request.problem, ("problem",))
        # A client's own labels are dropped: another client's identical problem shares the answer.
        unlabelled = read_problem(problem_to_document(posted, names=False))
        spec = PipelineSpec((Candidate(AS_POSTED, unlabelled),), options)
    else:
        spec = _spec_from_model(request, options)
    engine_named = request.solver.engine not in (None, "auto")
    return ResolvedRequest(_with_scaled_offloads(spec), engine_named)


def _with_scaled_offloads(spec: PipelineSpec) -> PipelineSpec:
    """The spec whose problems have the offload times that its options ask for."""
    factor = spec.options.offload_time_factor
    if factor == UNSCALED:
        return spec
    return replace(
        spec,
        candidates=tuple(
            Candidate(c.placement, scaled(c.problem, factor)) for c in spec.candidates
        ),
        assumptions=(*spec.assumptions, note(factor)),
    )


def _spec_from_model(request: PipelineRequest, options: SolveOptions) -> PipelineSpec:
    """Resolve model, cluster and training into one candidate per placement."""
    if request.model is None or request.cluster is None:
        missing = "model" if request.model is None else "cluster"
        raise SpecError(
            (missing,),
            "is missing.",
            "Post `model` and `cluster` (and `training`), or a measured `problem`.",
        )
    training = request.training or {}
    source = {"model": request.model, "cluster": request.cluster, "training": training}
    try:
        resolved = resolve(request.model, request.cluster, training)
    except StaticMemoryExceeded as shortage:
        return PipelineSpec(
            candidates=(),
            options=options,
            source=source,
            assumptions=tuple(dict(note) for note in shortage.notes),
            static_shortage=shortage.to_document(),
        )
    return PipelineSpec(
        candidates=tuple(Candidate(c.placement, c.problem) for c in resolved.candidates),
        options=options,
        source=source,
        assumptions=tuple(dict(note) for note in resolved.notes),
    )
