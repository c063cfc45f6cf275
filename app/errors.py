"""Everything that can go wrong with a request, as RFC 9457 problem documents.

ServiceError
├── MalformedBody 400        ├── ResultNotReady 409
├── KeyInAddress 400         ├── SolveFailed, JobOver 410
├── NotAuthenticated 401     ├── BodyTooLarge 413
├── NotAllowed 403           ├── UnsupportedMediaType 415
├── ForeignOrigin 403        ├── UnknownHost 421
├── LocalOnly 403            ├── InvalidRequest 422
├── NotFound 404             │   ├── LimitExceeded 422
│   ├── JobNotFound 404      │   └── IdempotencyKeyReused 422
│   ├── BatchNotFound 404    ├── TooManyRequests 429
│   ├── RunNotFound 404      ├── TooManyQueued, TooManyRuns 429
│   ├── VersionNotFound 404  ├── TooManyStreamsOfTenant 429
│   ├── NoPlan 404           ├── HttpError (whatever status the framework raised)
│   ├── NoExport 404         ├── DatabaseUnavailable 503
│   ├── NoTimeline 404       └── TooManyStreams 503
│   ├── RequestNotKept 404
│   ├── CalibrationNotFound 404
│   └── DashboardMissing 404
├── MethodNotAllowed 405
├── RunStopped, RunActive, RunWithoutPlan, VersionSuperseded 409
└── InternalError 500
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from app.observability.context import request_id
from planner.documents import complaint_and_remedy
from planner.errors import SpecError

PROBLEM_MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:loadmaster:problem:"
RETRY_AFTER_S = 2
"""When a client may ask again after `DatabaseUnavailable`."""


@dataclass(frozen=True)
class FieldError:
    """What is wrong with one field, `path` in dots ("problem.stages.3.forward_ns")."""

    path: str
    message: str
    remedy: str = ""

    @classmethod
    def of_complaint(cls, path: Sequence[str | int], complaint: Mapping[str, Any]) -> FieldError:
        """An entry of pydantic's list of errors; where the field is, the caller knows better."""
        return cls(".".join(map(str, path)), *complaint_and_remedy(complaint))


