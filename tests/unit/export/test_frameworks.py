"""Configurations of frameworks: exact, and silent about nothing."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.errors import CannotExport
from planner.export.format import Format, Source
from planner.export.registry import FORMATS, FRAMEWORKS, export
from tests.unit.export.answers import JOB, MODEL, MOE, TRAINING, measured, pipeline, training

NAMES = [own.name for own in FRAMEWORKS]
WITH_COMMENTS = [name for name in NAMES if name != "deepspeed-json"]
ONE_RANK = {**TRAINING, "pipeline_parallel": 1, "layers_per_stage": [8]}
LOOPED = {**TRAINING, "interleaving": 2, "layers_per_stage": [2, 2, 2, 2]}


def text_of(source: Source, name: str) -> str:
    return export(source, name)[1]


def comments(source: Source, name: str) -> str:
    """The sentences of the file's head, unwrapped."""
    lines = text_of(source, name).splitlines()
    return " ".join(line.lstrip("# ") for line in lines if line.startswith("#"))


def refusal(source: Source, name: str) -> str | None:
    try:
        export(source, name)
    except CannotExport as error:
        return str(error)
    return None


@pytest.mark.parametrize("own", [*FRAMEWORKS, *FORMATS["sharding"][1:]], ids=lambda own: own.name)
def test_the_docs_have_every_format_with_its_version(own: Format) -> None:
    docs = Path(__file__).parents[3].joinpath("docs", "running-plans.md").read_text()
    (row,) = (line for line in docs.splitlines() if line.startswith(f"| `{own.name}`"))
    assert own.written_for is not None
    # A name and a version, whatever is said behind them.
    first = " ".join(own.written_for.split()[:2])
    assert first in row.replace("`", "")


@pytest.mark.parametrize("name", NAMES)
def test_both_kinds_of_plan_are_written_alike(name: str) -> None:
    assert text_of(pipeline(), name) == text_of(training(), name)


@pytest.mark.parametrize("name", WITH_COMMENTS)
def test_a_file_names_its_plan_and_the_version_it_is_written_for(name: str) -> None:
    (own,) = (own for own in FRAMEWORKS if own.name == name)
    said = comments(pipeline(), name)
    assert JOB in said
    assert own.written_for is not None
    assert own.written_for in said
    assert "--nnodes 2 --nproc-per-node 4" in said or "each of 2 nodes" in said


@pytest.mark.parametrize("name", NAMES)
def test_a_measured_problem_is_refused_with_what_to_post(name: str) -> None:
    assert "post `model`, `cluster` and `training`" in str(refusal(measured(), name))


CHANGES: list[Mapping[str, Any]] = [
    {"tensor_parallel": 1},
    {"data_parallel": 1},
    {"context_parallel": 2, "data_parallel": 1},
    {"micro_batches": 8},
    {"micro_batch_size": 2},
    {"sequence": 64},
    {"zero_stage": 0},
    {"zero_stage": 2},
    {"zero_stage": 3},
    {"recomputation": "none"},
    {"recomputation": "full"},
    {"precision": "fp32"},
    {"precision": "fp16"},
    {"gradient_precision": "same"},
    {"optimizer": "sgd"},
    {"optimizer": "sgd_momentum"},
    {"sequence_parallel": False},
    {"flash_attention": False},
    {"layers_per_stage": [3, 5]},
]
SAID_BY_THE_FORMAT = {
    "deepspeed-json": {
        "sequence",
        "optimizer",
        "sequence_parallel",
        "flash_attention",
        "layers_per_stage",
        "recomputation",
    },
}
"""Without comments a file leaves out what its format says that it leaves out."""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize("base", [TRAINING, ONE_RANK], ids=["two ranks", "one rank"])
def test_nothing_of_a_plan_is_dropped_silently(
    name: str, change: Mapping[str, Any], base: Mapping[str, Any]
) -> None:
    """Whatever a plan has shows in the file, in its head, or is refused."""
    if base is ONE_RANK and "layers_per_stage" in change:
        return
    changed = pipeline({**base, **change})
    if refusal(changed, name) is None:
        same = text_of(changed, name) == text_of(pipeline(base), name)
        assert not same or change.keys() <= SAID_BY_THE_FORMAT.get(name, set())


