"""From a graph to an instance: who keeps what, which tensors pass where, and what ties cost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from planner.cost.memory import StateBytes
from planner.errors import Interrupted
from planner.sharding.build import Formulation, formulate
from planner.sharding.costs import CostSettings, OperatorCosts
from planner.sharding.devices import read_devices
from planner.sharding.documents import read_graph
from planner.sharding.folding import unfold
from planner.sharding.instance import totals
from planner.sharding.operators.rule import RuleOptions
from planner.sharding.passages import Passage
from tests.unit.sharding.posted import (
    StopAfter,
    bodies,
    formulation,
    linear,
    operator,
    repeated,
    tensor,
)

Body = dict[str, Any]
STATES = StateBytes(2, 4, 12)


def formulated(graph: Body, devices: int = 4, **settings: Any) -> Formulation:
    """A posted graph on so many devices."""
    conditions = CostSettings(read_devices(devices), STATES, 0.0, **settings)
    return formulate(read_graph(graph), conditions, RuleOptions())


def number(found: Formulation, name: str, strategy: str) -> int:
    """The place of a strategy among an operator's."""
    own = found.strategies[found.graph.number_of[name]]
    return next(at for at, each in enumerate(own) if each.name == strategy)


def passed(found: Formulation, passage: Passage, source: str, target: str) -> int:
    """Bytes from one strategy to another."""
    names = [found.graph.operators[end].name for end in (passage.source, passage.target)]
    at = [number(found, *pair) for pair in zip(names, (source, target), strict=True)]
    return int(passage.table[at[0], at[1]])


def views() -> Body:
    """A layer that begins with a view of its input and ends with one of its output."""
    return {
        "inputs": [tensor("x", 8, 16)],
        "operators": [
            operator("heads", "reshape", ["x"], 8, 4, 4),
            operator("norm", "rms_norm", ["heads"], 8, 4, 4),
            operator("scaled", "scale", ["norm"], 8, 4, 4),
            operator("out", "reshape", ["scaled"], 8, 16),
        ],
    }


def test_who_keeps_a_view_keeps_what_it_shows() -> None:
    assert formulated(views()).saved == {"heads", "x"}


def test_the_next_layer_may_keep_an_output_through_views() -> None:
    """`norm` keeps a view of the input, which is a view of what the layer before has made."""
    graph = views() | {"repeat": {"count": 3, "input": "x", "output": "out"}}
    assert formulated(graph).saved == {"heads", "x", "out", "scaled"}


def test_a_single_layer_has_no_next_one() -> None:
    graph = views() | {"repeat": {"count": 1, "input": "x", "output": "out"}}
    assert formulated(graph).saved == formulated(views()).saved


def test_who_reads_the_input_outside_of_the_layers_keeps_no_output() -> None:
    graph = {
        "inputs": [tensor("x", 8, 16)],
        "operators": [
            operator("out", "scale", ["x"], 8, 16),
            operator("aside", "gelu", ["x"], 8, 16),
        ],
        "repeat": {"count": 3, "input": "x", "output": "out"},
    }
    found = formulated(graph)
    assert found.saved == {"x"}
    # The layer's input three times, twice of it from the layer before; the other reader once.
    assert [(p.tensor, p.target, p.times) for p in found.passages] == [
        ("x", 1, 1),
        ("out", 1, 2),
        ("x", 2, 1),
    ]


def test_parallel_passages_become_one_edge() -> None:
    graph = {
        "inputs": [tensor("x", 8, 12)],
        "operators": [
            {
                "name": "split",
                "kind": "unknown to all",
                "inputs": ["x"],
                "outputs": [tensor("a", 8, 12), tensor("b", 8, 12)],
            },
            operator("sum", "add", ["a", "b"], 8, 12),
        ],
    }
    found = formulated(graph, 2)
    assert len(found.passages) == 3
    instance = found.instance(1.0, None)
    assert [(edge.source, edge.target) for edge in instance.edges] == [(0, 1), (1, 2)]
    split, added = number(found, "split", "d2-r1-c1"), number(found, "sum", "d1-r1-c2")
    # Two tensors of 192 bytes change from rows to columns, forward and back: a quarter each.
    assert instance.edges[1].resharding_bytes[split][added] == 2 * 2 * 192 // 4


