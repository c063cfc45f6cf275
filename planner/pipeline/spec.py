"""The canonical spec of a pipeline solve: what is solved, how, and the hashes that identify it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.cost.calibrated import calibration_of
from planner.documents import canonical_hash
from planner.pipeline.documents import problem_to_document, read_problem
from planner.pipeline.offload_time import UNSCALED
from planner.pipeline.options import SolveOptions, read_options
from planner.pipeline.problem import PipelineProblem

KIND = "pipeline"
AS_POSTED = "as_posted"


@dataclass(frozen=True)
class Candidate:
    """One placement of the stages on the devices, with the problem that it gives."""

    placement: str
    problem: PipelineProblem


@dataclass(frozen=True)
class PipelineSpec:
    """Everything that a worker needs to solve a request.

    `source` is the model, cluster and training that the candidates were resolved from (None for a
    posted problem), `assumptions` what was assumed on the way, and `static_shortage` says why no
    candidate exists where parameters and optimizer states alone exceed a device.
    """

    candidates: tuple[Candidate, ...]
    options: SolveOptions
    source: Mapping[str, Any] | None = None
    assumptions: tuple[Mapping[str, Any], ...] = ()
    static_shortage: Mapping[str, Any] | None = None

    def to_document(self) -> dict[str, Any]:
        """The spec as JSON, from which `read_spec` makes it again."""
        return {
            "kind": KIND,
            "candidates": [
                {
                    "placement": candidate.placement,
                    "problem": problem_to_document(candidate.problem),
                }
                for candidate in self.candidates
            ],
            "options": self.options.to_document(),
            "source": None if self.source is None else dict(self.source),
            "assumptions": [dict(assumption) for assumption in self.assumptions],
            "static_shortage": None if self.static_shortage is None else dict(self.static_shortage),
        }

    def hash(self) -> str:
        """SHA-256 over what decides the answer: candidates and options, without the engine.

        Two requests that mean the same have the same hash, however they are written: names, and
        the way from a model to its problem, do not count. The engine is kept apart because a
        request that names none may be answered by any engine's result.
        """
        options = self.options.to_document()
        del options["engine"]
        identity = {**self._problem_identity(), "options": options}
        calibration = calibration_of((self.source or {}).get("cluster"))
        if calibration is not None:
            identity["calibration"] = calibration
        return canonical_hash(identity)

    def problem_hash(self) -> str:
        """SHA-256 over what is to be solved, whatever the options: the candidates alone.

        Problems with scaled offload times are kept apart from problems posted with such times,
        because their answers say that they were scaled.
        """
        return canonical_hash(self._problem_identity())

    def _problem_identity(self) -> dict[str, Any]:
        identity = {
            "kind": KIND,
            "candidates": [
                [candidate.placement, problem_to_document(candidate.problem, names=False)]
                for candidate in self.candidates
            ],
            "shortage_of": None if self.static_shortage is None else self.source,
        }
        options = self.options.to_document()
        if options["offload_time_factor"] != UNSCALED:
            identity["offload_time_factor"] = options["offload_time_factor"]
        return identity


def read_spec(document: Mapping[str, Any]) -> PipelineSpec:
    """The spec that `PipelineSpec.to_document` wrote."""
    return PipelineSpec(
        candidates=tuple(
            Candidate(entry["placement"], read_problem(entry["problem"]))
            for entry in document["candidates"]
        ),
        options=read_options(document["options"]),
        source=document["source"],
        assumptions=tuple(document["assumptions"]),
        static_shortage=document["static_shortage"],
    )
