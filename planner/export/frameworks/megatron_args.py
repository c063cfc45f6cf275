"""A plan as arguments of Megatron-LM's training scripts, in a shell array to be sourced."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from planner.cost.model import Norm, NormPlacement, PositionEmbeddings
from planner.cost.training import Recomputation
from planner.export.format import Document, Format, Source
from planner.export.frameworks.common import (
    Feature,
    comment,
    described,
    header,
    hindrance_of,
    plan_of,
    unsaid,
)
from planner.export.run_shape import Run, RunShape

ARRAY = "LOADMASTER_ARGS"
SAID = {
    Feature.LAYERS,
    Feature.SEQUENCE_PARALLEL,
    Feature.RECOMPUTATION,
    Feature.OPTIMIZER,
    Feature.GRADIENT_PRECISION,
    Feature.ATTENTION,
    Feature.MODEL,
}
OFFLOAD_MODULES = ("attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm")
EXPERT_MODULES = ("expert_fc1", "moe_act")
SHARDING = {2: "optim_grads", 3: "optim_grads_params"}
"""Of Megatron's FSDP, by ZeRO stage."""
Arguments = Iterator[str]


def write(_: Document, source: Source) -> str:
    """The script, which is sourced: its array goes after the training script's name."""
    shape, run = described(source)
    arguments = [
        *_parallel(shape, run),
        *_model(run),
        *_training(run),
        *_memory(shape, run),
    ]
    lines = "".join(f"  {argument}\n" for argument in arguments)
    use = f'Use: source this file, then torchrun … pretrain_gpt.py "${{{ARRAY}[@]}}" --data-path …'
    return (
        header(MEGATRON_ARGS, shape, run, source, _left_out(shape, run))
        + comment([use])
        + "".join(f"export {setting}\n" for setting in _environment(shape, run))
        + f"{ARRAY}=(\n{lines})\n"
    )


def hindrance(shape: RunShape, run: Run) -> str | None:
    """Why Megatron-LM cannot run a plan."""
    pipeline, chunks = shape.pipeline_parallel, shape.interleaving or 1
    if chunks > 1 and shape.micro_batches % pipeline:
        return (
            f"Megatron-LM's interleaved schedule needs a multiple of {pipeline} micro-batches, and "
            f"the plan has {shape.micro_batches}: plan with interleaving: 1, or with another batch."
        )
    if run.training.zero_stage > 1 and shape.has_offloads:
        return (
            "Megatron-LM's FSDP, which ZeRO stages 2 and 3 need, offloads no activations: plan "
            "with zero_stage 0 or 1, or with training.offload: false."
        )
    if shape.has_offloads and run.training.recomputation is Recomputation.FULL:
        return (
            "Megatron-LM does not offload activations beside full recomputation: plan with "
            "recomputation none or selective, or with training.offload: false."
        )
    return None


def layout(run: Run) -> str:
    """Layers of the stages in Megatron's notation: E embedding, t a layer, L the loss."""
    stages = ["t" if layers == 1 else f"t*{layers}" for layers in run.layers_per_stage]
    return f"E{'|'.join(stages)}L"


def _environment(shape: RunShape, run: Run) -> Iterator[str]:
    degrees = run.training.degrees
    if run.training.zero_stage < 2 and (degrees.tensor > 1 or degrees.context > 1):
        # Communication is queued before the computation that it is to overlap with.
        yield "CUDA_DEVICE_MAX_CONNECTIONS=1"
    if shape.has_offloads:
        yield "NVTE_CPU_OFFLOAD_V1=1"


def _parallel(shape: RunShape, run: Run) -> Arguments:
    degrees = run.training.degrees
    yield f"--tensor-model-parallel-size {degrees.tensor}"
    yield f"--pipeline-model-parallel-size {degrees.pipeline}"
    yield f"--context-parallel-size {degrees.context}"
    if run.model.has_router:
        yield f"--expert-model-parallel-size {degrees.expert}"
        yield f"--expert-tensor-parallel-size {degrees.tensor}"
    if run.training.sequence_parallel:
        yield "--sequence-parallel"
    if shape.pipeline_parallel > 1:
        yield f"--pipeline-model-parallel-layout {shlex.quote(layout(run))}"
    yield f"--micro-batch-size {run.training.micro_batch_size}"
    yield f"--global-batch-size {run.training.global_batch_size}"


