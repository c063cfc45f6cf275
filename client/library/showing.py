"""What a notebook shows of a plan: static HTML and SVG, without scripts."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
MOST_ROWS = 100
PLAN_COLUMNS = (
    *("rank", "devices", "tensor_parallel", "pipeline_parallel", "data_parallel"),
    *("context_parallel", "expert_parallel", "micro_batch_size", "interleaving", "zero_stage"),
    *("recomputation", "offload", "step_time_ns", "mfu", "peak_bytes"),
)
OPERATOR_COLUMNS = ("name", "kind", "strategy", "layers")


def schedule_svg(document: Row) -> str:
    """The Gantt chart of a pipeline schedule's answer or of a timeline."""
    # Only here: whoever shows nothing loads nothing of the planner. The module needs no package.
    from planner.export.gantt_svg import gantt_svg

    return gantt_svg(document)


def schedule_html(document: Row, title: str) -> str:
    """The chart with a line above it."""
    return f"<p><b>Pipeline schedule</b>: {html.escape(title)}</p>{schedule_svg(document)}"


def plans_html(plans: Sequence[Row], title: str) -> str:
    """The ranked plans."""
    return f"<p><b>Training plan</b>: {html.escape(title)}</p>{_table(PLAN_COLUMNS, plans)}"


def sharding_html(stages: Sequence[Row], title: str) -> str:
    """The strategy of each operator."""
    tables = (_table(OPERATOR_COLUMNS, stage["plan"]["operators"]) for stage in stages)
    return f"<p><b>Sharding plan</b>: {html.escape(title)}</p>{''.join(tables)}"


def status_html(status: Row) -> str:
    """A job that is not over."""
    words = (f"job {status['id']}", status["state"], status.get("phase"))
    return f"<p>{html.escape(': '.join(str(word) for word in words if word))}</p>"


def comparison_html(batch: Row) -> str:
    """The comparison of a batch."""
    columns = ("position", "name", "kind", "state", "engine", "objective", "gap", "ratio")
    return _table(columns, batch["comparison"])


def _table(columns: Iterable[str], rows: Sequence[Row]) -> str:
    heading = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    lines = [
        "<tr>" + "".join(f"<td>{_cell(row.get(column))}</td>" for column in columns) + "</tr>"
        for row in rows[:MOST_ROWS]
    ]
    further = len(rows) - MOST_ROWS
    note = f"<p>and {further} more</p>" if further > 0 else ""
    return f"<table><thead><tr>{heading}</tr></thead><tbody>{''.join(lines)}</tbody></table>{note}"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return html.escape(f"{value:.4g}" if isinstance(value, float) else str(value))
