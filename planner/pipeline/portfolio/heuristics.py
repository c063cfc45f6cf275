"""The quick steps of a solve: a stored plan, classic schedules, long iterations, AdaOffload."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from planner.errors import OrderError
from planner.pipeline.adaoffload import AdaOffloadSettings, adaoffload
from planner.pipeline.classic.rows import (
    CHEAP_ROW,
    NOT_REACHED,
    ClassicRow,
    comparison_rows,
    row_document,
)
from planner.pipeline.feasibility.decide import sequential_schedule
from planner.pipeline.incumbents import LARGE_OPERATIONS
from planner.pipeline.names import FoundBy, StartKind, Step
from planner.pipeline.objective import objective_ns
from planner.pipeline.periodic.long import direct_schedules
from planner.pipeline.portfolio.state import SolveState
from planner.pipeline.repair import adapted
from planner.pipeline.schedule import Schedule
from planner.pipeline.spec import AS_POSTED, Candidate

HUGE_OPERATIONS = 30_000
"""Operations from which AdaOffload takes longer than there is time; the compiled rules for long
iterations make the starts instead."""
HURRIED_S_PER_OPERATION = 3e-4
"""With less time per operation the first plan comes before bounds and comparison, which may take
all of it."""
CLASSIC_SHARE, ADAOFFLOAD_SHARE, MADE_UP_SHARE = 0.2, 0.25, 0.8
"""Shares of the remaining time that these steps may use; the last one is for what the comparison
could not reach."""


def start_from_stored(state: SolveState, start: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Take up a stored schedule, re-timed and, for another problem of the shape, repaired.

    Returns where it came from, for the answer; None without a start, or where it does not apply.
    """
    if start is None:
        return None
    state.reporter.phase(Step.STORED)
    for candidate in state.candidates:
        if candidate.placement != start["placement"]:
            continue
        try:
            found = adapted(candidate.problem, start["schedule"]["ops"], state.stop_check(0.2))
        except (OrderError, IndexError, KeyError) as error:
            state.reporter.log(f"the stored schedule does not apply: {error}")
            return None
        origin: dict[str, Any] = start.get("origin") or {"kind": StartKind.EARLIER_ATTEMPT}
        is_of_another = origin["kind"] not in (StartKind.EARLIER_ATTEMPT, StartKind.VERIFICATION)
        name = FoundBy.STORED if is_of_another else start.get("found_by", FoundBy.STORED)
        with state.trace.step(Step.STORED):
            state.incumbents.offer(candidate, found.schedule, name, found.verify_s)
        return {
            **origin,
            "placement": candidate.placement,
            "found_by": start.get("found_by"),
            "objective_ns": objective_ns(candidate.problem, found.schedule),
            "kept": found.kept,
        }
    return None


def has_to_hurry(state: SolveState) -> bool:
    """Whether bounds and classic schedules of so many operations may take all the time there is."""
    fewest = min(own.problem.operations for own in state.candidates)
    return state.limit_s < HURRIED_S_PER_OPERATION * fewest


def offer_first(state: SolveState) -> None:
    """Something that is made at once, if there is nothing yet."""
    if state.incumbents.best is not None:
        return
    candidate = min(state.candidates, key=lambda own: own.problem.operations)
    for schedule in direct_schedules(candidate.problem, lambda: True):
        state.incumbents.offer(candidate, schedule, FoundBy.REPEATED_PERIOD)
    if state.incumbents.best is None:
        _offer_one_at_a_time(state, candidate)


