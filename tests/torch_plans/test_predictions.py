"""The planner's predictions of a plan against what PyTorch does under it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch")

from planner.sharding.instance import totals
from planner.sharding.peak import predicted_peak_bytes
from tests.torch_plans.cases import (
    CASES,
    DEVICES,
    SIZES,
    choice_of,
    collectives_of,
    formulation_of,
    plans_of,
)
from tests.torch_plans.executor import Devices
from tests.torch_plans.measure import fake_devices, measure
from tests.torch_plans.plans import layer_graph

pytestmark = pytest.mark.torch

LARGEST_ERROR = 0.10
SYMMETRIC = ("tensor", "data", "2x2", "data, feed-forward tensor")
"""Plans under which every device receives equally much."""


@pytest.fixture(scope="module")
def devices() -> Iterator[Devices]:
    with fake_devices(DEVICES) as found:
        yield found


@pytest.mark.parametrize("case", CASES)
def test_plans(case: str, devices: Devices) -> None:
    sizes: dict[str, Any] = SIZES | CASES[case]
    formulation = formulation_of(layer_graph(DEVICES, **sizes), sizes["dtype"])
    graph = formulation.graph
    for name, plan in plans_of(formulation).items():
        choice = choice_of(formulation, plan)
        sums = totals(formulation.instance(1.0, None), choice)
        measured = measure(graph, plan, devices)
        assert measured.collectives == collectives_of(graph, plan, devices.rank), name
        received = sum(measured.received_bytes.values())
        predicted = sums.communication_bytes + sums.resharding_bytes
        if name in SYMMETRIC:
            assert received == pytest.approx(predicted, abs=len(graph.operators)), name
        else:
            # The planner counts, for every tensor, the devices that receive most.
            assert received <= predicted, name
        peak = predicted_peak_bytes(formulation, choice, resident_gradients=False)
        error = peak / measured.peak_bytes - 1
        print(f"{case}, {name}: {peak} predicted, {measured.peak_bytes} measured, {error:+.2%}")
        assert abs(error) <= LARGEST_ERROR, (name, error)