@pytest.mark.parametrize("name", WITH_COMMENTS)
@pytest.mark.parametrize(
    "field", ["layers", "hidden_size", "heads", "ffn_hidden_size", "vocabulary", "gated"]
)
def test_the_model_is_named_by_its_sizes(name: str, field: str) -> None:
    other = {**MODEL, field: not MODEL[field] if field == "gated" else 2 * MODEL[field]}
    open_layers = {key: value for key, value in TRAINING.items() if key != "layers_per_stage"}
    first, second = (pipeline(open_layers, model=model) for model in (MODEL, other))
    if refusal(first, name) is None and refusal(second, name) is None:
        assert text_of(first, name) != text_of(second, name)


@pytest.mark.parametrize("name", NAMES)
def test_offloads_are_refused_where_the_framework_has_none(name: str) -> None:
    for source in (pipeline(offloads=2), training(solved=False, offload_share=0.5)):
        said = refusal(source, name)
        if name == "megatron-args":
            assert said is None
            assert "--activation-offload-fraction 0.5000" in text_of(source, name)
            assert "Which micro-batches" in comments(source, name)
        else:
            assert "training.offload: false" in str(said)


def test_megatron_is_told_the_layers_of_chunks_in_rounds() -> None:
    assert "'Et*2|t*2|t*2|t*2L'" in text_of(
        pipeline(LOOPED, shape="interleaved_2"), "megatron-args"
    )
    odd = {**LOOPED, "micro_batches": 5}
    said = refusal(pipeline(odd, shape="interleaved_2"), "megatron-args")
    assert "multiple of 2 micro-batches" in str(said)


@pytest.mark.parametrize("name", ["megatron-args", "nemo-automodel-yaml", "torchtitan-toml"])
def test_a_v_shape_is_told_where_it_can_be(name: str) -> None:
    source = pipeline({**TRAINING, "interleaving": None, "layers_per_stage": None}, shape="v_shape")
    if name == "megatron-args":
        assert "stage 3 on rank 0" in comments(source, name)
    else:
        assert "zbvzerobubble" in text_of(source, name).lower()


def test_experts_are_split() -> None:
    moe = {**TRAINING, "expert_parallel": 2, "zero_stage": 0}
    source = pipeline(moe, model=MOE)
    arguments = text_of(source, "megatron-args")
    assert "--expert-model-parallel-size 2" in arguments
    assert "--num-experts 4 --moe-router-topk 2" in arguments
    settings = tomllib.loads(text_of(source, "torchtitan-toml"))["parallelism"]
    assert (settings["expert_parallel_degree"], settings["data_parallel_shard_degree"]) == (2, 2)
    assert "expert parallelism needs FSDP2" in comments(source, "torchtitan-toml")
    assert "expert_parallel: 1" in str(refusal(source, "deepspeed-json"))


def test_deepspeed_refuses_what_it_does_not_have() -> None:
    two = pipeline({**TRAINING, "zero_stage": 2})
    assert "no ZeRO stage 2 beside a pipeline" in str(refusal(two, "deepspeed-json"))
    looped = pipeline(LOOPED, shape="interleaved_2")
    assert "interleaving: 1" in str(refusal(looped, "deepspeed-json"))
    context = pipeline({**TRAINING, "context_parallel": 2, "data_parallel": 1})
    assert "context_parallel: 1" in str(refusal(context, "deepspeed-json"))
    alone = json.loads(text_of(pipeline({**ONE_RANK, "zero_stage": 3}), "deepspeed-json"))
    assert alone["zero_optimization"] == {"stage": 3}
    assert "pipeline" not in alone


def test_accelerate_refuses_what_it_does_not_have() -> None:
    uneven = pipeline({**TRAINING, "layers_per_stage": [3, 5]})
    assert "layers_per_stage all alike" in str(refusal(uneven, "accelerate-yaml"))
    replicas = pipeline({**ONE_RANK, "zero_stage": 0})
    assert "zero_stage 2 or 3" in str(refusal(replicas, "accelerate-yaml"))
    three = yaml.safe_load(text_of(pipeline({**ONE_RANK, "zero_stage": 3}), "accelerate-yaml"))
    assert three["fsdp_config"]["fsdp_reshard_after_forward"] is True
    assert three["parallelism_config"]["parallelism_config_tp_size"] == 2
    assert "gradient_accumulation_steps=4" in comments(
        pipeline({**ONE_RANK, "zero_stage": 3}), "accelerate-yaml"
    )


