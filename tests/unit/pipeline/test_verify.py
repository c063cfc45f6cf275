"""`verify` accepts and refuses exactly what the independent checker does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from planner.pipeline.documents import problem_to_document, read_problem
from planner.pipeline.feasibility.decide import find_infeasibility, sequential_schedule
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule, TimedOp
from planner.pipeline.timing import schedule_from_ops
from planner.pipeline.verify import verify
from tests import referee
from tests.problems import problems, uniform_document, uniform_problem
from tests.random_schedules import random_schedule

Ops = list[TimedOp]


def moved(ops: Ops, random: Random) -> Ops:
    i = random.randrange(len(ops))
    by = random.choice([-9, -3, -2, -1, 1, 2, 3, 9])
    op = ops[i]
    ops[i] = op._replace(start_ns=op.start_ns + by, end_ns=op.end_ns + by)
    return ops


def dropped(ops: Ops, random: Random) -> Ops:
    ops.pop(random.randrange(len(ops)))
    return ops


def doubled(ops: Ops, random: Random) -> Ops:
    op = random.choice(ops)
    return [*ops, op._replace(start_ns=op.start_ns + 1000, end_ns=op.end_ns + 1000)]


def lengthened(ops: Ops, random: Random) -> Ops:
    transfers = [i for i, op in enumerate(ops) if op.op in "OR"] or list(range(len(ops)))
    i = random.choice(transfers)
    ops[i] = ops[i]._replace(end_ns=ops[i].end_ns + random.choice([-1, 1]))
    return ops


def shifted(ops: Ops, random: Random) -> Ops:
    by = random.choice([-1, 1, 7])
    return [op._replace(start_ns=op.start_ns + by, end_ns=op.end_ns + by) for op in ops]


def foreign(ops: Ops, random: Random) -> Ops:
    op = random.choice(ops)
    changes: list[dict[str, Any]] = [{"stage": 99}, {"micro_batch": 99}, {"stage": -1}, {"op": "X"}]
    change = random.choice(changes)
    return [*ops, op._replace(**change)]


def swapped(ops: Ops, random: Random) -> Ops:
    """Two operations trade places, each keeping its length."""
    i, k = random.randrange(len(ops)), random.randrange(len(ops))
    one, other = ops[i], ops[k]
    ops[i] = one._replace(
        start_ns=other.start_ns, end_ns=other.start_ns + one.end_ns - one.start_ns
    )
    ops[k] = other._replace(
        start_ns=one.start_ns, end_ns=one.start_ns + other.end_ns - other.start_ns
    )
    return ops


def half_an_offload(ops: Ops, random: Random) -> Ops:
    transfers = [op for op in ops if op.op in "OR"]
    if transfers:
        ops.remove(random.choice(transfers))
    return ops


def without_an_offload(ops: Ops, random: Random) -> Ops:
    """An activation stays on the device after all: valid unless memory is short."""
    offloads = [op for op in ops if op.op == "O"]
    if not offloads:
        return ops
    chosen = random.choice(offloads)
    pair = chosen.stage, chosen.micro_batch
    return [op for op in ops if op.op not in "OR" or (op.stage, op.micro_batch) != pair]


MUTATIONS: list[Callable[[Ops, Random], Ops]] = [
    moved,
    moved,
    dropped,
    doubled,
    lengthened,
    shifted,
    foreign,
    swapped,
    half_an_offload,
    without_an_offload,
]


def figures_of(problem: PipelineProblem, ops: Ops, otherwise: Schedule) -> Schedule:
    """The mutated schedule with its own figures where it has any, so that they are not at fault."""
    try:
        return schedule_from_ops(problem, ops)
    except (IndexError, ValueError, TypeError):
        return replace(otherwise, ops=tuple(ops))


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(problems(), problems(memory="tight", offload=True)),
    st.integers(0, 2**32),
    st.sampled_from(MUTATIONS),
)
def test_mutations_are_judged_as_by_the_independent_checker(
    problem: PipelineProblem, seed: int, mutation: Callable[[Ops, Random], Ops]
) -> None:
    assume(find_infeasibility(problem) is None)
    random = Random(seed)
    valid = random_schedule(problem, random)
    document = problem_to_document(problem)
    assert verify(problem, valid) == []
    assert referee.check(document, valid.to_document(None))[0] == []

    mutated = figures_of(problem, mutation(list(valid.ops), random), valid)
    violations = verify(problem, mutated)
    expected, _ = referee.check(document, mutated.to_document(None))
    event(f"{mutation.__name__}: {'valid' if not expected else 'refused'}")
    assert bool(violations) == bool(expected), (violations, expected)


@settings(max_examples=60, deadline=None)
@given(problems(memory="loose", offload=True), st.integers(0, 2**32), st.data())
def test_lower_limits_are_judged_as_by_the_independent_checker(
    problem: PipelineProblem, seed: int, data: st.DataObject
) -> None:
    """The same schedule under other limits: memory is the only rule that can break."""
    assume(find_infeasibility(problem) is None)
    schedule = random_schedule(problem, Random(seed))
    d = data.draw(st.integers(0, len(problem.devices) - 1))
    peak = schedule.peak_memory_bytes[d]
    limit = data.draw(st.integers(max(0, peak - 1), peak + 1))
    devices = list(problem.devices)
    devices[d] = replace(devices[d], activation_memory_bytes=limit)
    limited = replace(problem, devices=tuple(devices))
    violations = verify(limited, schedule)
    expected, _ = referee.check(problem_to_document(limited), schedule.to_document(None))
    assert bool(violations) == bool(expected) == (peak > limit)
    assert all(violation.rule == "out of memory" for violation in violations)


@pytest.mark.parametrize(
    "change",
    [
        {"makespan_ns": 1},
        {"steady_span_ns": 1},
        {"peak_memory_bytes": (1, 1)},
        {"peak_memory_bytes": (4,)},
    ],
)
def test_wrong_figures_are_named(change: dict[str, object]) -> None:
    problem = uniform_problem(devices=2, micro_batches=2)
    wrong = replace(sequential_schedule(problem), **change)  # type: ignore[arg-type]
    assert {violation.rule for violation in verify(problem, wrong)} == {"wrong figure"}
    assert referee.check(uniform_document(devices=2, micro_batches=2), wrong.to_document(None))[0]


def test_wrong_host_peak_is_named() -> None:
    problem = read_problem(uniform_document(devices=1, micro_batches=1, hosts=[{}]))
    wrong = replace(sequential_schedule(problem), host_peak_memory_bytes=(5,))
    assert [violation.rule for violation in verify(problem, wrong)] == ["wrong figure"]


def test_a_violation_names_rule_operations_and_numbers() -> None:
    problem = uniform_problem(devices=1, micro_batches=1)
    ops = [
        op._replace(start_ns=op.start_ns - 1, end_ns=op.end_ns - 1) if op.op == "B" else op
        for op in sequential_schedule(problem).ops
    ]
    found = [str(violation) for violation in verify(problem, schedule_from_ops(problem, ops))]
    assert any(
        text.startswith("starts too early")
        and "B of stage 0, micro-batch 0" in text
        and "9" in text
        for text in found
    )
    assert any(text.startswith("overlap") for text in found)


def test_half_duplex_and_shared_links_are_exclusive() -> None:
    document = uniform_document(
        devices=2, micro_batches=1, offload_bytes=4, offload_ns=20, reload_ns=7
    )
    free = read_problem(document)
    schedule = schedule_from_ops(
        free,
        [
            TimedOp("F", 0, 0, 0, 10),
            TimedOp("O", 0, 0, 10, 30),
            TimedOp("F", 1, 0, 10, 20),
            TimedOp("O", 1, 0, 25, 45),
            TimedOp("R", 0, 0, 35, 42),
            TimedOp("R", 1, 0, 45, 52),
            TimedOp("B", 1, 0, 52, 64),
            TimedOp("W", 1, 0, 64, 72),
            TimedOp("B", 0, 0, 64, 76),
            TimedOp("W", 0, 0, 76, 84),
        ],
    )
    assert verify(free, schedule) == []
    for device in document["devices"]:
        device["host_link"] = "switch"
    # The offloads overlap from 25 to 30.
    assert len(verify(read_problem(document), schedule)) == 1
    document["host_link_duplex"] = "half"
    # And the reload of device 0 overlaps device 1's offload.
    assert len(verify(read_problem(document), schedule)) == 2
