"""The problem document as the OpenAPI description shows it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from app.errors import PROBLEM_MEDIA_TYPE, ServiceError


class FieldProblem(BaseModel):
    """What is wrong with one field."""

    path: str = Field(description="The field, in dots: `problem.stages.3.forward_ns`.")
    message: str
    remedy: str = Field(description="What would be accepted instead; may be empty.")


class Problem(BaseModel):
    """An error (RFC 9457). `code` never changes; `detail` is for people."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str
    instance: str
    request_id: str = Field(description="As in the header `X-Request-ID` and the service's log.")
    errors: list[FieldProblem]


def problem_responses(*errors: type[ServiceError]) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that may answer with these errors."""
    responses: dict[int | str, dict[str, Any]] = {}
    for error in errors:
        known = responses.setdefault(
            error.status,
            {
                "description": "",
                "content": {
                    PROBLEM_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}
                },
            },
        )
        said = f"{error.title} (`{error.code}`)."
        known["description"] = f"{known['description']} {said}".strip()
    return responses
