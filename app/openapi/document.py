"""The OpenAPI document: stable operation ids, request bodies, problem documents and headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter

from app.errors import (
    PROBLEM_MEDIA_TYPE,
    DatabaseUnavailable,
    ForeignOrigin,
    InvalidRequest,
    KeyInAddress,
    LocalOnly,
    NotAllowed,
    NotAuthenticated,
    ServiceError,
    TooManyRequests,
    UnknownHost,
)
from app.openapi.examples import add_examples
from app.openapi.headers import add_headers
from app.openapi.scopes import add_scopes
from app.schemas.batches import BatchRequest
from app.schemas.calibrations import CalibrationRequest
from app.schemas.problems import Problem, problem_responses
from app.schemas.requests import PipelineScheduleRequest, ShardingPlanRequest, TrainingPlanRequest
from app.schemas.runs import AckRequest, RunChange, RunRequest, RunTelemetry
from planner.diagnoses.documents import DiagnosisDocument
from planner.estimates.registry import REQUESTS

# Described here because no route takes or returns them by its signature.
_MODELS: tuple[type[BaseModel], ...] = (
    PipelineScheduleRequest,
    ShardingPlanRequest,
    TrainingPlanRequest,
    BatchRequest,
    RunRequest,
    RunChange,
    AckRequest,
    *REQUESTS.values(),
    DiagnosisDocument,
    CalibrationRequest,
    Problem,
)
EXTRA_SCHEMAS: Mapping[str, TypeAdapter[Any]] = {
    **{model.__name__: TypeAdapter(model) for model in _MODELS},
    "RunTelemetry": RunTelemetry,
}

TAGS = (
    ("jobs", "What was posted: how it is getting on, its result, and cancelling it."),
    ("pipeline schedules", "When each stage of a pipeline computes which micro-batch."),
    ("sharding plans", "How the operators of a graph are divided over a group of devices."),
    ("training plans", "Parallel degrees and micro-batches of a training on a cluster."),
    ("estimates", "Closed formulas, answered at once and without a job."),
    ("diagnoses", "Why a run or a plan does not go well: causes, checks and remedies."),
    ("batches", "Many requests posted at once, and how their answers compare."),
    ("runs", "Training runs that report what they take, and the plans that follow it."),
    ("calibrations", "What runs say of the cost model, by kind of GPU."),
    ("service", "Health, examples, figures and the audit log."),
)

KEYED = (NotAuthenticated, NotAllowed, TooManyRequests, DatabaseUnavailable)
"""What a route that needs a key may answer because of it."""


def operation_id(route: APIRoute) -> str:
    """The name of the function: it stays when an address changes."""
    return route.name


def openapi_document(app: FastAPI, *, asks_for_keys: bool) -> dict[str, Any]:
    """The description of an application, made once."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            tags=[{"name": name, "description": description} for name, description in TAGS],
        )
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for name, adapter in EXTRA_SCHEMAS.items():
            schema = adapter.json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(schema.pop("$defs", {}))
            schemas[name] = schema
        _replace_validation_errors(document)
        if asks_for_keys:
            add_scopes(document, app.routes)
        _add_refusals(document, asks_for_keys)
        add_headers(document)
        add_examples(document)
        app.openapi_schema = document
    return app.openapi_schema


def _replace_validation_errors(document: dict[str, Any]) -> None:
    """FastAPI's own form of a 422 is never sent: every error is a problem document."""
    schemas = document["components"]["schemas"]
    if schemas.pop("HTTPValidationError", None) is None:
        return
    del schemas["ValidationError"]
    for operations in document["paths"].values():
        for operation in operations.values():
            invalid = operation["responses"].get("422")
            if invalid is not None and PROBLEM_MEDIA_TYPE not in invalid["content"]:
                operation["responses"]["422"] = problem_responses(InvalidRequest)[422]


def _add_refusals(document: dict[str, Any], asks_for_keys: bool) -> None:
    """What callers of any route are told before it is reached."""
    common: tuple[type[ServiceError], ...] = (KeyInAddress, UnknownHost, LocalOnly, ForeignOrigin)
    if not asks_for_keys:
        document["components"].pop("securitySchemes", None)
    for operations in document["paths"].values():
        for operation in operations.values():
            refusals = common
            if "security" in operation:
                refusals = (*refusals, *KEYED) if asks_for_keys else (*refusals, TooManyRequests)
                if not asks_for_keys:
                    del operation["security"]
            for status, answer in problem_responses(*refusals).items():
                known = operation["responses"].setdefault(str(status), answer)
                if answer["description"] not in known["description"]:
                    known["description"] += f" {answer['description']}"
