"""The fewest devices on which a plan is known to fit, against looking at every plan on each number
of devices, and against solving the request on as many."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from planner.progress import StopCheck, never
from planner.sharding.build import Formulation, formulate
from planner.sharding.graphs_by_devices import GraphsByDevices
from planner.sharding.instance import totals
from planner.sharding.known_peak import lowest_known_peak_bytes
from planner.sharding.least_memory import least_memory
from planner.sharding.least_on_devices import LeastOnDevices, on_devices
from planner.sharding.peak import predicted_peak_bytes
from planner.sharding.planning import Budget
from planner.sharding.settings import cost_settings, rule_options
from planner.sharding.smallest_devices import Fewest, Wanted, smallest_devices
from planner.sharding.staging import divide_among_stages
from tests.unit.sharding.posted import (
    Body,
    bodies,
    graphs,
    repeated,
    resolved,
    solve,
    two_layers,
)

MOST_DEVICES, MOST_PLANS = 8, 2_000
GPT: Body = {
    "transformer": {"preset": "GPT-1.7B", "layers": 24, "batch": 8, "embeddings": True},
    "device_memory_bytes": 8 * 10**9,
}
LLAMA: Body = {
    "transformer": {"preset": "Llama-3-8B", "layers": 32, "batch": 8, "embeddings": True},
    "device_memory_bytes": 80 * 10**9,
}


@pytest.fixture(autouse=True, scope="module")
def _patience() -> Iterator[None]:
    """What is found must not depend on how busy the machine is."""
    with (
        patch("planner.sharding.smallest_devices.SEARCH_S", 60.0),
        patch("planner.sharding.planning.LONGEST_FITTING_S", 60.0),
    ):
        yield


def wanted(body: Body, limit_bytes: int, should_stop: StopCheck = never) -> Wanted:
    """What a solve of a request would ask for more devices for."""
    spec = resolved(body)
    stage = divide_among_stages(spec, spec.memory_limits)[0]
    return Wanted(
        graph_on=GraphsByDevices(spec, stage).on,
        settings=cost_settings(spec, micro_batches_in_flight=stage.micro_batches_in_flight),
        rule_options=rule_options(spec),
        limit_bytes=limit_bytes,
        alpha=spec.alphas[0],
        options=spec.options,
        budget=Budget(time.monotonic() + 60, should_stop, lambda line: None),
    )


def formulated(own: Wanted, devices: int) -> Formulation:
    return formulate(own.graph_on(devices), on_devices(own.settings, devices), own.rule_options)


def least_needed_bytes(own: Wanted, devices: int) -> int:
    """The least memory, kept or held for a moment, of all plans, each looked at."""
    made = formulated(own, devices)
    instance = made.instance(own.alpha, None)
    numbers = [range(len(strategies)) for strategies in made.strategies]
    plans = list(itertools.product(*numbers))
    assume(len(plans) <= MOST_PLANS)
    return min(
        max(totals(instance, choice).memory_bytes, predicted_peak_bytes(made, choice))
        for choice in plans
    )


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(most_operators=3), st.sampled_from([1, 2]), st.data())
def test_they_are_those_of_looking_at_every_plan(
    graph: Body, devices: int, data: st.DataObject
) -> None:
    body: Body = {"graph": graph, "devices": devices}
    free = wanted(body, 1)
    numbers = range(devices + 1, MOST_DEVICES + 1)
    needed = {count: least_needed_bytes(free, count) for count in numbers}
    limit_bytes = data.draw(st.sampled_from(sorted(set(needed.values()))))
    fewest = next(count for count in numbers if needed[count] <= limit_bytes)
    found = smallest_devices(wanted(body, limit_bytes))
    assert (found.devices, found.searched) == (fewest, fewest)
    least = LeastOnDevices(free.settings, free.rule_options)
    fewer = range(devices + 1, fewest)
    assert found.fewer_ruled_out == all(
        least.of(free.graph_on(count), count).size_bytes > limit_bytes for count in fewer
    )
    posted = {**body, "devices": fewest, "device_memory_bytes": limit_bytes}
    assert solve(posted, baselines=False)["state"] == "succeeded"


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(bodies(), st.integers(1, 40))
def test_the_least_that_is_kept_on_any_number_of_devices(body: Body, devices: int) -> None:
    own = wanted(body, 1)
    least = LeastOnDevices(own.settings, own.rule_options).of(own.graph_on(devices), devices)
    assert least.size_bytes == least_memory(formulated(own, devices)).total_bytes


@pytest.mark.parametrize(
    ("body", "devices"), [pytest.param(GPT, 4, marks=pytest.mark.long), (LLAMA, 1)]
)
def test_plans_that_only_a_solve_finds_count(body: Body, devices: int) -> None:
    """Of plans that split all operators alike none fits on fewer than 24 and 16 devices."""
    limit_bytes, posted = body["device_memory_bytes"], {**body, "devices": devices}
    fewest = 16 if body is GPT else 8
    own = wanted(posted, limit_bytes)
    simple = lowest_known_peak_bytes(formulated(own, fewest), limit_bytes)
    assert simple is not None
    assert simple > limit_bytes
    found = smallest_devices(own)
    assert found.devices is not None
    assert found.devices <= fewest
    assert solve({**body, "devices": found.devices}, baselines=False)["state"] == "succeeded"


def test_what_is_proven_of_fewer_devices_is_told() -> None:
    own = wanted({**LLAMA, "devices": 4}, LLAMA["device_memory_bytes"])
    least = LeastOnDevices(own.settings, own.rule_options)
    assert all(least.of(own.graph_on(n), n).size_bytes > own.limit_bytes for n in range(5, 8))
    assert smallest_devices(own) == Fewest(8, 8, fewer_ruled_out=True)


def test_without_time_nothing_is_claimed() -> None:
    body = {"graph": two_layers(), "devices": 2}
    plenty = least_memory(formulated(wanted(body, 1), 2)).total_bytes
    assert smallest_devices(wanted(body, plenty, lambda: True)) == Fewest(None, 2, False)


def test_a_limit_that_no_number_of_devices_meets() -> None:
    body = {"graph": two_layers(), "devices": 2}
    assert smallest_devices(wanted(body, 1)) == Fewest(None, 1024, False)


def test_the_vocabulary_is_padded_to_each_number_of_devices_and_the_batch_stays() -> None:
    transformer: Body = {"preset": "BERT-Large", "embeddings": True}
    own = wanted({"transformer": transformer, "devices": 4}, 1)
    padded, same = own.graph_on(12), own.graph_on(8)
    assert same is own.graph_on(4)
    assert padded.tensors["embedding"].shape[0] == same.tensors["embedding"].shape[0] == 8
    posted = {"transformer": {**transformer, "batch": 8}, "devices": 12}
    assert padded == resolved(posted).graph != same


def test_graphs_without_a_vocabulary_are_the_same_on_any_number_of_devices() -> None:
    for body in (
        {"graph": repeated(3)},
        {"transformer": "GPT-2"},
        {"transformer": {"preset": "GPT-2"}},
    ):
        own = wanted({**body, "devices": 4}, 1)
        assert own.graph_on(6) is own.graph_on(4)


def test_a_stage_has_its_part_of_the_graph() -> None:
    transformer = {"preset": "BERT-Large", "layers": 4, "embeddings": True}
    own = wanted({"transformer": transformer, "devices": 8, "stages": 2}, 1)
    names = [{operator.name for operator in own.graph_on(n).operators} for n in (4, 12)]
    assert names[0] == names[1]
    assert "embedding" in names[0]
    assert "loss" not in names[0]


def test_told_to_stop_no_plan_is_looked_at_any_more() -> None:
    own = wanted({**GPT, "devices": 4}, 1)
    looks = itertools.count(1)
    assert lowest_known_peak_bytes(formulated(own, 4), 1, lambda: next(looks) > 1) is None
    assert next(looks) == 3
