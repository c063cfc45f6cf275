"""Graph documents: read, written again, put in order, and every mistake named."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import SpecError
from planner.sharding.documents import (
    LARGEST_ARITY,
    LARGEST_OPERATORS,
    graph_to_document,
    read_graph,
)
from planner.sharding.graph import DTYPE_BYTES, Graph, Operator, Parameter, Repeat, Tensor

Document = dict[str, Any]


def tensor(name: str, *shape: int, dtype: str = "bf16") -> Document:
    return {"name": name, "shape": list(shape), "dtype": dtype}


def operator(name: str, reads: list[str], makes: list[Document], **more: Any) -> Document:
    return {"name": name, "kind": "add", "inputs": reads, "outputs": makes} | more


def chain() -> Document:
    """x -> a -> b -> c, b with a weight; also a reads y."""
    weight = {"name": "weight", "shape": [16, 32]}
    return {
        "inputs": [tensor("x", 4, 16), tensor("y", 4, 16)],
        "operators": [
            operator("a", ["x", "y"], [tensor("ta", 4, 16)]),
            operator("b", ["ta"], [tensor("tb", 4, 32)], kind="linear", parameters=[weight]),
            operator(
                "c",
                ["tb"],
                [tensor("tc", 4, 16)],
                kind="linear",
                parameters=[{"name": "weight", "shape": [32, 16], "tied_to": "b"}],
                attributes={"row_units": 4},
            ),
        ],
    }


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any operators on any tensors made before them; shapes need not make sense."""
    tensors: dict[str, Tensor] = {}
    operators: list[Operator] = []
    shapes = st.lists(st.integers(1, 64), max_size=4).map(tuple)

    def make(name: str) -> str:
        tensors[name] = Tensor(name, draw(shapes), draw(st.sampled_from(sorted(DTYPE_BYTES))))
        return name

    for number in range(draw(st.integers(1, 3))):
        name = make(f"in{number}")
        operators.append(Operator(name, "input", (), (name,)))
    holders: list[Operator] = []
    for number in range(draw(st.integers(1, 8))):
        reads = draw(st.lists(st.sampled_from(list(tensors)), min_size=1, max_size=3))
        makes = [make(f"t{number}.{place}") for place in range(draw(st.integers(1, 2)))]
        parameters = [
            Parameter(f"p{place}", shape)
            for place, shape in enumerate(draw(st.lists(shapes.filter(bool), max_size=2)))
        ]
        if draw(st.booleans()) and holders:
            holder = draw(st.sampled_from(holders))
            parameters.append(Parameter("tied", holder.parameters[0].shape[::-1], holder.name))
        made = Operator(
            f"op{number}",
            draw(st.sampled_from(["linear", "add", "of my own"])),
            tuple(reads),
            tuple(makes),
            tuple(parameters),
            draw(
                st.dictionaries(
                    st.text(min_size=1, max_size=5),
                    st.booleans() | st.integers(-9, 9) | st.just(0.5) | st.text(max_size=5),
                    max_size=3,
                )
            ),
        )
        operators.append(made)
        if parameters and parameters[0].tied_to is None:
            holders.append(made)
    return Graph(tuple(operators), tensors)


@given(graphs())
def test_a_graph_comes_back_from_its_document(graph: Graph) -> None:
    text = json.dumps(graph_to_document(graph))
    again = read_graph(json.loads(text))
    assert again == graph
    assert json.dumps(graph_to_document(again)) == text


@given(graphs(), st.randoms(use_true_random=False))
def test_operators_may_come_in_any_order(graph: Graph, random: Any) -> None:
    document = graph_to_document(graph)
    random.shuffle(document["operators"])
    found = read_graph(document)
    made: set[str] = set()
    for each in found.operators:
        assert made.issuperset(each.inputs)
        made.update(each.outputs)
    assert {each.name: each for each in found.operators} == {
        each.name: each for each in graph.operators
    }
    # What can run already stays in the given order.
    assert read_graph(graph_to_document(found)) == found


