"""Every strategy and every coefficient, worked out a second time device by device.

`tests.sharding_model` follows docs/methods-sharding.md and shares no rule, layout or cost with the
planner; both have to agree to the byte.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cost.memory import StateBytes, state_bytes
from planner.cost.model_presets import MODEL_PRESETS
from planner.sharding.build import formulate
from planner.sharding.costs import CostSettings
from planner.sharding.devices import DeviceGroup, read_devices
from planner.sharding.graph import Graph
from planner.sharding.operators.rule import RuleOptions
from planner.sharding.training import read_sharding_training
from planner.sharding.transformer.request import read_transformer
from tests.sharding_graphs import posted_graphs
from tests.sharding_model.costs import Conditions
from tests.sharding_model.instance import SecondModel

DEVICES = (2, 3, 4, 6, 8, 12, 16)
ALIKE: list[dict[str, Any]] = [
    {"zero_stage": zero, "micro_batches": passes, "redundancy": redundancy, "in_flight": held}
    for redundancy in ("source", "mesh")
    for passes, held in ((1, 1), (4, 2))
    for zero in range(4)
]


def nodes(count: int, devices: int) -> DeviceGroup:
    """So many nodes that share the devices evenly, with a network 9, 12 or 42.86 times slower."""
    cluster: dict[str, Any] = {
        "nodes": count,
        "gpus_per_node": devices // count,
        "gpu": "H100-80GB" if devices % 3 else "A100-80GB",
    }
    if devices == 12:
        cluster["inter_node_bytes_per_s"] = 7e9
    return read_devices(cluster)


def assert_same(
    graph: Graph,
    devices: DeviceGroup,
    states: StateBytes,
    *,
    sequence_parallel: bool = False,
    in_flight: int = 1,
    **costs: Any,
) -> None:
    """Names, bytes and tables of the planner's instance are those of the second model."""
    settings = CostSettings(devices, states, 0.0, micro_batches_in_flight=in_flight, **costs)
    found = formulate(graph, settings, RuleOptions(sequence_parallel)).instance(1.0, None)
    model = SecondModel(
        graph,
        Conditions(
            devices.count,
            (states.parameter, states.gradient, states.optimizer),
            devices.devices_per_node,
            devices.network_factor,
            sequence_parallel=sequence_parallel,
            in_flight=in_flight,
            **costs,
        ),
    )
    for operator, expected in zip(found.operators, model.operators, strict=True):
        assert [
            (own.name, own.redundant_bytes, own.communication_bytes, own.memory_bytes)
            for own in operator.strategies
        ] == expected, operator.name
    tables = {
        (edge.source, edge.target): [list(row) for row in edge.resharding_bytes]
        for edge in found.edges
    }
    assert tables == model.edges


@pytest.mark.parametrize(
    ("number", "preset", "count"),
    [
        (number, preset, count)
        for number, (preset, count) in enumerate(itertools.product(MODEL_PRESETS, DEVICES))
    ],
)
def test_presets(number: int, preset: str, count: int) -> None:
    """One layer of each preset on each number of devices, under conditions that take turns."""
    training = read_sharding_training(
        {"flash_attention": number % 3 == 0, "dropout": number % 4 == 1}
    )
    made = read_transformer({"preset": preset}, training, count)
    devices = nodes(2 if number % 2 and count % 2 == 0 else 1, count)
    assert_same(
        made.graph,
        devices,
        training.state_bytes,
        # Which doubles the strategies and takes long for the second model.
        sequence_parallel=number % 5 < 2 and (count < 16 or preset == "BERT-Large"),
        communication="time" if number % 2 else "volume",
        **ALIKE[number % len(ALIKE)],
    )


@pytest.mark.parametrize("conditions", ALIKE)
@pytest.mark.parametrize("communication", ["volume", "time"])
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_all_conditions(
    conditions: dict[str, Any], communication: str, sequence_parallel: bool
) -> None:
    """One layer of BERT-Large on two nodes of two devices."""
    training = read_sharding_training({"flash_attention": False, "dropout": True})
    made = read_transformer("BERT-Large", training, 4)
    assert_same(
        made.graph,
        nodes(2, 4),
        training.state_bytes,
        sequence_parallel=sequence_parallel,
        communication=communication,
        **conditions,
    )


@pytest.mark.parametrize("preset", ["BERT-Large", "GPT-2", "Llama-3-8B", "Mixtral-8x7B"])
@pytest.mark.parametrize("count", [2, 6, 8])
def test_whole_models(preset: str, count: int) -> None:
    """Three folded layers between embedding, tied or not, and loss."""
    training = read_sharding_training({"zero_stage": count % 4, "micro_batches": count})
    fields = {"preset": preset, "layers": 3, "embeddings": True}
    made = read_transformer(fields, training, count)
    for communication in ("volume", "time"):
        assert_same(
            made.graph,
            nodes(2, count),
            training.state_bytes,
            sequence_parallel=count == 6,
            communication=communication,
            zero_stage=training.zero_stage,
            micro_batches=training.micro_batches,
        )


@st.composite
def conditions(draw: st.DrawFn) -> dict[str, Any]:
    """Everything that costs depend on beside the graph, nodes that split groups included."""
    numbers = random.Random(draw(st.integers(0, 2**32)))
    count = numbers.choice([1, 2, 3, 4, 6, 8, 9, 12])
    in_node = numbers.choice([n for n in range(1, count + 1) if count % n == 0])
    return {
        # The last node of a bare count may be a part of one.
        "devices": numbers.choice([read_devices(count), nodes(count // in_node, count)]),
        "states": state_bytes(
            numbers.choice(["bf16", "fp16", "fp32"]),
            numbers.choice(["fp32", "same"]),
            numbers.choice(["adam", "sgd_momentum", "sgd"]),
        ),
        "sequence_parallel": numbers.random() < 0.5,
        "communication": numbers.choice(["volume", "time"]),
        **numbers.choice(ALIKE),
    }


@settings(max_examples=200, deadline=None)
@given(posted_graphs(), conditions())
def test_random_graphs(graph: Graph, drawn: dict[str, Any]) -> None:
    """All kinds of operators, shapes that no factorisation fits, ties and repeated layers."""
    assert_same(graph, **drawn)