class ServiceError(Exception):
    """Base of the tree: each class has a status, a code that never changes, and a title."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    title: ClassVar[str] = "The service failed"

    def __init__(
        self,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.members = dict(members or {})

    def to_document(self, instance: str) -> dict[str, Any]:
        """The problem document; `instance` is the path that was asked for."""
        asked = request_id()
        return {
            "type": TYPE_PREFIX + self.code,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "instance": instance,
            "errors": [
                {"path": error.path, "message": error.message, "remedy": error.remedy}
                for error in self.errors
            ],
            **({} if asked is None else {"request_id": asked}),
            **self.members,
        }


class MalformedBody(ServiceError):
    """The body is not JSON that the service reads."""

    status, code, title = 400, "malformed_body", "The body is not valid JSON"

    @classmethod
    def of(cls, message: str, remedy: str) -> MalformedBody:
        """The error of the whole body, which has no path."""
        return cls(f"The body {message} {remedy}", errors=[FieldError("", message, remedy)])


class KeyInAddress(ServiceError):
    """A key was sent in the address, where logs and histories keep it."""

    status, code, title = 400, "key_in_address", "A key does not belong into an address"


class NotAuthenticated(ServiceError):
    """There is no key, or it is not valid (any more)."""

    status, code, title = 401, "not_authenticated", "A valid API key is needed"


class NotAllowed(ServiceError):
    """The key is valid, but not for this."""

    status, code, title = 403, "not_allowed", "The key does not allow this"


class ForeignOrigin(ServiceError):
    """A web page of another origin sent this."""

    status, code, title = 403, "foreign_origin", "Pages of other origins may not do this"


class LocalOnly(ServiceError):
    """The service asks for no key, and the request came over a network."""

    status, code, title = 403, "local_only", "The service answers on its own machine only"


class NotFound(ServiceError):
    """There is nothing at this address."""

    status, code, title = 404, "not_found", "There is nothing here"


class JobNotFound(NotFound):
    """No job has this id."""

    code, title = "job_not_found", "There is no such job"


class BatchNotFound(NotFound):
    """No batch has this id."""

    code, title = "batch_not_found", "There is no such batch"


class RunNotFound(NotFound):
    """No run has this id."""

    code, title = "run_not_found", "There is no such run"


class VersionNotFound(NotFound):
    """The run has no plan of this number, or its document is too old to be kept."""

    code, title = "version_not_found", "The run has no such plan"


class CalibrationNotFound(NotFound):
    """No calibration of this kind of GPU has this number, or there is none at all."""

    code, title = "calibration_not_found", "There is no such calibration"


class NoPlan(NotFound):
    """The job was cancelled before a plan was found."""

    code, title = "no_plan", "The job ended without a plan"


class RequestNotKept(NotFound):
    """The job was made by a version that did not keep what was posted."""

    code, title = "request_not_kept", "The request of this job was not kept"

    @classmethod
    def of(cls, message: str, remedy: str) -> RequestNotKept:
        """The error of the whole job, which has no path."""
        return cls(f"The job {message} {remedy}", errors=[FieldError("", message, remedy)])


class NoExport(NotFound):
    """The result of the job is not to be had in this format."""

    code, title = "no_export", "The result cannot be exported like this"


class NoTimeline(NotFound):
    """The result has no schedule, or none can be shown of this name."""

    code, title = "no_timeline", "There is no timeline of this"

    @classmethod
    def of(cls, path: str, message: str, remedy: str) -> NoTimeline:
        """The error of a parameter, or of the whole result, which has no path."""
        return cls(f"{message} {remedy}".strip(), errors=[FieldError(path, message, remedy)])


class DashboardMissing(NotFound):
    """The dashboard was not built where the service was installed from."""

    code, title = "dashboard_missing", "The dashboard is not installed"


class MethodNotAllowed(ServiceError):
    """The address exists but not for this method."""

    status, code, title = 405, "method_not_allowed", "The method is not allowed here"


class ResultNotReady(ServiceError):
    """The job is not over yet."""

    status, code, title = 409, "not_over", "The job is not over yet"


class RunStopped(ServiceError):
    """The run was stopped, and nothing about it changes any more."""

    status, code, title = 409, "run_stopped", "The run was stopped"


class VersionSuperseded(ServiceError):
    """There is a newer plan, so that this one will not be applied."""

    status, code, title = 409, "version_superseded", "There is a newer plan"


class RunActive(ServiceError):
    """The run is followed, and has to be stopped first."""

    status, code, title = 409, "run_active", "The run is active"


class RunWithoutPlan(ServiceError):
    """The run has no plan yet that this could be told of."""

    status, code, title = 409, "no_plan_yet", "The run has no plan yet"


class SolveFailed(ServiceError):
    """The job is over and will never have a result; `code` says why.

    410 rather than a 5xx: the request for the result was answered, and repeating it is useless.
    """

    status, code, title = 410, "failed", "The solve failed"

    def to_document(self, instance: str) -> dict[str, Any]:
        """The document with the code of the failure itself."""
        document = super().to_document(instance)
        document["type"] = TYPE_PREFIX + str(document["code"])
        return document


class JobOver(ServiceError):
    """No event of the job follows."""

    status, code, title = 410, "job_over", "The job is over"


class BodyTooLarge(ServiceError):
    """The body has more bytes or values than the service reads."""

    status, code, title = 413, "body_too_large", "The body is too large"


class UnsupportedMediaType(ServiceError):
    """The body is not declared as JSON, or is compressed."""

    status, code, title = 415, "unsupported_media_type", "The body has to be JSON"


class UnknownHost(ServiceError):
    """The request names a host that this service does not go by."""

    status, code, title = 421, "unknown_host", "The service does not go by this name"


class InvalidRequest(ServiceError):
    """Some field of the request cannot be accepted."""

    status, code, title = 422, "invalid_request", "The request is not valid"

    @classmethod
    def of(cls, path: str, message: str, remedy: str = "") -> InvalidRequest:
        """The error of a single field."""
        # The body as a whole has no path.
        detail = ": ".join(filter(None, [path, f"{message} {remedy}".strip()]))
        return cls(detail, errors=[FieldError(path, message, remedy)])

    @classmethod
    def from_spec_error(cls, error: SpecError) -> InvalidRequest:
        """The planner's complaint about a field."""
        path = ".".join(str(part) for part in error.path)
        return cls.of(path, error.message, error.remedy)


class LimitExceeded(InvalidRequest):
    """The request is valid but larger than this service accepts."""

    code, title = "limit_exceeded", "The request exceeds a limit of this service"


class TooManyRequests(ServiceError):
    """The caller asked more often than it may."""

    status, code, title = 429, "too_many_requests", "Too many requests"


class TooManyQueued(ServiceError):
    """As many solves of this tenant wait as may wait."""

    status, code, title = 429, "too_many_queued", "Too many jobs are queued"


class TooManyRuns(ServiceError):
    """As many runs of this tenant are active as may be."""

    status, code, title = 429, "too_many_runs", "Too many runs are active"


class TooManyStreamsOfTenant(ServiceError):
    """This process serves as many streams of events to the tenant as it may."""

    status, code, title = 429, "too_many_streams", "Too many streams of the tenant are open"


class InternalError(ServiceError):
    """A fault of the service; its log has the traceback, the answer does not."""


class IdempotencyKeyReused(InvalidRequest):
    """The key came before with another request."""

    code, title = "idempotency_key_reused", "The idempotency key was used before"


class DatabaseUnavailable(ServiceError):
    """The database cannot be reached or is too busy."""

    status, code, title = 503, "database_unavailable", "The database is unavailable"


class TooManyStreams(ServiceError):
    """This process serves as many streams of events as it may."""

    status, code, title = 503, "too_many_streams", "Too many streams of events are open"


class HttpError(ServiceError):
    """An error of the framework without a class of its own."""

    title = "The request cannot be served"

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None) -> None:
        super().__init__(detail, headers=headers)
        self.http_status = status

    def to_document(self, instance: str) -> dict[str, Any]:
        """The document with the framework's status."""
        code = "http_error"
        return {
            **super().to_document(instance),
            "type": TYPE_PREFIX + code,
            "status": self.http_status,
            "code": code,
        }
