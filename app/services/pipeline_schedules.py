"""Requests for a pipeline schedule: from the body to a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from app.schemas.requests import split_body
from app.services.limits import check_raw_size, check_resolved_size
from app.services.submission import JobOptions, Resolved, Submission
from app.settings import Settings

Resolve = Callable[[Mapping[str, Any]], Resolved]


class PipelineSchedules:
    """`resolve` turns the planner's part of a body into a canonical spec (or `SpecError`)."""

    def __init__(self, submission: Submission, resolve: Resolve, settings: Settings) -> None:
        self._submission = submission
        self._resolve = resolve
        self._settings = settings

    def submit(self, body: Mapping[str, Any], *, fresh: bool) -> str:
        """The id of the new job."""
        options, resolved = self._read(body)
        return self._submission.submit(resolved, options, fresh=fresh)

    def preview(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The resolved problem and its bounds; nothing is queued."""
        _, resolved = self._read(body)
        return resolved.preview()

    def _read(self, body: Mapping[str, Any]) -> tuple[JobOptions, Resolved]:
        options, rest = split_body(body)
        check_raw_size(rest, self._settings)
        resolved = self._resolve(rest)
        check_resolved_size(resolved, self._settings)
        return options, resolved