def test_of_the_operators_that_can_run_the_first_given_comes_first() -> None:
    document = chain()
    document["operators"] = [document["operators"][number] for number in (2, 1, 0)]
    document["operators"].insert(0, operator("late", ["tc"], [tensor("tl")]))
    document["operators"].append(operator("free", ["x"], [tensor("tf")]))
    names = [each.name for each in read_graph(document).operators]
    assert names == ["x", "y", "a", "b", "c", "late", "free"]


def test_inputs_become_operators_and_numbers_are_read_however_spelled() -> None:
    document = chain()
    document["inputs"][0]["shape"] = [4.0, 1.6e1]
    document["operators"][2]["attributes"] = {"row_units": 4.0, "causal": True, "p": 0.5}
    graph = read_graph(document)
    assert graph.operators[0] == Operator("x", "input", (), ("x",))
    assert graph.tensors["x"] == Tensor("x", (4, 16), "bf16")
    attributes = graph.operators[4].attributes
    assert [type(value) for value in attributes.values()] == [int, bool, float]


def test_scalars_and_tensors_read_twice_are_fine() -> None:
    document = chain()
    document["operators"].append(operator("loss", ["tc", "tc"], [tensor("l", dtype="fp32")]))
    graph = read_graph(document)
    assert graph.tensors["l"].elements == 1
    assert graph.consumers_of["tc"] == [5]


def test_a_repeated_layer_comes_back_too() -> None:
    document = chain() | {"repeat": {"count": 12, "input": "ta", "output": "tc"}}
    graph = read_graph(document)
    assert graph.repeat == Repeat(12, "ta", "tc")
    assert read_graph(graph_to_document(graph)) == graph


def changed(change: Callable[[Document], Any]) -> Document:
    document = copy.deepcopy(chain())
    change(document)
    return document


def at(*keys: str | int, value: Any) -> Callable[[Document], None]:
    """A change that puts a value at a place of the document."""

    def change(document: Document) -> None:
        target: Any = document
        for key in keys[:-1]:
            target = target[key]
        target[keys[-1]] = value

    return change


