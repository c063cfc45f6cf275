"""The OpenAPI document: stable operation ids, the request body and the problem document."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel

from app.errors import PROBLEM_MEDIA_TYPE, InvalidRequest
from app.schemas.problems import Problem, problem_responses
from app.schemas.requests import PipelineScheduleRequest, ShardingPlanRequest, TrainingPlanRequest
from planner.estimates.registry import REQUESTS

# Described here because no route takes or returns them by its signature.
EXTRA_SCHEMAS: tuple[type[BaseModel], ...] = (
    PipelineScheduleRequest,
    ShardingPlanRequest,
    TrainingPlanRequest,
    *REQUESTS.values(),
    Problem,
)


def operation_id(route: APIRoute) -> str:
    """The name of the function: it stays when an address changes."""
    return route.name


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """The description of an application, made once."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
        )
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for model in EXTRA_SCHEMAS:
            schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(schema.pop("$defs", {}))
            schemas[model.__name__] = schema
        _replace_validation_errors(document)
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
