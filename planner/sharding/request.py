"""From a client's request for a sharding plan to the canonical spec of a solve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StrictBool, Tag, ValidationError, WithJsonSchema

from planner.documents import (
    LIST_OF_NUMBERS,
    ONE_NUMBER,
    Document,
    FiniteNumber,
    Listed,
    PositiveWhole,
    one_or_list,
    spec_error_from,
)
from planner.errors import SpecError
from planner.resolved_request import ResolvedSpec
from planner.sharding.choices import graph_choices
from planner.sharding.costs import Terms
from planner.sharding.devices import WAYS_TO_SAY, DeviceGroup, device_notes, read_devices
from planner.sharding.documents import read_graph
from planner.sharding.folding import layer_operators
from planner.sharding.graph import Graph
from planner.sharding.options import SolverDocument
from planner.sharding.request_checks import check_spec
from planner.sharding.restrictions import Restrictions
from planner.sharding.settings import rule_options
from planner.sharding.spec import Question, ShardingSpec
from planner.sharding.training import ShardingTraining, read_sharding_training
from planner.sharding.transformer.request import read_transformer

MOST_ALPHAS = 64
MOST_QUESTIONS = 32
DEFAULT_ALPHA = 1.0

Alpha = Annotated[FiniteNumber, Field(ge=0, le=1e9)]
Alphas = Annotated[
    Annotated[Alpha, Tag(ONE_NUMBER)]
    | Annotated[
        list[Alpha],
        Field(min_length=1, max_length=MOST_ALPHAS, fail_fast=True),
        Tag(LIST_OF_NUMBERS),
    ],
    Discriminator(one_or_list),
]
DeviceMemory = Annotated[
    Annotated[PositiveWhole, Tag(ONE_NUMBER)]
    | Annotated[list[PositiveWhole | None], *Listed, Tag(LIST_OF_NUMBERS)],
    Discriminator(one_or_list),
]


class QuestionDocument(Document):
    """Why is this strategy not in the plan?"""

    operator: str
    strategy: str


class TermsDocument(Document):
    """Weights of further terms of the objective."""

    computation_imbalance: Annotated[FiniteNumber, Field(ge=0, le=1e9)] = Field(
        default=0.0,
        description="Bytes of redundancy that a FLOP is worth which a device does beyond an even "
        "share.",
    )
    energy: Annotated[FiniteNumber, Field(ge=0, le=1e18)] = Field(
        default=0.0, description="Bytes of redundancy that a joule of one device is worth."
    )


class ShardingRequest(Document):
    """What a client posts: `graph` or `transformer`, `devices`, and how to judge plans."""

    graph: dict[str, Any] | None = Field(
        default=None, description="`inputs`, `operators`, and `repeat` where layers are alike."
    )
    transformer: Annotated[
        Any, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}, {"type": "null"}]})
    ] = Field(
        default=None, description="A preset's name, or `preset`, `layers`, `batch`, `sequence`, …"
    )
    devices: Any = Field(
        default=None,
        description="A count, `8xA100-40GB`, `{count, memory_bytes}` or the fields of a cluster.",
    )
    device_memory_bytes: DeviceMemory | None = Field(
        default=None,
        description="What a plan may occupy on one device, or a list with one entry per stage "
        "(null = no limit), instead of what the devices have.",
    )
    alpha: Alphas = Field(
        default=DEFAULT_ALPHA,
        description="Bytes of redundancy that a communicated byte is worth; a list for a sweep, "
        "whose first weight is the plan's.",
    )
    pareto: StrictBool = Field(
        default=False, description="The whole front of redundancy against communication."
    )
    training: dict[str, Any] = Field(
        default_factory=dict, description="Precision, optimizer, ZeRO stage, micro-batches, …"
    )
    communication: Literal["volume", "time"] = "volume"
    redundancy: Literal["source", "mesh"] = "source"
    stages: Annotated[PositiveWhole, Field(le=1024)] = 1
    pin: Annotated[dict[str, str], *Listed] = Field(
        default_factory=dict,
        description="Operator: strategy. With `solver.exact` `layer3.qkv` is one layer's `qkv`.",
    )
    forbid: Annotated[dict[str, Annotated[list[str], *Listed]], *Listed] = Field(
        default_factory=dict, description="Operator: strategies that it must not have."
    )
    explain: Annotated[list[QuestionDocument], Field(max_length=MOST_QUESTIONS)] = Field(
        default_factory=list, description="Strategies to say of why they are not in the plan."
    )
    objective: TermsDocument = TermsDocument()
    solver: SolverDocument = Field(default_factory=SolverDocument)


class ResolvedRequest(ResolvedSpec[ShardingSpec]):
    """A resolved request for a sharding plan."""

    @property
    def operations(self) -> int:
        """Operators of the graph, a repeated layer's counted once unless they are written out."""
        graph = self.resolved.graph
        further = graph.repeat.count - 1 if graph.repeat and self.resolved.options.exact else 0
        return len(graph.operators) + further * len(layer_operators(graph))

    @property
    def devices(self) -> int:
        """All devices of the group."""
        return self.resolved.devices.count

    def preview(self) -> dict[str, Any]:
        """The resolved graph and the size of what is to be solved, without solving anything."""
        spec = self.resolved
        choices = graph_choices(
            spec.graph,
            rule_options(spec),
            spec.devices.count // spec.stages,
            Restrictions(spec).allows,
        )
        return {
            "spec_hash": self.spec_hash,
            "options": spec.options.to_document(),
            "graph": self.spec["graph"],
            "devices": self.spec["devices"],
            "memory_limits": list(spec.memory_limits),
            "operators": [
                {"name": operator.name, "strategies": [strategy.name for strategy in strategies]}
                for operator, strategies in zip(
                    spec.graph.operators, choices.strategies, strict=True
                )
            ],
            "warnings": list(choices.warnings),
            "assumptions": [dict(assumption) for assumption in spec.assumptions],
        }


