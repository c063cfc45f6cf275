"""What all configurations of frameworks share: which answers have one, what they begin with, and
what of a plan they may have to leave unsaid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from textwrap import wrap

from planner.cost.degrees import in_words
from planner.cost.model import Model, Norm, NormPlacement, PositionEmbeddings
from planner.export.format import Document, Format, Source
from planner.export.run_shape import Arrangement, Run, RunShape, run_shape
from planner.export.torch_csv.write import TORCH_CSV

LINE = 96
TORCHRUN = "torchrun --nnodes {nodes} --nproc-per-node {gpus}"
NEEDS_OFFLOADS = (
    "The plan offloads activations, which {framework} does not do by micro-batch, and without that "
    "it would not fit: plan with training.offload: false, or run it as torch-schedule with "
    "client.torch_runner."
)


class Feature(Enum):
    """What a plan may have that a framework may not. The value is the sentence for those that do
    not."""

    ORDER = (
        "The order of the operations on each rank, and so the predicted step time: the framework "
        "runs a schedule of its own."
    )
    SPLIT_BACKWARD = "Weight gradients as operations of their own, later than those of the inputs."
    OFFLOADS = "Offloads of activations to host memory."
    ARRANGEMENT = (
        "Which rank has which stages: {arrangement}. The framework places stages in rounds over "
        "the ranks, whose memory then differs from the plan's."
    )
    LAYERS = "Layers of each stage: {layers}. Divide them so in the model's code."
    SEQUENCE_PARALLEL = "Sequence parallelism beside tensor parallelism: {sequence_parallel}."
    RECOMPUTATION = "Recomputation of activations: {recomputation}. Ask for it in the model's code."
    OPTIMIZER = "The optimizer: {optimizer}."
    GRADIENT_PRECISION = "Gradients add up in {gradient_precision}."
    ATTENTION = "Attention that keeps its scores (training.flash_attention: false)."
    MODEL = "The model: {model}."


def plan_of(answer: Document) -> Document | None:
    """The answer, if it has a schedule or a best training plan: nothing may fit."""
    has_plan = "schedule" in answer or (answer.get("best") or {}).get("training")
    return answer if has_plan else None


def described(source: Source) -> tuple[RunShape, Run]:
    """A plan that says its model, cluster and batch; `hindrance_of` has made sure of that."""
    shape = run_shape(source)
    assert shape.run is not None
    return shape, shape.run


def hindrance_of(
    own: Callable[[RunShape, Run], str | None],
) -> Callable[[Document, Source], str | None]:
    """A hindrance of a format that needs model, cluster and batch, and looks at them further."""

    def hindrance(_: Document, source: Source) -> str | None:
        shape = run_shape(source)
        if shape.run is None:
            return shape.undescribed
        return own(shape, shape.run)

    return hindrance


def csv_name(shape: RunShape, source: Source) -> str | None:
    """What the schedule's torch-csv is called when it is fetched, if the plan has it."""
    if shape.schedule is None or shape.has_offloads:
        return None
    answer = source.answer if source.kind == "pipeline" else source.answer["best"]["schedule"]
    if TORCH_CSV.why_not(answer, source) is not None:
        return None
    return f"loadmaster-{source.job_id}.{TORCH_CSV.extension}"


def unsaid(shape: RunShape, run: Run, said: Iterable[Feature]) -> list[str]:
    """A sentence on each feature of the plan that is not among those that a file says."""
    words = _words(shape, run)
    has = _features(shape, run)
    return [each.value.format(**words) for each in Feature if each in has and each not in set(said)]


def _features(shape: RunShape, run: Run) -> set[Feature]:
    training, pipeline = run.training, shape.pipeline_parallel
    has = {
        Feature.ORDER: shape.schedule is not None and pipeline > 1,
        Feature.SPLIT_BACKWARD: shape.has_split_backward,
        Feature.OFFLOADS: shape.has_offloads,
        Feature.ARRANGEMENT: shape.arrangement is Arrangement.V_SHAPE,
        Feature.LAYERS: pipeline > 1,
        Feature.SEQUENCE_PARALLEL: training.degrees.tensor > 1,
        Feature.RECOMPUTATION: True,
        Feature.OPTIMIZER: True,
        Feature.GRADIENT_PRECISION: training.precision != "fp32",
        Feature.ATTENTION: not training.flash_attention,
        Feature.MODEL: True,
    }
    return {feature for feature, present in has.items() if present}


