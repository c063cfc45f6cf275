"""Architectures of Hugging Face transformers, small and at full size."""

from __future__ import annotations

import resource
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from client.errors import InputError  # noqa: E402
from client.torch_extract.errors import DataDependent  # noqa: E402
from client.torch_extract.extraction import extract  # noqa: E402
from client.torch_extract.fakes import build_fake  # noqa: E402
from client.torch_extract.huggingface import build_model  # noqa: E402
from planner.sharding.operators.registry import rules_of  # noqa: E402
from planner.sharding.operators.rule import RuleOptions  # noqa: E402
from planner.sharding.request import resolve_request  # noqa: E402
from tests.unit.client.torch_extract.models import kinds, operators  # noqa: E402
from tests.unit.sharding.posted import document  # noqa: E402

pytestmark = pytest.mark.torch

SMALL = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 128}
CONFIGURATIONS: dict[str, Any] = {
    "bert": lambda: transformers.BertConfig(**SMALL, intermediate_size=128),
    "gpt2": lambda: transformers.GPT2Config(n_embd=64, n_layer=3, n_head=4, vocab_size=128),
    "llama": lambda: transformers.LlamaConfig(
        **SMALL, num_key_value_heads=2, intermediate_size=128
    ),
    "mixtral": lambda: transformers.MixtralConfig(
        **SMALL, num_key_value_heads=2, intermediate_size=128, num_local_experts=4
    ),
}
UNKNOWN = "is not known"


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_layers_are_one_and_every_kind_is_known(name: str) -> None:
    config = CONFIGURATIONS[name]()
    module, inputs = build_model(config, batch=4, sequence=16)
    found = extract(module, inputs)
    assert found.graph["repeat"]["count"] == 3
    count = sum(parameter.numel() for parameter in module.parameters())
    assert found.report["totals"]["parameters"] == count
    assert "attention" in kinds(found)
    assert ("experts" in kinds(found)) == (name == "mixtral")
    result = document(found.request(devices=4))
    assert result["certificate"]["verified"]
    assert not any(UNKNOWN in warning for warning in result["provenance"]["warnings"])


def test_causal_models_say_so_and_encoders_do_not() -> None:
    for name, causal in (("llama", True), ("bert", None)):
        module, inputs = build_model(CONFIGURATIONS[name](), batch=2, sequence=8)
        attention = next(
            own for own in extract(module, inputs).graph["operators"] if own["kind"] == "attention"
        )
        assert attention.get("attributes", {}).get("causal") is causal


def test_experts_in_fp32_are_grouped_as_well() -> None:
    config = CONFIGURATIONS["mixtral"]()
    module, inputs = build_model(config, batch=2, sequence=8, dtype=torch.float32)
    assert "experts" in kinds(extract(module, inputs))


def test_experts_one_by_one_are_refused_with_the_remedy() -> None:
    config = CONFIGURATIONS["mixtral"]()
    config._experts_implementation = "eager"
    module, inputs = build_model(config, batch=2, sequence=8)
    with pytest.raises(DataDependent, match="experts_implementation='grouped_mm'") as caught:
        extract(module, inputs)
    assert caught.value.module == "model.layers.0.mlp.experts"


def test_attention_that_is_written_out_and_shared_layers() -> None:
    gemma = transformers.Gemma2Config(
        **SMALL, head_dim=16, num_key_value_heads=2, intermediate_size=128
    )
    found = extract(*build_model(gemma, batch=2, sequence=8))
    assert "softmax" in kinds(found)
    assert "attention" not in kinds(found)
    albert = transformers.AlbertConfig(**SMALL, embedding_size=32, intermediate_size=128)
    notes = extract(*build_model(albert, batch=2, sequence=8)).report["notes"]
    assert any("runs 3 times on the same weights" in note for note in notes)


def test_encoder_with_decoder_is_refused() -> None:
    with pytest.raises(InputError, match="encoder with a decoder"):
        build_model(transformers.T5Config(), batch=2, sequence=8)


def test_notes_speak_of_all_layers_at_once() -> None:
    module, inputs = build_model(CONFIGURATIONS["gpt2"](), batch=2, sequence=8)
    notes = extract(module, inputs).report["notes"]
    assert [note.partition(":")[0] for note in notes if "gelu" in note] == [
        "transformer.h.*.mlp.act"
    ]


