"""Which modules of a network the operators of a sharding plan are, and how each is split.

The operators of a `transformer` are called as in Hugging Face's classes of the same shape: Llama
and Mixtral where the feed-forward is gated, BERT where tokens attend to all, OPT otherwise. Those
of a posted `graph` are called as they are there, which `client.torch_extract` makes the paths of
the modules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from planner.cost.model import Model
from planner.errors import SpecError
from planner.export.format import Document, Source
from planner.export.run_shape import NOT_KEPT, READ_OTHERWISE
from planner.sharding.folding import layer_operators
from planner.sharding.graph import Graph, Operator
from planner.sharding.operators.registry import rules_of
from planner.sharding.request import resolve_request
from planner.sharding.settings import rule_options
from planner.sharding.spec import ShardingSpec
from planner.sharding.strategies import Strategy, strategies_of
from planner.sharding.transformer.request import read_transformer

STAGES_DIFFER = (
    "The plan's stages are split differently, and the file is about one group of devices: plan "
    "each stage by itself, with stages: 1."
)
MODULE_KINDS = ("linear", "embedding", "layer_norm", "rms_norm")
"""Operators that are a module each, with the weights of that module."""
ANY_LAYER = "*"
_USUAL_CLASSES = {"linear": "nn.Linear", "embedding": "nn.Embedding"}

_LLAMA = {
    "embedding": ("model.embed_tokens",),
    "ln1": ("model.layers.*.input_layernorm",),
    "qkv": tuple(f"model.layers.*.self_attn.{part}_proj" for part in "qkv"),
    "proj": ("model.layers.*.self_attn.o_proj",),
    "ln2": ("model.layers.*.post_attention_layernorm",),
    "fc1": ("model.layers.*.mlp.gate_proj", "model.layers.*.mlp.up_proj"),
    "fc2": ("model.layers.*.mlp.down_proj",),
    "final_norm": ("model.norm",),
    "head": ("lm_head",),
}
_BERT = {
    "embedding": ("bert.embeddings.word_embeddings",),
    "embedding_norm": ("bert.embeddings.LayerNorm",),
    "qkv": tuple(
        f"bert.encoder.layer.*.attention.self.{part}" for part in ("query", "key", "value")
    ),
    "proj": ("bert.encoder.layer.*.attention.output.dense",),
    "ln1": ("bert.encoder.layer.*.attention.output.LayerNorm",),
    "fc1": ("bert.encoder.layer.*.intermediate.dense",),
    "fc2": ("bert.encoder.layer.*.output.dense",),
    "ln2": ("bert.encoder.layer.*.output.LayerNorm",),
    "head": ("cls.predictions.decoder",),
}
_OPT = {
    "embedding": ("model.decoder.embed_tokens",),
    "ln1": ("model.decoder.layers.*.self_attn_layer_norm",),
    "qkv": tuple(f"model.decoder.layers.*.self_attn.{part}_proj" for part in "qkv"),
    "proj": ("model.decoder.layers.*.self_attn.out_proj",),
    "ln2": ("model.decoder.layers.*.final_layer_norm",),
    "fc1": ("model.decoder.layers.*.fc1",),
    "fc2": ("model.decoder.layers.*.fc2",),
    "final_norm": ("model.decoder.final_layer_norm",),
    "head": ("lm_head",),
}


@dataclass(frozen=True)
class SplitOperator:
    """An operator with its strategy. `name` is the plan's; `paths` are the modules that it is,
    with `*` for the number of any layer, and none where it is no module. `layer` is the number of
    its layer, where the plan has one operator for each."""

    name: str
    operator: Operator
    strategy: Strategy
    paths: tuple[str, ...]
    layer: str | None = None

    @property
    def in_words(self) -> str:
        """Such as ``proj (linear, d1-r4-c1)``, and why it is no module that can be split."""
        own_class = self.operator.attributes.get("module_class")
        usual = _USUAL_CLASSES.get(self.operator.kind)
        reason = "" if own_class is None else f", of a {own_class}, which is no {usual}"
        return f"{self.name} ({self.operator.kind}, {self.strategy.name}{reason})"


@dataclass(frozen=True)
class ShardedGraph:
    """The graph of a plan with the strategy of each operator, of one group of `devices`."""

    graph: Graph
    devices: int
    operators: tuple[SplitOperator, ...]
    is_transformer: bool
    fixed_heads: bool = False
    """Whether the class of that shape has the number of all heads in its program, so OPT's."""

    @property
    def modules(self) -> tuple[SplitOperator, ...]:
        """Operators that are modules."""
        return tuple(own for own in self.operators if own.paths)

    @property
    def others(self) -> tuple[SplitOperator, ...]:
        """Operators that are none and that are split (inputs of the graph are not listed)."""
        return tuple(
            own for own in self.operators if not own.paths and own.operator.kind != "input"
        )

    @cached_property
    def _modules_by_tensor(self) -> Mapping[str, frozenset[str]]:
        """By tensor, the names of the module operators that it comes from without others between
        them."""
        found: dict[str, frozenset[str]] = {}
        names = {own.operator.name for own in self.modules}
        for operator in self.graph.operators:
            before = (found[tensor] for tensor in operator.inputs if tensor in found)
            sources = {operator.name} if operator.name in names else frozenset().union(*before)
            found |= dict.fromkeys(operator.outputs, frozenset(sources))
        return found

    def before(self, own: SplitOperator) -> list[SplitOperator]:
        """The modules whose outputs an operator reads, directly or through other operators."""
        names = frozenset().union(*(self._modules_by_tensor[t] for t in own.operator.inputs))
        return [other for other in self.modules if other.operator.name in names]