def resolve_request(body: Mapping[str, Any]) -> ResolvedRequest:
    """Validate a request body and resolve it into the spec that a worker solves.

    Raises `SpecError` that names the field at fault and the remedy.
    """
    try:
        request = ShardingRequest.model_validate(body)
    except ValidationError as error:
        raise spec_error_from(error) from error
    if (request.graph is None) == (request.transformer is None):
        field = "graph" if request.graph is None else "transformer"
        wrong = "is missing." if request.graph is None else "cannot be combined with `graph`."
        raise SpecError((field,), wrong, "Post either `graph` or `transformer`.")
    if request.devices is None:
        raise SpecError(("devices",), "is missing.", WAYS_TO_SAY)
    devices = read_devices(request.devices)
    training = read_sharding_training(request.training)
    graph, assumptions = _graph(request, training, devices)
    spec = ShardingSpec(
        graph=graph,
        devices=devices,
        training=training,
        memory_limits=_memory_limits(request, devices),
        alphas=tuple(request.alpha) if isinstance(request.alpha, list) else (request.alpha,),
        pareto=request.pareto,
        communication=request.communication,
        redundancy=request.redundancy,
        terms=Terms(**request.objective.model_dump()),
        pinned=request.pin,
        # However often and in whatever order they are forbidden, that means the same.
        forbidden={name: tuple(sorted(set(names))) for name, names in request.forbid.items()},
        questions=tuple(Question(q.operator, q.strategy) for q in request.explain),
        options=request.solver.resolve(),
        source=None if request.transformer is None else {"transformer": request.transformer},
        assumptions=(*assumptions, *device_notes(devices, request.stages)),
    )
    check_spec(spec)
    # To forbid an operator nothing means the same as not to name it, once it is known to exist.
    forbidden = {name: names for name, names in spec.forbidden.items() if names}
    return ResolvedRequest(replace(spec, forbidden=forbidden), request.solver.engine is not None)


def _graph(
    request: ShardingRequest, training: ShardingTraining, devices: DeviceGroup
) -> tuple[Graph, tuple[Mapping[str, Any], ...]]:
    if request.graph is not None:
        return read_graph(request.graph), ()
    assert request.transformer is not None
    made = read_transformer(request.transformer, training, devices.count)
    return made.graph, tuple(dict(note) for note in made.notes)


def _memory_limits(request: ShardingRequest, devices: DeviceGroup) -> tuple[int | None, ...]:
    stages, given = request.stages, request.device_memory_bytes
    if devices.count % stages:
        raise SpecError(
            ("stages",),
            f"does not divide the {devices.count} devices.",
            "Every stage has as many devices as the others.",
        )
    if not isinstance(given, list):
        return (devices.memory_bytes if given is None else given,) * stages
    if len(given) != stages:
        raise SpecError(
            ("device_memory_bytes",),
            f"has {len(given)} entries, and `stages` is {stages}.",
            "Give one number for all stages, or a list with one entry (or null) per stage.",
        )
    return tuple(given)
