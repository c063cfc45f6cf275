"""A module's forward pass as a trace: exported, then carried out once on fake tensors.

Export says which operators run, on what shapes and for which module; the fake pass says which
outputs are views and what autograd keeps for the backward. Neither allocates a tensor.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Interpreter, Node

from client.operator_graph.trace import Step, Trace, Value
from client.torch_extract.aten import IGNORED, SAME, Reading, read_node, tensors
from client.torch_extract.errors import DataDependent, ExtractionError

DTYPES = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.float8_e4m3fn: "fp8",
    torch.float8_e5m2: "fp8",
    torch.int64: "int64",
    torch.int32: "int32",
    torch.int16: "int32",
    torch.int8: "int8",
    torch.uint8: "int8",
    torch.bool: "bool",
}
USUAL_CLASSES: Mapping[str, type[torch.nn.Module]] = {
    "linear": torch.nn.Linear,
    "embedding": torch.nn.Embedding,
}
"""Whose modules frameworks split, by their weights and by calling them."""
GIVE_A_BOUND = "Pad to a fixed size, or mask instead of selecting."


def trace_program(program: ExportedProgram, module: torch.nn.Module) -> Trace:
    """The steps of an exported program, in their order.

    Raises `DataDependent` where a size is not known, `ExtractionError` for a dtype without a name.
    """
    kinds = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    _refuse_unknown_sizes(program)
    run = _FakeRun(program, module, kinds)
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    mode = detect_fake_mode([node.meta.get("val") for node in placeholders])
    with mode or FakeTensorMode(allow_non_fake_inputs=True):
        arguments = [run.argument(node) for node in placeholders]
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(run.keep, _unused):
            run.run(*arguments, enable_io_processing=False)
    trace = Trace(run.steps, run.inputs, run.results)
    trace.drop_unneeded()
    return trace


class _FakeRun(Interpreter):  # type: ignore[misc]
    """Carries out the graph node by node and writes down each as a step."""

    def __init__(
        self, program: ExportedProgram, module: torch.nn.Module, kinds: Mapping[str, Any]
    ) -> None:
        super().__init__(program.graph_module, garbage_collect_values=False)
        self.steps: list[Step] = []
        self.inputs: list[Value] = []
        self.results: list[Value] = []
        self._kinds = kinds
        self._units = {
            path for path, own in module.named_modules() if next(own.children(), None) is None
        }
        self._modules = dict(module.named_modules())
        self._values: dict[Node, Value | list[Value]] = {}
        self._kept: dict[int, torch.Tensor] = {}
        self._not_counted: set[int] = set()
        self._kept_bytes = 0

    def argument(self, node: Node) -> Any:
        """A fresh fake tensor for a placeholder; parameters and floating inputs need gradients."""
        meta = node.meta.get("val")
        if not isinstance(meta, torch.Tensor):
            return meta
        spec = self._kinds[node.name]
        tensor = torch.empty_strided(
            meta.shape, meta.stride(), dtype=meta.dtype, device=meta.device
        )
        floating = meta.is_floating_point()
        origin = {InputKind.PARAMETER: "parameter", InputKind.USER_INPUT: "input"}.get(
            spec.kind, "constant"
        )
        gradient = floating and origin != "constant"
        if gradient:
            tensor.requires_grad_()
        value = Value(
            tuple(meta.shape), dtype_name(meta.dtype, node.name), origin,  # type: ignore[arg-type]
            str(spec.target or node.name), gradient,
        )  # fmt: skip
        if origin == "input":
            self.inputs.append(value)
        self._values[node] = value
        if origin != "input":
            self._not_counted.add(tensor.untyped_storage()._cdata)
        return tensor

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        """Counts a storage that autograd keeps, unless it is counted already or holds weights."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._not_counted and key not in self._kept:
            # The tensor is held, since another storage could else get the same number.
            self._kept[key] = tensor
            self._kept_bytes += storage.nbytes()
        return tensor

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """As on a GPU: dropout keeps a mask of one byte per element, attention draws its own
        again; PyTorch's CPU kernels keep more."""
        if target is torch.ops.aten.dropout.default:
            return torch.ops.aten.native_dropout.default(*args)[0]
        if target is torch.ops.aten.scaled_dot_product_attention.default and len(args) > 4:
            args = (*args[:4], 0.0, *args[5:])
        return super().call_function(target, args, kwargs)

    def run_node(self, n: Node) -> Any:
        self._kept_bytes = 0
        result = super().run_node(n)
        if n.op == "call_function":
            self._write_down(n, result)
        elif n.op == "output":
            self.results = tensors(self._looked_up(n.args))
        return result

    def _write_down(self, node: Node, result: Any) -> None:
        if node.target is operator.getitem:
            outputs = self._values.get(node.args[0])
            if isinstance(outputs, list):
                self._values[node] = outputs[node.args[1]]
            return
        found = [result] if isinstance(result, torch.Tensor) else result
        if not isinstance(found, list | tuple):
            return
        results = [each for each in found if isinstance(each, torch.Tensor)]
        name = _operator_name(node)
        if name in IGNORED or not results:
            return
        reading = read_node(name, self._arguments(node), results)
        outputs = self._outputs(node, reading, results)
        self._values[node] = outputs[0] if isinstance(result, torch.Tensor) else outputs
        if name.endswith("_") and not name.startswith("_") and isinstance(node.args[0], Node):
            # Whoever reads the tensor later reads what was written into it.
            self._values[node.args[0]] = outputs[0]

    def _outputs(
        self, node: Node, reading: Reading, results: Sequence[torch.Tensor]
    ) -> list[Value]:
        inputs = reading.inputs
        weights = {v.whole or v for v in inputs if v.is_parameter}
        is_view = self._is_view(node, results[0])
        x = inputs[0] if inputs else None
        if reading.operation == SAME or (
            x is not None
            and reading.operation in ("copy", "cast")
            and is_view
            and x.shape == tuple(results[0].shape)
        ):
            assert x is not None
            return [x]
        makes_gradients = any(each.requires_grad for each in results)
        if len(weights) == 1 and not any(v.is_activation for v in inputs) and makes_gradients:
            (weight,) = weights
            if reading.operation not in ("embedding", "linear", "matmul"):
                return [_view_of(weight, each, k) for k, each in enumerate(results)]
        outputs = [
            Value(
                tuple(each.shape),
                dtype_name(each.dtype, node.name),
                has_gradient=each.requires_grad and each.is_floating_point(),
            )
            for each in results
        ]
        path, kind, call = module_of(node)
        self.steps.append(
            Step(
                reading.operation,
                tuple(inputs),
                tuple(outputs),
                reading.settings | self._class_of(path, reading.operation),
                path,
                kind,
                path in self._units,
                call,
                is_view,
                self._kept_bytes,
            )
        )
        return outputs

    def _class_of(self, path: str, operation: str) -> dict[str, str]:
        """The class of a module with a weight, where frameworks cannot take it for PyTorch's."""
        own, usual = self._modules.get(path), USUAL_CLASSES.get(operation)
        if usual is None or isinstance(own, usual):
            return {}
        return {"module_class": type(own).__name__ if own is not None else "none"}

    def _is_view(self, node: Node, result: torch.Tensor) -> bool:
        key = result.untyped_storage()._cdata
        read = [self.env[each] for each in node.all_input_nodes if each in self.env]
        return any(
            isinstance(each, torch.Tensor) and each.untyped_storage()._cdata == key for each in read
        )

    def _arguments(self, node: Node) -> dict[str, Any]:
        assert isinstance(node.target, torch._ops.OpOverload)
        names = [argument.name for argument in node.target._schema.arguments]
        given = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
        return {name: self._looked_up(value) for name, value in given.items()}

    def _looked_up(self, argument: Any) -> Any:
        if isinstance(argument, Node):
            return self._values.get(argument)
        if isinstance(argument, list | tuple):
            return [self._looked_up(each) for each in argument]
        return argument