def with_plan(answer: Document) -> Document | None:
    """The answer, if it has a plan: nothing may fit."""
    return answer if "plan" in answer or "stages" in answer else None


def hindrance(_: Document, source: Source) -> str | None:
    """Why it is not known which modules a plan splits."""
    if source.request is None:
        return NOT_KEPT
    if len({_strategies(stage) for stage in _stages(source.answer)}) > 1:
        return STAGES_DIFFER
    try:
        sharded(source)
    except (SpecError, KeyError):
        return READ_OTHERWISE
    return None


def sharded(source: Source) -> ShardedGraph:
    """The plan with its graph, which the request says; `hindrance` has made sure that it does."""
    assert source.request is not None
    body = {name: value for name, value in source.request.items() if name in _ASKED}
    spec = resolve_request(body).resolved
    devices = spec.devices.count // spec.stages
    rows = _stages(source.answer)[0]["plan"]["operators"]
    graph = spec.graph
    by_name = {operator.name: operator for operator in graph.operators}
    in_layer = {graph.operators[number].name for number in layer_operators(graph)}
    model = _model_of(spec, body)
    operators = []
    for row in rows:
        layer, name = _layer_of(row["name"], by_name)
        operator = by_name[name]
        number = layer or (ANY_LAYER if model is not None or name in in_layer else None)
        operators.append(
            SplitOperator(
                row["name"],
                operator,
                _strategy(row["strategy"], operator, spec, devices),
                _paths(operator, model, number),
                layer,
            )
        )
    is_opt = model is not None and _names(model) is _OPT
    return ShardedGraph(graph, devices, tuple(operators), model is not None, is_opt)


_ASKED = ("graph", "transformer", "devices", "training", "stages", "device_memory_bytes")
"""What of a request says which operators there are and how they can be split."""


def _stages(answer: Document) -> Sequence[Document]:
    stages: Sequence[Document] = answer.get("stages") or [answer]
    return stages


def _strategies(stage: Document) -> tuple[tuple[str, str], ...]:
    return tuple((row["name"], row["strategy"]) for row in stage["plan"]["operators"])


def _model_of(spec: ShardingSpec, body: Mapping[str, Any]) -> Model | None:
    if body.get("transformer") is None:
        return None
    return read_transformer(body["transformer"], spec.training, spec.devices.count).model


def _strategy(name: str, operator: Operator, spec: ShardingSpec, devices: int) -> Strategy:
    rules = rules_of(operator, spec.graph, rule_options(spec))
    return {own.name: own for own in strategies_of(rules, devices)}[name]


def _layer_of(name: str, known: Mapping[str, Operator]) -> tuple[str | None, str]:
    """An operator's layer, where the plan has one for each, and its name in the graph."""
    if name in known:
        return None, name
    layer, _, own = name.partition(".")
    return layer.removeprefix("layer"), own


def _paths(operator: Operator, model: Model | None, layer: str | None) -> tuple[str, ...]:
    if operator.kind not in MODULE_KINDS or "module_class" in operator.attributes:
        return ()
    if model is not None:
        named = _names(model).get(operator.name, ())
        return tuple(path.replace(ANY_LAYER, layer or ANY_LAYER) for path in named)
    # A module's further calls are operators of their own, with the number of the call behind it.
    path = operator.name.partition("@")[0]
    if layer is None:
        return (path,)
    # The graph's one layer has the number of the first layer that is like it.
    return (re.sub(r"(?<![^.])\d+(?![^.])", layer, path, count=1),)


def _names(model: Model) -> Mapping[str, tuple[str, ...]]:
    if model.gated:
        return _LLAMA
    return _OPT if model.causal else _BERT
