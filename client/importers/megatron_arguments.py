"""From the arguments of Megatron-LM's `pretrain_gpt.py` to a request's `model` and `training`.

Names and defaults are those of `megatron/training/arguments.py`. Arguments that say nothing about
model, degrees or memory (data, learning rate, logging) are passed over.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from client.errors import InputError
from client.importers.imported import Imported

Values = Mapping[str, list[str]]

UNSAYABLE = {
    "--multi-latent-attention": "multi-head latent attention",
    "--moe-layer-freq": "layers of which only some have experts",
    "--moe-shared-expert-intermediate-size": "shared experts",
    "--mtp-num-layers": "multi-token prediction",
    "--hybrid-override-pattern": "layers of several kinds",
    "--hybrid-attention-ratio": "layers of several kinds",
    "--heterogeneous-layers-config-path": "layers of several kinds",
    "--heterogeneous-layers-config-encoded-json": "layers of several kinds",
    "--decoder-first-pipeline-num-layers": "a first stage of another size",
    "--decoder-last-pipeline-num-layers": "a last stage of another size",
    "--pipeline-model-parallel-layout": "a layout of stages",
}
"""What a document cannot say, or only after thought, by argument."""

LAYOUT_REMEDY = "Remove it, and give `training.layers_per_stage` afterwards."


def from_megatron_args(arguments: str | Sequence[str]) -> Imported:
    """The model and the training of an argument list, or of the text of a command or of a shell
    script that holds one.

    Raises `InputError` that names the argument that is missing, has a shell variable for a value,
    or says what a document cannot.
    """
    given = _Arguments(_values(_words(arguments)))
    for name, words in UNSAYABLE.items():
        if given.has(name):
            stages = "pipeline" in name
            raise InputError(
                name,
                f"means {words}, which is not imported.",
                LAYOUT_REMEDY if stages else "Write the `model` yourself, as what comes closest.",
            )
    notes = ["Add `cluster`; its GPUs decide how many data-parallel replicas there are."]
    model, training = _model(given, notes), _training(given, notes)
    return Imported({"model": model, "training": training}, notes)


@dataclass(frozen=True)
class _Arguments:
    values: Values

    def has(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str, default: str | None = None) -> str | None:
        if name not in self.values:
            return default
        found = self.values[name]
        if not found:
            raise InputError(name, "has no value.", "Give one.")
        if "$" in found[0]:
            raise InputError(
                name, f"has the shell variable {found[0]} for a value.", "Write the value itself."
            )
        return found[0]

    def number(self, name: str, default: int | None = None) -> int | None:
        value = self.text(name)
        if value is None:
            return default
        try:
            number = int(value)
        except ValueError:
            number = 0
        if number < 1:
            raise InputError(name, f"{value!r} is no positive whole number.", "Correct it.")
        return number

    def required(self, name: str, remedy: str = "Add it.") -> int:
        number = self.number(name)
        if number is None:
            raise InputError(name, "is missing.", remedy)
        return number


def _model(given: _Arguments, notes: list[str]) -> dict[str, Any]:
    gated = given.has("--swiglu")
    heads = given.required("--num-attention-heads")
    hidden = given.required("--hidden-size")
    model: dict[str, Any] = {
        "layers": given.required("--num-layers"),
        "hidden_size": hidden,
        "heads": heads,
        "ffn_hidden_size": _ffn_hidden_size(given, hidden, gated),
        "vocabulary": _vocabulary(given),
        "sequence": given.required("--seq-length"),
        "gated": gated,
        "norm": _norm(given),
        "biases": not given.has("--disable-bias-linear"),
        "tied_embeddings": not given.has("--untie-embeddings-and-output-weights"),
        "position_embeddings": _positions(given),
    }
    if given.has("--group-query-attention"):
        model["kv_heads"] = given.number("--num-query-groups", 1)
    if given.has("--kv-channels"):
        model["head_dim"] = given.number("--kv-channels")
    if given.has("--add-qkv-bias"):
        model["qkv_bias"] = True
    if given.has("--qk-layernorm"):
        model["qk_norm"] = True
    if model["position_embeddings"] == "learned":
        model["max_positions"] = given.required("--max-position-embeddings")
    if given.has("--num-experts"):
        model["experts"] = given.required("--num-experts")
        model["experts_per_token"] = given.number("--moe-router-topk", 2)
        if given.has("--moe-ffn-hidden-size"):
            model["ffn_hidden_size"] = given.required("--moe-ffn-hidden-size")
    if not gated and given.has("--squared-relu"):
        notes.append("Squared ReLU counts as the GELU of other models.")
    return model


def _ffn_hidden_size(given: _Arguments, hidden: int, gated: bool) -> int:
    """Megatron-LM's default: 4 h, or of gated layers two thirds of it in multiples of 64."""
    default = int(4 * hidden * 2 / 3 / 64) * 64 if gated else 4 * hidden
    return given.number("--ffn-hidden-size") or default


def _vocabulary(given: _Arguments) -> int:
    return given.number("--padded-vocab-size") or given.required(
        "--vocab-size", "Add it: the number of entries of the tokenizer, such as 50257 for GPT-2's."
    )


