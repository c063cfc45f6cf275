"""The sharding plan of a training plan's tensor groups, in the formats of sharding plans.

A training plan has the split of one layer on the GPUs of one tensor group; all layers and all
groups are split alike. Its request is made anew as the solver of the training plan made it.
"""

from __future__ import annotations

from dataclasses import replace

from planner.export.format import Document, Format, Source
from planner.export.run_shape import run_shape
from planner.export.sharding_csv import SHARDING_CSV
from planner.export.sharding_targets import modules
from planner.export.sharding_targets.deepspeed_autotp import DEEPSPEED_AUTOTP
from planner.export.sharding_targets.dtensor_json import DTENSOR_JSON
from planner.export.sharding_targets.transformers_tp_plan import TRANSFORMERS_TP_PLAN
from planner.training.request import resolve_request
from planner.training.tensor_group import group_request

NOT_SOLVED = "The best plan has no sharding plan of its tensor groups: {reason}"
NOT_SAID = "the answer does not say why."
LEFT_OUT = "Embedding and output layer: the plan is of one of the layers, which are all alike."


def with_best(answer: Document) -> Document | None:
    """The answer, if it has a best plan: nothing may fit."""
    return answer if (answer.get("best") or {}).get("training") else None


def hindrance(_: Document, source: Source) -> str | None:
    """Why there is no split of the layers, or why it is not known which modules it is of."""
    best = source.answer["best"]
    if not best.get("sharding"):
        reason = (best.get("left_out") or {}).get("sharding", NOT_SAID)
        return NOT_SOLVED.format(reason=reason)
    run = run_shape(source)
    if run.run is None:
        return run.undescribed
    return modules.hindrance(best["sharding"], of_tensor_group(source))


def of_tensor_group(source: Source) -> Source:
    """The sharding plan with a request that it answers."""

    def make() -> Source:
        run = run_shape(source).run
        assert run is not None
        spec = resolve_request(source.answer["provenance"]["request"]).resolved
        return replace(
            source,
            kind="sharding",
            answer=source.answer["best"]["sharding"],
            request=group_request(spec, run.training),
        )

    return source.once("tensor group", make)


def _best(own: Format, title: str, name: str | None = None) -> Format:
    def write(_: Document, source: Source) -> str:
        group = of_tensor_group(source)
        return own.write(group.answer, group)

    return replace(
        own,
        name=name or own.name,
        title=title,
        leaves_out=f"{own.leaves_out} {LEFT_OUT}",
        part=with_best,
        hindrance=hindrance,
        write=write,
    )


BEST_SHARDING = (
    _best(SHARDING_CSV, "Operators of the best plan's layers as a table (CSV)", "sharding-csv"),
    _best(DTENSOR_JSON, "Placements of the best plan's layers for PyTorch's DTensors (JSON)"),
    _best(
        DEEPSPEED_AUTOTP,
        "Split of the best plan's layers for DeepSpeed's tensor parallelism (JSON)",
    ),
    _best(TRANSFORMERS_TP_PLAN, "Tensor-parallel plan of the best plan for transformers (JSON)"),
)
"""Not as arguments of Megatron-LM: those of the whole plan have the degree and the sequences."""