def classic_rows(state: SolveState, share: float) -> list[dict[str, Any]]:
    """The comparison: each classic schedule that fits is also a start for the rest. It takes at
    most a share of the remaining time per candidate.

    Of large candidates only one is offered here, so that there is an answer; which of the others
    is worth the seconds that it takes to verify is for `offer_rows_for_later` to say. Of a brief
    solve that has a plan the rows are not computed.
    """
    state.reporter.phase(Step.CLASSIC)
    rows = []
    for candidate in state.candidates:
        posted = candidate.placement == AS_POSTED
        is_large = candidate.problem.operations >= LARGE_OPERATIONS
        usable: list[ClassicRow] = []
        known = state.incumbents.best_of(candidate)
        stop = (lambda: True) if state.is_brief and known else state.stop_check(share)
        for row in comparison_rows(candidate.problem, stop):
            # Where placement is a decision, another candidate has a hypothetical row for real.
            if posted or not row.hypothetical:
                own = {} if posted else {"placement": candidate.placement}
                rows.append(row_document(row) | own)
            if row.fits and not row.hypothetical:
                usable.append(row)
            if is_large and row.name == CHEAP_ROW:
                # Whatever comes after may be cut short: from here on there is an answer.
                _offer_best(state, candidate, usable)
        if is_large:
            state.rows_for_later.append((candidate, usable))
            continue
        for row in usable:
            _offer_row(state, candidate, row)
        if state.incumbents.best_of(candidate) is None:
            _offer_one_at_a_time(state, candidate)
    return rows


def rows_made_up(state: SolveState, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The comparison once more, where it lacks rows and other steps have left time for them."""
    is_lacking = any(row["reason"] == NOT_REACHED for row in rows)
    if not is_lacking or state.is_brief or state.is_reproducible or state.is_done():
        return rows
    with state.trace.step(Step.CLASSIC):
        rows = classic_rows(state, MADE_UP_SHARE)
        offer_rows_for_later(state)
    return rows


def offer_rows_for_later(state: SolveState) -> None:
    """Offer the best row of each large candidate, if nothing better has been found since."""
    for candidate, rows in state.rows_for_later:
        _offer_best(state, candidate, rows)
    state.rows_for_later.clear()


def _offer_best(state: SolveState, candidate: Candidate, rows: list[ClassicRow]) -> None:
    """Offer only the best of the rows, since each takes seconds to verify; if there is none yet,
    one micro-batch at a time."""
    known = state.incumbents.best_of(candidate)
    best = min(rows, key=lambda row: row.objective_ns, default=None)
    if best is not None and (known is None or best.objective_ns < known.objective_ns):
        _offer_row(state, candidate, best)
    if state.incumbents.best_of(candidate) is None:
        _offer_one_at_a_time(state, candidate)


def _offer_row(state: SolveState, candidate: Candidate, row: ClassicRow) -> None:
    if state.must_drop_more() or row.schedule is None:
        return
    state.incumbents.offer(candidate, row.schedule, row.name)


def _offer_one_at_a_time(state: SolveState, candidate: Candidate) -> None:
    if state.must_drop_more():
        return
    one_at_a_time = partial(sequential_schedule, candidate.problem)
    state.offer(candidate, one_at_a_time, FoundBy.ONE_AT_A_TIME)


def run_adaoffload(state: SolveState) -> None:
    """AdaOffload on every candidate that may still improve the answer."""
    for position, candidate in enumerate(state.candidates):
        if state.is_done():
            return
        if state.is_settled(candidate):
            continue
        is_long = candidate.problem.alike and candidate.problem.operations > HUGE_OPERATIONS
        if is_long and state.options.engine == "auto":
            state.reporter.log("AdaOffload: left out, the iteration has too many operations")
            continue
        state.reporter.phase(f"{Step.ADAOFFLOAD} ({candidate.placement})")
        # Every placement gets a share of the time, not only the first.
        share = ADAOFFLOAD_SHARE / (len(state.candidates) - position)
        state.offer(candidate, partial(_adaoffload, state, candidate, share), FoundBy.ADAOFFLOAD)


def adaoffload_settings(state: SolveState) -> AdaOffloadSettings:
    """The heuristic's settings as the request has them."""
    return AdaOffloadSettings(
        backward_delay_tolerance_ns=state.options.backward_delay_tolerance_ns,
        offload_strategy=state.options.offload_strategy,
        offload_threshold=state.options.offload_threshold,
    )


def _adaoffload(state: SolveState, candidate: Candidate, share: float) -> Schedule:
    bound_ns = state.lower_bound(candidate).value_ns
    return adaoffload(
        candidate.problem,
        adaoffload_settings(state),
        state.stop_check(share),
        lower_bound_ns=bound_ns,
    )
