"""The local search of a solve: long iterations by their period, then annealing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from planner.errors import OrderError
from planner.pipeline.adaoffload import adaoffload
from planner.pipeline.bounds.lower_bounds import lower_bounds
from planner.pipeline.classic.limited import CHAINS, memory_limited_starts
from planner.pipeline.names import FoundBy
from planner.pipeline.objective import objective_ns
from planner.pipeline.pace import OFFER_VERIFICATIONS
from planner.pipeline.periodic.long import direct_schedules, long_schedules
from planner.pipeline.periodic.one_chunk import is_one_chunk_alike
from planner.pipeline.portfolio.heuristics import HUGE_OPERATIONS, adaoffload_settings
from planner.pipeline.portfolio.state import SolveState
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule
from planner.pipeline.search.local_search import SearchSettings, local_search
from planner.pipeline.spec import Candidate
from planner.pipeline.timing import time_orders
from planner.pipeline.verify import verify
from planner.progress import StopCheck

SEARCH, PERIOD = FoundBy.LOCAL_SEARCH, FoundBy.REPEATED_PERIOD
SCREENING_SHARE = 0.3
"""Share of the search's time in which every placement is tried, before the best gets the rest."""
LONG_OPERATIONS = 4_000
"""Operations from which a schedule is also put together from a fill, a period and a drain."""
LONG_SHARE = 0.3
LIMITED_SHARE = 0.08
SEARCH_S_PER_OPERATION = 1e-3
"""With less, the moves of a local search get nowhere in a huge iteration."""


def add_starts(state: SolveState) -> None:
    """More starts where memory is short or the iteration is long."""
    for candidate in state.promising():
        problem = candidate.problem
        if _is_huge(candidate) and (problem.can_offload or is_one_chunk_alike(problem)):
            # It has no time for schedules that don't offload, or are among those made at once.
            continue
        state.reporter.phase(f"starts within memory ({candidate.placement})")
        limited = state.stop_check(LIMITED_SHARE)
        most = 1 if _is_huge(candidate) else CHAINS
        for name, orders in memory_limited_starts(candidate.problem, limited, most=most):
            make = partial(time_orders, candidate.problem, orders, state.must_drop)
            state.offer(candidate, make, name)
    for candidate in state.promising()[:1]:
        if candidate.problem.operations >= LONG_OPERATIONS and candidate.problem.alike:
            state.reporter.phase(f"{PERIOD} ({candidate.placement})")
            for schedule in _long_schedules(state, candidate):
                state.incumbents.offer(candidate, schedule, PERIOD)


def is_made_at_once(state: SolveState) -> bool:
    """Whether `add_starts` will make schedules of all candidates that are most probably better
    than the classic ones."""
    return state.options.engine == "auto" and all(
        _is_huge(candidate) and is_one_chunk_alike(candidate.problem)
        for candidate in state.candidates
    )


def search(state: SolveState, ends: float) -> int:
    """Search until `ends` (of `time.monotonic`), or for the moves that the request allows.

    With several placements each is searched for a while, and then the best. Returns how many
    moves were tried.
    """
    tried = 0
    candidates = state.promising()
    if len(candidates) > 1:
        for position, candidate in enumerate(candidates):
            now = time.monotonic()
            share = SCREENING_SHARE / (len(candidates) - position * SCREENING_SHARE)
            screening_ends = now + share * max(0.0, ends - now)
            moves = state.options.search_iterations
            if moves is not None:
                moves = round(SCREENING_SHARE * moves / len(candidates))
            tried += _search_one(state, candidate, screening_ends, moves)
    for candidate in state.promising()[:1]:
        moves = state.options.search_iterations
        tried += _search_one(state, candidate, ends, None if moves is None else moves - tried)
    return tried


