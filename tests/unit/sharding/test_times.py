"""Predicted times of small graphs, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cost.memory import StateBytes
from planner.sharding.build import Formulation, formulate
from planner.sharding.costs import CostSettings
from planner.sharding.devices import read_devices
from planner.sharding.documents import read_graph
from planner.sharding.operators.rule import RuleOptions
from planner.sharding.times import backward_s, forward_s, kept_bytes, step_time
from tests.unit.sharding.posted import linear, operator, tensor

FLOPS_PER_S = 0.74 * 312e12
HBM_BYTES_PER_S = 0.7 * 2039e9
LINK_BYTES_PER_S = 0.93 * 300e9
NETWORK_BYTES_PER_S = 0.8 * 25e9
STATES = StateBytes(2, 4, 12)


def timed(graph: dict[str, Any], devices: int, nodes: int = 1, **settings: Any) -> Formulation:
    """A posted graph on A100s, with communication in time."""
    cluster = {"nodes": nodes, "gpus_per_node": devices // nodes, "gpu": "A100-80GB"}
    conditions = CostSettings(read_devices(cluster), STATES, 0.0, communication="time", **settings)
    return formulate(read_graph(graph), conditions, RuleOptions())


def one_linear(batch: int, source: int, target: int) -> dict[str, Any]:
    """Y = X W."""
    return {
        "inputs": [tensor("x", batch, source)],
        "operators": [linear("y", "x", batch, source, target)],
    }


def chosen(found: Formulation, *names: str) -> list[int]:
    """The numbers of the strategies of these names, operator by operator."""
    return [
        next(number for number, strategy in enumerate(own) if strategy.name == name)
        for own, name in zip(found.strategies, names, strict=True)
    ]


def test_a_small_layer_takes_as_long_as_its_bytes() -> None:
    """8·16 + 8·32 activations and 16·32 weights of 2 bytes; in the backward twice that."""
    found = timed(one_linear(8, 16, 32), 1)
    (strategy,) = found.strategies[1]
    own = found.graph.operators[1]
    touched = 2 * (8 * 16 + 8 * 32 + 16 * 32)
    assert forward_s(found, own, strategy, "bf16") == pytest.approx(touched / HBM_BYTES_PER_S)
    assert backward_s(found, own, strategy, "bf16") == pytest.approx(2 * touched / HBM_BYTES_PER_S)
    time = step_time(found, [0, 0], "bf16")
    assert time.compute_s == pytest.approx(3 * touched / HBM_BYTES_PER_S)
    assert time.communication_s == 0
    # Gradient read, states read and written, parameter written.
    assert time.optimizer_s == pytest.approx(512 * (4 + 2 * 12 + 2) / HBM_BYTES_PER_S)
    assert time.total_s == time.compute_s + time.optimizer_s


def test_a_large_layer_takes_as_long_as_its_flops() -> None:
    """6 FLOPs per weight and sample, divided by 2 x 2 devices."""
    found = timed(one_linear(8192, 8192, 8192), 4)
    choice = chosen(found, "d2-r1-c2", "d2-r1-c2")
    time = step_time(found, choice, "bf16")
    assert time.compute_s == pytest.approx(6 * 8192**3 / 4 / FLOPS_PER_S)


def test_collectives_and_resharding_take_their_time() -> None:
    """X is made by columns, wanted by rows: half of its 4096 bytes there and back; Y is added up
    over two devices in each of three micro-batches."""
    found = timed(one_linear(64, 32, 16), 2, micro_batches=3)
    rows = step_time(found, chosen(found, "d1-r1-c2", "d1-r2-c1"), "bf16")
    assert rows.communication_s == pytest.approx(3 * 64 * 16 * 2 / LINK_BYTES_PER_S)
    data = step_time(found, chosen(found, "d1-r1-c2", "d2-r1-c1"), "bf16")
    gradients = 32 * 16 * 4
    moved = 3 * 2 * (64 * 32 * 2 // 4)
    assert data.communication_s == pytest.approx((gradients + moved) / LINK_BYTES_PER_S)


def test_between_nodes_it_takes_longer() -> None:
    found = timed(one_linear(64, 32, 16), 2, nodes=2)
    data = step_time(found, chosen(found, "d2-r1-c1", "d2-r1-c1"), "bf16")
    # Bytes between nodes are counted as whole bytes of the link.
    assert data.communication_s == pytest.approx(32 * 16 * 4 / NETWORK_BYTES_PER_S, rel=1e-4)


def test_zero_shares_the_optimizer_among_each_operator_s_data_devices() -> None:
    """One layer has two data devices, the other none: only the first one's work is halved."""
    graph = one_linear(8, 16, 32)
    graph["operators"].append(linear("z", "y", 8, 32, 16))
    found = timed(graph, 2, zero_stage=1)
    choice = chosen(found, "d2-r1-c1", "d2-r1-c1", "d1-r1-c2")
    work = 512 // 2 + 512 // 2
    per_parameter = 4 + 2 * 12 + 2
    expected = work * per_parameter / HBM_BYTES_PER_S
    assert step_time(found, choice, "bf16").optimizer_s == pytest.approx(expected)
    plain = timed(graph, 2)
    expected = (512 + 512 // 2) * per_parameter / HBM_BYTES_PER_S
    assert step_time(plain, choice, "bf16").optimizer_s == pytest.approx(expected)


def test_borrowed_weights_are_read_but_not_optimized() -> None:
    graph = {
        "inputs": [tensor("tokens", 8, dtype="int64")],
        "operators": [
            operator(
                "table",
                "embedding",
                ["tokens"],
                8,
                16,
                parameters=[{"name": "weight", "shape": [32, 16]}],
            ),
            linear("head", "table", 8, 16, 32),
        ],
    }
    graph["operators"][1]["parameters"][0]["tied_to"] = "table"
    found = timed(graph, 1)
    (strategy,) = found.strategies[2]
    touched = 2 * (8 * 16 + 8 * 32 + 16 * 32)
    head = found.graph.operators[2]
    assert forward_s(found, head, strategy, "bf16") == pytest.approx(touched / HBM_BYTES_PER_S)
    time = step_time(found, [0, 0, 0], "bf16")
    assert time.optimizer_s == pytest.approx(512 * 30 / HBM_BYTES_PER_S)


def test_views_and_inputs_take_no_time() -> None:
    graph = {
        "inputs": [tensor("x", 8, 16)],
        "operators": [operator("heads", "reshape", ["x"], 8, 4, 4)],
    }
    assert step_time(timed(graph, 2), [0, 0], "bf16").compute_s == 0


def test_folded_layers_take_their_time_each() -> None:
    graph = one_linear(8, 16, 16)
    once = step_time(timed(graph, 1), [0, 0], "bf16")
    graph["repeat"] = {"count": 5, "input": "x", "output": "y"}
    five = step_time(timed(graph, 1), [0, 0], "bf16")
    assert five.total_s == pytest.approx(5 * once.total_s)


def test_kept_bytes_of_one_operator() -> None:
    """X is kept where it is made; dropout keeps a mask of a byte per element."""
    graph = one_linear(8, 16, 32)
    graph["operators"].append(operator("dropped", "dropout", ["y"], 8, 32))
    found = timed(graph, 2, micro_batches_in_flight=4)
    (half,) = chosen(found, "d2-r1-c1", "d2-r1-c1", "d2-r1-c1")[:1]
    assert kept_bytes(found, 0, found.strategies[0][half]) == 8 * 16 * 2 // 2
    assert kept_bytes(found, 1, found.strategies[1][half]) == 0
    assert kept_bytes(found, 2, found.strategies[2][half]) == 8 * 32 // 2
