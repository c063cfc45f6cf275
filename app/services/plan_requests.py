"""Requests for one kind of plan: from the body to a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from app.callers import Caller
from app.schemas.requests import split_body
from app.services.limits import Limits
from app.services.submission import JobOptions, Resolved, Submission

ResolvedT = TypeVar("ResolvedT", bound=Resolved)


class PlanRequests(Generic[ResolvedT]):
    """`resolve` turns the planner's part of a body into a canonical spec (or `SpecError`), and
    `limits` refuses what is too large before and after that."""

    def __init__(
        self,
        submission: Submission,
        resolve: Callable[[Mapping[str, Any]], ResolvedT],
        limits: Limits[ResolvedT],
    ) -> None:
        self._submission = submission
        self._resolve = resolve
        self._limits = limits

    def submit(self, caller: Caller, body: Mapping[str, Any], *, fresh: bool) -> str:
        """The id of the new job."""
        options, resolved = self._read(body)
        return self._submission.submit(caller.tenant, resolved, options, fresh=fresh)

    def preview(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """What the request resolves to and what bounds it; nothing is queued."""
        _, resolved = self._read(body)
        return resolved.preview()

    def _read(self, body: Mapping[str, Any]) -> tuple[JobOptions, ResolvedT]:
        options, rest = split_body(body)
        self._limits.check_body(rest)
        resolved = self._resolve(rest)
        self._limits.check_resolved(resolved)
        return options, resolved
