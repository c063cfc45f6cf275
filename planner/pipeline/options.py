"""How a pipeline problem is to be solved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool

from planner.cores import allowed_threads
from planner.documents import Document, FiniteNumber, PositiveWhole, WholeNumber
from planner.errors import SpecError
from planner.pipeline.offload_time import (
    UNSCALED,
    FactorDocument,
    OffloadTimeFactor,
    factor_to_document,
    read_factor,
)

Engine = Literal["auto", "cbc", "highs", "cp_sat"]
OffloadStrategy = Literal["aggressive", "conservative"]

DEFAULT_ENGINE: Engine = "auto"
DEFAULT_TIME_LIMIT_S = 60.0
# An iteration budget ends the solve; this only keeps a huge one from holding a worker for ever.
ITERATIONS_TIME_LIMIT_S = 3600.0
NS_PER_MS = 1_000_000


@dataclass(frozen=True)
class SolveOptions:
    """Settings of one solve. `mip_gap` is relative; None leaves a choice to the planner.

    With `search_iterations` the solve ends after so many iterations of the search, and only steps
    that give the same answer on every machine run; `time_limit_s` is then a ceiling.
    `offload_time_factor` says by what the problem's O and R times have been scaled already.
    """

    engine: Engine = DEFAULT_ENGINE
    time_limit_s: float = DEFAULT_TIME_LIMIT_S
    search_iterations: int | None = None
    mip_gap: float = 0.0
    threads: int = 2
    seed: int = 0
    offload_time_factor: OffloadTimeFactor = UNSCALED
    backward_delay_tolerance_ns: int = 5 * NS_PER_MS
    offload_strategy: OffloadStrategy | None = None
    offload_threshold: float | None = None
    milp_window_micro_batches: int | None = None
    adaoffload_warm_start: bool = True

    def to_document(self) -> dict[str, Any]:
        """All settings, defaults written out, as JSON."""
        factor = factor_to_document(self.offload_time_factor)
        return {**asdict(self), "offload_time_factor": factor}

    def threads_here(self) -> int:
        """`threads`, but no more than this process may use."""
        return allowed_threads(self.threads)


def read_options(document: Mapping[str, Any]) -> SolveOptions:
    """The settings that `SolveOptions.to_document` wrote; what an older one lacks is default."""
    factor = read_factor(document.get("offload_time_factor", UNSCALED))
    return SolveOptions(**{**document, "offload_time_factor": factor})


class SolverDocument(Document):
    """The `solver` part of a request."""

    engine: Engine | None = Field(
        default=None,
        description="`auto` runs every step; `cbc`, `highs` and `cp_sat` leave out the other "
        "engines. Without one: `auto`.",
    )
    time_limit_s: Annotated[FiniteNumber, Field(gt=0)] = Field(
        default=DEFAULT_TIME_LIMIT_S, description="Seconds from the solver's start to the answer."
    )
    search_iterations: PositiveWhole | None = Field(
        default=None,
        description="Iterations of the search, in place of a time limit: the answer is the same "
        "wherever and whenever it is solved.",
    )
    mip_gap: Annotated[FiniteNumber, Field(ge=0, lt=1)] = Field(
        default=0.0, description="Stop when the best plan is within this share of the bound."
    )
    threads: Annotated[PositiveWhole, Field(le=64)] = Field(
        default=2,
        description="Threads of the search and of the engines; at most the cores there are.",
    )
    seed: WholeNumber = Field(default=0, description="Of everything that is drawn at random.")
    offload_time_factor: FactorDocument = Field(
        default=UNSCALED,
        description="Share of `offload_ns` and `reload_ns` that an asynchronous copy takes of its "
        "link: a number in (0, 1], or a list with one entry per stage, each a number or a list "
        "with one per micro-batch.",
    )
    backward_delay_tolerance_ms: Annotated[FiniteNumber, Field(ge=0, le=60_000)] = Field(
        default=5.0, description="How far AdaOffload may delay the first backwards."
    )
    offload_strategy: OffloadStrategy | None = Field(
        default=None,
        description="AdaOffload offloads wherever the link is free (`aggressive`), or only where "
        "memory needs it (`conservative`); without one both are tried and the better is kept.",
    )
    offload_threshold: Annotated[FiniteNumber, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="Share of a device's activation memory above which AdaOffload offloads.",
    )
    milp_window_micro_batches: Annotated[WholeNumber, Field(ge=2)] | None = Field(
        default=None,
        description="The MILP reorders windows of this many micro-batches instead of all at once.",
    )
    adaoffload_warm_start: StrictBool = Field(
        default=True, description="Whether the MILP starts from AdaOffload's schedule."
    )

    def resolve(self) -> SolveOptions:
        """The settings that the planner works with.

        Raises `SpecError` where an iteration budget meets what it replaces or leaves out.
        """
        if self.search_iterations is not None:
            self._check_iterations()
        return SolveOptions(
            engine=self.engine or DEFAULT_ENGINE,
            time_limit_s=self.time_limit_s
            if self.search_iterations is None
            else ITERATIONS_TIME_LIMIT_S,
            search_iterations=self.search_iterations,
            mip_gap=self.mip_gap,
            threads=self.threads,
            seed=self.seed,
            offload_time_factor=read_factor(self.offload_time_factor),
            backward_delay_tolerance_ns=round(self.backward_delay_tolerance_ms * NS_PER_MS),
            offload_strategy=self.offload_strategy,
            offload_threshold=self.offload_threshold,
            milp_window_micro_batches=self.milp_window_micro_batches,
            adaoffload_warm_start=self.adaoffload_warm_start,
        )

    def _check_iterations(self) -> None:
        path = ("solver", "search_iterations")
        if "time_limit_s" in self.model_fields_set:
            raise SpecError(
                path,
                "cannot be combined with `solver.time_limit_s`.",
                "Give either `search_iterations` or `time_limit_s`.",
            )
        if self.engine not in (None, "auto"):
            raise SpecError(
                path,
                f"runs no engine, and `solver.engine` asks for {self.engine}.",
                "Leave `engine` out, or give `time_limit_s` instead.",
            )
