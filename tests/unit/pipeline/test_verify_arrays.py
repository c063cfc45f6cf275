"""Long schedules are verified by arrays; `test_verify_mutations` holds them to the rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.pipeline import verify as verifying
from planner.pipeline.periodic.long import direct_schedules
from planner.pipeline.schedule import TimedOp
from planner.pipeline.timing import schedule_from_ops
from planner.pipeline.verify import verify
from planner.pipeline.verify_arrays import is_valid
from tests.problems import uniform_problem

STAGES = 4


def test_verifying_by_arrays_finds_what_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = uniform_problem(devices=STAGES, micro_batches=8, limit=3 * STAGES)
    schedule = next(direct_schedules(problem, lambda: True))
    assert verify(problem, schedule) == []
    monkeypatch.setattr(verifying, "ARRAYS_FROM_OPERATIONS", 0)
    assert verify(problem, schedule) == []
    ops = list(schedule.ops)
    late = next(k for k, op in enumerate(ops) if op.op == "B")
    ops[late] = ops[late]._replace(start_ns=0, end_ns=ops[late].end_ns - ops[late].start_ns)
    assert verify(problem, replace(schedule, ops=tuple(ops)))
    assert verify(problem, replace(schedule, makespan_ns=schedule.makespan_ns + 1))
    assert verify(problem, replace(schedule, peak_memory_bytes=(0,) * STAGES))


def test_times_near_the_end_of_64_bits_do_not_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both hops are ignored; with 64 bits their ends plus the latency would lie before 0."""
    problem = uniform_problem(devices=2, micro_batches=1, transfer_ns=1_000)
    when_ns = 2**63 - 500
    ops = []
    for kind, stage in (("F", 0), ("F", 1), ("B", 1), ("W", 1), ("B", 0), ("W", 0)):
        own = problem.stages[stage]
        lengths = {"F": own.forward_ns, "B": own.backward_input_ns, "W": own.backward_weight_ns}
        end_ns = when_ns + lengths[kind][0]
        ops.append(TimedOp(kind, stage, 0, when_ns, end_ns))  # type: ignore[arg-type]
        when_ns = end_ns
    assert when_ns < 2**63
    schedule = schedule_from_ops(problem, ops)
    assert not is_valid(problem, schedule)
    monkeypatch.setattr(verifying, "ARRAYS_FROM_OPERATIONS", 0)
    assert {violation.rule for violation in verify(problem, schedule)} == {"starts too early"}
