"""Argument lists of Megatron-LM give model and training."""

from __future__ import annotations

import pytest

from client.errors import InputError
from client.importers.megatron_arguments import from_megatron_args
from planner.cost.model import read_model
from planner.cost.parameters import count_parameters
from planner.cost.spec import read_cost_model

SCRIPT = r"""#!/bin/bash
# Trains GPT-3; it doesn't say which vocabulary the tokenizer has
GPUS=$((8*$NODES))
MODEL=(
    --num-layers 96
    --hidden-size 12288
    --num-attention-heads 96   # of 128
    --seq-length 2048
    --max-position-embeddings 2048
)
PARALLEL="--tensor-model-parallel-size 8 --pipeline-model-parallel-size 16"
DATA=(--data-path $DATA_PATH --split 949,50,1 --vocab-size 51200)
torchrun ${DISTRIBUTED[@]} pretrain_gpt.py ${MODEL[@]} $PARALLEL ${DATA[@]} \
    --micro-batch-size 1 --global-batch-size 1536 \
    --num-layers-per-virtual-pipeline-stage 3 \
    --bf16 --sequence-parallel --use-distributed-optimizer --recompute-activations
"""

LLAMA = """--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
--group-query-attention --num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192
--vocab-size 128256 --swiglu --normalization RMSNorm --disable-bias-linear
--position-embedding-type rope --untie-embeddings-and-output-weights --bf16
--micro-batch-size 1 --global-batch-size 128"""


def test_a_script_is_read_with_its_variables_arrays_and_comments() -> None:
    document = from_megatron_args(SCRIPT).document
    assert count_parameters(read_model(document["model"])) == count_parameters(
        read_model("Megatron-175B")
    )
    assert document["training"] == {
        "micro_batch_size": 1,
        "global_batch_size": 1536,
        "pipeline_parallel": 16,
        "tensor_parallel": 8,
        "sequence_parallel": True,
        "interleaving": 2,
        "precision": "bf16",
        "gradient_precision": "fp32",
        "optimizer": "adam",
        "zero_stage": 1,
        "recomputation": "selective",
    }
    costs = read_cost_model(document["model"], "48x8xA100-80GB", document["training"])
    assert costs.training.degrees.data == 3


def test_a_llama_is_the_preset() -> None:
    model = read_model(from_megatron_args(LLAMA.split()).document["model"])
    assert count_parameters(model) == count_parameters(read_model("Llama-3-8B"))
    assert model.sequence == 8192


def test_experts_and_defaults_are_those_of_megatron() -> None:
    arguments = LLAMA.replace("--ffn-hidden-size 14336", "--num-experts 8 --moe-router-topk=2")
    model = from_megatron_args(arguments + " --expert-model-parallel-size 4").document
    assert model["model"]["ffn_hidden_size"] == 10880  # two thirds of 4 x 4096, down to 64
    assert (model["model"]["experts"], model["model"]["experts_per_token"]) == (8, 2)
    assert model["training"]["expert_parallel"] == 4


@pytest.mark.parametrize(
    ("arguments", "path", "words"),
    [
        ("--hidden-size 12", "--num-layers", "is missing"),
        (LLAMA.replace("--vocab-size 128256", ""), "--vocab-size", "tokenizer"),
        (LLAMA.replace("32 --hidden", "$LAYERS --hidden"), "--num-layers", "shell variable"),
        (LLAMA + " --seq-length long", "--seq-length", "whole number"),
        (LLAMA + " --multi-latent-attention", "--multi-latent-attention", "not imported"),
        (LLAMA + " --pipeline-model-parallel-layout Et*3|L", "--pipeline-model-parallel-layout",
         "layers_per_stage"),
        (LLAMA + " --normalization Other", "--normalization", "Known"),
        (LLAMA + " --position-embedding-type relative", "--position-embedding-type", "Known"),
        (LLAMA + " --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3",
         "--num-layers-per-virtual-pipeline-stage", "divide"),
        ("--num-layers '1", "arguments", "split into words"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported_is_refused(arguments: str, path: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        from_megatron_args(arguments)
    assert refused.value.path == path
