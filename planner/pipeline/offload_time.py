"""The offload time factor: which share of the O and R times a solve counts.

Where copies to and from the host run beside each other or are partly hidden by the runtime, an
offload occupies its link for less than the copy takes alone. The factor scales both times of a
transfer before anything is solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Annotated

from pydantic import Discriminator, Field, Tag

from planner.documents import (
    LIST_OF_NUMBERS,
    ONE_NUMBER,
    FiniteNumber,
    Listed,
    one_or_list,
)
from planner.errors import SpecError
from planner.pipeline.problem import PipelineProblem

UNSCALED = 1.0
PATH = ("solver", "offload_time_factor")

OffloadTimeFactor = float | tuple[float | tuple[float, ...], ...]
"""One factor for all transfers, or per stage one or a tuple with one per micro-batch."""

Factor = Annotated[FiniteNumber, Field(gt=0, le=1)]
StageFactor = Annotated[
    Annotated[Factor, Tag(ONE_NUMBER)]
    | Annotated[list[Factor], *Listed, Field(min_length=1), Tag(LIST_OF_NUMBERS)],
    Discriminator(one_or_list),
]
FactorDocument = Annotated[
    Annotated[Factor, Tag(ONE_NUMBER)]
    | Annotated[list[StageFactor], *Listed, Field(min_length=1), Tag(LIST_OF_NUMBERS)],
    Discriminator(one_or_list),
]


def read_factor(document: float | Sequence[float | Sequence[float]]) -> OffloadTimeFactor:
    """The canonical factor: lists that say 1 everywhere, as a number does, become that number."""
    if isinstance(document, (int, float)):
        return float(document)
    stages = tuple(
        float(entry) if isinstance(entry, (int, float)) else tuple(map(float, entry))
        for entry in document
    )
    if all(set(_listed(entry)) == {UNSCALED} for entry in stages):
        return UNSCALED
    return stages


def factor_to_document(factor: OffloadTimeFactor) -> float | list[float | list[float]]:
    """The factor as JSON."""
    if isinstance(factor, float):
        return factor
    return [entry if isinstance(entry, float) else list(entry) for entry in factor]


def scaled(problem: PipelineProblem, factor: OffloadTimeFactor) -> PipelineProblem:
    """The problem with its O and R times scaled and rounded up to whole nanoseconds.

    Raises `SpecError` if the factor's lists do not fit the stages and micro-batches.
    """
    if factor == UNSCALED:
        return problem
    count = len(problem.stages)
    entries = (factor,) * count if isinstance(factor, float) else factor
    if len(entries) != count:
        raise SpecError(
            PATH,
            f"has {len(entries)} entries, and a placement has {count} stages.",
            "Give one number for all or a list with one entry per stage.",
        )
    stages = []
    for s, (stage, entry) in enumerate(zip(problem.stages, entries, strict=True)):
        shares = _listed(entry) * problem.micro_batches if isinstance(entry, float) else entry
        if len(shares) != problem.micro_batches:
            raise SpecError(
                (*PATH, s),
                f"has {len(shares)} values for {problem.micro_batches} micro-batches.",
                "Give one number for all or a list with one per micro-batch.",
            )
        stages.append(
            replace(
                stage,
                offload_ns=_scale(stage.offload_ns, shares),
                reload_ns=_scale(stage.reload_ns, shares),
            )
        )
    return replace(problem, stages=tuple(stages))


def note(factor: OffloadTimeFactor) -> dict[str, str]:
    """The assumption that an answer carries where its times are scaled."""
    if isinstance(factor, float):
        value = f"x {factor:g}"
    else:
        shares = [share for entry in factor for share in _listed(entry)]
        value = f"x {min(shares):g} to {max(shares):g}, by stage or micro-batch"
    return {
        "what": "offload and reload times",
        "value": value,
        "basis": "solver.offload_time_factor: the problem of this answer has the scaled times, so "
        "a check of its schedule against the unscaled problem would differ.",
    }


def _listed(entry: float | tuple[float, ...]) -> tuple[float, ...]:
    return (entry,) if isinstance(entry, float) else entry


def _scale(times_ns: tuple[int, ...], shares: tuple[float, ...]) -> tuple[int, ...]:
    # As the decimal number that was written: 0.1 x 30 ns are 3 ns, not the 4 of binary fractions.
    exact = {share: Fraction(str(share)) for share in set(shares)}
    return tuple(
        ceil(time_ns * exact[share]) for time_ns, share in zip(times_ns, shares, strict=True)
    )
