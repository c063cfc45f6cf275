"""What strategies cost, worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.memory import StateBytes
from planner.sharding.costs import CostSettings, OperatorCosts, Terms
from planner.sharding.devices import read_devices
from planner.sharding.graph import Graph, Operator
from planner.sharding.instance import StrategyCost
from planner.sharding.operators.registry import rules_of
from planner.sharding.operators.rule import RuleOptions
from planner.sharding.strategies import strategies_of
from tests.unit.sharding.operators.operators import operator

WEIGHTS_ONLY = StateBytes(2, 0, 0)
ADAM = StateBytes(2, 4, 12)
SLOWER = 9  # H100: 450 GB/s within a node, 50 between nodes.


def costs_of(
    made: tuple[Operator, Graph],
    devices: int,
    states: StateBytes = WEIGHTS_ONLY,
    *,
    nodes: int = 1,
    saved: tuple[str, ...] = (),
    sequence_parallel: bool = False,
    **settings: Any,
) -> dict[str, StrategyCost]:
    """All strategies of an operator by name."""
    own, graph = made
    cluster = {
        "nodes": nodes,
        "gpus_per_node": devices // nodes,
        "gpu": "H100-80GB",
        "efficiency": {"nvlink": 0.8, "network": 0.8},
    }
    conditions = CostSettings(
        read_devices(cluster), states, settings.pop("joules", 0.0), **settings
    )
    model = OperatorCosts(own, graph.tensors, frozenset(saved), conditions)
    found = strategies_of(rules_of(own, graph, RuleOptions(sequence_parallel)), devices)
    return {strategy.name: model.of(strategy) for strategy in found}


def linear(batch: int, source: int, target: int, **fields: Any) -> tuple[Operator, Graph]:
    """Y = X W in 16 bits."""
    shapes = [(batch, source)], [(batch, target)], [(source, target)]
    return operator("linear", *shapes, **fields)


@pytest.mark.parametrize("devices", [2, 4, 6, 8, 12, 16])
@pytest.mark.parametrize("redundancy", ["source", "mesh"])
def test_redundancy_is_the_source_s_formula(devices: int, redundancy: str) -> None:
    """M = 1/(drc) [d(d-1)|W| + r(r-1)|Y| + c(c-1)|X|], or (d-1)|W| + (r-1)|Y| + (c-1)|X|."""
    x, w, y = 2 * 48 * 96, 2 * 96 * 192, 2 * 48 * 192
    found = costs_of(linear(48, 96, 192), devices, redundancy=redundancy)
    assert found
    for name, cost in found.items():
        d, r, c = (int(part[1:]) for part in name.split("-"))
        if redundancy == "source":
            in_all = d * (d - 1) * w + r * (r - 1) * y + c * (c - 1) * x
            assert cost.redundant_bytes * devices == in_all
        else:
            assert cost.redundant_bytes == (d - 1) * w + (r - 1) * y + (c - 1) * x


def test_one_device_holds_nothing_twice() -> None:
    (only,) = costs_of(linear(8, 16, 32), 1, ADAM).values()
    assert (only.redundant_bytes, only.communication_bytes) == (0, 0)


@pytest.mark.parametrize("devices", [2, 3, 5, 7])
@pytest.mark.parametrize(("sizes", "best"), [((4, 2, 1), "d"), ((1, 2, 4), "c"), ((2, 4, 1), "r")])
def test_prime_numbers_of_devices_leave_the_corners(
    devices: int, sizes: tuple[int, int, int], best: str
) -> None:
    """Then all devices share one role, best the one that copies the smallest array."""
    batch, source, target = (105 * 2 * size for size in sizes)
    found = costs_of(linear(batch, source, target), devices, redundancy="mesh")
    least = min(found, key=lambda name: found[name].redundant_bytes)
    copied = {"d": source * target, "r": batch * target, "c": batch * source}
    assert min(copied, key=lambda role: copied[role]) == best
    assert f"{best}{devices}" in least
    assert found[least].redundant_bytes == (devices - 1) * 2 * copied[best]


@pytest.mark.parametrize("redundancy", ["source", "mesh"])
def test_equal_sizes_are_split_evenly(redundancy: str) -> None:
    found = costs_of(linear(64, 64, 64), 8, redundancy=redundancy)
    assert min(found, key=lambda name: found[name].redundant_bytes) == "d2-r2-c2"


@given(st.sampled_from([2, 4, 6, 8, 12]), *[st.integers(1, 40)] * 3)
def test_redundancy_is_never_below_the_bound(devices: int, b: int, k: int, n: int) -> None:
    """cX = dW = rY is the least for real degrees: 3 (N X W Y)^(1/3) - (X + W + Y)."""
    batch, source, target = 12 * b, 12 * k, 12 * n
    x, w, y = 2 * batch * source, 2 * source * target, 2 * batch * target
    bound = 3 * math.cbrt(devices * x * w * y) - (x + w + y)
    found = costs_of(linear(batch, source, target), devices, redundancy="mesh")
    assert min(cost.redundant_bytes for cost in found.values()) >= bound * (1 - 1e-12)


def test_collectives_of_a_linear_layer() -> None:
    """X 8 x 16, W 16 x 32, Y 8 x 32 in 16 bits on 8 devices; gradients of 4 bytes."""
    found = costs_of(linear(8, 16, 32), 8, ADAM)
    # All-reduce of dW over 8: 2 (7/8) 16·32·4. Of Y over 8: 2 (7/8) 8·32·2. Of dX: 2 (7/8) 8·16·2.
    assert found["d8-r1-c1"].communication_bytes == 3584
    assert found["d1-r8-c1"].communication_bytes == 896
    assert found["d1-r1-c8"].communication_bytes == 448
    # dW/4 over 2, Y/4 over 2, dX/4 over 2: 512 + 128 + 64.
    assert found["d2-r2-c2"].communication_bytes == 512 + 128 + 64


@pytest.mark.parametrize(
    ("zero", "sent"),
    # Over 2 devices half of: 2 G; G + P; M G + P; M (G + 2 P) with G = 2048, P = 1024, M = 4.
    [(0, 2048), (1, 1536), (2, 4608), (3, 8192)],
)
def test_zero_moves_gradients_and_parameters(zero: int, sent: int) -> None:
    found = costs_of(linear(8, 16, 32), 2, ADAM, zero_stage=zero, micro_batches=4)
    assert found["d2-r1-c1"].communication_bytes == sent
    # Y and dX go round in every micro-batch.
    assert found["d1-r2-c1"].communication_bytes == 4 * 8 * 32 * 2
    assert found["d1-r1-c2"].communication_bytes == 4 * 8 * 16 * 2


@pytest.mark.parametrize(
    ("zero", "held", "redundant"),
    # 512 parameters of 2 + 4 + 12 bytes; what ZeRO splits over 4 devices lies there once.
    [
        (0, 512 * 18, 3 * 512 * 18),
        (1, 512 * (6 + 3), 3 * 512 * 6),
        (2, 512 * (2 + 1 + 3), 3 * 512 * 2),
        (3, 512 * 18 // 4, 0),
    ],
)
def test_zero_splits_states(zero: int, held: int, redundant: int) -> None:
    cost = costs_of(linear(8, 16, 32), 4, ADAM, zero_stage=zero)["d4-r1-c1"]
    assert cost.memory_bytes == held
    assert cost.redundant_bytes == redundant


def test_states_that_zero_cannot_split_evenly() -> None:
    """A norm weight of 5 elements lies on 2 x 2 devices; ZeRO leaves 2 copies of each half."""
    norm = operator("rms_norm", [(4, 5)], [(4, 5)], [(5,)])
    states = StateBytes(0, 0, 1)
    cost = costs_of(norm, 4, states, zero_stage=1)["d2-r2-c1"]
    # 3 of 5 bytes, and 4 statistics of 4 bytes on 2 data devices.
    assert cost.memory_bytes == 3 + 8
    # One more copy of 3 bytes, or of all 5, and of the output's half, or of all of it.
    assert cost.redundant_bytes == 3 + 20
    mesh = costs_of(norm, 4, states, zero_stage=1, redundancy="mesh")["d2-r2-c1"]
    assert mesh.redundant_bytes == 5 + 40


def test_a_norm_adds_up_statistics() -> None:
    """4 rows, 2 sums of 4 bytes each, over 2 devices forward and again backward."""
    norm = operator("layer_norm", [(4, 6)], [(4, 6)], [(6,), (6,)])
    cost = costs_of(norm, 2, ADAM)["d1-r1-c2"]
    assert cost.communication_bytes == 2 * (4 * 2 * 4)


def test_the_vocabulary_is_not_gathered() -> None:
    loss = operator(
        "cross_entropy", [(4, 6, 8), (4, 6)], [()], dtypes={"x1": "int64", "y0": "fp32"}
    )
    found = costs_of(loss, 4)
    # Three numbers per row over 4 devices; the mean over 4 devices' rows is one number.
    assert found["d1-r1-c4"].communication_bytes == 3 * (2 * 3 * 24 * 4 // 4)
    assert found["d4-r1-c1"].communication_bytes == 2 * 3 * 4 // 4
    # The softmax is kept in 32 bits.
    assert found["d1-r1-c4"].memory_bytes == 4 * 6 * 8 * 4 // 4


def test_experts_exchange_tokens() -> None:
    """4 x 8 tokens of 16 features to 2 of 4 experts each, 4 times: 3/4 of a device's quarter."""
    shapes = [(4, 8, 16), (4, 8, 4)], [(4, 8, 16)], [(4, 16, 32), (4, 32, 16)]
    found = costs_of(operator("experts", *shapes, experts_per_token=2), 4)
    exchange = 4 * (2 * 4 * 8 * 16 * 2) * 3 // 16
    assert found["d1-r4-c1"].communication_bytes == exchange
    # Output, and gradients of tokens and of the router's weights, over 4 column devices.
    reduced = 2 * 3 * (2 * 4 * 8 * 16 * 2 + 4 * 8 * 4 * 2) // 4
    assert found["d1-r1-c4"].communication_bytes == reduced