OPERATORS = "operators"
BAD: list[tuple[Callable[[Document], None], tuple[str | int, ...], str, str]] = [
    (at("inputs", value=[]), ("inputs",), "at least 1", ""),
    (at(OPERATORS, value=[]), (OPERATORS,), "at least 1", ""),
    (at("edges", value=[]), ("edges",), "not a known field", "spelling"),
    (at("inputs", 0, "shape", value=[0]), ("inputs", 0, "shape", 0), "greater than", ""),
    (at("inputs", 0, "shape", value=[1.5]), ("inputs", 0, "shape", 0), "whole number", ""),
    (at("inputs", 0, "shape", value=[True]), ("inputs", 0, "shape", 0), "whole number", ""),
    (at("inputs", 0, "shape", value=[2**53]), ("inputs", 0, "shape", 0), "less than", ""),
    (at("inputs", 0, "shape", value=[1] * 9), ("inputs", 0, "shape"), "9 dimensions", ""),
    (at("inputs", 0, "name", value=""), ("inputs", 0, "name"), "at least 1 character", ""),
    (at("inputs", 0, "name", value="n" * 201), ("inputs", 0, "name"), "at most 200", ""),
    (
        at("inputs", 1, "dtype", value="float16"),
        ("inputs", 1, "dtype"),
        "no dtype 'float16'",
        "Known: fp64, fp32, bf16, fp16",
    ),
    (
        at(OPERATORS, 0, "outputs", 0, "dtype", value="x"),
        (OPERATORS, 0, "outputs", 0, "dtype"),
        "no dtype 'x'",
        "Known",
    ),
    (
        at("inputs", 1, "name", value="x"),
        ("inputs", 1, "name"),
        "'x' already comes from the graph's inputs",
        "Rename",
    ),
    (
        at(OPERATORS, 1, "outputs", 0, "name", value="ta"),
        (OPERATORS, 1, "outputs", 0, "name"),
        "'ta' already comes from operator 'a'",
        "made once",
    ),
    (
        at(OPERATORS, 1, "name", value="a"),
        (OPERATORS, 1, "name"),
        "'a' is the name of another operator",
        "Rename",
    ),
    (
        at(OPERATORS, 1, "name", value="x"),
        (OPERATORS, 1, "name"),
        "'x' is the name of an input",
        "Rename",
    ),
    (
        at(OPERATORS, 1, "kind", value="input"),
        (OPERATORS, 1, "kind"),
        "reserved",
        "List the tensor in `inputs`",
    ),
    (
        at(OPERATORS, 1, "inputs", value=["taa"]),
        (OPERATORS, 1, "inputs", 0),
        "no tensor 'taa'",
        "Did you mean 'ta'?",
    ),
    (
        at(OPERATORS, 1, "inputs", value=["x", "quite another"]),
        (OPERATORS, 1, "inputs", 1),
        "no tensor 'quite another'",
        "Name an input",
    ),
    (at(OPERATORS, 1, "inputs", value=[]), (OPERATORS, 1, "inputs"), "at least 1", ""),
    (at(OPERATORS, 1, "outputs", value=[]), (OPERATORS, 1, "outputs"), "at least 1", ""),
    (
        at(OPERATORS, 1, "inputs", value=["x"] * (LARGEST_ARITY + 1)),
        (OPERATORS, 1, "inputs"),
        "1,001 inputs; at most 1,000",
        "",
    ),
    (
        at(OPERATORS, 0, "inputs", value=["x", "tc"]),
        (OPERATORS, 0, "inputs"),
        "'a' → 'b' → 'c' → 'a'",
        "without cycles",
    ),
    (
        at(OPERATORS, 1, "inputs", value=["tb"]),
        (OPERATORS, 1, "inputs"),
        "'b' → 'b'",
        "without cycles",
    ),
    (
        at(OPERATORS, 2, "parameters", 0, "tied_to", value="bb"),
        (OPERATORS, 2, "parameters", 0, "tied_to"),
        "no operator 'bb'",
        "Did you mean",
    ),
    (
        at(OPERATORS, 2, "parameters", 0, "tied_to", value="c"),
        (OPERATORS, 2, "parameters", 0, "tied_to"),
        "is the operator itself",
        "Remove it",
    ),
    (
        at(OPERATORS, 2, "parameters", 0, "tied_to", value="a"),
        (OPERATORS, 2, "parameters", 0, "tied_to"),
        "'a' holds no weight of the sizes [32, 16]",
        "Name the operator that holds",
    ),
    (
        at(OPERATORS, 1, "parameters", 0, "tied_to", value="c"),
        (OPERATORS, 1, "parameters", 0, "tied_to"),
        "'c' holds no weight",
        "not tied to a third",
    ),
    (
        at(OPERATORS, 1, "parameters", value=[{"name": "w", "shape": [1]}] * 2),
        (OPERATORS, 1, "parameters", 1, "name"),
        "'w' occurs twice",
        "Rename",
    ),
    (
        at(OPERATORS, 1, "parameters", 0, "shape", value=[]),
        (OPERATORS, 1, "parameters", 0, "shape"),
        "at least 1",
        "",
    ),
    (
        at(OPERATORS, 1, "attributes", value={"heads": [1]}),
        (OPERATORS, 1, "attributes", "heads"),
        "a number, a text, true or false",
        "",
    ),
    (
        at(OPERATORS, 1, "attributes", value={"heads": None}),
        (OPERATORS, 1, "attributes", "heads"),
        "a number, a text, true or false",
        "",
    ),
    (
        at(OPERATORS, 1, "attributes", value={"p": float("nan")}),
        (OPERATORS, 1, "attributes", "p"),
        "finite",
        "",
    ),
    (
        at(OPERATORS, 1, "attributes", value={"p": 1e300}),
        (OPERATORS, 1, "attributes", "p"),
        "below 2^53",
        "",
    ),
    (
        at(OPERATORS, 1, "attributes", value={"p": "t" * 201}),
        (OPERATORS, 1, "attributes", "p"),
        "at most 200",
        "",
    ),
    (
        at(OPERATORS, 1, "outputs", 0, "shape", value=[2**24, 2**24, 2]),
        (OPERATORS,),
        "elements in tensors and parameters together; at most 281,474,976,710,656",
        "Check the shapes",
    ),
    (
        at("repeat", value={"count": 2, "input": "z", "output": "tc"}),
        ("repeat", "input"),
        "no tensor 'z'",
        "Name an input",
    ),
    (
        at("repeat", value={"count": 2, "input": "x", "output": "z"}),
        ("repeat", "output"),
        "no tensor 'z'",
        "Name an input",
    ),
    (
        at("repeat", value={"count": 2, "input": "x", "output": "tb"}),
        ("repeat", "output"),
        "[4, 32] bf16 cannot take the place of the input's [4, 16] bf16",
        "its input's shape and dtype",
    ),
    (
        at("repeat", value={"count": 2, "input": "tc", "output": "ta"}),
        ("repeat", "output"),
        "does not depend on the layer's input 'tc'",
        "Name the tensors",
    ),
    (
        at("repeat", value={"count": 2, "input": "x", "output": "x"}),
        ("repeat", "output"),
        "does not depend",
        "Name the tensors",
    ),
    (
        at("repeat", value={"count": 0, "input": "x", "output": "tc"}),
        ("repeat", "count"),
        "greater than",
        "",
    ),
    (
        at("repeat", value={"count": 1025, "input": "x", "output": "tc"}),
        ("repeat", "count"),
        "less than or equal to 1024",
        "",
    ),
]


