"""Graphs of transformer layers: operators, shapes, parameters, defaults and errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.references import PARAMETERS
from planner.cost.model import NormPlacement
from planner.cost.parameters import count_parameters
from planner.errors import SpecError
from planner.sharding.documents import graph_to_document, read_graph
from planner.sharding.graph import Graph, Operator, Repeat
from planner.sharding.operators.registry import rules_of
from planner.sharding.operators.rule import RuleOptions
from planner.sharding.training import read_sharding_training
from planner.sharding.transformer.builder import padded_vocabulary
from planner.sharding.transformer.request import Transformer, read_transformer

SMALL = {"hidden_size": 64, "heads": 4, "sequence": 32}
GROUPED = SMALL | {"gated": True, "ffn_hidden_size": 96, "kv_heads": 2, "head_dim": 24}
EXPERTS = GROUPED | {"experts": 4, "experts_per_token": 2}

# Of these the graph leaves out segments and the pooler, or the norms of queries and keys.
LEFT_OUT = {"BERT-Base", "BERT-Large", "Qwen3-8B"}
PUBLISHED = {name: total for name, total in PARAMETERS.items() if name not in LEFT_OUT} | {
    "GPT-1.7B": 1_652_230_656,
    "GPT-3.6B": 3_559_022_592,
    "GPT-7.5B": 7_467_786_240,
    "GPT-3-175B": 174_604_259_328,
    "Megatron-22B": 22_074_273_792,
}


def read(fields: Any, devices: int = 4, **training: Any) -> Transformer:
    return read_transformer(fields, read_sharding_training(training), devices)


def named(graph: Graph, name: str) -> Operator:
    return graph.operators[graph.number_of[name]]


def kinds(graph: Graph) -> dict[str, str]:
    return {operator.name: operator.kind for operator in graph.operators}


def parameters(graph: Graph, *, untied: bool = True) -> int:
    return sum(
        parameter.elements
        for operator in graph.operators
        for parameter in operator.parameters
        if not (untied and parameter.tied_to)
    )


def test_a_gpt_layer_has_fifteen_operators() -> None:
    graph = read("GPT-3.6B", flash_attention=False).graph
    assert kinds(graph) == {
        "x": "input",
        "ln1": "layer_norm",
        "qkv": "linear",
        "split_heads": "split_heads",
        "scores": "matmul",
        "softmax": "softmax",
        "context": "matmul",
        "merge_heads": "merge_heads",
        "proj": "linear",
        "add1": "add",
        "ln2": "layer_norm",
        "fc1": "linear",
        "gelu": "gelu",
        "fc2": "linear",
        "add2": "add",
    }
    assert list(kinds(graph))[-1] == "add2"
    assert named(graph, "ln1").inputs == ("x",)
    assert named(graph, "scores").attributes == {"transpose_b": True}
    assert set(named(graph, "add1").inputs) == {"x", "proj"}
    assert set(named(graph, "add2").inputs) == {"add1", "fc2"}


def test_flash_attention_is_one_operator() -> None:
    graph = read("GPT-3.6B").graph
    assert len(graph.operators) == 13
    attention = named(graph, "attention")
    assert attention.inputs == ("query", "key", "value")
    assert attention.attributes == {"causal": True}
    assert not {"scores", "softmax", "context"} & set(graph.number_of)


def test_an_encoder_normalises_after_each_addition() -> None:
    graph = read("BERT-Large").graph
    assert named(graph, "qkv").inputs == ("x",)
    assert named(graph, "ln1").inputs == ("add1",)
    assert named(graph, "fc1").inputs == ("ln1",)
    assert set(named(graph, "add2").inputs) == {"ln1", "fc2"}
    assert named(graph, "ln2").inputs == ("add2",)
    assert named(graph, "attention").attributes == {"causal": False}
    changed = read({"preset": "BERT-Large", "norm_placement": "pre"}).graph
    assert named(changed, "ln1").inputs == ("x",)
    encoder = read(SMALL | {"architecture": "encoder"})
    assert encoder.model.norm_placement is NormPlacement.POST
    assert kinds(encoder.graph) == kinds(graph)


def test_a_bert_large_layer() -> None:
    graph = read("BERT-Large").graph
    assert parameters(graph) == 12_596_224
    shapes = {name: tensor.shape for name, tensor in graph.tensors.items()}
    assert shapes["x"] == shapes["ln2"] == (8, 512, 1024)
    assert shapes["qkv"] == (8, 512, 3072)
    assert shapes["query"] == shapes["key"] == shapes["value"] == (8, 16, 512, 64)
    assert shapes["fc1"] == (8, 512, 4096)


@pytest.mark.parametrize("name", [*PUBLISHED, "BERT-Base", "BERT-Large"])
@pytest.mark.parametrize("flash", [True, False])
def test_parameters_of_a_layer(name: str, flash: bool) -> None:
    made = read(name, flash_attention=flash)
    assert parameters(made.graph) == count_parameters(made.model).layer


@pytest.mark.parametrize(("name", "total"), PUBLISHED.items())
def test_parameters_of_whole_models(name: str, total: int) -> None:
    """All layers, embedding and head, without the rows that pad the vocabulary."""
    layer = parameters(read(name).graph)
    whole = read({"preset": name, "embeddings": True})
    model = whole.model
    tables = 1 if model.tied_embeddings else 2
    padding = padded_vocabulary(model.vocabulary, 4) - model.vocabulary
    counted = parameters(whole.graph) - tables * padding * model.hidden_size
    assert counted + (model.layers - 1) * layer == total


def test_parameters_of_whole_bert_large() -> None:
    """The checkpoint has two segment embeddings and a pooler beside what is planned for."""
    layer = parameters(read("BERT-Large").graph)
    whole = parameters(read({"preset": "BERT-Large", "embeddings": True}).graph)
    hidden, padding = 1024, (30592 - 30522) * 1024
    left_out = 2 * hidden + hidden * hidden + hidden
    assert whole - padding + 23 * layer + left_out == 335_141_888


def test_norms_of_queries_and_keys_are_left_out() -> None:
    made = read("Qwen3-8B")
    assert parameters(made.graph) == count_parameters(made.model).layer - 2 * 128


@pytest.mark.parametrize("embeddings", [True, False])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize(
    "fields",
    [
        SMALL,
        GROUPED,
        EXPERTS,
        EXPERTS | {"gated": False, "biases": True},
        SMALL | {"architecture": "encoder"},
        SMALL | {"norm": "rmsnorm", "biases": False, "position_embeddings": "none"},
    ],
)
@pytest.mark.parametrize("flash", [True, False])
def test_graphs_chain_up_and_come_back_from_their_documents(
    fields: dict[str, Any], embeddings: bool, layers: int, flash: bool
) -> None:
    request = fields | {"embeddings": embeddings, "layers": layers, "vocabulary": 1000}
    graph = read(request, flash_attention=flash, dropout=True).graph
    text = json.dumps(graph_to_document(graph))
    assert read_graph(json.loads(text)) == graph
    for operator in graph.operators:
        # The kinds check shapes and attributes, and warn where they do not know one.
        for rule in rules_of(operator, graph, RuleOptions(sequence_parallel=True)):
            assert not rule.warnings


def test_groups_of_heads_stay_together() -> None:
    graph = read(GROUPED, flash_attention=False).graph
    assert named(graph, "qkv").attributes == {"column_units": 2}
    assert named(graph, "qkv").parameters[0].shape == (64, (4 + 2 * 2) * 24)
    assert named(graph, "proj").attributes == {"row_units": 2}
    assert graph.tensors["query"].shape == (8, 4, 32, 24)
    assert graph.tensors["key"].shape == (8, 2, 32, 24)
    assert graph.tensors["scores"].shape == (8, 4, 32, 32)


def test_gated_layers() -> None:
    graph = read(GROUPED).graph
    assert graph.tensors["fc1"].shape[-1] == 192
    assert named(graph, "fc1").attributes == {"column_units": 96}
    assert named(graph, "glu").kind == "glu"
    assert graph.tensors["glu"].shape[-1] == 96
    assert named(graph, "ln1").kind == "rms_norm"
    assert all(len(operator.parameters) <= 1 for operator in graph.operators)
    biased = read(GROUPED | {"qkv_bias": True}).graph
    assert [p.name for p in named(biased, "qkv").parameters] == ["weight", "bias"]
    assert [p.name for p in named(biased, "proj").parameters] == ["weight"]


@pytest.mark.parametrize("changes", [{}, {"gated": False}, {"gated": False, "biases": False}])
def test_experts(changes: dict[str, Any]) -> None:
    made = read(EXPERTS | changes)
    graph = made.graph
    attributes = {"experts": 4, "experts_per_token": 2}
    assert dict(named(graph, "router").attributes).items() <= attributes.items()
    assert named(graph, "experts").attributes == attributes | {"gated": made.model.gated}
    assert named(graph, "experts").inputs[0] == "ln2"
    assert "fc1" not in graph.number_of
    assert parameters(graph) == count_parameters(made.model).layer


def test_dropout_only_where_training_has_it() -> None:
    without = read("GPT-2", flash_attention=False).graph
    assert "dropout" not in kinds(without).values()
    with_it = read("GPT-2", flash_attention=False, dropout=True).graph
    assert [name for name, kind in kinds(with_it).items() if kind == "dropout"] == [
        "attention_dropout",
        "dropout1",
        "dropout2",
    ]
    assert named(with_it, "context").inputs == ("attention_dropout", "value")
    flash = read({"preset": "GPT-2", "embeddings": True}, dropout=True).graph
    assert [name for name, kind in kinds(flash).items() if kind == "dropout"] == [
        "embedding_dropout",
        "dropout1",
        "dropout2",
    ]


def test_layers_are_folded() -> None:
    assert read("GPT-2").graph.repeat is None
    one = read({"preset": "GPT-2", "layers": 12})
    assert one.graph.repeat == Repeat(12, "x", "add2")
    assert one.layers == 12
    whole = read({"preset": "GPT-2", "layers": 12, "embeddings": True})
    assert whole.graph.repeat == Repeat(12, "embedding", "add2")
    bert = read({"preset": "BERT-Large", "layers": 24, "embeddings": True})
    assert bert.graph.repeat == Repeat(24, "embedding_norm", "ln2")


def test_what_surrounds_the_layers() -> None:
    graph = read({"preset": "GPT-2", "embeddings": True}).graph
    assert list(kinds(graph))[:3] == ["tokens", "targets", "embedding"]
    assert list(kinds(graph))[-3:] == ["final_norm", "head", "loss"]
    assert graph.tensors["tokens"].dtype == "int64"
    assert [p.shape for p in named(graph, "embedding").parameters] == [(50304, 768), (1024, 768)]
    head = named(graph, "head").parameters
    assert [(p.shape, p.tied_to) for p in head] == [((768, 50304), "embedding")]
    assert graph.tensors["loss"].shape == ()
    llama = read({"preset": "Llama-3-8B", "embeddings": True}).graph
    assert len(named(llama, "embedding").parameters) == 1
    assert named(llama, "head").parameters[0].tied_to is None
    bert = read({"preset": "BERT-Large", "embeddings": True}).graph
    assert named(bert, "qkv").inputs == ("embedding_norm",)
    assert named(bert, "head").inputs == ("ln2",)


@pytest.mark.parametrize(
    ("vocabulary", "devices", "padded"),
    [(50257, 1, 50304), (51200, 8, 51200), (1000, 6, 1152), (1, 256, 256)],
)
def test_padded_vocabulary(vocabulary: int, devices: int, padded: int) -> None:
    assert padded_vocabulary(vocabulary, devices) == padded


@pytest.mark.parametrize(
    ("fields", "devices", "batch", "sequence"),
    [
        ("BERT-Large", 4, 8, 512),
        ("BERT-Large", 64, 64, 512),
        ({"preset": "BERT-Large", "batch": 3, "sequence": 128}, 64, 3, 128),
        ({"preset": "GPT-3.6B", "sequence": 2048}, 2, 8, 2048),
        (SMALL, 1, 8, 32),
    ],
)
def test_batch_and_sequence(fields: Any, devices: int, batch: int, sequence: int) -> None:
    made = read(fields, devices)
    assert (made.batch, made.sequence) == (batch, sequence)
    assert made.graph.tensors["x"].shape[:2] == (batch, sequence)


def test_another_sequence_leaves_the_preset_as_it_is() -> None:
    made = read({"preset": "BERT-Large", "sequence": 128, "embeddings": True, "layers": 2})
    assert made.model.name == "BERT-Large"
    assert made.model.layers == 24
    assert named(made.graph, "embedding").parameters[1].shape == (512, 1024)
    longer = {"preset": "BERT-Large", "sequence": 1024, "max_positions": 1024, "embeddings": True}
    assert named(read(longer).graph, "embedding").parameters[1].shape == (1024, 1024)


@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp32"])
def test_activations_have_the_training_precision(precision: str) -> None:
    graph = read("GPT-2", precision=precision).graph
    assert {tensor.dtype for tensor in graph.tensors.values()} == {precision}


def test_notes_say_what_was_assumed() -> None:
    def notes(fields: Any, **training: Any) -> dict[str, str]:
        made = read(fields, **training).notes
        assert all(note["basis"] for note in made)
        return {note["what"]: note["value"] for note in made}

    plain = notes("Llama-3-8B")
    assert plain["model"] == "1 layer of Llama-3-8B"
    assert plain["batch"].startswith("8 samples of 8192 tokens")
    assert plain["dropout"] == "none"
    assert "earlier tokens, one operator" in plain["attention"]
    assert plain["rotary positions"] == "part of the attention"
    assert plain["embedding, output layer and loss"] == "left out"
    whole = notes(
        {"preset": "BERT-Large", "layers": 24, "embeddings": True},
        dropout=True,
        flash_attention=False,
    )
    assert whole["model"] == "24 layers of BERT-Large"
    assert whole["vocabulary"] == "30522, padded to 30592"
    assert whole["dropout"] == "masks counted"
    assert "all tokens, scores" in whole["attention"]
    assert "after each residual addition" in whole["layer"]
    assert whole["token types and pooler"] == "left out"
    assert "token types and pooler" not in notes({"preset": "GPT-2", "embeddings": True})
    assert notes("Qwen3-8B")["norms of queries and keys"] == "left out"
    assert "norms of queries and keys" not in plain


@pytest.mark.parametrize(
    ("fields", "path", "says"),
    [
        (7, ("transformer",), "an object or a preset's name"),
        ("BERT-Huge", ("transformer", "preset"), "Did you mean BERT-Large?"),
        ({"preset": "BERT-Huge"}, ("transformer", "preset"), "Known: GPT-2"),
        ({}, ("transformer", "hidden_size"), "is required. Give it, or name a `preset`"),
        ({"preset": "GPT-2", "batch": 0}, ("transformer", "batch"), "greater than or equal to 1"),
        ({"preset": "GPT-2", "batch": True}, ("transformer", "batch"), "whole number"),
        ({"preset": "GPT-2", "layer": 2}, ("transformer", "layer"), "not a known field"),
        (
            {"preset": "GPT-2", "layers": 1025},
            ("transformer", "layers"),
            "or equal to 1024",
        ),
        (SMALL | {"embeddings": True}, ("transformer", "vocabulary"), "is required"),
        (SMALL | {"architecture": "both"}, ("transformer", "architecture"), "'encoder'"),
        (SMALL | {"gated": True}, ("transformer", "ffn_hidden_size"), "is required"),
        (
            {"preset": "GPT-2", "sequence": 2048, "embeddings": True},
            ("transformer", "sequence"),
            "longer than the model's 1024 learned positions. Shorten it or raise `max_positions`",
        ),
        (
            {"preset": "GPT-3-175B", "batch": 2**24, "layers": 96},
            ("transformer",),
            "Give a smaller `batch`",
        ),
    ],
)
def test_errors_name_the_field(fields: Any, path: tuple[str, ...], says: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(fields)
    assert caught.value.path == path
    assert says in str(caught.value)