def test_sequence_parallelism_sends_as_much_and_copies_nothing() -> None:
    """X is gathered once more in the backward, as a device keeps its part only."""
    made = operator("linear", [(4, 8, 16)], [(4, 8, 32)], [(16, 32)])
    found = costs_of(made, 4, sequence_parallel=True)
    x, y = 2 * 4 * 8 * 16, 2 * 4 * 8 * 32
    assert found["d1-r4-c1-sp"].communication_bytes == found["d1-r4-c1"].communication_bytes
    assert found["d1-r4-c1"].communication_bytes == 2 * 3 * y // 4
    assert found["d1-r1-c4"].communication_bytes == 2 * 3 * x // 4
    assert found["d1-r1-c4-sp"].communication_bytes == 3 * 3 * x // 4
    assert found["d1-r1-c4-sp"].redundant_bytes == found["d1-r4-c1-sp"].redundant_bytes == 0


def test_time_counts_bytes_between_nodes_as_often_as_the_network_is_slower() -> None:
    """Column groups are neighbours, data groups go across the nodes."""
    made = linear(8, 16, 32)
    volume = costs_of(made, 4, ADAM, nodes=2)
    time = costs_of(made, 4, ADAM, nodes=2, communication="time")
    for name in ("d4-r1-c1", "d1-r4-c1", "d1-r1-c4"):
        assert time[name].communication_bytes == SLOWER * volume[name].communication_bytes
    # Rows of 2 are within a node, the 2 data devices are not: 512 for Y/2, 2048/2 for dW/2.
    assert volume["d2-r2-c1"].communication_bytes == 256 + 1024
    assert time["d2-r2-c1"].communication_bytes == 256 + SLOWER * 1024


