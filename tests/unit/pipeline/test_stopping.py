"""Every long step stops when it is told to, and what is best by then is kept."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import Interrupted
from planner.pipeline.bounds.lower_bounds import Bound, lower_bounds
from planner.pipeline.classic.limited import memory_limited_starts
from planner.pipeline.classic.rows import NOT_REACHED, comparison_rows
from planner.pipeline.classic.schedules import one_forward_one_backward_schedule
from planner.pipeline.feasibility.decide import sequential_schedule
from planner.pipeline.incumbents import Incumbents
from planner.pipeline.options import SolveOptions
from planner.pipeline.pace import CLOSING_VERIFICATIONS
from planner.pipeline.periodic.long import direct_schedules, extended_schedule
from planner.pipeline.portfolio import heuristics
from planner.pipeline.portfolio.heuristics import classic_rows, offer_rows_for_later
from planner.pipeline.portfolio.state import MOST_CLOSING, SolveState
from planner.pipeline.portfolio.trace import Trace
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.request import resolve_request
from planner.pipeline.robust.jitter import jitter_of_graph
from planner.pipeline.robust.precedence import precedence_graph
from planner.pipeline.robust.waits import with_waits
from planner.pipeline.schedule import Schedule
from planner.pipeline.solve import run
from planner.pipeline.spec import AS_POSTED, Candidate, PipelineSpec
from planner.pipeline.timing import orders_of, time_orders
from planner.pipeline.verify import verify
from planner.progress import ITEMS_BETWEEN_CHECKS, Reporter, SilentReporter, never, watched
from tests.problems import uniform_document, uniform_problem
from tests.referee import check
from tests.unit.pipeline.stopping import Lines, StopAfter

# F, B and W of `uniform_problem` take 10, 12 and 8.
ROUND_NS = 30


def always() -> bool:
    return True


def pipeline(**options: Any) -> PipelineProblem:
    return uniform_problem(devices=4, micro_batches=64, **options)


def one_at_a_time(problem: PipelineProblem) -> Schedule:
    return sequential_schedule(problem)


def solve_state(
    problem: PipelineProblem, reporter: Reporter | None = None, time_limit_s: float = 60.0
) -> SolveState:
    """The state of a solve of this problem, with its bounds."""
    spec = PipelineSpec((Candidate(AS_POSTED, problem),), SolveOptions(time_limit_s=time_limit_s))
    state = SolveState(spec, reporter or SilentReporter(), never, None)
    state.candidates = list(spec.candidates)
    state.add_bounds(spec.candidates[0], lower_bounds(problem))
    return state


def test_a_watched_loop_asks_before_the_first_of_so_many_items() -> None:
    stop = StopAfter(2)
    seen = []
    with pytest.raises(Interrupted):
        seen.extend(watched(range(100), stop, 10))
    assert stop.asked == 3
    seen = list(watched(range(ITEMS_BETWEEN_CHECKS + 1), stop := StopAfter(2)))
    assert len(seen) == ITEMS_BETWEEN_CHECKS + 1
    assert stop.asked == 2


@pytest.mark.parametrize("checks", [0, 1, 5, 12])
def test_verification_is_interrupted(checks: int) -> None:
    problem = pipeline()
    with pytest.raises(Interrupted):
        verify(problem, one_at_a_time(problem), StopAfter(checks))


@pytest.mark.parametrize("checks", [0, 1])
def test_timing_is_interrupted(checks: int) -> None:
    problem = pipeline()
    orders = orders_of(problem, one_at_a_time(problem).ops)
    with pytest.raises(Interrupted):
        time_orders(problem, orders, StopAfter(checks))


@pytest.mark.parametrize("checks", [0, 1, 2, 3])
def test_waits_are_interrupted(checks: int) -> None:
    problem = pipeline(limit=16)
    with pytest.raises(Interrupted):
        with_waits(problem, one_at_a_time(problem), StopAfter(checks))


def test_bounds_that_take_long_are_left_out() -> None:
    problem = pipeline(limit=16)
    assert lower_bounds(problem, always) == [Bound("arrival and work", 64 * ROUND_NS)]
    without_recycling = {bound.name: bound for bound in lower_bounds(problem, StopAfter(1))}
    assert "recycling" not in without_recycling
    assert {*lower_bounds(problem)} > {*without_recycling.values()}


def test_rows_that_are_not_reached_say_so_and_those_before_them_count() -> None:
    rows = list(comparison_rows(pipeline(), StopAfter(2)))
    reached = [row.name for row in rows if row.timed is not None]
    assert reached == ["GPipe", "1F1B"]
    # 1F1B takes (m + p - 1)(F + B + W).
    assert rows[1].objective_ns == 67 * ROUND_NS
    assert rows[3].reason == NOT_REACHED


def test_policies_within_memory_end_with_what_there_is() -> None:
    problem = pipeline(limit=16)
    assert memory_limited_starts(problem, StopAfter(0)) == []
    stop = StopAfter(3)
    (found,) = memory_limited_starts(problem, stop, most=1)
    assert stop.asked < 200
    assert verify(problem, time_orders(problem, found[1])) == []


def test_a_search_of_whole_iterations_ends_with_its_first_schedule() -> None:
    problem = pipeline(limit=16)
    (schedule,) = direct_schedules(problem, always)
    assert verify(problem, schedule) == []
    assert schedule.makespan_ns < 67 * ROUND_NS
    assert list(direct_schedules(problem, always, always)) == []


@pytest.mark.parametrize("checks", [0, 1, 3, 6])
def test_extending_a_short_iteration_stops(checks: int) -> None:
    asked = StopAfter(checks)

    def short(problem: PipelineProblem) -> Schedule:
        return next(direct_schedules(problem))

    assert extended_schedule(pipeline(limit=16), short, asked) is None
    assert asked.asked <= checks + 2


def test_jitter_needs_enough_samples() -> None:
    problem = pipeline(limit=16)
    graph = precedence_graph(problem, with_waits(problem, one_at_a_time(problem)))
    with pytest.raises(Interrupted):
        jitter_of_graph(problem, graph, StopAfter(18))
    assert jitter_of_graph(problem, graph, StopAfter(30)).samples == 31


def test_what_is_being_verified_is_dropped_only_if_there_is_an_answer() -> None:
    problem = pipeline()
    candidate = Candidate(AS_POSTED, problem)
    reporter = Lines()
    incumbents = Incumbents(reporter, Trace(0.0), must_drop=always)
    incumbents.offer(candidate, one_at_a_time(problem), "one at a time")
    assert incumbents.best is not None
    incumbents.offer(candidate, one_forward_one_backward_schedule(problem).schedule, "1F1B")
    assert incumbents.best.found_by == "one at a time"
    assert reporter.lines == ["dropped a schedule by 1F1B: no time to verify it"]


@pytest.mark.parametrize(
    ("limit", "found_by", "makespan_ns"),
    [(16, "1F1B", 67 * ROUND_NS), (15, "one micro-batch at a time", 64 * 4 * ROUND_NS)],
)
def test_a_large_iteration_has_an_answer_before_anything_long_begins(
    monkeypatch: pytest.MonkeyPatch, limit: int, found_by: str, makespan_ns: int
) -> None:
    problem = pipeline(limit=limit)
    monkeypatch.setattr(heuristics, "LARGE_OPERATIONS", 0)
    state = solve_state(problem)
    monkeypatch.setattr(state, "stop_check", lambda share: StopAfter(2))
    rows = classic_rows(state, 0.2)
    assert [row["reason"] for row in rows[3:6]] == [NOT_REACHED] * 3
    best = state.incumbents.best
    assert best is not None
    assert (best.found_by, best.objective_ns) == (found_by, makespan_ns)
    (improvement,) = state.trace.improvements
    assert improvement["objective_ns"] == makespan_ns


def test_of_the_other_rows_of_a_large_iteration_the_best_is_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = pipeline(limit=16)
    monkeypatch.setattr(heuristics, "LARGE_OPERATIONS", 0)
    state = solve_state(problem)
    classic_rows(state, 0.2)
    offer_rows_for_later(state)
    # ZB-H1 takes m (F + B + W) + (p - 1)(F + B - W).
    assert [step["objective_ns"] for step in state.trace.improvements] == [
        67 * ROUND_NS,
        64 * ROUND_NS + 3 * 14,
    ]


@pytest.mark.parametrize("checks", [0, 30])
def test_a_solve_that_is_asked_to_stop_answers_with_its_best(checks: int) -> None:
    document = uniform_document(devices=4, micro_batches=64, limit=16)
    spec = resolve_request({"problem": document}).spec
    answer = run(spec, SilentReporter(), StopAfter(checks))
    assert answer["document"]["provenance"]["stopped_by"] == "asked to stop"
    violations, facts = check(document, answer["document"]["schedule"])
    assert violations == []
    assert facts["makespan_ns"] == answer["objective"] <= 64 * 4 * ROUND_NS
    assert answer["lower_bound"] >= 64 * ROUND_NS


def test_the_deadline_moves_with_what_verifying_takes() -> None:
    state = solve_state(pipeline(), time_limit_s=100.0)
    ends = state.started + 100.0
    assert state.candidates[0].problem.operations == 768
    state.pace.measured(7680, 20.0)
    assert ends - state.deadline == pytest.approx(0.5 + 2.0 * CLOSING_VERIFICATIONS)
    state.pace.measured(7680, 1000.0)
    assert ends - state.deadline == pytest.approx(0.5 + 100 * MOST_CLOSING)
    state.pace.measured(10, 0.0)
    assert ends - state.deadline == pytest.approx(0.5 + 100 * MOST_CLOSING)