def test_tied_output_layer_and_positions_of_gpt2() -> None:
    module, inputs = build_model(CONFIGURATIONS["gpt2"](), batch=2, sequence=8)
    by_name = operators(extract(module, inputs))
    assert [p["name"] for p in by_name["transformer.wte"]["parameters"]] == ["weight", "positions"]
    assert by_name["lm_head"]["parameters"][0]["tied_to"] == "transformer.wte"


def bert_layer(attention: str) -> tuple[Any, Any]:
    from transformers.models.bert.modeling_bert import BertLayer

    config = transformers.BertConfig(
        hidden_size=1024, num_attention_heads=16, intermediate_size=4096, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    config._attn_implementation = attention
    return BertLayer(config), (torch.zeros(8, 512, 1024),)


@pytest.mark.parametrize(("attention", "flash"), [("eager", False), ("sdpa", True)])
def test_layer_of_bert_large_agrees_with_the_planners_own(attention: str, flash: bool) -> None:
    """24 units of 16 MiB and the statistics of two norms: 384.06 MiB, as measured before."""
    module, inputs = build_fake(lambda: bert_layer(attention))
    totals = extract(module, inputs).report["totals"]
    own = planners_layer(flash)
    assert totals["parameter_bytes"] == own["parameter_bytes"]
    assert totals["saved_bytes"] == own["saved_bytes"]
    assert totals["forward_flops"] == own["product_flops"]
    if not flash:
        assert totals["saved_bytes"] / 2**20 == 384.0625


def planners_layer(flash: bool) -> dict[str, int]:
    """Bytes of weights, bytes kept (each tensor once, views not at all) and FLOPs of products."""
    training = {"precision": "fp32", "flash_attention": flash}
    transformer = {"preset": "BERT-Large", "batch": 8, "sequence": 512}
    body = {"transformer": transformer, "devices": 1, "training": training}
    graph = resolve_request(body).resolved.graph
    kept: dict[str, int] = {}
    views: dict[str, str] = {}
    found = {"parameter_bytes": 0, "product_flops": 0, "saved_bytes": 0}
    for operator in graph.operators:
        rule = rules_of(operator, graph, RuleOptions())[0]
        tensors = [*graph.inputs_of(operator), *graph.outputs_of(operator)]
        for tensor, own in zip(tensors, [*rule.inputs, *rule.outputs], strict=True):
            if getattr(own, "is_view", False):
                views[tensor.name] = views.get(operator.inputs[0], operator.inputs[0])
            if own.saved:
                kept[views.get(tensor.name, tensor.name)] = tensor.size_bytes
        found["saved_bytes"] += sum(4 * extra.elements for extra in rule.extras)
        found["parameter_bytes"] += sum(4 * p.elements for p in operator.parameters)
        if operator.kind in ("linear", "matmul", "attention"):
            found["product_flops"] += rule.flops
    found["saved_bytes"] += sum(kept.values())
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (
            lambda: transformers.LlamaConfig(
                hidden_size=4096, num_hidden_layers=32, num_attention_heads=32,
                num_key_value_heads=8, intermediate_size=14336, vocab_size=128256,
            ),
            8_030_261_248,
        ),
        (lambda: transformers.MixtralConfig(num_hidden_layers=32), 46_702_792_704),
        (lambda: transformers.GPT2Config(n_embd=1600, n_layer=48, n_head=25), 1_557_611_200),
        (
            lambda: transformers.BertConfig(
                hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
                intermediate_size=4096,
            ),
            335_174_458,
        ),
    ],
    ids=["Llama-3-8B", "Mixtral-8x7B", "GPT-2-XL", "BERT-Large"],
)  # fmt: skip
@pytest.mark.timeout(600)
def test_full_size_takes_no_memory_for_weights(config: Any, parameters: int) -> None:
    module, inputs = build_model(config(), batch=8, sequence=512)
    found = extract(module, inputs)
    assert found.report["totals"]["parameters"] == parameters
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1_500_000
    assert document(found.request(devices=8))["certificate"]["verified"]
