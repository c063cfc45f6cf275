"""Folded layers: the same costs as all of them written out."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cost.memory import StateBytes
from planner.sharding.build import Formulation, formulate
from planner.sharding.costs import CostSettings, OperatorCosts
from planner.sharding.devices import read_devices
from planner.sharding.documents import read_graph
from planner.sharding.folding import layer_operators, unfold
from planner.sharding.graph import Graph
from planner.sharding.instance import totals
from planner.sharding.operators.rule import RuleOptions
from planner.sharding.training import read_sharding_training
from planner.sharding.transformer.request import read_transformer
from tests.sharding_graphs import posted_graphs
from tests.unit.sharding.posted import linear, operator, tensor


def formulated(graph: Graph, devices: int, in_flight: int = 1) -> Formulation:
    """A graph under settings in which everything costs something."""
    conditions = CostSettings(
        read_devices(devices),
        StateBytes(2, 4, 12),
        0.0,
        zero_stage=1,
        micro_batches=2,
        micro_batches_in_flight=in_flight,
    )
    return formulate(graph, conditions, RuleOptions(sequence_parallel=True))


def assert_same(graph: Graph, devices: int, seed: int) -> None:
    """The same choice in all layers costs the same; memory beside what only some layers keep."""
    folded = formulated(graph, devices)
    apart = formulated(unfold(graph), devices)
    numbers = random.Random(seed)
    choice = [numbers.randrange(len(own)) for own in folded.strategies]
    names = [own.name for own in graph.operators]
    by_name = dict(zip(names, choice, strict=True))
    layers = {names[v] for v in layer_operators(graph)}
    spread = []
    for own in apart.graph.operators:
        head, _, name = own.name.partition(".")
        in_layer = head.startswith("layer") and name in layers
        spread.append(by_name[name if in_layer else own.name])
    whole = totals(folded.instance(1.0, None), choice)
    written = totals(apart.instance(1.0, None), spread)
    assert whole.redundant_bytes == written.redundant_bytes
    assert (
        whole.communication_bytes + whole.resharding_bytes
        == written.communication_bytes + written.resharding_bytes
    )
    assert whole.memory_bytes - written.memory_bytes == _kept_by_some(folded, apart, choice)


def _kept_by_some(folded: Formulation, apart: Formulation, choice: list[int]) -> int:
    """What counts as kept in all layers and is kept in some only: the last one's output, which the
    next layer would keep, or the others', which only the reader behind the last one keeps."""
    graph, bytes_in_all = folded.graph, 0
    assert graph.repeat
    for v in layer_operators(graph):
        costs = OperatorCosts(graph.operators[v], graph.tensors, folded.saved, folded.settings)
        kept = costs.kept_activations(folded.strategies[v][choice[v]])
        for name, size in kept.items():
            layers = range(graph.repeat.count)
            bytes_in_all += size * sum(f"layer{k}.{name}" not in apart.saved for k in layers)
    return bytes_in_all


def repeated(*operators: dict[str, Any], output: str = "out", count: int = 3) -> Graph:
    """A posted graph with `x` [8, 16] coming in."""
    repeat = {"count": count, "input": "x", "output": output}
    inputs = [tensor("x", 8, 16), tensor("mask", 8, 16)]
    return read_graph({"inputs": inputs, "operators": list(operators), "repeat": repeat})


def around() -> Graph:
    """A layer of three operators and one that reads the second; others before and behind."""
    return read_graph(
        {
            "inputs": [tensor("image", 8, 16), tensor("mask", 8, 16)],
            "operators": [
                operator("x", "gelu", ["image"], 8, 16),
                linear("y", "x", 8, 16, 16),
                operator("masked", "mul", ["y", "mask"], 8, 16),
                operator("out", "add", ["masked", "x"], 8, 16),
                operator("watched", "relu", ["masked"], 8, 16),
                operator("aside", "tanh", ["x"], 8, 16),
                operator("last", "silu", ["out"], 8, 16),
                operator("both", "add", ["last", "aside"], 8, 16),
            ],
            "repeat": {"count": 3, "input": "x", "output": "out"},
        }
    )


def test_the_layer_is_what_lies_between_and_who_reads_from_it() -> None:
    graph = around()
    layer = {graph.operators[v].name for v in layer_operators(graph)}
    assert layer == {"y", "masked", "out", "watched"}
    assert layer_operators(read_graph({"inputs": [tensor("x", 8, 16)], "operators": [
        operator("y", "relu", ["x"], 8, 16)]})) == frozenset()  # fmt: skip


def test_layers_written_out() -> None:
    graph = unfold(around())
    assert graph.repeat is None
    names = [own.name for own in graph.operators]
    assert len(names) == 6 + 3 * 4
    assert names.index("aside") < names.index("layer0.y") < names.index("layer2.y")
    reads = {own.name: own.inputs for own in graph.operators}
    assert reads["layer0.out"] == ("layer0.masked", "x")
    assert reads["layer1.out"] == ("layer1.masked", "layer0.out")
    assert reads["layer2.masked"] == ("layer2.y", "mask")
    assert reads["aside"] == ("x",)
    assert reads["last"] == ("layer2.out",)
    made: set[str] = set()
    for own in graph.operators:
        assert made.issuperset(own.inputs)
        made.update(own.outputs)
    assert made == set(graph.tensors)
    assert all(tensor.name == name for name, tensor in graph.tensors.items())
    assert unfold(graph) is graph


def test_weights_tied_within_layers_and_out_of_them() -> None:
    """A layer borrows from itself; what is outside borrows from the last one."""
    up, down = linear("up", "x", 8, 16, 32), linear("out", "up", 8, 32, 16)
    behind = linear("behind", "out", 8, 16, 32)
    down["parameters"][0]["tied_to"] = behind["parameters"][0]["tied_to"] = "up"
    graph = repeated(up, down, behind)
    holders = {own.name: own.parameters[0].tied_to
               for own in unfold(graph).operators if own.parameters}  # fmt: skip
    assert holders["layer1.up"] is None
    assert holders["layer1.out"] == "layer1.up"
    assert holders["behind"] == "layer2.up"
    for seed in range(10):
        assert_same(graph, 4, seed)


def test_everything_around_the_layers_counts_once() -> None:
    for seed in range(20):
        assert_same(around(), 4, seed)


def test_the_last_layer_s_output_counts_as_kept_where_the_next_layer_keeps_it() -> None:
    """Half of 256 bytes too much: nobody keeps what the third layer gives."""
    graph = repeated(linear("y", "x", 8, 16, 16), operator("out", "scale", ["y"], 8, 16))
    folded, apart = formulated(graph, 2), formulated(unfold(graph), 2)
    halved = [own.name for own in folded.strategies[3]].index("d2-r1-c1")
    more = totals(folded.instance(1.0, None), [0, 0, 0, halved]).memory_bytes
    spread = [halved if own.name.endswith("out") else 0 for own in apart.graph.operators]
    assert more - totals(apart.instance(1.0, None), spread).memory_bytes == 128


def test_transformer_layers() -> None:
    fields = {"preset": "BERT-Large", "layers": 3, "embeddings": True}
    made = read_transformer(fields, read_sharding_training({"dropout": True}), 4)
    for seed in range(3):
        assert_same(made.graph, 4, seed)


@settings(max_examples=60, deadline=None)
@given(posted_graphs().filter(lambda graph: graph.repeat), st.integers(0, 99))
def test_random_layers(graph: Graph, seed: int) -> None:
    assert_same(graph, (2, 4, 6)[seed % 3], seed)
