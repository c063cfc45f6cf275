"""What this service accepts at most; checked before and after a request is resolved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.errors import LimitExceeded
from app.services.submission import Resolved
from app.settings import Settings

# Where a raw body says how large a problem is; a problem's lists are counted.
MICRO_BATCH_FIELDS = (("problem", "micro_batches"), ("training", "micro_batches"))
STAGE_FIELDS = (("problem", "stages"), ("problem", "devices"), ("training", "pipeline_parallel"))


def check_raw_size(body: Mapping[str, Any], settings: Settings) -> None:
    """Refuse what would already be too large to resolve. Ill-typed fields are left to resolving."""
    for path in MICRO_BATCH_FIELDS:
        _check(path, _size(body, path), settings.max_micro_batches, "micro-batches")
    for path in STAGE_FIELDS:
        _check(path, _size(body, path), settings.max_stages, path[-1].replace("_", " "))


def check_resolved_size(resolved: Resolved, settings: Settings) -> None:
    """Refuse a resolved request that is too large or may take too long."""
    _check(("problem", "stages"), resolved.stages, settings.max_stages, "stages")
    _check(
        ("problem", "micro_batches"),
        resolved.micro_batches,
        settings.max_micro_batches,
        "micro-batches",
    )
    _check(
        ("problem",),
        resolved.operations,
        settings.max_operations,
        "operations (3 x stages x micro-batches)",
    )
    if resolved.is_reproducible and resolved.time_limit_s > settings.max_time_limit_s:
        raise LimitExceeded.of(
            "solver.search_iterations",
            f"may take {resolved.time_limit_s:g} seconds, and a solve here may take "
            f"{settings.max_time_limit_s:g}.",
            "Give `time_limit_s` instead.",
        )
    _check(("solver", "time_limit_s"), resolved.time_limit_s, settings.max_time_limit_s, "seconds")


def _size(body: Mapping[str, Any], path: tuple[str, ...]) -> float:
    value: Any = body
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, list):
        return len(value)
    return value if isinstance(value, (int, float)) else 0


def _check(path: tuple[str, ...], value: float, limit: float, unit: str) -> None:
    if value > limit:
        raise LimitExceeded.of(
            ".".join(path), f"{value:g} {unit} are too many.", f"Give at most {limit:g}."
        )