def test_without_a_schedule_the_framework_runs_its_own() -> None:
    source = training(solved=False)
    settings = tomllib.loads(text_of(source, "torchtitan-toml"))["parallelism"]
    assert settings["pipeline_parallel_schedule"] == "1F1B"
    assert "pipeline_parallel_schedule_csv" not in settings


def test_texts_of_clients_end_no_comment() -> None:
    """Nor do they get into a shell's, YAML's, TOML's or Python's text otherwise."""
    evil = {**MODEL, "name": "x\n[evil]\u2028evil: 1\x85evil\r\n$(evil)\"'"}
    for name in WITH_COMMENTS:
        source = pipeline(model=evil)
        for line in text_of(source, name).splitlines():
            assert "evil" not in line or line.startswith(("#", 'flavor = "REPLACE-x-evil-'))
    loaded = yaml.safe_load(text_of(pipeline(model=evil), "nemo-automodel-yaml"))
    assert loaded.keys() == {"distributed", "step_scheduler"}
    assert tomllib.loads(text_of(pipeline(model=evil), "torchtitan-toml"))["model"]


def of_model(model: Mapping[str, Any] | str, layers: int = 32) -> Source:
    halves = [layers // 2, layers // 2]
    return pipeline({**TRAINING, "layers_per_stage": halves}, model=model)


@pytest.mark.parametrize(
    ("preset", "layers", "flavor"),
    [("Llama-3-8B", 32, "8B"), ("Llama-3-70B", 80, "70B"), ("Llama-3-405B", 126, "405B")],
)
def test_llama_3_is_a_flavor_of_torchtitans(preset: str, layers: int, flavor: str) -> None:
    # A flavor trains on sequences of any length.
    for model in (preset, {"preset": preset, "sequence": 4096, "name": "ours"}):
        source = of_model(model, layers)
        assert tomllib.loads(text_of(source, "torchtitan-toml"))["model"]["flavor"] == flavor
        assert "no such model" not in comments(source, "torchtitan-toml")
        assert f"configuration of llama3 {flavor}." in comments(source, "torchtitan-config")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"vocabulary": 32000}, "vocabulary is 32000, there 128256."),
        ({"ffn_hidden_size": 11008}, "ffn_hidden_size is 11008, there 14336."),
        ({"head_dim": 256}, "head_dim is 256, there 128."),
        ({"kv_heads": 4}, "kv_heads is 4, there 8."),
        ({"tied_embeddings": True}, "tied_embeddings is True, there False."),
        ({"qk_norm": True}, "qk_norm is True, there False."),
        ({"qkv_bias": True}, "qkv_bias is True, there False."),
        ({"norm": "layernorm"}, "norm is layernorm, there rmsnorm."),
        ({"preset": "Mistral-7B"}, "vocabulary is 32000, there 128256."),
        (
            {"preset": "Mixtral-8x7B"},
            "vocabulary is 32000, there 128256; experts is 8, there 1; experts_per_token is 2, "
            "there 1.",
        ),
    ],
)
def test_a_model_that_is_nearly_a_flavor_is_not_called_so(
    changed: Mapping[str, Any], words: str
) -> None:
    source = of_model({"preset": "Llama-3-8B", "name": "8B", **changed})
    flavor = tomllib.loads(text_of(source, "torchtitan-toml"))["model"]["flavor"]
    assert flavor == "REPLACE-8B"
    for name in ("torchtitan-toml", "torchtitan-config"):
        assert f"The model is not torchtitan's llama3 8B: {words}" in comments(source, name)
        assert "The model: 8B: 32 layers" in comments(source, name)
        assert ("queries and keys normalised" in comments(source, name)) == ("qk_norm" in changed)
        assert ("biases of queries" in comments(source, name)) == ("qkv_bias" in changed)
    assert "configuration of llama3" not in comments(source, "torchtitan-config")