def _model(run: Run) -> Arguments:
    model, sequence = run.model, run.training.sequence
    yield f"--num-layers {model.layers}"
    yield f"--hidden-size {model.hidden_size}"
    yield f"--num-attention-heads {model.heads}"
    yield f"--kv-channels {model.head_dim}"
    if model.kv_heads != model.heads:
        yield f"--group-query-attention --num-query-groups {model.kv_heads}"
    yield f"--ffn-hidden-size {model.ffn_hidden_size}"
    if model.gated:
        yield "--swiglu"
    if model.has_router:
        yield f"--num-experts {model.experts} --moe-router-topk {model.experts_per_token}"
        yield f"--moe-ffn-hidden-size {model.ffn_hidden_size}"
    yield f"--seq-length {sequence}"
    yield f"--max-position-embeddings {model.max_positions or sequence}"
    yield f"--vocab-size {model.vocabulary}"
    yield f"--normalization {'RMSNorm' if model.norm is Norm.RMSNORM else 'LayerNorm'}"
    yield f"--position-embedding-type {POSITIONS[model.position_embeddings]}"
    if not model.biases:
        yield "--disable-bias-linear"
        if model.qkv_bias:
            yield "--add-qkv-bias"
    if model.qk_norm:
        yield "--qk-layernorm"
    if not model.tied_embeddings:
        yield "--untie-embeddings-and-output-weights"
    if not model.dropout:
        yield "--attention-dropout 0 --hidden-dropout 0"


POSITIONS = {
    PositionEmbeddings.ROTARY: "rope",
    PositionEmbeddings.LEARNED: "learned_absolute",
    PositionEmbeddings.NONE: "none",
}


def _training(run: Run) -> Arguments:
    training = run.training
    if training.precision != "fp32":
        yield f"--{training.precision}"
        if training.gradient_precision == "fp32":
            yield "--accumulate-allreduce-grads-in-fp32"
        else:
            yield "--grad-reduce-in-bf16"
    yield f"--attention-backend {'flash' if training.flash_attention else 'unfused'}"
    if training.optimizer == "adam":
        yield "--optimizer adam"
    else:
        yield f"--optimizer sgd --sgd-momentum {0.9 if training.optimizer == 'sgd_momentum' else 0}"


def _memory(shape: RunShape, run: Run) -> Arguments:
    training = run.training
    if training.zero_stage > 0:
        yield "--use-distributed-optimizer"
    if training.zero_stage > 1:
        yield "--use-megatron-fsdp --ckpt-format fsdp_dtensor"
        yield f"--data-parallel-sharding-strategy {SHARDING[training.zero_stage]}"
    if training.recomputation is Recomputation.FULL:
        yield "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
    if training.recomputation is Recomputation.SELECTIVE:
        yield "--recompute-granularity selective --recompute-modules core_attn"
    if shape.has_offloads:
        modules = (*OFFLOAD_MODULES, *(EXPERT_MODULES if run.model.has_router else ()))
        yield "--transformer-impl transformer_engine --fine-grained-activation-offloading"
        yield f"--offload-modules {' '.join(modules)}"
        yield f"--activation-offload-fraction {shape.offload_share:.4f}"


def _left_out(shape: RunShape, run: Run) -> list[str]:
    training, model = run.training, run.model
    sentences = unsaid(shape, run, SAID | {Feature.OFFLOADS})
    if shape.has_offloads:
        sentences.append(
            "Which micro-batches of which stages are offloaded, and when: Megatron-LM offloads the "
            f"first {shape.offload_share:.0%} of the modules of each, the share of the rank that "
            "offloads most."
        )
    if training.offload_choice.compression != "none" and shape.has_offloads:
        sentences.append(f"Compressed offloads ({training.offload_choice.compression}).")
    if training.gradient_precision == "same" and training.precision == "fp16":
        sentences.append("Gradients that add up in fp16: they do in bf16.")
    if not model.causal:
        sentences.append("That the model is an encoder: take pretrain_bert.py.")
    if model.norm_placement is NormPlacement.POST:
        sentences.append("Normalisation after each block.")
    if model.token_types or model.pooler:
        sentences.append("Token types and pooler: pretrain_bert.py has them.")
    if training.degrees.expert > 1:
        sentences.append("Which expert is on which rank: Megatron-LM keeps them in order.")
    return sentences


MEGATRON_ARGS = Format(
    name="megatron-args",
    title="Arguments for Megatron-LM (shell)",
    media_type="text/x-shellscript; charset=utf-8",
    extension="megatron.sh",
    carries="Model, degrees, layers of each stage, batch, precision, optimizer and its sharding, "
    "recomputation, and how much is offloaded.",
    leaves_out="The schedule: Megatron-LM runs its own 1F1B or interleaved one. Data, tokenizer "
    "and learning rate. What of the plan it cannot say is listed in it.",
    written_for="Megatron-LM at d98e8a64dd (2026, megatron-core 0.19)",
    part=plan_of,
    hindrance=hindrance_of(hindrance),
    write=write,
)
