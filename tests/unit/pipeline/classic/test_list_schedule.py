"""The compiled list scheduler against the dispatcher whose choices it makes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import OrderError
from planner.pipeline.classic.list_schedule import FAR, ListPolicy, list_schedule
from planner.pipeline.classic.timed import timed
from planner.pipeline.dispatch.list_scheduling import dispatch
from planner.pipeline.dispatch.policy import DispatchPolicy, nothing
from planner.pipeline.kernel.tables import tables_of
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.timing import orders_of, time_orders
from planner.pipeline.verify import verify
from tests.problems import problems


@st.composite
def policies(draw: st.DrawFn, problem: PipelineProblem) -> ListPolicy:
    stages, count = len(problem.stages), problem.micro_batches
    delays = st.sampled_from([0, 1, 3, 8, FAR])

    def caps(low: int) -> tuple[int, ...]:
        each = st.integers(low, count) if draw(st.booleans()) else st.just(max(low, count))
        return tuple(draw(each) for _ in range(stages))

    return ListPolicy(
        in_flight=caps(1),
        held=caps(1),
        warm_up=caps(0) if draw(st.booleans()) else (0,) * stages,
        first_backward_delay_ns=draw(delays),
        forward_delay_ns=draw(delays),
        weight_delay_ns=draw(delays),
        weight_first=draw(st.booleans()),
        deep_first=draw(st.booleans()),
    )


@settings(max_examples=100, deadline=None)
@given(data=st.data(), problem=problems(offload=False, zero_times=False))
def test_the_same_schedule_as_the_dispatcher(data: st.DataObject, problem: PipelineProblem) -> None:
    policy = data.draw(policies(problem))
    dispatched = DispatchPolicy(**vars(policy), offload=nothing(problem))
    try:
        expected = dispatch(problem, dispatched)
    except OrderError:
        try:
            list_schedule(tables_of(problem), policy)
        except OrderError:
            return
        raise
    found = timed(problem, list_schedule(tables_of(problem), policy))
    assert verify(problem, found.schedule) == []
    again = time_orders(problem, orders_of(problem, expected))
    assert found.makespan_ns == again.makespan_ns
    assert found.peak_memory_bytes == again.peak_memory_bytes
