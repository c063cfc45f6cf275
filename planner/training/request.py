"""From a client's request for a training plan to the canonical spec of a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, ValidationError

from planner.cost.hardware import Cluster, read_cluster
from planner.cost.model import Model, read_model
from planner.cost.profile import ProfileDocument
from planner.cost.training import LARGEST_INTERLEAVING, Recomputation, TrainingDocument
from planner.documents import (
    Document,
    FiniteNumber,
    Listed,
    PositiveWhole,
    WholeNumber,
    spec_error_from,
)
from planner.errors import SpecError
from planner.resolved_request import ResolvedSpec
from planner.training.checks import check_choices
from planner.training.experts.routing import Routing, read_routing_frequency
from planner.training.notes import search_notes
from planner.training.options import SolveOptions, SolverDocument, read_options
from planner.training.space import count_configurations
from planner.training.spec import Choices, TrainingSpec

LONGEST_CHOICE = 64
MOST_PLANS, MOST_FINALISTS = 50, 10

_Choice = Field(min_length=1, max_length=LONGEST_CHOICE)
Degrees = Annotated[list[PositiveWhole], _Choice, *Listed]


class SearchDocument(Document):
    """What to search. Each list restricts a field that `training` leaves open."""

    tensor_parallel: Degrees | None = None
    pipeline_parallel: Degrees | None = None
    data_parallel: Degrees | None = None
    context_parallel: Degrees | None = None
    expert_parallel: Degrees | None = None
    micro_batch_size: Degrees | None = None
    zero_stage: Annotated[list[Annotated[WholeNumber, Field(le=3)]], _Choice, *Listed] | None = None
    recomputation: (
        Annotated[list[Literal["none", "selective", "full"]], _Choice, *Listed] | None
    ) = None
    interleaving: (
        Annotated[list[Annotated[PositiveWhole, Field(le=LARGEST_INTERLEAVING)]], _Choice, *Listed]
        | None
    ) = None
    offload: Annotated[list[StrictBool], _Choice, *Listed] | None = None
    devices: Degrees | None = Field(
        default=None,
        description="Numbers of GPUs to consider. Default: all of the cluster, with `pareto` also "
        "its halves.",
    )
    pareto: StrictBool = Field(
        default=False, description="The whole front of throughput, headroom and device count."
    )
    top: Annotated[PositiveWhole, Field(le=MOST_PLANS)] = Field(
        default=5, description="Plans in the answer."
    )
    finalists: Annotated[WholeNumber, Field(le=MOST_FINALISTS)] = Field(
        default=3, description="Of them, how many get a schedule solved; 0 for no solver at all."
    )


class TrainingRequest(Document):
    """What a client posts: `model`, `cluster` and what is fixed of the `training`."""

    model: str | dict[str, Any] = Field(
        description="A preset's name, or fields (a `preset` among them if wanted)."
    )
    cluster: str | dict[str, Any] = Field(
        description="Such as `8xA100-40GB` or `4x8xH100`, or fields."
    )
    training: dict[str, Any] = Field(
        description="`global_batch_size` and whatever else is fixed: what is given is kept, a "
        "degree or memory saver that is not is searched."
    )
    search: SearchDocument = SearchDocument()
    memory_headroom: Annotated[FiniteNumber, Field(ge=0, lt=1)] = Field(
        default=0.05,
        description="Share of each GPU's memory to leave free, for what the estimate leaves out.",
    )
    routing_frequency: Any = Field(
        default=None,
        description="How often each expert is chosen: one number per expert, or a list of such "
        "lists, one per layer. Default: equally often.",
    )
    solver: SolverDocument = Field(default_factory=SolverDocument)


class ResolvedRequest(ResolvedSpec[TrainingSpec]):
    """A resolved request for a training plan."""

    @property
    def gpus(self) -> int:
        """All GPUs of the cluster."""
        return self.resolved.cluster.gpus

    @cached_property
    def operations(self) -> int:
        """Configurations that are enumerated."""
        return count_configurations(self.resolved).configurations

    def preview(self) -> dict[str, Any]:
        """What would be searched, without searching."""
        spec = self.resolved
        count = count_configurations(spec)
        return {
            "spec_hash": self.spec_hash,
            "options": spec.options.to_document(),
            "devices": list(spec.devices),
            "enumerated": count.configurations,
            "left_out": dict(count.left_out),
            "assumptions": [dict(note) for note in search_notes(spec)],
        }


def resolve_request(body: Mapping[str, Any]) -> ResolvedRequest:
    """Validate a request body and resolve it into the spec that a worker solves.

    Raises `SpecError` that names the field at fault and the remedy.
    """
    try:
        request = TrainingRequest.model_validate(body)
    except ValidationError as error:
        raise spec_error_from(error) from error
    spec = _spec(request, request.solver.resolve())
    check_choices(spec)
    return ResolvedRequest(spec, request.solver.engine not in (None, "auto"))


def read_spec(document: Mapping[str, Any]) -> TrainingSpec:
    """The spec that `TrainingSpec.to_document` wrote."""
    request = TrainingRequest.model_validate(document["request"])
    return _spec(request, read_options(document["options"]))


def _spec(request: TrainingRequest, options: SolveOptions) -> TrainingSpec:
    model, cluster = read_model(request.model), read_cluster(request.cluster)
    document = _training(request.training)
    assert document.global_batch_size is not None
    choices = _choices(document, request.search)
    fixed = document.model_dump(exclude={*Choices.__annotations__, "profile", "global_batch_size"})
    headroom = request.memory_headroom
    return TrainingSpec(
        model=model,
        cluster=replace(cluster, memory_bytes=int(cluster.memory_bytes * (1 - headroom))),
        global_batch_size=document.global_batch_size,
        fixed={name: value for name, value in fixed.items() if value is not None},
        choices=choices,
        devices=_devices(request.search, choices, cluster),
        pareto=request.search.pareto,
        top=request.search.top,
        finalists=request.search.finalists,
        memory_headroom=headroom,
        routing=_routing(request, document, model),
        options=options,
        request=request.model_dump(exclude={"solver"}, exclude_defaults=True),
    )


def _training(raw: Mapping[str, Any]) -> TrainingDocument:
    """The training document, checked as far as it does not depend on what is searched."""
    try:
        document = TrainingDocument.model_validate(raw)
    except ValidationError as error:
        raise spec_error_from(error, ("training",)) from error
    if document.micro_batches is not None:
        raise SpecError(
            ("training", "micro_batches"),
            "follows from the global batch, which is what plans have in common.",
            "Give `global_batch_size` instead (and `micro_batch_size` to fix that).",
        )
    if document.global_batch_size is None:
        raise SpecError(
            ("training", "global_batch_size"), "is required.", "Give the samples of one step."
        )
    if document.profile != ProfileDocument():
        raise SpecError(
            ("training", "profile"),
            "holds for one configuration, and many are compared.",
            "Give the cluster's `efficiency` instead, or post the configuration that was measured "
            "to /v1/pipeline-schedules.",
        )
    if document.objective != "makespan":
        raise SpecError(
            ("training", "objective"),
            "is the step time in a training plan.",
            "Remove it; post the plan to /v1/pipeline-schedules for another objective.",
        )
    return document


def _choices(document: TrainingDocument, search: SearchDocument) -> Choices:
    """What is fixed is the only choice; else what `search` lists; else what may be."""
    given = {
        name: getattr(document, name)
        for name in document.model_fields_set
        if getattr(document, name) is not None
    }

    def choice(name: str) -> tuple[Any, ...] | None:
        listed = getattr(search, name)
        if name not in given:
            return None if listed is None else tuple(sorted(set(listed)))
        if listed is not None:
            raise SpecError(
                ("search", name),
                f"cannot be combined with training.{name}, which fixes it.",
                "Give one of the two.",
            )
        return (given[name],)

    order = list(Recomputation)
    recomputation = choice("recomputation")
    return Choices(
        tensor_parallel=choice("tensor_parallel"),
        pipeline_parallel=choice("pipeline_parallel"),
        data_parallel=choice("data_parallel"),
        context_parallel=choice("context_parallel"),
        expert_parallel=choice("expert_parallel"),
        micro_batch_size=choice("micro_batch_size"),
        interleaving=choice("interleaving"),
        zero_stage=choice("zero_stage") or (0, 1, 2, 3),
        recomputation=tuple(sorted(map(Recomputation, recomputation or order), key=order.index)),
        offload=choice("offload") or (False, True),
    )


def _devices(search: SearchDocument, choices: Choices, cluster: Cluster) -> tuple[int, ...]:
    """As listed; else all GPUs, or as many as the degrees make where all are fixed; with `pareto`
    also their halves."""
    if search.devices is not None:
        for place, count in enumerate(search.devices):
            if count > cluster.gpus:
                raise SpecError(
                    ("search", "devices", place),
                    f"{count} is more than the cluster's {cluster.gpus} GPUs.",
                    "Lower it or add nodes.",
                )
        return tuple(sorted(set(search.devices), reverse=True))
    counts = [cluster.gpus]
    degrees = (choices.tensor_parallel, choices.pipeline_parallel, choices.data_parallel)
    if all(degree is not None and len(degree) == 1 for degree in degrees):
        product = 1
        for degree in (*degrees, choices.context_parallel):
            product *= degree[0] if degree is not None and len(degree) == 1 else 1
        counts = [product]
        if product > cluster.gpus:
            raise SpecError(
                ("training", "data_parallel"),
                f"the degrees ask for {product} GPUs, the cluster has {cluster.gpus}.",
                "Lower a degree or add nodes.",
            )
    while search.pareto and counts[-1] % 2 == 0:
        counts.append(counts[-1] // 2)
    return tuple(counts)


def _routing(request: TrainingRequest, document: TrainingDocument, model: Model) -> Routing | None:
    if request.routing_frequency is None:
        return None
    path = ("routing_frequency",)
    if not model.has_router:
        raise SpecError(path, f"{model.name} has no experts.", "Remove it.")
    if "expert_load" in document.model_fields_set:
        raise SpecError(
            ("training", "expert_load"),
            "follows from `routing_frequency`.",
            "Give one of the two.",
        )
    return read_routing_frequency(
        request.routing_frequency, model.experts, model.layers, model.experts_per_token, path
    )
