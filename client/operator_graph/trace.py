"""A traced program: steps that take and make values, before operators are recognised in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Shape = tuple[int, ...]
Origin = Literal["input", "parameter", "constant", "step"]

FLOATING = frozenset({"fp64", "fp32", "bf16", "fp16", "fp8"})
"""The dtypes that have gradients."""


@dataclass(eq=False)
class Value:
    """A tensor: `shape` in elements, `dtype` as the graph spells it (``fp32``, ``int64``, …).

    `name` is an input's or a parameter's own; a value that a step made is named later.
    `has_gradient`: a gradient flows back through it, to an input or a parameter. `whole`: the
    parameter that this one is a view or a part of.
    """

    shape: Shape
    dtype: str
    origin: Origin = "step"
    name: str = ""
    has_gradient: bool = False
    whole: Value | None = None

    @property
    def is_parameter(self) -> bool:
        """A weight, or a view of one."""
        return self.origin == "parameter"

    @property
    def is_activation(self) -> bool:
        """Something that a gradient flows through and that is no weight."""
        return self.has_gradient and not self.is_parameter


@dataclass(eq=False)
class Step:
    """One operation of the program.

    `operation` is a canonical name (``linear``, ``add``, ``reshape``, …) or, where there is none,
    the framework's own. `module` is the path of the module that ran it, `unit` whether that module
    has no others inside. `is_view`: the output lies in the first input's memory. `flops` and
    `saved_bytes` are the whole forward's and what is kept for the backward, as measured.
    """

    operation: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    module: str = ""
    module_kind: str = ""
    unit: bool = False
    call: int = 0
    is_view: bool = False
    saved_bytes: int = 0

    @property
    def output(self) -> Value:
        """The first output, which most steps have alone."""
        return self.outputs[0]

    @property
    def activations(self) -> tuple[Value, ...]:
        """The inputs that are neither weights nor without a gradient."""
        return tuple(value for value in self.inputs if value.is_activation)


def fixed_sizes(*steps: Step) -> dict[str, bool]:
    """The setting `fixed_sizes` of a step that stands for others: one of them has numbers of
    features written into the program, which then cannot run on a part of them."""
    return {"fixed_sizes": True} if any(s.settings.get("fixed_sizes") for s in steps) else {}


@dataclass(frozen=True)
class Loop:
    """Steps of the module `module` that run `count` times: what enters and leaves the first."""

    count: int
    entry: Value
    exit: Value
    module: str


class Trace:
    """Steps in the order in which they ran, and who makes and reads each value."""

    def __init__(
        self, steps: Iterable[Step], inputs: Sequence[Value], outputs: Sequence[Value]
    ) -> None:
        self.steps = list(steps)
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self._maker: dict[Value, Step] = {}
        self._readers: dict[Value, list[Step]] = defaultdict(list)
        for step in self.steps:
            self._enter(step)

    def maker(self, value: Value) -> Step | None:
        """The step that makes a value; None for inputs, parameters and constants."""
        return self._maker.get(value)

    def made_by(self, value: Value, *operations: str) -> Step | None:
        """The step that makes a value if it is one of these operations."""
        step = self._maker.get(value)
        return step if step is not None and step.operation in operations else None

    def readers(self, value: Value) -> list[Step]:
        """The steps that read a value, in their order."""
        return self._readers.get(value, [])

    def only_reader(self, value: Value) -> Step | None:
        """The one step that reads a value which nobody else needs."""
        readers = self.readers(value)
        if len(readers) != 1 or value in self.outputs:
            return None
        return readers[0]

    def is_needed(self, value: Value) -> bool:
        """Whether a step or the caller reads it."""
        return bool(self.readers(value)) or value in self.outputs

    def replace(self, last: Sequence[Step], step: Step) -> None:
        """Put `step`, which makes the outputs of the steps `last`, in place of them.

        Steps that nobody needs any more go; what they cost is the new step's.
        """
        for each in last:
            self.remove(each)
            step.saved_bytes += each.saved_bytes
        self.insert(step)
        for each in last:
            self._sweep(each.inputs, step)

    def substitute(self, step: Step, value: Value) -> None:
        """Have everybody read `value` instead of what a step makes."""
        for reader in list(self.readers(step.output)):
            self._readers[step.output].remove(reader)
            reader.inputs = tuple(value if v is step.output else v for v in reader.inputs)
            if reader not in self._readers[value]:
                self._readers[value].append(reader)
        self.outputs = tuple(value if v is step.output else v for v in self.outputs)
        self.remove(step)
        self._sweep(step.inputs, step)

    def insert(self, step: Step, *, before: Step | None = None) -> None:
        """Put a step before another, or behind those that make what it reads."""
        makers = [self._maker[value] for value in step.inputs if value in self._maker]
        behind = max((self.steps.index(maker) + 1 for maker in makers), default=0)
        self.steps.insert(behind if before is None else self.steps.index(before), step)
        self._enter(step)

    def remove(self, step: Step) -> None:
        """Take out a step whose outputs are not to be read any more."""
        self.steps.remove(step)
        self._leave(step)

    def drop_unneeded(self) -> None:
        """Remove steps whose outputs nobody reads."""
        for step in reversed(list(self.steps)):
            if not any(self.is_needed(value) for value in step.outputs):
                self.remove(step)

    def _sweep(self, values: Iterable[Value], heir: Step) -> None:
        for value in values:
            maker = self._maker.get(value)
            if maker is None or any(self.is_needed(each) for each in maker.outputs):
                continue
            self.remove(maker)
            heir.saved_bytes += maker.saved_bytes
            self._sweep(maker.inputs, heir)

    def _enter(self, step: Step) -> None:
        for value in step.outputs:
            self._maker[value] = step
        for value in dict.fromkeys(step.inputs):
            self._readers[value].append(step)

    def _leave(self, step: Step) -> None:
        for value in step.outputs:
            if self._maker.get(value) is step:
                del self._maker[value]
        for value in dict.fromkeys(step.inputs):
            self._readers[value].remove(step)
