"""What ATen's operators are called in a trace, and what of their arguments matters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from client.operator_graph.trace import Shape, Value

SAME = "same"
"""The operation of a node whose output is its input: nothing happens."""

ELEMENTWISE = frozenset(
    {
        "abs", "add", "clamp", "cos", "div", "elu", "erf", "exp", "gelu", "hardtanh", "leaky_relu",
        "log", "log1p", "maximum", "minimum", "mish", "mul", "neg", "pow", "relu", "rsqrt",
        "sigmoid", "silu", "sin", "softplus", "sqrt", "square", "sub", "tanh", "where",
    }
)  # fmt: skip
OTHER_NAMES = {
    "rsub": "sub", "true_divide": "div", "reciprocal": "pow", "masked_fill": "where",
    "relu6": "hardtanh", "hardswish": "silu", "swish": "silu",
}  # fmt: skip
RESHAPES = frozenset(
    {"view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze"}
)
CASTS = frozenset({"to", "_to_copy", "type_as", "float", "double", "half", "bfloat16"})
COPIES = frozenset({"contiguous", "clone", "alias", "detach", "lift_fresh", "lift_fresh_copy"})
SPLITS = frozenset({"split", "split_with_sizes", "chunk", "unbind", "tensor_split"})
SLICES = frozenset({"slice", "select", "narrow"})
IGNORED = frozenset({"_assert_tensor_metadata", "_assert_scalar", "sym_constrain_range_for_size"})


@dataclass
class Reading:
    """One node as it enters the trace."""

    operation: str
    inputs: Sequence[Value]
    settings: dict[str, Any] = field(default_factory=dict)


Arguments = Mapping[str, Any]
Reader = Callable[[Arguments, Sequence[Any]], Reading]


def read_node(name: str, arguments: Arguments, results: Sequence[Any]) -> Reading:
    """The operation, inputs and settings of an ATen operator called `name`.

    `arguments` are by the names of its schema, with `Value` for tensors; `results` are the tensors
    that came out. What is not known keeps its name, and all its tensors are inputs.
    """
    plain = name.removesuffix("_") if not name.startswith("_") else name
    plain = OTHER_NAMES.get(plain, plain)
    if plain in READERS:
        return READERS[plain](arguments, results)
    if plain in RESHAPES:
        return _shaped("reshape", arguments, results)
    if plain in CASTS:
        return _cast(arguments, results)
    if plain in COPIES:
        return Reading("copy", tensors(arguments))
    if plain in SPLITS:
        return _split(arguments, results, plain == "unbind")
    if plain in SLICES:
        return Reading("slice", tensors(arguments))
    return Reading(plain, tensors(arguments))


def tensors(arguments: Any) -> list[Value]:
    """All tensors in arguments, those in lists too."""
    if isinstance(arguments, Value):
        return [arguments]
    if isinstance(arguments, Mapping):
        arguments = list(arguments.values())
    if isinstance(arguments, list | tuple):
        return [value for each in arguments for value in tensors(each)]
    return []


def _shaped(operation: str, arguments: Arguments, results: Sequence[Any]) -> Reading:
    x, shape = tensors(arguments)[0], tuple(results[0].shape)
    if shape == x.shape:
        return Reading(SAME, [x])
    sizes = next((arguments[name] for name in ("size", "shape") if name in arguments), None)
    fixed = sizes is not None and _fixes_features(list(sizes), x.shape, shape)
    return Reading(operation, [x], {"fixed_sizes": True} if fixed else {})


def _fixes_features(sizes: Sequence[Any], source: Shape, shape: Shape) -> bool:
    """Whether a program that has features as other dimensions says how many there are, instead of
    -1, and so cannot have a part of them."""
    if source[-1:] == shape[-1:]:
        return False
    features = len(shape) - 1
    if len(shape) > len(source):
        before = math.prod(source[:-1])
        features = next((d for d in range(len(shape)) if math.prod(shape[:d]) == before), features)
    return bool(sizes[features] != -1)


def _cast(arguments: Arguments, results: Sequence[Any]) -> Reading:
    return Reading("cast", tensors(arguments)[:1])


def _split(arguments: Arguments, results: Sequence[Any], removes: bool) -> Reading:
    x = tensors(arguments)[0]
    dimension = arguments.get("dim", 0) % max(len(x.shape), 1)
    last = dimension == len(x.shape) - 1 and not removes
    sizes = "split_size" in arguments or "split_sizes" in arguments
    return Reading("split", [x], {"last": last} | ({"fixed_sizes": True} if sizes else {}))


def _expand(arguments: Arguments, results: Sequence[Any]) -> Reading:
    x = tensors(arguments)[0]
    shape = tuple(results[0].shape)
    if shape == x.shape:
        return Reading(SAME, [x])
    return Reading("reshape" if math.prod(shape) == math.prod(x.shape) else "expand", [x])


def _swap(first: str, second: str) -> Reader:
    def read(arguments: Arguments, results: Sequence[Any]) -> Reading:
        x = tensors(arguments)[0]
        order = list(range(len(x.shape)))
        a = arguments.get(first, 0)
        b = arguments.get(second, 1)
        if order:
            order[a], order[b] = order[b], order[a]
        return _transposed(x, order)

    return read


def _permute(arguments: Arguments, results: Sequence[Any]) -> Reading:
    x = tensors(arguments)[0]
    return _transposed(x, [each % len(x.shape) for each in arguments["dims"]])


def _last_two(arguments: Arguments, results: Sequence[Any]) -> Reading:
    x = tensors(arguments)[0]
    order = list(range(len(x.shape)))
    order[-2:] = order[:-3:-1]
    return _transposed(x, order)


def _transposed(x: Value, order: list[int]) -> Reading:
    if order == sorted(order):
        return Reading(SAME, [x])
    return Reading("transpose", [x], {"order": tuple(order)})


def _linear(arguments: Arguments, results: Sequence[Any]) -> Reading:
    x, weight, bias = arguments["input"], arguments["weight"], arguments.get("bias")
    inputs = [x, weight] if bias is None else [x, weight, bias]
    if not weight.is_parameter or len(weight.shape) != 2:
        return Reading("linear_of_activations", inputs)
    return Reading("linear", inputs, {"layout": "out_in"})


def _addmm(arguments: Arguments, results: Sequence[Any]) -> Reading:
    bias, x, weight = arguments["self"], arguments["mat1"], arguments["mat2"]
    if not weight.is_parameter or not bias.is_parameter or len(bias.shape) != 1:
        return Reading("addmm", [bias, x, weight])
    return Reading("linear", [x, weight, bias], {"layout": "in_out"})


def _matmul(arguments: Arguments, results: Sequence[Any]) -> Reading:
    a, b = tensors(arguments)[:2]
    if b.is_parameter and len(b.shape) == 2 and len(a.shape) >= 2:
        return Reading("linear", [a, b], {"layout": "in_out"})
    same_batch = len(a.shape) == len(b.shape) >= 2 and not (a.is_parameter or b.is_parameter)
    return Reading("matmul" if same_batch else "matmul_broadcast", [a, b])


def _attention(arguments: Arguments, results: Sequence[Any]) -> Reading:
    q, k, v = arguments["query"], arguments["key"], arguments["value"]
    mask = arguments.get("attn_mask")
    if mask is not None and mask.has_gradient:
        return Reading("attention_with_bias", [q, k, v, mask])
    if len(q.shape) != 4 or len(k.shape) != 4:
        return Reading("scaled_dot_product_attention", [q, k, v])
    settings = {"causal": bool(arguments.get("is_causal", False)), "masked": mask is not None}
    return Reading("attention", [q, k, v], settings)


def _softmax(arguments: Arguments, results: Sequence[Any]) -> Reading:
    x = tensors(arguments)[0]
    last = arguments.get("dim", -1) % max(len(x.shape), 1) == len(x.shape) - 1
    return Reading("softmax" if last else "softmax_over_another_dimension", [x])


def _norm(kind: str) -> Reader:
    def read(arguments: Arguments, results: Sequence[Any]) -> Reading:
        given = (arguments["input"], arguments.get("weight"), arguments.get("bias"))
        inputs = [value for value in given if value is not None]
        single = len(arguments["normalized_shape"]) == 1
        return Reading(kind if single else f"{kind}_over_several_dimensions", inputs)

    return read


def _dropout(arguments: Arguments, results: Sequence[Any]) -> Reading:
    x = tensors(arguments)[0]
    works = arguments.get("train", True) and arguments.get("p", 0.5) > 0
    return Reading("dropout", [x], {"p": arguments.get("p", 0.5)}) if works else Reading(SAME, [x])


def _reduction(name: str) -> Reader:
    def read(arguments: Arguments, results: Sequence[Any]) -> Reading:
        x = tensors(arguments)[0]
        dimensions = arguments.get("dim")
        given = [dimensions] if isinstance(dimensions, int) else list(dimensions or [])
        last = [each % max(len(x.shape), 1) for each in given] == [len(x.shape) - 1]
        return Reading(name, [x], {"last": last})

    return read


def _embedding(arguments: Arguments, results: Sequence[Any]) -> Reading:
    weight, numbers = arguments["weight"], arguments["indices"]
    return Reading("embedding" if weight.is_parameter else "lookup", [numbers, weight])


def _cross_entropy(arguments: Arguments, results: Sequence[Any]) -> Reading:
    logits, targets = arguments["self"], arguments["target"]
    whole = targets.dtype.startswith("int") and logits.shape[:-1] == targets.shape
    known = whole and arguments.get("weight") is None and len(logits.shape) == 2
    return Reading("cross_entropy" if known else "cross_entropy_loss", [logits, targets])


def _conv(arguments: Arguments, results: Sequence[Any]) -> Reading:
    given = (arguments["input"], arguments["weight"], arguments.get("bias"))
    inputs = [value for value in given if value is not None]
    known = inputs[1].is_parameter and not arguments.get("transposed", False)
    return Reading(
        "conv" if known else "convolution", inputs, {"groups": arguments.get("groups", 1)}
    )


def _grouped(arguments: Arguments, results: Sequence[Any]) -> Reading:
    return Reading("grouped_matmul", tensors(arguments)[:2])


READERS: Mapping[str, Reader] = {
    "linear": _linear,
    "addmm": _addmm,
    "mm": _matmul,
    "bmm": _matmul,
    "matmul": _matmul,
    "scaled_dot_product_attention": _attention,
    "softmax": _softmax,
    "_softmax": _softmax,
    "layer_norm": _norm("layer_norm"),
    "rms_norm": _norm("rms_norm"),
    "dropout": _dropout,
    "mean": _reduction("mean"),
    "sum": _reduction("sum"),
    "var": _reduction("var"),
    "embedding": _embedding,
    "cross_entropy_loss": _cross_entropy,
    "conv1d": _conv,
    "conv2d": _conv,
    "conv3d": _conv,
    "convolution": _conv,
    "expand": _expand,
    "expand_as": _expand,
    "transpose": _swap("dim0", "dim1"),
    "swapaxes": _swap("axis0", "axis1"),
    "t": _swap("", ""),
    "permute": _permute,
    "mT": _last_two,
    "_grouped_mm": _grouped,
    "grouped_mm": _grouped,
    # transformers' own where PyTorch has no kernel for the dtype.
    "grouped_mm_fallback": _grouped,
}