def test_a_layer_of_one_operator_hands_on_to_itself() -> None:
    """A linear layer that is split by columns gathers what the one before has made."""
    graph = {
        "inputs": [tensor("x", 8, 16)],
        "operators": [linear("y", "x", 8, 16, 16)],
        "repeat": {"count": 5, "input": "x", "output": "y"},
    }
    found = formulated(graph)
    once = formulated({**graph, "repeat": {"count": 1, "input": "x", "output": "y"}})
    at = number(found, "y", "d1-r1-c4")
    folded, single = (f.instance(1.0, None).operators[1].strategies[at] for f in (found, once))
    # Three quarters of 256 bytes in each of four passages, and slices for the gradient.
    gathered = 4 * (256 * 3 // 4)
    assert folded.communication_bytes == 5 * single.communication_bytes + gathered
    assert folded.redundant_bytes == 5 * single.redundant_bytes


def test_a_tensor_read_twice_arrives_in_both_layouts() -> None:
    """X Xᵀ wants the rows of one operand split by data and those of the other by column."""
    product = operator("y", "matmul", ["x", "x"], 8, 8, attributes={"transpose_b": True})
    graph = {"inputs": [tensor("x", 8, 16)], "operators": [product]}
    found = formulated(graph)
    assert [passage.tensor for passage in found.passages] == ["x", "x"]
    first, second = found.passages
    # Split by rows over all, then gathered whole for the other operand: 3/4 of 256 bytes.
    assert passed(found, first, "d4-r1-c1", "d4-r1-c1") == 0
    assert passed(found, second, "d4-r1-c1", "d4-r1-c1") == 192
    # Row splits both alike, so the second comes with the first.
    assert passed(found, first, "d4-r1-c1", "d1-r4-c1") > 0
    assert passed(found, second, "d4-r1-c1", "d1-r4-c1") == 0


def test_a_tensor_read_twice_alike_arrives_once() -> None:
    double = operator("y", "add", ["x", "x"], 8, 16)
    found = formulated({"inputs": [tensor("x", 8, 16)], "operators": [double]})
    assert len(found.passages) == 1


def tied(rows: int = 32, width: int = 16) -> Body:
    """A table [rows, width], and an output layer with its transpose."""
    weight = {"name": "weight", "shape": [rows, width]}
    table = operator("table", "embedding", ["tokens"], 8, width, parameters=[weight])
    head = linear("head", "table", 8, width, rows)
    head["parameters"][0]["tied_to"] = "table"
    return {"inputs": [tensor("tokens", 8, dtype="int64")], "operators": [table, head]}


def test_tied_weights_lie_at_their_holder() -> None:
    found = formulated(tied(), zero_stage=1)
    own = {each.name: each for each in found.costs[2]}
    # Nothing but the copies of Y over row and of X over column.
    assert own["d4-r1-c1"].memory_bytes == own["d4-r1-c1"].redundant_bytes == 0
    assert own["d4-r1-c1"].communication_bytes == 0


def test_tied_weights_travel_and_their_gradients_return() -> None:
    """512 weights of 2 bytes, gradients of 4. All in one step, however many micro-batches."""
    found = formulated(tied(), micro_batches=8)
    (passage,) = (each for each in found.passages if each.tensor == "weight")
    # Rows of the table are columns of its transpose: both lie alike.
    assert passed(found, passage, "d1-r4-c1", "d1-r1-c4") == 0
    assert passed(found, passage, "d4-r1-c1", "d4-r1-c1") == 0
    assert passed(found, passage, "d2-r2-c1", "d2-r1-c2") == 0
    # Rows to columns: 3/16 there, 3/16 back; the head's gradient is partial over nothing.
    assert passed(found, passage, "d1-r4-c1", "d1-r4-c1") == (1024 + 2048) * 3 // 16
    # Three quarters there; back a slice of what has been added up over four devices.
    assert passed(found, passage, "d1-r4-c1", "d4-r1-c1") == 1024 * 3 // 4 + 2 * 2048 * 3 // 4
    # A slice there, three quarters of the gradient back.
    assert passed(found, passage, "d4-r1-c1", "d1-r1-c4") == 2048 * 3 // 4


def test_the_weight_of_the_same_sizes_is_meant() -> None:
    """Here the second one, which row does not split: the head has its part already."""
    graph = tied()
    graph["operators"][0]["parameters"] = [
        {"name": "weight", "shape": [64, 16]},
        {"name": "positions", "shape": [32, 16]},
    ]
    found = formulated(graph)
    passage = next(each for each in found.passages if each.tensor == "weight")
    assert passed(found, passage, "d1-r4-c1", "d1-r1-c4") == 2048 * 3 // 4


def test_weights_tied_within_a_layer_travel_in_each() -> None:
    graph = {
        "inputs": [tensor("x", 8, 16)],
        "operators": [linear("up", "x", 8, 16, 32), linear("down", "up", 8, 32, 16)],
        "repeat": {"count": 3, "input": "x", "output": "down"},
    }
    graph["operators"][1]["parameters"][0]["tied_to"] = "up"
    (passage,) = (each for each in formulated(graph).passages if each.tensor == "weight")
    assert passage.times == 3


def test_an_instance_adds_up() -> None:
    """Two linear layers, the first split by columns and the second by rows, as Megatron-LM does."""
    graph = {
        "inputs": [tensor("x", 8, 16)],
        "operators": [linear("up", "x", 8, 16, 32), linear("down", "up", 8, 32, 16)],
    }
    found = formulated(graph)
    choice = [
        number(found, name, strategy)
        for name, strategy in (("x", "d1-r4-c1"), ("up", "d1-r1-c4"), ("down", "d1-r4-c1"))
    ]
    sums = totals(found.instance(1.0, None), choice)
    # Copies of x, its own and the layer's, and of the output.
    assert sums.redundant_bytes == 3 * (256 + 256 + 256)
    # All-reduces of the output and of the input's gradient; nothing in between.
    assert sums.communication_bytes == 2 * (2 * 256 * 3 // 4)
    assert sums.resharding_bytes == 0
    # A quarter of 1024 weights of 18 bytes, the input whole, a quarter of what is in between.
    assert sums.memory_bytes == 1024 * 18 // 4 + 256 + 512 // 4


@settings(max_examples=30, deadline=None)
@given(bodies())
def test_operators_that_share_their_costs_would_have_the_same_alone(body: Body) -> None:
    own = formulation(body)
    for number, each in enumerate(own.graph.operators):
        alone = OperatorCosts(each, own.graph.tensors, own.saved, own.settings)
        assert own.costs[number] == tuple(map(alone.of, own.strategies[number]))


def test_layers_written_out_share_what_is_the_same_in_all_and_no_more() -> None:
    """What the next layer keeps of a layer's output nobody keeps of the last one's."""
    graph = unfold(read_graph(repeated(3)))
    conditions = CostSettings(read_devices(4), STATES, 0.0)
    own = formulate(graph, conditions, RuleOptions())
    costs = {each.name: own.costs[v] for v, each in enumerate(graph.operators)}
    assert costs["layer0.up"] is costs["layer1.up"] is costs["layer2.up"]
    assert costs["layer0.up"] != costs["layer0.down"]
    for number, each in enumerate(graph.operators):
        alone = OperatorCosts(each, graph.tensors, own.saved, conditions)
        assert own.costs[number] == tuple(map(alone.of, own.strategies[number]))


def test_a_formulation_that_is_told_to_stop_is_given_up() -> None:
    graph = unfold(read_graph(repeated(40)))
    conditions = CostSettings(read_devices(4), STATES, 0.0)
    never_stopped = StopAfter()
    formulate(graph, conditions, RuleOptions(), should_stop=never_stopped)
    assert never_stopped.looks > 5
    for looks in range(never_stopped.looks):
        with pytest.raises(Interrupted):
            formulate(graph, conditions, RuleOptions(), should_stop=StopAfter(looks))
