"""A training plan as a table: one row per ranked plan."""

from __future__ import annotations

from planner.export.csv_text import EXTENSION, MEDIA_TYPE, Cell, csv_text
from planner.export.format import Document, Format, Source

FIELDS = (
    *("rank", "devices", "tensor_parallel", "pipeline_parallel", "data_parallel"),
    *("context_parallel", "expert_parallel", "sequence_parallel", "interleaving"),
    *("micro_batch_size", "micro_batches", "zero_stage", "recomputation", "offload"),
    *("step_time_ns", "samples_per_s", "tokens_per_s", "mfu"),
    *("peak_bytes", "limit_bytes", "headroom_bytes"),
)
"""Of each plan; beside them how long its verified step and its solved schedule take."""
FURTHER = ("verified_step_time_ns", "schedule_makespan_ns")


def with_plans(answer: Document) -> Document | None:
    """The answer, if it has plans: nothing may fit."""
    return answer if answer.get("plans") else None


def write(answer: Document, _: Source) -> str:
    """The table."""
    return csv_text((*FIELDS, *FURTHER), (_row(plan) for plan in answer["plans"]))


def _row(plan: Document) -> tuple[Cell, ...]:
    verified, schedule = plan.get("verified") or {}, plan.get("schedule") or {}
    further = (verified.get("step_time_ns"), schedule.get("makespan_ns"))
    # Answers that older versions stored may lack a field.
    return *(plan.get(field) for field in FIELDS), *further


PLANS_CSV = Format(
    name="csv",
    title="Plans as a table (CSV)",
    media_type=MEDIA_TYPE,
    extension=EXTENSION,
    carries="Degrees, step time, throughput and memory of every ranked plan.",
    leaves_out="Schedules, sharding plans, and the configurations that were dropped.",
    part=with_plans,
    write=write,
)