@pytest.mark.parametrize(("change", "path", "says", "remedy"), BAD)
def test_errors_name_field_and_remedy(
    change: Callable[[Document], None], path: tuple[str | int, ...], says: str, remedy: str
) -> None:
    with pytest.raises(SpecError) as caught:
        read_graph(changed(change))
    assert caught.value.path == ("graph", *path)
    assert says in caught.value.message
    assert caught.value.remedy
    assert remedy in caught.value.remedy


@pytest.mark.parametrize("raw", [None, 3, [], "graph"])
def test_something_else_than_an_object(raw: Any) -> None:
    with pytest.raises(SpecError, match="must be an object"):
        read_graph(raw)


def test_a_repeated_layer_counts_as_often_as_it_is_there() -> None:
    wide = tensor("ta", 2**20, 2**20)
    document = {"inputs": [wide | {"name": "x"}], "operators": [operator("a", ["x"], [wide])]}
    repeat = {"input": "x", "output": "ta"}
    assert read_graph(document | {"repeat": repeat | {"count": 128}})
    with pytest.raises(SpecError, match="elements"):
        read_graph(document | {"repeat": repeat | {"count": 129}})


def test_as_many_operators_as_allowed_are_read_and_no_more() -> None:
    made = [
        operator(f"a{number}", [f"t{number - 1}"], [tensor(f"t{number}", 8)])
        for number in range(1, LARGEST_OPERATORS + 1)
    ]
    document = {"inputs": [tensor("t0", 8)], "operators": made[::-1]}
    assert len(read_graph(document).operators) == LARGEST_OPERATORS + 1
    document["operators"][-1] = operator("a1", [f"t{LARGEST_OPERATORS}"], [tensor("t1", 8)])
    with pytest.raises(SpecError) as caught:
        read_graph(document)
    assert "'a20000' → 'a1' → 'a2' → " in caught.value.message
    assert caught.value.message.endswith("'a6' → 'a7' → … → 'a20000'.")
    assert len(str(caught.value)) < 500
    too_many = {"inputs": [tensor("t0", 8)], "operators": [{}] * (LARGEST_OPERATORS + 1)}
    with pytest.raises(SpecError, match="20,001 operators; at most 20,000"):
        read_graph(too_many)
