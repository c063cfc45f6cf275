"""Turn whatever is raised while a request is served into a problem document."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from app.database import UNREACHABLE, lacks_schema
from app.errors import (
    PROBLEM_MEDIA_TYPE,
    RETRY_AFTER_S,
    DatabaseUnavailable,
    FieldError,
    HttpError,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    ServiceError,
)
from app.observability import metrics
from app.observability.context import request_id
from app.observability.http import REQUEST_ID
from app.root_path import public_path
from app.security.headers import security_headers
from planner.errors import SpecError

logger = logging.getLogger(__name__)
SCHEMA_RETRY_AFTER_S = 30
METHODS = ("GET", "HEAD", "POST", "PATCH", "DELETE")


def install(app: FastAPI) -> None:
    """Register the handlers."""
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(SpecError, _spec_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_exception)
    for unreachable in UNREACHABLE:
        app.add_exception_handler(unreachable, _database_error)
    app.add_exception_handler(ProgrammingError, _statement_error)
    app.add_exception_handler(Exception, _unexpected)


def problem_response(request: Request, error: ServiceError) -> JSONResponse:
    """The answer for an error."""
    document = error.to_document(public_path(request.scope["path"]))
    return JSONResponse(
        document,
        status_code=document["status"],
        headers=error.headers,
        media_type=PROBLEM_MEDIA_TYPE,
    )


def _service_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ServiceError)
    return problem_response(request, error)


def _spec_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SpecError)
    return problem_response(request, InvalidRequest.from_spec_error(error))


def _validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    fields = [
        # The first part says where it was read from: "query", "path", "header" or "body".
        FieldError.of_complaint(entry["loc"][1:], entry)
        for entry in error.errors()
    ]
    detail = "; ".join(f"{field.path}: {field.message}" for field in fields)
    return problem_response(request, InvalidRequest(detail, errors=fields))


def _http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    path = request.scope["path"]
    if error.status_code == 404:
        return problem_response(request, NotFound(f"There is no {path}."))
    if error.status_code == 405:
        detail = f"{path} does not take {request.method}."
        headers = {"Allow": ", ".join(_methods_at(request))}
        return problem_response(request, MethodNotAllowed(detail, headers=headers))
    known = HttpError(error.status_code, str(error.detail), error.headers)
    return problem_response(request, known)


def _methods_at(request: Request) -> list[str]:
    """Of all routes of the address; the framework names those of the first one."""
    return [
        method
        for method in METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in request.app.routes
        )
    ]


def _database_error(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, OperationalError) and lacks_schema(error):
        return _schema_error(request, error)
    metrics.database_failed()
    logger.error("the database is unavailable: %s", error)
    return problem_response(
        request,
        DatabaseUnavailable(
            f"Nothing was lost; try again in {RETRY_AFTER_S} s.",
            headers={"Retry-After": str(RETRY_AFTER_S)},
        ),
    )


def _statement_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProgrammingError)
    if not lacks_schema(error):
        raise error
    return _schema_error(request, error)


def _schema_error(request: Request, error: DBAPIError) -> JSONResponse:
    logger.error("the database has another schema: %s", error.orig)
    return problem_response(
        request,
        DatabaseUnavailable(
            "Its schema is not the one of this version: whoever runs the service has to run "
            "`loadmaster db migrate`.",
            headers={"Retry-After": str(SCHEMA_RETRY_AFTER_S)},
        ),
    )


def _unexpected(request: Request, error: Exception) -> JSONResponse:
    # The server logs the traceback, since this handler answers for an exception that goes on. It
    # stands outside of all middleware, so that nothing else says which request it was.
    asked = request_id()
    headers = dict(security_headers(request.scope["path"]))
    if asked is not None:
        headers[REQUEST_ID] = asked
    detail = "The service's log says more; look for the request's id."
    return problem_response(request, InternalError(detail, headers=headers))
