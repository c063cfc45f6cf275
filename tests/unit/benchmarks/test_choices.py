"""Choices in planning offloads, in small, and on problems whose times are worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.choices.delay import Delayed, delayed, rule_alone
from benchmarks.choices.factor import factored
from benchmarks.choices.order import KINDS, Ordered, in_order, ordered, random_problem
from benchmarks.choices.overlap import Keeps, Overlapping
from benchmarks.choices.problems import MODEL_MADE, TWO_A_SWITCH, bubble, problem_named
from benchmarks.choices.report import Results, delay_chart, record_of
from benchmarks.choices.switch import cost, switched, with_own_links
from planner.pipeline.orders import Orders
from planner.pipeline.problem import Device, PipelineProblem, Stage, Transfer
from planner.pipeline.schedule import Token
from planner.pipeline.timing import time_orders

SMALL = "offload-4x8-tight"
MS = 1_000_000


def two_stages(copy_ms: int = 20) -> PipelineProblem:
    """One micro-batch on two devices that share a link: F and B of 10 ms, copies of 20 ms."""
    stage = Stage(
        device=0,
        forward_ns=(10 * MS,),
        backward_input_ns=(10 * MS,),
        backward_weight_ns=(0,),
        activation_bytes=(100,),
        weight_grad_bytes=(0,),
        backward_workspace_bytes=(0,),
        offload_bytes=(100,),
        offload_ns=(copy_ms * MS,),
        reload_ns=(copy_ms * MS,),
    )
    return PipelineProblem(
        micro_batches=1,
        devices=(Device(activation_memory_bytes=100, host_link="switch"),) * 2,
        stages=(stage, replace(stage, device=1)),
        transfers=(Transfer((0,), (0,)),),
    )


ORDERS = Orders(tuple((Token("F", s, 0), Token("R", s, 0), Token("B", s, 0)) for s in (0, 1)))


def test_bubble_is_what_devices_do_not_compute() -> None:
    assert bubble(two_stages(), 40 * MS) == 0.5
    assert bubble(two_stages(), 80 * MS) == 0.75


def test_model_made_problems_have_one_stage_per_device_and_share_links() -> None:
    for name in MODEL_MADE:
        problem = problem_named(name)
        assert len(problem.stages) == len(problem.devices) == 8
        assert len({device.host_link for device in problem.devices}) == 4
        assert problem.can_offload


def test_a_longer_delay_lets_another_forward_run_before_the_first_backward() -> None:
    problem = problem_named("balanced-4x8-1f1b-memory")
    # On the last stage the first backward is there as soon as its forward has ended, so a forward
    # that takes longer than the tolerance never comes before it.
    longest_ns = problem.stages[-1].forward_ns[0]

    def forwards_first(tolerance_ns: int) -> int:
        own = [op for op in rule_alone(problem, tolerance_ns).ops if op.stage == 2]
        first = min(op.start_ns for op in own if op.op == "B")
        return sum(op.op == "F" and op.start_ns < first for op in own)

    assert forwards_first(2 * longest_ns) > forwards_first(0)


def test_adaoffload_is_no_worse_than_the_rule_alone() -> None:
    found = delayed(SMALL, problem_named(SMALL), (0.0, 5.0))
    assert found.wrong == []
    for alone_ns, adaoffload_ns in zip(found.alone_ns, found.adaoffload_ns, strict=True):
        assert found.bound_ns <= adaoffload_ns <= alone_ns


def test_what_waits_for_a_shared_link_is_transfer_cost() -> None:
    # O of stage 0 has the link from 10 to 30 ms, so O of stage 1, asked for at 20 ms, waits 10 ms.
    shared = cost(two_stages(), ORDERS, 70 * MS)
    assert (shared.copying_ns, shared.queueing_ns) == (80 * MS, 10 * MS)
    assert shared.transfer_ns == 90 * MS
    assert shared.makespan_ns == 90 * MS
    assert shared.exposed_ns == 50 * MS
    own = cost(with_own_links(two_stages()), ORDERS, 80 * MS)
    assert own.queueing_ns == 0
    assert own.makespan_ns == 80 * MS


def test_a_plan_for_shared_links_is_no_slower_on_them() -> None:
    problem = problem_named(SMALL)
    devices = tuple(
        replace(own, host_link=f"switch{d // 2}") for d, own in enumerate(problem.devices)
    )
    found = switched(SMALL, replace(problem, devices=devices), 50)
    assert found.wrong == []
    assert found.ignoring.planned_ns <= found.aware.makespan_ns <= found.ignoring.makespan_ns
    assert found.aware.makespan_ns == found.aware.planned_ns


def test_one_order_is_between_the_given_and_the_free_one() -> None:
    found = ordered(KINDS[2], 2, 3, 1, 20.0)
    assert found.wrong == []
    assert found.fixed_ns is not None
    assert found.one_order_ns is not None
    assert found.free_ns is not None
    assert found.fixed_ns > found.one_order_ns >= found.free_ns


def test_equal_micro_batches_lose_nothing() -> None:
    found = ordered(KINDS[0], 2, 3, 0, 20.0)
    assert found.fixed_ns == found.free_ns == found.one_order_ns is not None


def test_another_order_exchanges_all_that_a_micro_batch_has() -> None:
    problem = random_problem(KINDS[3], 2, 3, 0)
    other = in_order(problem, (2, 0, 1))
    for stage, moved in zip(problem.stages, other.stages, strict=True):
        assert moved.compute_ns(0) == stage.compute_ns(2)
        assert moved.activation_bytes[1] == stage.activation_bytes[0]
        assert moved.offload_ns[2] == stage.offload_ns[1]
    assert in_order(other, (1, 2, 0)) == problem


@pytest.mark.parametrize(
    ("capacity", "makespan_ms"),
    [
        # O of stage 0 runs alone from 10 ms and with that of stage 1 from 20 ms on, at half of its
        # rate: they end at 40 and 50 ms. So do the reloads, from 40 and 50 ms on: at 70 and 80 ms.
        (1.0, 100),
        # Each of two has the rate of one alone: reloads end at 50 and 60 ms.
        (2.0, 80),
    ],
)
def test_overlapping_copies_share_what_a_link_carries(capacity: float, makespan_ms: int) -> None:
    problem = two_stages()
    schedule = time_orders(problem, ORDERS)
    found = Overlapping(problem, schedule, capacity, Keeps.ORDER).run()
    assert found.makespan_ns == makespan_ms * MS
    assert found.peaks_bytes == (100, 100)


def test_a_device_does_one_copy_after_the_other() -> None:
    # Offloads from 10 to 30 and to 50 ms, reloads from 30 to 50 and to 70 ms, and 10 ms for B.
    small = two_stages()
    twice = {
        name: getattr(small.stages[0], name) * 2
        for name in Stage.__dataclass_fields__
        if name not in ("device", "name")
    }
    problem = PipelineProblem(2, (Device(),), (replace(small.stages[0], **twice),), ())
    sequence = tuple(Token(op, 0, m) for op in ("F", "R", "B") for m in (0, 1))
    schedule = time_orders(problem, Orders((sequence,)))
    found = Overlapping(problem, schedule, 2.0, Keeps.WAITS).run()
    assert found.makespan_ns == 80 * MS


def test_on_a_shared_link_copies_in_its_order_take_turns() -> None:
    # Offloads from 10 to 30 and to 50 ms; reloads from 30 to 50 and to 70 ms.
    problem = two_stages()
    schedule = time_orders(problem, ORDERS)
    found = Overlapping(problem, schedule, 2.0, Keeps.LINKS).run()
    assert found.makespan_ns == schedule.makespan_ns == 90 * MS


def test_exports_hold_memory_where_copies_take_longer_than_planned() -> None:
    name = SMALL + TWO_A_SWITCH
    cheap, dear = factored(name, problem_named(name), 50, (0.5, 1.0), (1.0,))
    assert cheap.wrong == dear.wrong == []
    assert cheap.planned_ns <= dear.planned_ns == dear.exported_ns
    assert cheap.exported_ns > cheap.planned_ns
    for plan in (cheap, dear):
        assert plan.most_memory[Keeps.LINKS] <= 1.0
    assert cheap.most_memory[Keeps.ORDER] > 1.0


def test_tables_say_what_was_found() -> None:
    problem = two_stages()
    delays = Delayed("d", problem, (0.0, 5.0), [80 * MS, 50 * MS], [50 * MS] * 2, 40 * MS, [])
    orders = [
        Ordered(KINDS[2], 0, 110 * MS, 100 * MS, 100 * MS, []),
        Ordered(KINDS[2], 1, 103 * MS, 100 * MS, 102 * MS, []),
        Ordered(KINDS[2], 2, None, 100 * MS, 101 * MS, ["broken"]),
    ]
    results = Results(delays=[delays], orders=orders, order_size=(2, 3))
    record = record_of(results, {"machine": "one"})
    alone, shipped, _, order, _ = record.tables
    # Bubbles of 75 and 60 %, and a bound of 50 %.
    assert [*alone.rows[0]] == ["d", "10.0", "75.00%", "60.00%", "-20.0%", "-20.0%", "50.00%"]
    assert shipped.rows[0][2:5] == ["60.00%", "60.00%", "+0.0%"]
    assert order.rows == [[KINDS[2].name, "3", "2", "6.50%", "10.00%", "1.00%", "2.00%"]]
    assert results.wrong == [f"{KINDS[2].name} 2: broken"]
    chart = delay_chart([delays], "alone")
    assert [[*point] for point in chart.series[0].points] == [[0.0, 75.0], [5.0, 60.0]]