def _norm(given: _Arguments) -> str:
    name = given.text("--normalization", "LayerNorm")
    norms = {"LayerNorm": "layernorm", "RMSNorm": "rmsnorm"}
    if name not in norms:
        raise InputError("--normalization", f"{name} is not known.", f"Known: {', '.join(norms)}.")
    return norms[name]


def _positions(given: _Arguments) -> str:
    kinds = {"learned_absolute": "learned", "rope": "rotary", "yarn": "rotary", "none": "none"}
    default = "rope" if given.has("--use-rotary-position-embeddings") else "learned_absolute"
    name = given.text("--position-embedding-type", default)
    if name not in kinds:
        raise InputError(
            "--position-embedding-type", f"{name} is not known.", f"Known: {', '.join(kinds)}."
        )
    return kinds[name]


def _training(given: _Arguments, notes: list[str]) -> dict[str, Any]:
    pipeline = given.number("--pipeline-model-parallel-size", 1) or 1
    training: dict[str, Any] = {
        "micro_batch_size": given.number("--micro-batch-size", 1),
        "pipeline_parallel": pipeline,
        "precision": _precision(given),
        "gradient_precision": _gradient_precision(given),
    }
    degrees = {
        "tensor_parallel": "--tensor-model-parallel-size",
        "context_parallel": "--context-parallel-size",
        "expert_parallel": "--expert-model-parallel-size",
        "global_batch_size": "--global-batch-size",
    }
    training |= {field: given.required(name) for field, name in degrees.items() if given.has(name)}
    if "global_batch_size" not in training:
        # Megatron-LM then takes one micro-batch per replica.
        training["micro_batches"] = 1
        notes.append("There is no --global-batch-size, so each step has one micro-batch.")
    if training.get("tensor_parallel", 1) > 1:
        training["sequence_parallel"] = given.has("--sequence-parallel")
    interleaving = _interleaving(given, pipeline)
    if interleaving is not None:
        training["interleaving"] = interleaving
    optimizer = given.text("--optimizer", "adam")
    if optimizer in ("adam", "sgd"):
        training["optimizer"] = "adam" if optimizer == "adam" else "sgd_momentum"
    else:
        notes.append(f"The optimizer {optimizer} is not known: Adam's memory is taken instead.")
    if given.has("--use-distributed-optimizer"):
        training["zero_stage"] = 1
    return training | _memory_savers(given, notes)


def _precision(given: _Arguments) -> str:
    return next((name for name in ("bf16", "fp16") if given.has(f"--{name}")), "fp32")


def _gradient_precision(given: _Arguments) -> str:
    """With bf16 Megatron-LM always accumulates in fp32."""
    in_fp32 = given.has("--bf16") or given.has("--accumulate-allreduce-grads-in-fp32")
    return "fp32" if in_fp32 else "same"


def _interleaving(given: _Arguments, pipeline: int) -> int | None:
    chunks = given.number("--num-virtual-stages-per-pipeline-rank")
    per_chunk = given.number("--num-layers-per-virtual-pipeline-stage")
    if chunks is None and per_chunk is not None:
        layers = given.required("--num-layers")
        if layers % (pipeline * per_chunk):
            raise InputError(
                "--num-layers-per-virtual-pipeline-stage",
                f"{per_chunk} x {pipeline} stages do not divide {layers} layers.",
                "Correct one of them.",
            )
        chunks = layers // (pipeline * per_chunk)
    return chunks


def _memory_savers(given: _Arguments, notes: list[str]) -> dict[str, Any]:
    granularity = given.text("--recompute-granularity")
    if given.has("--recompute-activations"):
        granularity = "selective"
    savers: dict[str, Any] = {"recomputation": granularity or "none"}
    if granularity == "full" and given.has("--recompute-num-layers"):
        notes.append(
            "Full recomputation is taken for all layers: --recompute-num-layers is passed over."
        )
    if given.text("--attention-backend", "auto") == "unfused":
        savers["flash_attention"] = False
    return savers


def _words(arguments: str | Sequence[str]) -> list[str]:
    if not isinstance(arguments, str):
        return list(arguments)
    lexer = shlex.shlex(arguments.replace("\\\n", " "), posix=True, punctuation_chars="();&|<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        words = list(lexer)
    except ValueError as error:
        raise InputError("arguments", f"cannot be split into words: {error}.", "Correct it.") from (
            error
        )
    return [part for word in words for part in _parts(word)]


def _parts(word: str) -> list[str]:
    """A quoted list of arguments, as scripts hold in a variable, has several words."""
    assigned = re.sub(r"^\w+=(?=\s*--)", "", word)
    return assigned.split() if re.search(r"(^|\s)--\w", assigned) else [word]


def _values(words: Sequence[str]) -> dict[str, list[str]]:
    """The values of each argument; the last time that it is given counts, as in argparse."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for word in words:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            current = found[name] = [value] if equals else []
        elif set(word) <= set("();&|<>"):
            current = None
        elif current is not None:
            current.append(word)
    if "--num-layers" not in found:
        raise InputError(
            "--num-layers",
            "is missing.",
            "Give the arguments of Megatron-LM's pretrain_gpt.py, or a script with them.",
        )
    return found
