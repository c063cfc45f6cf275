"""A new schedule is compared with the running one on the same profile and the same noise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.errors import Interrupted, OrderError
from planner.pipeline.classic.sequences import one_forward_one_backward
from planner.pipeline.documents import read_problem
from planner.pipeline.late_starts import start_late
from planner.pipeline.names import StartKind
from planner.pipeline.orders import Orders
from planner.pipeline.problem import Objective, PipelineProblem
from planner.pipeline.replacement import replacement, running_schedule
from planner.pipeline.request import resolve_request
from planner.pipeline.schedule import Schedule, Token
from planner.pipeline.solve import run
from planner.pipeline.spec import AS_POSTED
from planner.pipeline.timing import time_orders
from planner.progress import SilentReporter, never
from tests.problems import uniform_document

NO_NOISE = (0.0, 0.0, 0.0)


def problem(limit: int | None = None, forward_ns: int = 10) -> PipelineProblem:
    document = uniform_document(devices=3, micro_batches=5, limit=limit)
    for stage in document["stages"]:
        stage["forward_ns"] = forward_ns
    return read_problem(document)


def fused(own: PipelineProblem) -> Schedule:
    """1F1B with W right after each B."""
    orders = one_forward_one_backward(own)
    return time_orders(own, Orders(tuple(tuple(_with_w(row)) for row in orders.compute)))


def _with_w(tokens: tuple[Token, ...]) -> list[Token]:
    found = []
    for token in tokens:
        found.append(token)
        if token.op == "B":
            found.append(token._replace(op="W"))
    return found


def weights_last(own: PipelineProblem) -> Schedule:
    """1F1B with all W at the end."""
    orders = one_forward_one_backward(own)
    rows = [
        (*row, *(token._replace(op="W") for token in row if token.op == "B"))
        for row in orders.compute
    ]
    return time_orders(own, Orders(tuple(rows)), enforce_memory=False)


def test_the_same_schedule_saves_nothing() -> None:
    own = fused(problem())
    found = replacement(problem(), own, own, (0.1, 0.1, 0.1), running_fits=True)
    assert (found.gain, found.gain_low) == (0.0, 0.0)
    assert found.running_ns == found.candidate_ns == own.makespan_ns


def test_the_running_orders_are_timed_on_the_new_profile() -> None:
    old, new = problem(), problem(forward_ns=25)
    running, candidate = fused(old), weights_last(new)
    found = replacement(new, running, candidate, NO_NOISE, running_fits=True)
    assert found.running_ns == fused(new).makespan_ns
    assert found.candidate_ns == candidate.makespan_ns
    assert found.gain == 1 - candidate.makespan_ns / fused(new).makespan_ns
    assert found.gain_low == found.gain


def test_memory_does_not_hold_the_running_orders_up() -> None:
    running = fused(problem())
    tight = problem(limit=5)
    found = replacement(tight, running, running, NO_NOISE, running_fits=False)
    assert found.running_ns == running.makespan_ns
    assert not found.running_fits


def test_noise_lowers_what_is_sure() -> None:
    own = problem()
    pair = fused(own), weights_last(own)
    small, large = (
        replacement(own, *pair, (noise,) * 3, running_fits=True) for noise in (0.01, 0.2)
    )
    assert small.gain == large.gain
    assert large.gain_low < small.gain_low < small.gain


def test_a_seed_decides_the_samples() -> None:
    own = problem()
    pair = fused(own), weights_last(own)
    one, same, other = (
        replacement(own, *pair, (0.1,) * 3, running_fits=True, seed=seed) for seed in (1, 1, 2)
    )
    assert one == same
    assert one.gain_low != other.gain_low


def test_the_steady_span_counts_from_the_latest_starts() -> None:
    # The first device is slow, so that the second could begin later; with its epilogue its span
    # is the longest.
    document = uniform_document(devices=3, micro_batches=5)
    document["stages"][0]["forward_ns"] = 40
    document["devices"][1]["epilogue_ns"] = 200
    own = replace(read_problem(document), objective=Objective.STEADY_SPAN)
    early = weights_last(own)
    late = start_late(own, early)
    assert late.steady_span_ns < early.steady_span_ns
    found = replacement(own, early, late, NO_NOISE, running_fits=True)
    assert found.running_ns == found.candidate_ns == late.steady_span_ns


def test_waits_of_the_running_plan_count() -> None:
    own = problem()
    document = fused(own).to_document(None)
    late = {"op": "B", "stage": 1, "micro_batch": 4}
    after = [{"op": "W", "stage": 2, "micro_batch": 4}]
    waiting = running_schedule({**document, "waits": [{**late, "after": after}]})
    free = running_schedule(document)
    slow, fast = (
        replacement(own, s, free, NO_NOISE, running_fits=True).running_ns for s in (waiting, free)
    )
    assert slow > fast


def test_a_plan_of_another_shape_is_refused() -> None:
    other = read_problem(uniform_document(devices=3, micro_batches=4))
    candidate = fused(problem())
    for own in (other, read_problem(uniform_document(devices=4, micro_batches=5))):
        with pytest.raises(OrderError):
            replacement(problem(), fused(own), candidate, NO_NOISE, running_fits=True)


def test_it_stops_when_told_to() -> None:
    own = fused(problem())
    with pytest.raises(Interrupted):
        replacement(problem(), own, own, NO_NOISE, running_fits=True, should_stop=lambda: True)


def start_of(kind: str, own: PipelineProblem, noise: list[float]) -> dict[str, object]:
    schedule = fused(own).to_document(None)
    origin = {"kind": kind, "run_id": "r", "version": 3, "noise": noise}
    return {"placement": AS_POSTED, "schedule": schedule, "origin": origin}


def solved(start: dict[str, object] | None) -> dict[str, object]:
    body = {
        "problem": uniform_document(devices=3, micro_batches=5),
        "solver": {"search_iterations": 20},
    }
    answer = run(resolve_request(body).spec, SilentReporter(), never, start)
    document: dict[str, object] = answer["document"]
    return document


def test_an_answer_that_started_from_a_running_plan_is_compared_with_it() -> None:
    base = read_problem(uniform_document(devices=3, micro_batches=5))
    document = solved(start_of(StartKind.RUNNING_PLAN, base, [0.01, 0.02, 0.01]))
    found = document["replacement"]
    assert isinstance(found, dict)
    assert found["running_ns"] == fused(base).makespan_ns
    assert found["gain"] > 0
    assert found["gain_low"] <= found["gain"]
    assert found["noise"] == [0.01, 0.02, 0.01]
    assert found["running_fits"] is True
    assert set(found) >= {"candidate_ns", "samples", "basis"}


@pytest.mark.parametrize("kind", [StartKind.NEAREST_PROFILE, None])
def test_other_answers_are_compared_with_nothing(kind: str | None) -> None:
    base = read_problem(uniform_document(devices=3, micro_batches=5))
    assert "replacement" not in solved(kind and start_of(kind, base, []))


def test_what_a_running_plan_takes_is_said_where_it_does_not_fit() -> None:
    own, running = problem(limit=5), fused(problem())
    fits = replacement(own, running, running, NO_NOISE, running_fits=True)
    assert fits.to_document()["running_peaks_bytes"] is None
    short = replacement(own, running, running, NO_NOISE, running_fits=False).to_document()
    assert short["running_peaks_bytes"] == list(running.peak_memory_bytes)