def _search_one(state: SolveState, candidate: Candidate, ends: float, moves: int | None) -> int:
    if state.is_done() or state.is_settled(candidate) or (moves is not None and moves < 1):
        return 0
    if _is_huge(candidate) and moves is None:
        ends -= _offer_s(state, candidate)
        if ends - time.monotonic() < SEARCH_S_PER_OPERATION * candidate.problem.operations:
            return 0
    state.reporter.phase(f"{SEARCH} ({candidate.placement})")
    outcome = local_search(
        candidate.problem,
        state.incumbents.starts_of(candidate),
        SearchSettings(
            threads=state.search_threads(),
            seed=state.options.seed,
            good_ns=_good_enough_ns(state, candidate),
            deadline=ends,
            iterations=moves,
        ),
        state.should_stop,
        lambda schedule: _adopt(state, candidate, schedule),
    )
    state.reporter.log(f"{SEARCH}: {outcome.iterations} moves in {outcome.seconds:.1f} s")
    return outcome.iterations


def _adopt(state: SolveState, candidate: Candidate, schedule: Schedule) -> None:
    state.incumbents.offer(candidate, schedule, SEARCH)


def _good_enough_ns(state: SolveState, candidate: Candidate) -> int:
    """An objective that leaves nothing to search for: the bound, or within the asked gap of it."""
    return int(state.lower_bound(candidate).value_ns / (1 - state.options.mip_gap))


def _is_huge(candidate: Candidate) -> bool:
    return candidate.problem.operations > HUGE_OPERATIONS


def _offer_s(state: SolveState, candidate: Candidate) -> float:
    """To make a schedule of what a search has found, verify and report it."""
    return OFFER_VERIFICATIONS * state.pace.verify_s(candidate.problem)


def _long_schedules(state: SolveState, candidate: Candidate) -> Iterator[Schedule]:
    """Whole iterations by compiled rules; the iteration with fewer micro-batches, repeated."""
    problem, good_ns = candidate.problem, _good_enough_ns(state, candidate)
    if _is_huge(candidate) and is_one_chunk_alike(problem):
        # Nothing that could come later finds more, so that this gets all of the time.
        is_offered = False

        def must_drop() -> bool:
            # Once there is one, a little better is not worth the waits and the proof that the
            # time for closing is for.
            return state.must_drop_more() or (is_offered and state.should_stop())

        huge_stop = _huge_stop(state, candidate)
        if state.incumbents.best_of(candidate) is not None and huge_stop():
            # The stored plan has been made ready, and there is no time to make another one.
            return
        for schedule in direct_schedules(problem, huge_stop, must_drop, lower_bound_ns=good_ns):
            yield schedule
            is_offered = True
        return
    stop = state.stop_check(LONG_SHARE)
    ends = time.monotonic() + LONG_SHARE * state.seconds_left()

    def solve_short(short: PipelineProblem) -> Schedule | None:
        return _solve_short(state, short, ends, stop)

    yield from long_schedules(
        problem, solve_short, stop, state.must_drop_more, lower_bound_ns=good_ns
    )


def _huge_stop(state: SolveState, candidate: Candidate) -> StopCheck:
    """Says to stop while there is time to time, verify and write down what was found."""
    if state.is_reproducible:
        return state.should_stop
    return lambda: state.should_stop() or state.seconds_left() <= _offer_s(state, candidate)


def _solve_short(
    state: SolveState, short: PipelineProblem, ends: float, stop: StopCheck
) -> Schedule | None:
    """AdaOffload and a local search on the shortened iteration."""
    good_ns = lower_bounds(short)[0].value_ns
    found: list[Schedule] = []
    try:
        found.append(adaoffload(short, adaoffload_settings(state), stop, lower_bound_ns=good_ns))
        found += [time_orders(short, orders) for _, orders in memory_limited_starts(short, stop)]
    except OrderError as error:
        state.reporter.log(f"{PERIOD}: {error}")
    starts = [schedule for schedule in found if not verify(short, schedule)]
    if not starts:
        return None
    moves = state.options.search_iterations
    outcome = local_search(
        short,
        starts,
        SearchSettings(
            threads=state.search_threads(),
            seed=state.options.seed,
            good_ns=good_ns,
            deadline=ends - 0.3 * max(0.0, ends - time.monotonic()),
            iterations=None if moves is None else max(1, round(LONG_SHARE * moves)),
        ),
        stop,
        lambda schedule: None,
    )
    if outcome.schedule is not None and not verify(short, outcome.schedule):
        starts.append(outcome.schedule)
    return min(starts, key=lambda schedule: objective_ns(short, schedule))