def test_activations_are_held_for_several_micro_batches() -> None:
    gelu = operator("gelu", [(8, 16)], [(8, 16)])
    cost = costs_of(gelu, 2, saved=("y0",), micro_batches_in_flight=3)["d1-r1-c2"]
    assert cost.memory_bytes == 3 * 8 * 16 * 2 // 2
    assert costs_of(gelu, 2)["d1-r1-c2"].memory_bytes == 0


def test_masks_are_divided_like_the_output() -> None:
    dropout = operator("dropout", [(8, 16)], [(8, 16)])
    found = costs_of(dropout, 4)
    assert found["d2-r1-c2"].memory_bytes == 8 * 16 // 4
    assert found["d1-r4-c1"].memory_bytes == 8 * 16


def test_views_hold_and_repeat_nothing() -> None:
    reshape = operator("reshape", [(8, 16)], [(8, 4, 4)])
    for cost in costs_of(reshape, 4, saved=("y0",)).values():
        assert (cost.redundant_bytes, cost.memory_bytes) == (0, 0)


def test_further_terms() -> None:
    """A softmax of 4·8 elements, 9 FLOPs each in all, that 2 row devices repeat."""
    softmax = operator("softmax", [(4, 8)], [(4, 8)])
    plain = costs_of(softmax, 2)["d1-r2-c1"].redundant_bytes
    terms = Terms(computation_imbalance=0.5, energy=10.0)
    found = costs_of(softmax, 2, terms=terms, joules=0.01, micro_batches=2)
    # 576 FLOPs in two micro-batches, 288 too many; 5.76 joules.
    assert found["d1-r2-c1"].redundant_bytes == plain + math.ceil(0.5 * 288 + 10 * 5.76)
    assert found["d2-r1-c1"].redundant_bytes == math.ceil(10 * 2.88)
