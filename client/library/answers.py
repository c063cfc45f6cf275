"""What a service answered: a document, or an error of the client's."""

from __future__ import annotations

from typing import Any

import httpx

from client.errors import ApiError, NoPlan, ServiceUnreachable
from client.library.requests import Document
from client.library.versions import VERSION_HEADER, check_version

NO_CONTENT = 204
NO_PLAN_CODES = frozenset(
    {"no_plan", "no_plan_within_limit", "out_of_memory", "solver_crashed", "worker_lost"}
)


def settled(server: str, outcome: httpx.Response | httpx.HTTPError) -> httpx.Response:
    """The answer itself.

    Raises `ServiceUnreachable` where there is none, `IncompatibleServer` where it is of another
    version, and `ApiError` where it is a refusal. The content has to be read by now.
    """
    if isinstance(outcome, httpx.HTTPError):
        raise unreachable(server, outcome) from outcome
    said = outcome.headers.get(VERSION_HEADER)
    # What is between here and the service may refuse in its place.
    if said is not None:
        check_version(server, said)
    if outcome.status_code >= 400:
        raise refusal(outcome)
    return outcome


def document_of(server: str, response: httpx.Response) -> Document:
    """The JSON object of an answer; an empty one of an answer that has no content."""
    if response.status_code == NO_CONTENT:
        return {}
    try:
        content = response.json()
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ServiceUnreachable(
            f"{server} answered with something else than JSON; is it a Loadmaster service?"
        )
    check_version(server, response.headers.get(VERSION_HEADER))
    return content


def unreachable(server: str, error: Exception) -> ServiceUnreachable:
    """Nobody answers at this address, or not in time."""
    if isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout | httpx.PoolTimeout):
        return ServiceUnreachable(
            f"what is at {server} has not answered in time ({type(error).__name__}); it has much "
            "to do, or is no Loadmaster service"
        )
    return ServiceUnreachable(
        f"no Loadmaster service answers at {server} ({error or type(error).__name__}); "
        "start one with `loadmaster serve` or name another address"
    )


def refusal(response: httpx.Response) -> ApiError:
    """The service's problem+json (RFC 9457) as an exception."""
    try:
        content = response.json()
    except ValueError:
        content = None
    if not isinstance(content, dict):
        content = {}
    first = _first_error(content)
    code = str(content.get("code") or "")
    is_over = response.status_code == 410 and code != "job_over"
    kind = NoPlan if is_over or code in NO_PLAN_CODES else ApiError
    return kind(
        status=response.status_code,
        title=str(content.get("title") or response.reason_phrase or response.status_code),
        detail=str(first.get("message") or content.get("detail") or ""),
        code=code,
        path=str(first.get("path") or ""),
        remedy=str(first.get("remedy") or ""),
    )


def _first_error(content: Document) -> dict[str, Any]:
    errors = content.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else {}
    return first if isinstance(first, dict) else {}