def _words(shape: RunShape, run: Run) -> dict[str, str]:
    training = run.training
    same = training.precision if training.gradient_precision == "same" else "fp32"
    return {
        "arrangement": ", ".join(
            f"stage {stage} on rank {rank}" for stage, rank in enumerate(shape.device_of_stage)
        ),
        "layers": " ".join(map(str, run.layers_per_stage)),
        "sequence_parallel": "on" if training.sequence_parallel else "off",
        "recomputation": training.recomputation.value,
        "optimizer": training.optimizer.replace("_", " with "),
        "gradient_precision": same,
        "model": sizes_in_words(run.model, training.sequence),
    }


def sizes_in_words(model: Model, sequence: int) -> str:
    """The sizes by which a model is told from others."""
    parts = [
        f"{model.layers} layers",
        f"hidden size {model.hidden_size}",
        f"{model.heads} heads of {model.head_dim}",
        f"{model.kv_heads} key/value heads",
        f"feed-forward {model.ffn_hidden_size}{' (gated)' if model.gated else ''}",
        f"vocabulary {model.vocabulary}{', tied' if model.tied_embeddings else ''}",
        f"sequence {sequence}",
    ]
    if model.has_router:
        parts.append(f"{model.experts} experts, {model.experts_per_token} per token")
    if not model.causal:
        parts.append("encoder")
    if model.qk_norm:
        parts.append("queries and keys normalised")
    if model.qkv_bias and not model.biases:
        parts.append("biases of queries, keys and values")
    if model.biases == model.gated:
        parts.append("biases" if model.biases else "no biases")
    if model.norm is Norm.RMSNORM:
        parts.append("RMSNorm")
    if model.norm_placement is NormPlacement.POST:
        parts.append("normalised after each block")
    if model.position_embeddings is not PositionEmbeddings.ROTARY:
        parts.append(f"{model.position_embeddings.value} positions")
    return f"{model.name}: {', '.join(parts)}"


def header(
    own: Format,
    shape: RunShape,
    run: Run,
    source: Source,
    left: Sequence[str],
    launcher: str = TORCHRUN,
) -> str:
    """The comment that a file begins with: what it is written for, the plan, how it is started, and
    what of the plan it does not say."""
    training = run.training
    lines = [
        f"Loadmaster plan {source.job_id or '(no job)'} for {own.written_for}.",
        f"{run.gpus} x {run.cluster.gpu.name}: {in_words(training.degrees)}; "
        f"{shape.micro_batches} micro-batches of {training.micro_batch_size}, "
        f"{training.global_batch_size} samples of {training.sequence} tokens a step.",
        f"Start {run.gpus} processes"
        + (
            "."
            if run.partial_node
            else f": {launcher.format(nodes=run.nodes, gpus=run.gpus_per_node)}."
        ),
        "Ranks of a tensor group are neighbours, then those of context, data and pipeline.",
    ]
    if left:
        lines.append("Of the plan this file does not say:")
        lines += [f"- {sentence}" for sentence in left]
    return comment(lines)


def comment(lines: Iterable[str]) -> str:
    """Lines as comments, long ones wrapped. No line break of a client's text ends a comment, of
    whatever kind it is."""
    return "".join(
        f"# {part}\n"
        for line in lines
        for part in wrap(
            "".join(each if each.isprintable() else " " for each in line),
            LINE,
            subsequent_indent="  " if line.startswith("- ") else "",
            break_on_hyphens=False,
        )
    )


def module_names(
    run: Run, first: Sequence[str], layer: str, last: Sequence[str], every: Sequence[str] = ()
) -> list[list[str]]:
    """Names of the modules of each stage: `layer` with the layer's number, the embedding's in the
    first stage, the head's in the last and `every` in all."""
    names, begins = [], 0
    for stage, layers in enumerate(run.layers_per_stage):
        own = [*first] if stage == 0 else []
        own += [f"{layer}{number}" for number in range(begins, begins + layers)]
        begins += layers
        if stage == len(run.layers_per_stage) - 1:
            own += last
        names.append([*own, *every])
    return names
