"""Checks of what a request fixes or lists, each of which names the field at fault."""

from __future__ import annotations

from collections.abc import Callable

from planner.cost.build import CostModel
from planner.cost.degrees import tensor_degrees
from planner.cost.training import read_training
from planner.errors import SpecError
from planner.training.space import BATCH, LEFT_OUT, Count, count_configurations
from planner.training.spec import TrainingSpec

OF_DEGREES = ("layers_per_stage", "sequence_parallel", "expert_load")
"""Fields that can only be checked for given degrees."""


NOTHING = (
    "No degrees that are allowed multiply to that, or there are too few layers or micro-batches "
    "for the interleaving"
)


def check_choices(spec: TrainingSpec) -> None:
    """Raises `SpecError` where a field has a value that no configuration can have, or where
    none is left."""
    model, cluster = spec.model, spec.cluster
    layers = spec.fixed.get("layers_per_stage")
    apart = {name: v for name, v in spec.fixed.items() if name not in OF_DEGREES}
    one = {"pipeline_parallel": 1, "data_parallel": 1, "micro_batches": 1}
    training = read_training({**apart, **one}, model, cluster)
    # Times beyond the formats are told here, where the client hears of it.
    CostModel.of(model, cluster, training)
    tensor = tensor_degrees(model, cluster)
    _check(
        spec,
        "tensor_parallel",
        lambda value: value in tensor,
        "does not divide the model's heads and sizes and the GPUs of a node",
        f"Degrees that fit: {', '.join(map(str, tensor))}.",
    )
    _check(
        spec,
        "pipeline_parallel",
        lambda value: value <= model.layers,
        "needs at least as many layers",
        f"Give at most {model.layers}.",
    )
    _check(
        spec,
        "expert_parallel",
        lambda value: model.experts % value == 0,
        f"does not divide the model's experts ({model.experts})",
        "Give a divisor.",
    )
    _check(
        spec,
        "context_parallel",
        lambda value: value == 1 or training.sequence % (2 * value) == 0,
        f"needs a sequence that 2 x context_parallel divides ({training.sequence})",
        "Change one of the two.",
    )
    for name in ("data_parallel", "micro_batch_size"):
        _check(
            spec,
            name,
            lambda value: spec.global_batch_size % value == 0,
            f"does not divide the global batch ({spec.global_batch_size})",
            "Change one of the two.",
        )
    if layers is not None and sum(layers) != model.layers:
        raise SpecError(
            ("training", "layers_per_stage"),
            f"adds up to {sum(layers)}; the model has {model.layers} layers.",
            "Give one number per stage.",
        )
    count = count_configurations(spec)
    if not count.configurations:
        raise _nothing_left(spec, count)


def _check(
    spec: TrainingSpec, name: str, fits: Callable[[int], bool], wrong: str, remedy: str
) -> None:
    for value in getattr(spec.choices, name) or ():
        if not fits(value):
            where = "training" if name in spec.request["training"] else "search"
            raise SpecError((where, name), f"{value} {wrong}.", remedy)


def _nothing_left(spec: TrainingSpec, count: Count) -> SpecError:
    reasons = "; ".join(f"{LEFT_OUT[rule]} ({number})" for rule, number in count.left_out.items())
    devices = ", ".join(map(str, spec.devices))
    return SpecError(
        ("training", "global_batch_size") if BATCH in count.left_out else ("training",),
        f"leaves no configuration of {devices} GPUs. {reasons or NOTHING}.",
        "Fix fewer degrees, give `search.devices`, or change the global batch.",
    )
