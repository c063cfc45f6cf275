"""The sharding request of a plan's tensor group."""

from __future__ import annotations

import pytest

from planner.progress import SilentReporter, never
from planner.sharding.request import resolve_request
from planner.training.tensor_group import sharding_request, solve_tensor_group
from tests.unit.training.posted import body, search_for


def test_the_group_is_one_layer_on_neighbouring_gpus() -> None:
    spec, found = search_for(
        body(
            cluster={"pcie_switches": [[0, 1], [2, 3]]},
            training={"tensor_parallel": 4, "micro_batch_size": 2, "optimizer": "sgd"},
        )
    )
    training = found.ranked[0].training
    resolved = resolve_request(sharding_request(spec, training, 5)).resolved
    assert resolved.devices.count == 4
    assert resolved.devices.cluster.nodes == 1
    assert resolved.graph.repeat is None
    assert resolved.training.optimizer == "sgd"
    assert resolved.training.micro_batches == training.micro_batches
    assert resolved.training.dropout


@pytest.mark.parametrize("model", ["GPT-2", {"preset": "GPT-2", "layers": 4}])
def test_presets_are_planned_for_too(model: object) -> None:
    spec, found = search_for(
        body(training={"tensor_parallel": 4}) | {"model": model, "search": {"top": 1}}
    )
    document, why_not = solve_tensor_group(
        spec, found.ranked[0].training, SilentReporter(), never, 20
    )
    assert why_not is None
    assert document is not None
    assert document["certificate"]["verified"]