def _view_of(weight: Value, tensor: torch.Tensor, number: int) -> Value:
    """A weight in another shape, or a part of it, which is a weight of its own."""
    shape, name = tuple(tensor.shape), weight.name
    if tensor.numel() < math.prod(weight.shape):
        return Value(shape, weight.dtype, "parameter", f"{name}:{number}", True)
    return Value(shape, weight.dtype, "parameter", name, True, weight.whole or weight)


def _unused(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _operator_name(node: Node) -> str:
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return str(target._schema.name.split("::")[-1])
    raise ExtractionError(
        module_of(node)[0] or "model",
        f"runs {target}, which is no operator with known tensors.",
        "Call it outside of the module, or write it with PyTorch's own operators.",
    )


def module_of(node: Node) -> tuple[str, str, int]:
    """Path and class of the module that ran a node, and how often it was called before."""
    stack = node.meta.get("nn_module_stack") or {}
    if not stack:
        return "", "", 0
    path, kind = list(stack.values())[-1]
    calls = [int(each.rpartition("@")[2]) for each in stack if "@" in each]
    name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
    return path, name, calls[-1] if calls else 0


def dtype_name(dtype: torch.dtype, where: str) -> str:
    """The graph's name of a dtype. Raises `ExtractionError` where it has none."""
    if dtype not in DTYPES:
        raise ExtractionError(
            where, f"is of {dtype}, which has no plan.", "Use floating point, integers or booleans."
        )
    return DTYPES[dtype]


def _refuse_unknown_sizes(program: ExportedProgram) -> None:
    for node in program.graph.nodes:
        value = node.meta.get("val")
        shape = value.shape if isinstance(value, torch.Tensor) else ()
        if any(not isinstance(size, int) for size in shape):
            path, _, _ = module_of(node)
            sizes = ", ".join(map(str, shape))
            raise DataDependent(
                str(node.target), path, source_line(node),
                f"gives a tensor [{sizes}] whose size depends on the data.", GIVE_A_BOUND,
            )  # fmt: skip


def source_line(node: Node) -> str:
    """`file:line` of the program's line that a node comes from, or nothing."""
    trace = node.meta.get("stack_trace") or ""
    lines = [line.strip() for line in trace.splitlines() if line.strip().startswith("File ")]
    if not lines:
        return ""
    own = [line for line in lines if "/torch/" not in line] or lines
    file, line, *_ = own[-1].removeprefix("File ").split(", ")
    return f"{file.strip(chr(34))}:{line.removeprefix('line ')}"
