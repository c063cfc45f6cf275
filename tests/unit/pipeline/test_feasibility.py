"""Feasibility is decided exactly, and what is said about an infeasible problem holds."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from planner.errors import OrderError
from planner.pipeline.documents import problem_to_document, read_problem
from planner.pipeline.feasibility.decide import find_infeasibility, sequential_schedule
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.verify import verify
from tests import referee
from tests.brute_force import some_schedule_exists
from tests.problems import problems, uniform_document, uniform_problem


@st.composite
def crowded_hosts(draw: st.DrawFn) -> PipelineProblem:
    """Two or three chunks per device, short of memory, offloading to one small host."""
    placement = draw(
        st.sampled_from(
            [[0, 0], [0, 0, 0], [0, 1, 0, 1], [0, 1, 1, 0], [0, 0, 1, 1], [0, 1, 0, 1, 0]]
        )
    )
    micro_batches = draw(st.integers(1, 2)) if len(placement) < 4 else 1
    stages = []
    for device in placement:
        activation = draw(st.integers(1, 6))
        stages.append(
            {
                "device": device,
                "forward_ns": 2,
                "backward_input_ns": 3,
                "backward_weight_ns": draw(st.integers(0, 1)),
                "activation_bytes": activation,
                "weight_grad_bytes": draw(st.integers(0, 8)),
                "backward_workspace_bytes": draw(st.integers(0, 4)),
                "offload_bytes": draw(st.integers(0, activation)),
                "offload_ns": 4,
                "reload_ns": 4,
            }
        )
    devices = [
        {"activation_memory_bytes": draw(st.integers(5, 16)), "host": 0}
        for _ in range(max(placement) + 1)
    ]
    return read_problem(
        {
            "micro_batches": micro_batches,
            "devices": devices,
            "stages": stages,
            "hosts": [{"memory_bytes": draw(st.integers(0, 9))}],
        }
    )


def with_limits(problem: PipelineProblem, limits: dict[int, int]) -> PipelineProblem:
    devices = tuple(
        replace(device, activation_memory_bytes=limits.get(d, device.activation_memory_bytes))
        for d, device in enumerate(problem.devices)
    )
    return replace(problem, devices=devices)


@settings(max_examples=400, deadline=None)
@given(st.one_of(problems(memory="tight"), crowded_hosts()))
def test_sequential_schedule_is_valid_exactly_where_no_infeasibility_is_found(
    problem: PipelineProblem,
) -> None:
    if find_infeasibility(problem) is not None:
        event("infeasible")
        with pytest.raises(OrderError):
            sequential_schedule(problem)
        return
    schedule = sequential_schedule(problem)
    event(f"offloads: {schedule.offloads > 0}")
    assert verify(problem, schedule) == []
    violations, _ = referee.check(problem_to_document(problem), schedule.to_document(None))
    assert violations == []


@settings(max_examples=400, deadline=None)
@given(
    st.one_of(
        crowded_hosts(),
        crowded_hosts(),
        problems(max_devices=2, max_micro_batches=2, memory="tight", zero_times=False),
    )
)
def test_feasibility_agrees_with_exhaustive_search_over_all_micro_batches(
    problem: PipelineProblem,
) -> None:
    assume(len(problem.stages) * problem.micro_batches <= 6)
    feasible = find_infeasibility(problem) is None
    event(f"feasible: {feasible}")
    assert feasible == some_schedule_exists(problem)
    if feasible:
        assert verify(problem, sequential_schedule(problem)) == []


@settings(max_examples=300, deadline=None)
@given(st.one_of(problems(memory="tight", zero_times=False), crowded_hosts()))
def test_smallest_limits_do_and_one_byte_less_does_not(problem: PipelineProblem) -> None:
    infeasibility = find_infeasibility(problem)
    if infeasibility is None:
        return
    event("infeasible")
    document = infeasibility.to_document()
    smallest = dict(zip(document["devices"], document["smallest_limit_bytes"], strict=True))
    enough = with_limits(problem, smallest)
    assert find_infeasibility(enough) is None
    assert verify(enough, sequential_schedule(enough)) == []
    for device, size in smallest.items():
        assert size > (problem.devices[device].activation_memory_bytes or 0)
        assert find_infeasibility(with_limits(enough, {device: size - 1})) is not None
    assert infeasibility.largest_gap_bytes > 0
    assert all(0 <= m < problem.micro_batches for m in infeasibility.micro_batches)


@settings(max_examples=300, deadline=None)
@given(crowded_hosts())
def test_smallest_host_memory_does_where_only_hosts_are_short(problem: PipelineProblem) -> None:
    infeasibility = find_infeasibility(problem)
    if infeasibility is None:
        return
    event("infeasible")
    hosts = list(problem.hosts)
    for shortage in infeasibility.host_shortages:
        hosts[shortage.host] = replace(
            hosts[shortage.host], memory_bytes=shortage.smallest_limit_bytes
        )
    roomy = replace(problem, hosts=tuple(hosts))
    unlimited = replace(
        problem, hosts=tuple(replace(host, memory_bytes=None) for host in problem.hosts)
    )
    if find_infeasibility(unlimited) is not None:
        return
    event("host is short")
    assert infeasibility.host_shortages
    assert find_infeasibility(roomy) is None
    for shortage in infeasibility.host_shortages:
        hosts[shortage.host] = replace(
            hosts[shortage.host], memory_bytes=shortage.smallest_limit_bytes - 1
        )
        assert find_infeasibility(replace(problem, hosts=tuple(hosts))) is not None
        hosts[shortage.host] = roomy.hosts[shortage.host]
    remedies = {r["remedy"]: r for r in infeasibility.to_document()["remedies"]}
    assert remedies["host_memory"]["fits"] is True


def test_one_stage_per_device_cannot_be_helped_by_offloading() -> None:
    document = uniform_document(limit=3, offload_bytes=4, offload_ns=1, reload_ns=1)
    infeasibility = find_infeasibility(read_problem(document))
    assert infeasibility is not None
    assert infeasibility.devices == (0, 1, 2, 3)
    assert infeasibility.micro_batches == tuple(range(8))
    remedies = {r["remedy"]: r for r in infeasibility.to_document()["remedies"]}
    assert remedies["offload"]["fits"] is False
    assert remedies["more_stages"]["fits"] is True
    assert "over 2 devices" in remedies["more_stages"]["detail"]
    assert "0.750" in remedies["smaller_micro_batch"]["detail"]
    assert remedies["recomputation"]["fits"] is None
    assert remedies["more_stages"]["request_changes"] is None


def test_the_summary_says_what_a_single_micro_batch_needs() -> None:
    gib = 2**30
    infeasibility = find_infeasibility(
        uniform_problem(devices=3, limit=gib, activation_bytes=2 * gib, micro_batches=4)
    )
    assert infeasibility is not None
    assert infeasibility.summary == (
        "Micro-batches 0-3 do not fit into memory, not even one at a time with nothing else in it: "
        "on devices 0-2 it takes at least 2.00 GiB for activations, and the limit is 1.00 GiB."
    )


def changed(request: dict[str, Any], changes: dict[str, Any]) -> PipelineProblem:
    """The problem of a request with these values put into it by their paths."""
    body = json.loads(json.dumps(request))
    for path, value in changes.items():
        *parents, name = path.split(".")
        at = body
        for part in parents:
            at = at[int(part) if isinstance(at, list) else part]
        at[name] = value
    return read_problem(body["problem"])


def test_a_request_changed_as_the_remedies_say_fits() -> None:
    options: dict[str, Any] = {"devices": 2, "chunks": 2, "limit": 5, "offload_bytes": 3}
    document = uniform_document(hosts=[{"memory_bytes": 5}], **options)
    document["stages"] = [
        {**stage, "offload_ns": 5, "reload_ns": 5} for stage in document["stages"]
    ]
    infeasibility = find_infeasibility(read_problem(document))
    assert infeasibility is not None
    remedies = {r["remedy"]: r for r in infeasibility.to_document()["remedies"]}
    for kind in ("device_memory", "host_memory"):
        changes = remedies[kind]["request_changes"]
        assert remedies[kind]["fits"]
        assert find_infeasibility(changed({"problem": document}, changes)) is None
        less = {path: value - 1 for path, value in changes.items()}
        assert find_infeasibility(changed({"problem": document}, less)) is not None


def test_two_chunks_fit_only_with_the_earlier_one_offloaded() -> None:
    options: dict[str, Any] = {"devices": 2, "chunks": 2, "micro_batches": 3, "limit": 5}
    document = uniform_document(**options)
    infeasibility = find_infeasibility(read_problem(document))
    assert infeasibility is not None
    found = infeasibility.to_document()
    assert found["smallest_limit_bytes"] == [8, 8]
    assert found["bytes"] == [8, 8]
    remedies = {r["remedy"]: r["fits"] for r in found["remedies"]}
    assert remedies["offload"] is True

    problem = uniform_problem(**options, offload_bytes=3, offload_ns=5, reload_ns=5)
    schedule = sequential_schedule(problem)
    assert schedule.offloads == 2 * 3
    assert verify(problem, schedule) == []


def test_workspace_and_weight_gradients_beyond_the_activation_count_at_the_backward() -> None:
    options: dict[str, Any] = {"weight_grad_bytes": 7, "backward_workspace_bytes": 2, "devices": 2}
    assert find_infeasibility(uniform_problem(limit=9, **options)) is None
    infeasibility = find_infeasibility(uniform_problem(limit=8, **options))
    assert infeasibility is not None
    assert infeasibility.to_document()["smallest_limit_bytes"] == [9, 9]


def test_workspace_alone_above_the_limit_cannot_be_split_away() -> None:
    infeasibility = find_infeasibility(
        uniform_problem(limit=2, devices=2, backward_workspace_bytes=3)
    )
    assert infeasibility is not None
    remedies = {r["remedy"]: r["fits"] for r in infeasibility.to_document()["remedies"]}
    assert remedies["more_stages"] is False


def test_a_split_over_more_devices_than_anybody_has_is_no_way_out() -> None:
    def more_stages(activation_bytes: int) -> dict[str, Any]:
        options = {"activation_bytes": activation_bytes, "weight_grad_bytes": 0}
        infeasibility = find_infeasibility(uniform_problem(limit=1, devices=2, **options))
        assert infeasibility is not None
        remedies = {r["remedy"]: r for r in infeasibility.to_document()["remedies"]}
        return dict(remedies["more_stages"])

    assert more_stages(1024)["fits"] is True
    assert more_stages(1025)["fits"] is False
    assert "more than 1024 devices" in more_stages(1025)["detail"]


def test_a_limit_of_zero_has_no_remedy_by_division() -> None:
    infeasibility = find_infeasibility(uniform_problem(limit=0, devices=2))
    assert infeasibility is not None
    remedies = {r["remedy"]: r["fits"] for r in infeasibility.to_document()["remedies"]}
    assert remedies["more_stages"] is False
    assert remedies["smaller_micro_batch"] is False


def test_host_that_cannot_hold_all_offloads_at_once_is_named() -> None:
    options: dict[str, Any] = {
        "devices": 2,
        "chunks": 2,
        "limit": 5,
        "offload_bytes": 3,
        "offload_ns": 5,
        "reload_ns": 5,
    }
    assert find_infeasibility(uniform_problem(hosts=[{"memory_bytes": 6}], **options)) is None
    infeasibility = find_infeasibility(uniform_problem(hosts=[{"memory_bytes": 5}], **options))
    assert infeasibility is not None
    found = infeasibility.to_document()
    assert found["hosts"] == [{"host": 0, "limit_bytes": 5, "smallest_limit_bytes": 6}]
    assert "host 0" in found["summary"]
    # Device 0 keeps its limit and offloads; device 1 would have to do without the host.
    assert found["devices"] == [1]
    assert found["smallest_limit_bytes"] == [8]


def test_offloads_that_only_backwards_need_can_share_a_host_one_after_the_other() -> None:
    """Both devices are short only at the B of their second stage, never at the same time."""
    document = uniform_document(
        devices=2,
        placement=[0, 0, 1, 1],
        micro_batches=2,
        limit=10,
        backward_workspace_bytes=3,
        offload_bytes=2,
        offload_ns=5,
        reload_ns=5,
        hosts=[{"memory_bytes": 2}],
    )
    problem = read_problem(document)
    assert find_infeasibility(problem) is None
    schedule = sequential_schedule(problem)
    assert schedule.host_peak_memory_bytes == (2,)
    assert verify(problem, schedule) == []
    assert referee.check(document, schedule.to_document(None))[0] == []


def test_a_stage_may_have_to_come_back_before_another_finds_room_on_the_host() -> None:
    """At the B of stage 1 stage 0 must be out, and the host holds only one of the two."""
    stage = {"device": 0, "forward_ns": 2, "backward_input_ns": 3}
    move = {"offload_ns": 4, "reload_ns": 4}
    document = {
        "micro_batches": 1,
        "devices": [{"activation_memory_bytes": 9, "host": 0}],
        "stages": [
            {**stage, **move, "activation_bytes": 1, "offload_bytes": 1},
            {
                **stage,
                **move,
                "activation_bytes": 6,
                "backward_workspace_bytes": 3,
                "offload_bytes": 3,
            },
            {**stage, "activation_bytes": 2, "backward_workspace_bytes": 3},
        ],
        "hosts": [{"memory_bytes": 3}],
    }
    problem = read_problem(document)
    assert find_infeasibility(problem) is None
    schedule = sequential_schedule(problem)
    assert verify(problem, schedule) == []
    assert referee.check(document, schedule.to_document(None))[0] == []
    assert schedule.offloads == 2


def test_only_the_micro_batches_that_do_not_fit_are_named() -> None:
    document = uniform_document(devices=2, limit=5, micro_batches=4)
    document["stages"][1]["activation_bytes"] = [4, 6, 4, 7]
    infeasibility = find_infeasibility(read_problem(document))
    assert infeasibility is not None
    assert infeasibility.devices == (1,)
    assert infeasibility.micro_batches == (1, 3)
    assert infeasibility.largest_gap_bytes == 2
    assert infeasibility.summary.startswith("Micro-batches 1, 3 do not fit into memory, not even")
    with pytest.raises(OrderError):
        sequential_schedule(read_problem(document))


def test_benchmark_that_is_one_byte_short_names_its_device() -> None:
    path = referee.BENCHMARKS / "infeasible-4x4.json"
    if not path.exists():
        pytest.skip("the benchmark problems are not beside this checkout")
    document = json.loads(path.read_text())
    infeasibility = find_infeasibility(read_problem(document))
    assert infeasibility is not None
    found = infeasibility.to_document()
    assert found["devices"] == [1]
    assert found["limit_bytes"] == [268435455]
    assert found["bytes"] == [268435456]
    assert found["smallest_limit_bytes"] == [268435456]
    assert found["micro_batches"] == [0, 1, 2, 3]


@settings(max_examples=50, deadline=None)
@given(problems(memory="loose"))
def test_sequential_schedule_offloads_nothing_where_memory_is_loose(
    problem: PipelineProblem,
) -> None:
    assert sequential_schedule(problem).offloads == 0


def test_a_search_that_would_take_for_ever_is_given_up() -> None:
    """Many chunks of different sizes on a host that is short of room: bounded all the same."""
    random = Random(4)
    devices, chunks = 8, 4
    sizes = [random.randrange(50, 100) for _ in range(devices * chunks)]
    problem = read_problem(
        {
            "micro_batches": 1,
            "devices": [{"activation_memory_bytes": 230, "host": 0} for _ in range(devices)],
            "hosts": [{"memory_bytes": 300}],
            "stages": [
                {
                    "device": s % devices,
                    "forward_ns": 1,
                    "backward_input_ns": 1,
                    "activation_bytes": size,
                    "offload_bytes": size - random.randrange(20),
                }
                for s, size in enumerate(sizes)
            ],
        }
    )
    started = time.monotonic()
    find_infeasibility(problem)
    assert time.monotonic() - started < 60
