"""Whatever is done to a schedule, `verify` and the independent checker judge it alike.

`test_verify.py` mutates the operations once; here several mutations follow one another, the
figures are changed too, and operations move to where they just fit or just do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from planner.pipeline.documents import problem_to_document
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.problem import Duplex, MicroBatchOrder, PipelineProblem
from planner.pipeline.schedule import Schedule, TimedOp
from planner.pipeline.verify import verify
from planner.pipeline.verify_arrays import is_valid
from tests import referee
from tests.problems import problems
from tests.random_schedules import random_schedule
from tests.unit.pipeline.test_verify import MUTATIONS, Ops, figures_of

PROBLEMS = st.one_of(problems(), problems(memory="tight", offload=True))


def moved_to(op: TimedOp, start_ns: int) -> TimedOp:
    return op._replace(start_ns=start_ns, end_ns=start_ns + op.end_ns - op.start_ns)


def beside_another(ops: Ops, random: Random) -> Ops:
    """An operation starts where another one starts or ends, or 1 ns off."""
    i, other = random.randrange(len(ops)), random.choice(ops)
    edge = random.choice([other.start_ns, other.end_ns])
    ops[i] = moved_to(ops[i], edge + random.choice([-1, 0, 0, 1]))
    return ops


def later_from_here(ops: Ops, random: Random) -> Ops:
    """Everything from some instant on starts later: valid wherever nothing runs across it."""
    instant = random.choice(ops).start_ns
    by = random.choice([1, 5])
    return [moved_to(op, op.start_ns + by) if op.start_ns >= instant else op for op in ops]


def offload_longer(ops: Ops, random: Random) -> Ops:
    """An offload lasts longer, with its reload kept, delayed or taken along."""
    offloads = [i for i, op in enumerate(ops) if op.op == "O"]
    if not offloads:
        return later_from_here(ops, random)
    i = random.choice(offloads)
    ops[i] = ops[i]._replace(end_ns=ops[i].end_ns + random.choice([1, 3]))
    return ops


def transfers_moved(ops: Ops, random: Random) -> Ops:
    """Offloads and reloads slip a little; many still fit."""
    return [
        moved_to(op, op.start_ns + random.choice([0, 0, 1, 2])) if op.op in "OR" else op
        for op in ops
    ]


def other_micro_batch(ops: Ops, random: Random) -> Ops:
    """Two operations of one kind and stage exchange their micro-batches."""
    i = random.randrange(len(ops))
    alike = [
        k for k, op in enumerate(ops) if (op.op, op.stage) == (ops[i].op, ops[i].stage) and k != i
    ]
    if alike:
        k = random.choice(alike)
        one, other = ops[i].micro_batch, ops[k].micro_batch
        ops[i], ops[k] = ops[i]._replace(micro_batch=other), ops[k]._replace(micro_batch=one)
    return ops


def weightless_weight_op(ops: Ops, random: Random) -> Ops:
    """A W of no length beside a fused backward is allowed, and frees nothing."""
    backwards = [op for op in ops if op.op == "B"]
    op = random.choice(backwards)
    return [*ops, op._replace(op="W", start_ns=op.end_ns, end_ns=op.end_ns)]


OWN_MUTATIONS: list[Callable[[Ops, Random], Ops]] = [
    beside_another,
    later_from_here,
    offload_longer,
    transfers_moved,
    other_micro_batch,
    weightless_weight_op,
]


def assert_judged_alike(problem: PipelineProblem, schedule: Schedule) -> None:
    violations = verify(problem, schedule)
    expected, _ = referee.check(problem_to_document(problem), schedule.to_document(None))
    event("valid" if not expected else "refused")
    assert bool(violations) == bool(expected), (violations, expected)
    assert is_valid(problem, schedule) == (not expected)


@settings(max_examples=80, deadline=None)
@given(
    PROBLEMS,
    st.integers(0, 2**32),
    st.lists(st.sampled_from([*OWN_MUTATIONS, *MUTATIONS]), min_size=1, max_size=3),
)
def test_any_mutations_are_judged_alike(
    problem: PipelineProblem, seed: int, mutations: list[Callable[[Ops, Random], Ops]]
) -> None:
    assume(find_infeasibility(problem) is None)
    random = Random(seed)
    valid = random_schedule(problem, random)
    ops = list(valid.ops)
    for mutation in mutations:
        if ops:
            ops = mutation(ops, random)
    assume(ops)
    assert_judged_alike(problem, figures_of(problem, ops, valid))


@settings(max_examples=60, deadline=None)
@given(PROBLEMS, st.integers(0, 2**32), st.sampled_from(OWN_MUTATIONS))
def test_small_moves_are_judged_alike(
    problem: PipelineProblem, seed: int, mutation: Callable[[Ops, Random], Ops]
) -> None:
    assume(find_infeasibility(problem) is None)
    random = Random(seed)
    valid = random_schedule(problem, random)
    event(mutation.__name__)
    assert_judged_alike(problem, figures_of(problem, mutation(list(valid.ops), random), valid))


@settings(max_examples=30, deadline=None)
@given(
    PROBLEMS,
    st.integers(0, 2**32),
    st.sampled_from(
        ["makespan_ns", "steady_span_ns", "peak_memory_bytes", "host_peak_memory_bytes"]
    ),
    st.integers(-2, 2),
)
def test_changed_figures_are_judged_alike(
    problem: PipelineProblem, seed: int, figure: str, by: int
) -> None:
    assume(find_infeasibility(problem) is None)
    valid = random_schedule(problem, Random(seed))
    value = getattr(valid, figure)
    changed = tuple(peak + by for peak in value) if isinstance(value, tuple) else value + by
    schedule = replace(valid, **{figure: changed})  # type: ignore[arg-type]
    # The referee's format has no peaks of hosts.
    if figure != "host_peak_memory_bytes":
        assert_judged_alike(problem, schedule)
    assert bool(verify(problem, schedule)) == (changed != value)
    assert is_valid(problem, schedule) == (changed == value)


@settings(max_examples=40, deadline=None)
@given(PROBLEMS, st.integers(0, 2**32), st.sampled_from(["host", "link", "duplex", "order"]))
def test_other_rules_for_the_same_schedule_are_judged_alike(
    problem: PipelineProblem, seed: int, change: str
) -> None:
    """The schedule stays; a host has less memory, links become one or half duplex, order fixed."""
    assume(find_infeasibility(problem) is None)
    random = Random(seed)
    schedule = random_schedule(problem, random)
    if change == "host":
        hosts = tuple(
            replace(host, memory_bytes=max(0, peak - random.choice([0, 1])))
            for host, peak in zip(problem.hosts, schedule.host_peak_memory_bytes, strict=True)
        )
        problem = replace(problem, hosts=hosts)
    elif change == "link":
        devices = tuple(replace(device, host_link="one") for device in problem.devices)
        problem = replace(problem, devices=devices)
    elif change == "duplex":
        problem = replace(problem, host_link_duplex=Duplex.HALF, host_links={})
    else:
        problem = replace(problem, micro_batch_order=MicroBatchOrder.FIXED)
    event(change)
    assert_judged_alike(problem, schedule)
