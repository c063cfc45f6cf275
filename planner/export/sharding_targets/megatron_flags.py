"""A sharding plan as arguments of Megatron-LM, which splits all layers of a model alike."""

from __future__ import annotations

from planner.export.format import Document, Format, Source
from planner.export.frameworks.common import comment
from planner.export.sharding_targets import modules
from planner.export.sharding_targets.modules import ShardedGraph, SplitOperator, sharded, with_plan

COLUMNS, ROWS = ("qkv", "fc1"), ("proj", "fc2")
NO_TRANSFORMER = (
    "Megatron-LM has its own transformer and takes no graph: post `transformer` instead."
)


def write(_: Document, source: Source) -> str:
    """The arguments in a shell array, to be sourced."""
    plan = sharded(source)
    tensor = tensor_parallel(plan)
    arguments = [f"--tensor-model-parallel-size {tensor}"]
    if _is_sequence_parallel(plan):
        arguments.append("--sequence-parallel")
    left = [
        f"- {own.in_words}: Megatron-LM splits it in its own way."
        for own in plan.operators
        if own.operator.parameters and own.name.split(".")[-1] not in (*COLUMNS, *ROWS)
    ]
    lines = [
        f"Loadmaster plan {source.job_id} for {MEGATRON_FLAGS.written_for}: {plan.devices} "
        f"devices, of which {plan.devices // tensor} share the batch.",
        *(["Of the plan these arguments do not say:", *left] if left else []),
    ]
    # Megatron-LM asks for it beside tensor parallelism: communication is queued before the
    # computation that it is to overlap with.
    setting = "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" if tensor > 1 else ""
    body = "".join(f"  {argument}\n" for argument in arguments)
    return f"{comment(lines)}{setting}LOADMASTER_ARGS=(\n{body})\n"


def hindrance(part: Document, source: Source) -> str | None:
    """Why Megatron-LM cannot split the layers like this."""
    known = modules.hindrance(part, source)
    if known is not None:
        return known
    plan = sharded(source)
    if not plan.is_transformer:
        return NO_TRANSFORMER
    tensor = tensor_parallel(plan)
    linear = [own for own in plan.operators if own.name.split(".")[-1] in (*COLUMNS, *ROWS)]
    for own in linear:
        if not _is_megatrons(plan, own, tensor):
            return (
                f"Megatron-LM splits qkv and fc1 by columns and proj and fc2 by rows, all by as "
                f"many devices; {own.in_words} is not: pin these four to such strategies, as "
                f"baselines[0] of the result has them."
            )
    if len({own.strategy.rule.suffix for own in linear}) > 1 and tensor > 1:
        return (
            "Megatron-LM has sequence parallelism in all layers or none: plan with "
            "training.sequence_parallel: false, or pin the strategies of all four linear layers."
        )
    return None


def tensor_parallel(plan: ShardedGraph) -> int:
    """Devices that share a layer, by the columns of its first projection."""
    first = next(own for own in plan.operators if own.name.split(".")[-1] == "qkv")
    return first.strategy.degrees.column


def _is_megatrons(plan: ShardedGraph, own: SplitOperator, tensor: int) -> bool:
    is_column = own.name.split(".")[-1] in COLUMNS
    expected = (
        plan.devices // tensor,
        1 if is_column else tensor,
        tensor if is_column else 1,
    )
    return tuple(own.strategy.degrees) == expected and own.strategy.spare == 1


def _is_sequence_parallel(plan: ShardedGraph) -> bool:
    return any(own.strategy.rule.suffix and own.operator.kind == "linear" for own in plan.operators)


MEGATRON_FLAGS = Format(
    name="megatron-flags",
    title="Tensor parallelism for Megatron-LM (shell)",
    media_type="text/x-shellscript; charset=utf-8",
    extension="megatron-flags.sh",
    carries="Tensor parallel size and sequence parallelism, where all layers are split alike.",
    leaves_out="Embedding, output layer and experts, which Megatron-LM splits in its own way; what "
    "of that the plan has, is listed in it. Any other split is refused.",
    written_for="Megatron-LM at d98e8a64dd (2026, megatron-core 0.19)",
    part=with_plan,
    hindrance=hindrance,
    write=write,
)
