"""torch.nn.MultiheadAttention, whose views and copies say little, as the operators that it is."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from client.operator_graph.trace import Shape, Step, Trace, Value

MODULE = "torch.nn.modules.activation.MultiheadAttention"
SWAPPED = (1, 0, 2)
"""[sequence, batch, features] to [batch, sequence, features] and back."""


def rewrite_multihead_attention(trace: Trace) -> None:
    """Each becomes projections, heads, attention, merged heads and output layer."""
    regions: dict[tuple[str, int], list[Step]] = defaultdict(list)
    for step in trace.steps:
        if step.module_kind == MODULE:
            regions[step.module, step.call].append(step)
    for region in regions.values():
        _rewrite(trace, region)


def _rewrite(trace: Trace, region: list[Step]) -> None:
    linears = [step for step in region if step.operation == "linear"]
    ends = [step for step in region if any(_leaves(trace, v, region) for v in step.outputs)]
    cores = [step for step in region if step.operation in ("attention", "softmax")]
    if not 2 <= len(linears) <= 4 or len(ends) != 1 or len(cores) != 1:
        return
    *projections, last = linears
    core, (end,) = cores[0], ends
    build = _Rewriting(trace, region)
    query, *others = list(build.projected(projections))
    batch, sequence, width = query.shape
    heads = core.output.shape[1] if core.operation == "attention" else _heads(core, batch)
    if not others:
        split = (batch, heads, sequence, width // 3 // heads)
        q, k, v = build.add_many("split_heads", (query,), (split,) * 3, {"packing": "blocks"})
    else:
        q, k, v = (build.headed(value, heads) for value in (query, *others))
    context = build.core(core, q, k, v)
    merged = build.add("merge_heads", (context,), (batch, sequence, heads * v.shape[-1]))
    out_shape = (batch, sequence, last.output.shape[-1])
    out = build.add("linear", (merged, *last.inputs[1:]), out_shape, last.settings, last)
    if build.sequence_first:
        build.swapped(out)
    build.put_in_place_of(end)


def _leaves(trace: Trace, value: Value, region: list[Step]) -> bool:
    return value in trace.outputs or any(step not in region for step in trace.readers(value))


def _heads(softmax: Step, batch: int) -> int:
    return math.prod(softmax.output.shape[:-2]) // batch


class _Rewriting:
    """Steps of one call of the module, written down one after another.

    What the module was measured to keep stays with the projections; the rest is the attention's.
    """

    def __init__(self, trace: Trace, region: list[Step]) -> None:
        made = {value for step in region for value in step.outputs}
        read = [v for step in region for v in step.inputs if v.is_activation and v not in made]
        first = next(step for step in region if step.operation == "linear")
        self.sequence_first = first.inputs[0] in read
        self._trace = trace
        self._region = region
        self._like = first
        self._steps: list[Step] = []
        self._swapped: dict[Value, Value] = {}

    def projected(self, projections: list[Step]) -> Iterator[Value]:
        """The projections' outputs [batch, sequence, features], keys and values taken apart."""
        for step in projections:
            x, *weights = step.inputs
            if self.sequence_first:
                source = self._swapped.get(x) or self.swapped(x)
                self._swapped[x] = source
            else:
                maker = self._trace.maker(x)
                source = maker.inputs[0] if maker is not None else x
            parts = 2 if len(projections) == 2 and step is projections[1] else 1
            width = step.output.shape[-1] // parts
            for part in range(parts):
                own = [_half(weight, part) for weight in weights] if parts == 2 else weights
                shape = (*source.shape[:2], width)
                yield self.add("linear", (source, *own), shape, step.settings, step)

    def headed(self, x: Value, heads: int) -> Value:
        """[batch, sequence, features] as [batch, heads, sequence, size]."""
        batch, sequence, width = x.shape
        return self.add("split_heads", (x,), (batch, heads, sequence, width // heads))

    def core(self, core: Step, q: Value, k: Value, v: Value) -> Value:
        """Flash attention where the module runs that, or scores, softmax and context."""
        shape = (*q.shape[:3], v.shape[-1])
        if core.operation == "attention":
            return self.add("attention", (q, k, v), shape, core.settings, *self._inner())
        square = (*q.shape[:3], k.shape[2])
        scores = self.add("matmul", (q, k), square, {"transpose_b": True})
        weights = self.add("softmax", (scores,), square, None, *self._inner())
        return self.add("matmul", (weights, v), shape)

    def swapped(self, x: Value) -> Value:
        """Batch and sequence the other way round, as a view."""
        shape = (x.shape[1], x.shape[0], x.shape[2])
        out = self.add("transpose", (x,), shape, {"order": SWAPPED})
        self._steps[-1].is_view = True
        return out

    def add(
        self,
        operation: str,
        inputs: tuple[Value, ...],
        shape: Shape,
        settings: dict[str, Any] | None = None,
        *measured: Step,
    ) -> Value:
        """A step with one output, which keeps what the steps `measured` were measured to."""
        return self.add_many(operation, inputs, (shape,), settings, *measured)[0]

    def add_many(
        self,
        operation: str,
        inputs: tuple[Value, ...],
        shapes: tuple[Shape, ...],
        settings: dict[str, Any] | None = None,
        *measured: Step,
    ) -> tuple[Value, ...]:
        """As `add`, with several outputs."""
        dtype = self._like.output.dtype
        outputs = tuple(Value(shape, dtype, has_gradient=True) for shape in shapes)
        saved = sum(step.saved_bytes for step in measured)
        for step in measured:
            step.saved_bytes = 0
        like = self._like
        self._steps.append(
            Step(
                operation, inputs, outputs, dict(settings or {}), like.module, MODULE, False,
                like.call, saved_bytes=saved,
            )
        )  # fmt: skip
        return outputs

    def put_in_place_of(self, end: Step) -> None:
        """The last step makes what the module gave; the module's own steps go."""
        *steps, last = self._steps
        last.outputs = end.outputs
        if self.sequence_first:
            last.settings["note"] = (
                f"{last.module} takes [sequence, batch, features]: make it with batch_first=True "
                "for plans that split the batch."
            )
        for step in steps:
            self._trace.insert(step, before=end)
        self._trace.replace([end], last)

    def _inner(self) -> list[Step]:
        return [step for step in self._region if step.operation != "linear"]


def _half(weight: Value, part: int) -> Value:
    """Keys' or values' part of a weight, or of a bias, that holds one after the other."""
    rows, *rest = weight.shape
    return Value((rows // 2, *rest), weight.dtype, "parameter", f"{weight.name}:{part}", True)
