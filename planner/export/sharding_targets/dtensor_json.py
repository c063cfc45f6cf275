"""A sharding plan as placements of PyTorch's DTensors, which `client.torch_sharding` applies.

All strategies share one mesh whose sizes are the prime factors of the number of devices: each role
of a strategy has as many dimensions of it as multiply to its degree. With d, r and c for data, row
and column, a linear layer's placements on them are: d input Shard(0), weight Replicate; r input
Shard(-1), weight Shard(1); c input Replicate, weight Shard(0) (of a weight as PyTorch keeps it,
[output features, input features]).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from planner.export.format import Document, Format, Source
from planner.export.sharding_targets.columns import TAKING_APART
from planner.export.sharding_targets.modules import (
    ShardedGraph,
    SplitOperator,
    hindrance,
    sharded,
    with_plan,
)
from planner.sharding.operators.rule import Split
from planner.sharding.strategies import Strategy

FORM = "loadmaster-dtensor 1"
REPLICATE = "replicate"
DATA, ROW, COLUMN = range(3)
SPARE = None


def write(_: Document, source: Source) -> str:
    """The document; what it holds is said at `client.torch_sharding.apply`."""
    plan = sharded(source)
    mesh = prime_factors(plan.devices)
    document = {
        "format": FORM,
        "plan": source.job_id,
        "written_for": DTENSOR_JSON.written_for,
        "mesh": {"sizes": mesh, "names": [f"mesh{number}" for number in range(len(mesh))]},
        "modules": [_module(own, path, mesh) for own in plan.modules for path in own.paths],
        "not_expressed": [*_not_expressed(plan)],
    }
    return json.dumps(document, indent=2) + "\n"


def prime_factors(number: int) -> list[int]:
    """In ascending order, none for 1 (one device alone has a mesh of size 1)."""
    factors, rest, divisor = [], number, 2
    while rest > 1:
        while rest % divisor == 0:
            factors.append(divisor)
            rest //= divisor
        divisor += 1
    return factors or [1]


def role_of_dimensions(strategy: Strategy, mesh: list[int]) -> list[int | None]:
    """Which role (0 data, 1 row, 2 column, None spare) each dimension of the mesh has. Those of one
    size go to spare devices first and to column devices last, whose groups are then neighbours."""
    wanted = list(zip((SPARE, DATA, ROW, COLUMN), (strategy.spare, *strategy.degrees), strict=True))
    roles: list[int | None] = []
    for size in mesh:
        place = next((p for p, (_, left) in enumerate(wanted) if left % size == 0), 0)
        role, left = wanted[place]
        wanted[place] = (role, left // size)
        roles.append(role)
    return roles


def placements(split: Split, roles: list[int | None], dimensions: int) -> list[str]:
    """One per dimension of the mesh; the last dimension of a tensor is -1, however many it has."""
    names = []
    for role in roles:
        dimension = None if role is SPARE else split[role]
        if dimension is None:
            names.append(REPLICATE)
        else:
            is_last = 0 < dimension == dimensions - 1
            names.append(f"shard({-1 if is_last else dimension})")
    return names


def _module(own: SplitOperator, path: str, mesh: list[int]) -> dict[str, Any]:
    rule, roles = own.strategy.rule, role_of_dimensions(own.strategy, mesh)
    read = _read_split(own)
    # Activations have the batch, the sequence and the features, token numbers only the first two.
    inputs = 2 if own.operator.kind == "embedding" else 3
    return {
        "path": path,
        "operator": own.name,
        "kind": own.operator.kind,
        "strategy": own.strategy.name,
        "input": placements(read, roles, inputs),
        "output": placements(rule.outputs[0].split, roles, 3),
        "parameters": {
            name: _parameter(own, number, roles)
            for number, name in enumerate(_parameter_names(own))
        },
    }


def _parameter_names(own: SplitOperator) -> tuple[str, ...]:
    """As PyTorch calls them; learned positions are a module of their own there."""
    if own.operator.kind == "embedding":
        return ("weight",)
    return ("weight", "bias")[: len(own.operator.parameters)]


def _parameter(own: SplitOperator, number: int, roles: list[int | None]) -> list[str]:
    split = own.strategy.rule.parameters[number].split
    if own.operator.kind == "linear" and number == 0:
        split = Split(*(None if dimension is None else 1 - dimension for dimension in split))
    return [
        REPLICATE if role is SPARE or split[role] is None else f"shard({split[role]})"
        for role in roles
    ]


def _read_split(own: SplitOperator) -> Split:
    """How the input lies while the module computes: a linear layer gathers a split sequence."""
    split = own.strategy.rule.inputs[0].split
    return split._replace(column=None) if own.operator.kind == "linear" else split


def _not_expressed(plan: ShardedGraph) -> Iterator[str]:
    for own in plan.modules:
        if own.operator.kind in ("layer_norm", "rms_norm") and own.strategy.degrees.column > 1:
            yield f"{own.in_words}: PyTorch gathers the features that the plan splits."
        if own.operator.kind == "embedding" and len(own.operator.parameters) > 1:
            yield f"{own.in_words}: the position embeddings, which are whole on every device."
    for own in plan.others:
        if own.operator.parameters:
            yield f"{own.in_words}: every device has its weights whole and computes all of it."
        elif not plan.is_transformer and _takes_apart(own):
            yield f"{own.in_words}: PyTorch gathers a dimension to take it apart."
        elif plan.before(own):
            yield f"{own.in_words}: it follows the layouts of what it reads."


def _takes_apart(own: SplitOperator) -> bool:
    """Whether the program cuts through what the plan may have split."""
    fused = own.operator.kind == "glu" and len(own.operator.inputs) == 1
    return fused or own.operator.kind in TAKING_APART or len(own.operator.outputs) > 1


DTENSOR_JSON = Format(
    name="dtensor-json",
    title="Placements for PyTorch's DTensors (JSON)",
    media_type="application/json",
    extension="dtensor.json",
    carries="The mesh, and of each module the placements of input, output and weights.",
    leaves_out="Operators that are no modules: they follow what they read. Which those are, and "
    "what else it cannot say of the plan, is listed in it.",
    written_for="torch.distributed.tensor (PyTorch 2.13), by client.torch_sharding",
    part=with_plan,
    hindrance=hindrance,
    write=write,
)
