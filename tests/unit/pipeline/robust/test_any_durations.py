"""Order and waits keep every memory limit whatever takes how long; fewer waits do not."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from planner.errors import OrderError
from planner.pipeline.adaoffload import AdaOffloadSettings, adaoffload
from planner.pipeline.documents import problem_to_document, read_problem
from planner.pipeline.feasibility.decide import find_infeasibility, sequential_schedule
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.robust.any_durations import verify_any_durations
from planner.pipeline.robust.precedence import PrecedenceGraph, precedence_graph
from planner.pipeline.robust.waits import waits_and_graph, with_waits
from planner.pipeline.schedule import Schedule, TimedOp, Token, Wait
from planner.pipeline.timing import orders_of, schedule_from_ops, time_orders
from planner.pipeline.verify import verify
from tests import referee
from tests.problems import problems, uniform_document
from tests.random_schedules import random_schedule
from tests.unit.pipeline.robust.executor import (
    Deadlock,
    allocates,
    execute,
    given_time,
    limits,
    worst_durations,
)


def some_durations(
    problem: PipelineProblem, schedule: Schedule, random: Random
) -> dict[Token, int]:
    """Durations of one of several characters: jittered, wild, mostly nothing, slow transfers."""
    character = random.choice(["jittered", "wild", "mostly nothing", "slow transfers"])

    def length(token: Token) -> int:
        given = 10 * given_time(problem, token)
        if character == "jittered":
            return random.randint(9 * given // 10, 11 * given // 10)
        if character == "wild":
            return random.randint(0, 100)
        if character == "mostly nothing":
            return random.choice([0, 0, 0, 1, 50])
        return 1000 if token.op in "OR" else random.randint(0, 3)

    return {op.token: length(op.token) for op in schedule.ops}


def test_waits_added_to_a_graph_are_those_of_the_schedule() -> None:
    document = uniform_document(devices=3, micro_batches=6, limit=9)
    for stage in document["stages"]:
        stage |= {"offload_bytes": 3, "offload_ns": 9, "reload_ns": 9}
    problem = read_problem(document)
    counts = []
    for seed in range(12):
        safe, graph = waits_and_graph(problem, random_schedule(problem, Random(seed)))
        bare = precedence_graph(problem, replace(safe, waits=()))
        assert _edges(graph) == _edges(precedence_graph(problem, safe))
        counts.append(len(_edges(graph) - _edges(bare)))
    assert max(counts) > 0


def _edges(graph: PrecedenceGraph) -> set[tuple[int, int, bool, float]]:
    after = np.repeat(np.arange(len(graph.ops)), np.diff(graph.first))
    columns = (after, graph.before, graph.at_end, graph.lag_ns)
    return set(zip(*(column.tolist() for column in columns), strict=True))


def some_latencies(schedule: Schedule, random: Random) -> dict[Token, int]:
    longest = random.choice([0, 5, 100])
    return {op.token: random.randint(0, longest) for op in schedule.ops}


@st.composite
def crowded_hosts(draw: st.DrawFn) -> PipelineProblem:
    """Devices that share a host and, at times, a link, with offloads of many sizes."""
    count, devices = draw(st.integers(2, 5)), draw(st.integers(1, 3))
    host_bytes = draw(st.integers(4, 9))

    def each(low: int, high: int) -> list[int]:
        return [draw(st.integers(low, high)) for _ in range(count)]

    stages = []
    for d in range(devices):
        activations = each(2, 8)
        stages.append(
            {
                "device": d,
                "forward_ns": each(1, 4),
                "backward_input_ns": each(1, 4),
                "activation_bytes": activations,
                "offload_bytes": [draw(st.integers(1, min(a, host_bytes))) for a in activations],
                "offload_ns": each(0, 5),
                "reload_ns": each(0, 5),
            }
        )
    device: dict[str, Any] = {"host": 0, "activation_memory_bytes": draw(st.integers(8, 12))}
    if draw(st.booleans()):
        device["host_link"] = "switch"
    return read_problem(
        {
            "micro_batches": count,
            "devices": [device] * devices,
            "stages": stages,
            "hosts": [{"memory_bytes": host_bytes}],
            "host_link_duplex": draw(st.sampled_from(["full", "half"])),
        }
    )


SHORT_OF_MEMORY = st.one_of(problems(memory="tight", offload=True), crowded_hosts())
PROBLEMS = st.one_of(SHORT_OF_MEMORY, problems())


def derived_schedule(problem: PipelineProblem, seed: int) -> Schedule:
    """A valid schedule with its waits: a random one, or one that offloads wherever it can."""
    assume(find_infeasibility(problem) is None)
    schedule = random_schedule(problem, Random(seed))
    if seed % 2:
        settings = AdaOffloadSettings(
            backward_delay_tolerance_ns=5, offload_strategy="aggressive", offload_threshold=None
        )
        with suppress(OrderError):
            schedule = adaoffload(problem, settings, lambda: False, lower_bound_ns=0)
    return with_waits(problem, schedule)


def safe_schedule(problem: PipelineProblem, seed: int) -> Schedule:
    """A random schedule with its waits that is valid also if the memory of an instant is not
    netted: what ranks do, they do one after the other."""
    derived = derived_schedule(problem, seed)
    try:
        time_orders(problem, orders_of(problem, derived.ops))
    except OrderError:
        assume(False)
    return derived


def waits_left_out(schedule: Schedule) -> list[tuple[Wait, Token, Schedule]]:
    """The schedule without one of its waits, for each of them."""
    waits = schedule.waits
    assert waits is not None
    cases = []
    for k, wait in enumerate(waits):
        for gone in wait.after:
            less = wait._replace(after=tuple(token for token in wait.after if token != gone))
            cases.append((wait, gone, replace(schedule, waits=(*waits[:k], less, *waits[k + 1 :]))))
    return cases


def breaks_at(problem: PipelineProblem, schedule: Schedule, token: Token) -> bool:
    """Whether the worst durations for the start of this operation exceed a limit."""
    durations = worst_durations(problem, schedule, token)
    no_latency = dict.fromkeys(durations, 0)
    return bool(execute(problem, schedule, durations, no_latency).exceeded(problem))


@settings(max_examples=40, deadline=None)
@given(PROBLEMS, st.integers(0, 2**32))
def test_order_and_waits_keep_every_limit(problem: PipelineProblem, seed: int) -> None:
    safe = safe_schedule(problem, seed)
    assert verify(problem, safe) == []
    assert verify_any_durations(problem, safe) == []
    assert safe.waits is not None
    event(f"at most {max((len(wait.after) for wait in safe.waits), default=0)} waits at once")
    random = Random(seed)
    for _ in range(10):
        durations = some_durations(problem, safe, random)
        done = execute(problem, safe, durations, some_latencies(safe, random), random)
        assert len(done.end) == len(safe.ops)
        assert done.exceeded(problem) == []


@settings(max_examples=40, deadline=None)
@given(PROBLEMS, st.integers(0, 2**32))
def test_at_the_given_times_nothing_is_later(problem: PipelineProblem, seed: int) -> None:
    safe = safe_schedule(problem, seed)
    done = execute(problem, safe)
    assert all(done.start[op.token] <= op.start_ns for op in safe.ops)


@settings(max_examples=40, deadline=None)
@given(SHORT_OF_MEMORY, st.integers(0, 2**32))
def test_every_wait_is_needed(problem: PipelineProblem, seed: int) -> None:
    """Without it the proof fails, and there are durations that run out of memory."""
    for wait, _, less in waits_left_out(safe_schedule(problem, seed)):
        violations = verify_any_durations(problem, less)
        assert {v.rule for v in violations} == {"out of memory under other durations"}
        assert breaks_at(problem, less, wait.token)


@settings(max_examples=40, deadline=None)
@given(SHORT_OF_MEMORY, st.integers(0, 2**32))
def test_the_proof_fails_exactly_where_durations_break_a_limit(
    problem: PipelineProblem, seed: int
) -> None:
    """Any subset of the waits: what the proof says is what the worst durations do."""
    derived = derived_schedule(problem, seed)
    random = Random(seed)
    share = random.choice([0.0, 0.5, 1.0])
    assert derived.waits is not None
    kept = replace(derived, waits=tuple(w for w in derived.waits if random.random() < share))
    breaks = any(
        breaks_at(problem, kept, op.token) for op in kept.ops if allocates(problem, op.token)
    )
    event("breaks" if breaks else "holds")
    assert bool(verify_any_durations(problem, kept)) == breaks


@settings(max_examples=40, deadline=None)
@given(problems(offload=True), st.integers(0, 2**32), st.data())
def test_waits_against_the_order_deadlock(
    problem: PipelineProblem, seed: int, data: st.DataObject
) -> None:
    """A wait that points backwards is refused exactly if it stops the ranks."""
    safe = safe_schedule(problem, seed)
    assert safe.waits is not None
    early = data.draw(st.integers(0, len(safe.ops) - 1))
    late = data.draw(st.integers(early, len(safe.ops) - 1))
    backwards = Wait(safe.ops[early].token, (safe.ops[late].token,))
    changed = replace(safe, waits=(*safe.waits, backwards))
    refused = any(v.rule == "deadlock" for v in verify_any_durations(problem, changed))
    try:
        execute(problem, changed)
        stopped = False
    except Deadlock:
        stopped = True
    event("stops" if stopped else "runs")
    assert refused == stopped


def offloading_document(**changes: Any) -> dict[str, Any]:
    """One device with room for two activations, where the third F needs the first offload."""
    return uniform_document(
        devices=1,
        micro_batches=3,
        limit=8,
        offload_bytes=4,
        offload_ns=10,
        reload_ns=10,
        backward_weight_ns=0,
        weight_grad_bytes=0,
        **changes,
    )


def offloading_ops() -> list[TimedOp]:
    return [
        TimedOp("F", 0, 0, 0, 10),
        TimedOp("O", 0, 0, 10, 20),
        TimedOp("F", 0, 1, 10, 20),
        TimedOp("F", 0, 2, 20, 30),
        TimedOp("O", 0, 2, 30, 40),
        TimedOp("R", 0, 0, 40, 50),
        TimedOp("B", 0, 0, 50, 62),
        TimedOp("B", 0, 1, 62, 74),
        TimedOp("R", 0, 2, 62, 72),
        TimedOp("B", 0, 2, 74, 86),
    ]


def test_waits_name_what_frees_the_memory() -> None:
    document = offloading_document()
    problem = read_problem(document)
    safe = with_waits(problem, schedule_from_ops(problem, offloading_ops()))
    assert verify(problem, safe) == []
    assert safe.waits == (
        Wait(Token("F", 0, 2), (Token("O", 0, 0),)),
        Wait(Token("R", 0, 0), (Token("O", 0, 2),)),
        # A reload runs beside the compute queue, so it waits for the backward that makes room.
        Wait(Token("R", 0, 2), (Token("B", 0, 0),)),
    )
    answered = safe.to_document(None)
    assert answered["waits"][0] == {
        "op": "F",
        "stage": 0,
        "micro_batch": 2,
        "after": [{"op": "O", "stage": 0, "micro_batch": 0}],
    }
    assert referee.check(document, answered)[0] == []


def test_a_late_offload_without_waits_is_out_of_memory() -> None:
    problem = read_problem(offloading_document())
    schedule = schedule_from_ops(problem, offloading_ops())
    assert "waits" not in schedule.to_document(None)
    (violation,) = verify_any_durations(problem, schedule)
    assert str(violation) == (
        "out of memory under other durations: device 0: 12 bytes may be in use when F of stage 0, "
        "micro-batch 2 starts, limit 8 bytes"
    )


def test_an_offload_waits_for_the_reloads_that_make_room_on_its_host() -> None:
    document = offloading_document(hosts=[{"memory_bytes": 4}])
    problem = read_problem(document)
    ops = [
        TimedOp("F", 0, 0, 0, 10),
        TimedOp("O", 0, 0, 10, 20),
        TimedOp("R", 0, 0, 20, 30),
        TimedOp("F", 0, 1, 10, 20),
        TimedOp("O", 0, 1, 30, 40),
        TimedOp("B", 0, 0, 30, 42),
        TimedOp("F", 0, 2, 42, 52),
        TimedOp("R", 0, 1, 52, 62),
        TimedOp("B", 0, 1, 62, 74),
        TimedOp("B", 0, 2, 74, 86),
    ]
    document["devices"][0]["activation_memory_bytes"] = None
    problem = read_problem(document)
    safe = with_waits(problem, schedule_from_ops(problem, ops))
    assert safe.waits == (Wait(Token("O", 0, 1), (Token("R", 0, 0),)),)
    assert verify_any_durations(problem, safe) == []


def test_an_offload_may_have_to_wait_for_several_reloads() -> None:
    document = uniform_document(
        devices=2,
        micro_batches=2,
        backward_weight_ns=0,
        weight_grad_bytes=0,
        hosts=[{"memory_bytes": 4}],
        offload_bytes=[2, 4],
        offload_ns=10,
        reload_ns=10,
    )
    problem = read_problem(document)
    ops = [
        TimedOp("F", 0, 0, 0, 10),
        TimedOp("O", 0, 0, 10, 20),
        TimedOp("F", 0, 1, 10, 20),
        TimedOp("F", 1, 0, 10, 20),
        TimedOp("O", 1, 0, 20, 30),
        TimedOp("F", 1, 1, 20, 30),
        TimedOp("R", 0, 0, 30, 40),
        TimedOp("R", 1, 0, 30, 40),
        TimedOp("O", 0, 1, 40, 50),
        TimedOp("B", 1, 0, 40, 52),
        TimedOp("R", 0, 1, 50, 60),
        TimedOp("B", 0, 0, 52, 64),
        TimedOp("B", 1, 1, 52, 64),
        TimedOp("B", 0, 1, 64, 76),
    ]
    safe = with_waits(problem, schedule_from_ops(problem, ops))
    assert verify(problem, safe) == []
    assert safe.waits == (Wait(Token("O", 0, 1), (Token("R", 1, 0), Token("R", 0, 0))),)
    assert verify_any_durations(problem, safe) == []
    assert all(verify_any_durations(problem, less) for _, _, less in waits_left_out(safe))


def test_memory_that_holds_everything_orders_nothing() -> None:
    problem = read_problem(uniform_document(devices=2, micro_batches=3, limit=12, offload_bytes=4))
    assert with_waits(problem, sequential_schedule(problem)).waits == ()


def test_an_instant_that_only_fits_as_a_whole_is_reported() -> None:
    """The rules net what happens at one instant; ranks run one operation after the other."""
    document = {
        "micro_batches": 1,
        "devices": [{"activation_memory_bytes": 4}],
        "stages": [{"device": 0, "activation_bytes": 4}, {"device": 0, "activation_bytes": 4}],
    }
    for stage in document["stages"]:  # type: ignore[attr-defined]
        stage |= {"forward_ns": 0, "backward_input_ns": 0}
    problem = read_problem(document)
    ops = [TimedOp(op, s, 0, 0, 0) for op, s in (("F", 0), ("F", 1), ("B", 1), ("B", 0))]  # type: ignore[arg-type]
    schedule = schedule_from_ops(problem, ops)
    assert verify(problem, schedule) == []
    assert referee.check(document, schedule.to_document(None))[0] == []
    (violation,) = verify_any_durations(problem, with_waits(problem, schedule))
    assert "8 bytes may be in use when F of stage 1" in violation.detail


@pytest.mark.parametrize("named", [Token("O", 0, 1), Token("F", 7, 0)])
def test_waits_name_operations_of_the_schedule(named: Token) -> None:
    problem = read_problem(offloading_document())
    schedule = schedule_from_ops(problem, offloading_ops())
    for wait in (Wait(named, (Token("F", 0, 0),)), Wait(Token("F", 0, 0), (named,))):
        violations = verify_any_durations(problem, replace(schedule, waits=(wait,)))
        assert [violation.rule for violation in violations] == ["unknown operation"]


def test_incomplete_operations_are_reported_first() -> None:
    problem = read_problem(offloading_document())
    schedule = schedule_from_ops(problem, offloading_ops()[:-1])
    rules = [violation.rule for violation in verify_any_durations(problem, schedule)]
    assert rules == ["operation missing"]


@settings(max_examples=30, deadline=None)
@given(SHORT_OF_MEMORY, st.integers(0, 2**32))
def test_the_referee_accepts_waits_and_they_concern_limits_only(
    problem: PipelineProblem, seed: int
) -> None:
    safe = derived_schedule(problem, seed)
    assert referee.check(problem_to_document(problem), safe.to_document(None))[0] == []
    known = limits(problem)
    for wait in safe.waits or ():
        assert any(size and key in known for key, size in allocates(problem, wait.token).items())
