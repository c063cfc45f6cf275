"""Requests for one kind of plan: from the body to a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from app.callers import Caller
from app.schemas.requests import JobFields, split_body
from app.services.calibrations.use import CalibrationsInUse
from app.services.idempotency import RequestKey
from app.services.limits import Limits
from app.services.request_texts import posted
from app.services.resolutions import Resolution, Resolutions, Resolved, json_text, key_of
from app.services.submission import JobOptions, Made, Submission, Wanted
from app.services.webhooks.targets import WebhookTargets

ResolvedT = TypeVar("ResolvedT", bound=Resolved)


class PlanRequests(Generic[ResolvedT]):
    """`resolve` turns the planner's part of a body into a canonical spec (or `SpecError`), and
    `limits` refuses what is too large before and after that. What a body was resolved to is
    remembered for the next one that is equal."""

    def __init__(
        self,
        kind: str,
        submission: Submission,
        resolve: Callable[[Mapping[str, Any]], ResolvedT],
        limits: Limits[ResolvedT],
        targets: WebhookTargets,
        calibrations: CalibrationsInUse,
    ) -> None:
        self._kind = kind
        self._submission = submission
        self._resolve = resolve
        self._limits = limits
        self._targets = targets
        self._calibrations = calibrations
        self._resolutions = Resolutions()

    def submit(
        self, caller: Caller, body: Mapping[str, Any], *, fresh: bool, idempotency_key: str | None
    ) -> Made:
        """Make the job, unless this request has come before under this key."""
        key = RequestKey.of(idempotency_key, kind=self._kind, body=body, fresh=fresh)
        made = self._submission.made_before(caller.tenant, key)
        if made is not None:
            return made
        wanted = self.read(caller.tenant, body)
        return self._submission.submit(caller.tenant, wanted, fresh=fresh, key=key)

    def preview(self, caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]:
        """What the request resolves to and what bounds it; nothing is queued."""
        fields, rest = split_body(self.calibrated(caller.tenant, body))
        self._options(fields)
        return self._resolved(rest).preview()

    def calibrated(self, tenant: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The body with the calibration that its cluster names in full."""
        return self._calibrations.applied(tenant, body)

    def read(
        self, tenant: str, body: Mapping[str, Any], defaults: JobFields | None = None
    ) -> Wanted:
        """The job that the body asks for; `defaults` count where the body says nothing, and their
        tags are added."""
        fields, rest = split_body(self.calibrated(tenant, body))
        if defaults is not None:
            fields = _with_defaults(fields, defaults)
        options = self._options(fields)
        text = json_text(rest)
        key = key_of(text)
        resolution = self._resolutions.get(key)
        if resolution is None:
            resolution = Resolution.of(self._resolved(rest))
            self._resolutions.put(key, resolution)
        return Wanted(resolution, options, posted(fields, rest, text))

    def _resolved(self, rest: Mapping[str, Any]) -> ResolvedT:
        self._limits.check_body(rest)
        resolved = self._resolve(rest)
        self._limits.check_resolved(resolved)
        return resolved

    def _options(self, fields: JobFields) -> JobOptions:
        return JobOptions(
            name=fields.name,
            tags=tuple(dict.fromkeys(fields.tags)),
            priority=fields.priority,
            webhook=self._targets.accept(fields.webhook),
        )


def _with_defaults(fields: JobFields, defaults: JobFields) -> JobFields:
    given = {name: getattr(fields, name) for name in fields.model_fields_set}
    return defaults.model_copy(update={**given, "tags": [*defaults.tags, *fields.tags]})
