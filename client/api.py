"""A small client of the REST API: one method per thing a person wants from it."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from client.errors import ApiError, InputError, ServiceUnreachable

DEFAULT_SERVER = "http://127.0.0.1:8400"
TERMINAL_STATES = frozenset({"succeeded", "failed", "cancelled", "infeasible"})

Document = dict[str, Any]


class LoadmasterClient:
    """Talks to one service. Use as a context manager, or call `close`.

    Every method raises `ApiError` where the service refuses (with the field and the remedy) and
    `ServiceUnreachable` where nothing answers.
    """

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        *,
        api_key: str | None = None,
        timeout_s: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if not server.startswith(("http://", "https://")):
            raise InputError("--server", f"cannot be {server!r}.", "Write http://HOST:PORT.")
        headers = {"User-Agent": "loadmaster-client", "Accept": "application/json"}
        if api_key is not None:
            if not (api_key.isascii() and api_key.isprintable()) or api_key.split() != [api_key]:
                raise InputError("API key", "is none.", "Give the one line that was printed.")
            headers["Authorization"] = f"Bearer {api_key}"
        self.server = server.rstrip("/")
        self._http = httpx.Client(
            base_url=self.server,
            timeout=timeout_s,
            transport=transport,
            headers=headers,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def submit(self, body: Document, *, fresh: bool = False) -> Document:
        """Ask for a pipeline schedule: `id`, `state`, `cache` and, if known already, `result`.

        `fresh` solves again even where a stored answer exists.
        """
        return self._submit("/v1/pipeline-schedules", body, fresh)

    def submit_sharding(self, body: Document, *, fresh: bool = False) -> Document:
        """Ask for a sharding plan, likewise."""
        return self._submit("/v1/sharding-plans", body, fresh)

    def submit_training(self, body: Document, *, fresh: bool = False) -> Document:
        """Ask for a training plan, likewise."""
        return self._submit("/v1/training-plans", body, fresh)

    def estimate(self, name: str, body: Document) -> Document:
        """The answer of an estimate (`memory`, `step-time`, …), at once."""
        path = f"/v1/{urllib.parse.quote(name, safe='')}-estimates"
        return self._document("POST", path, json=body)

    def status(self, job_id: str) -> Document:
        """State, best objective, bound and gap of a job."""
        return self._document("GET", _job_path(job_id))

    def result(self, job_id: str) -> Document:
        """The answer of a job that is over (409 before)."""
        return self._document("GET", f"{_job_path(job_id)}/result")

    def progress(self, job_id: str) -> list[Document]:
        """All steps of its solve so far, page by page."""
        steps: list[Document] = []
        offset = 0
        while True:
            params = {"offset": offset}
            page = self._document("GET", f"{_job_path(job_id)}/progress", params=params)
            steps += page["steps"]
            offset = page["next_offset"]
            if not page["steps"]:
                return steps

    def timeline(self, job_id: str, row: Mapping[str, Any] | None = None) -> Document:
        """The operations, memory and idle time of its schedule, or of the classic schedule of a
        `row` of the result's comparison."""
        params = {} if row is None else {"schedule": row["name"], "placement": row["placement"]}
        return self._document("GET", f"{_job_path(job_id)}/timeline", params=params)

    def export(self, job_id: str, name: str) -> str:
        """The answer of a job in the format of this name."""
        path = f"{_job_path(job_id)}/export/{urllib.parse.quote(name, safe='')}"
        # Whatever the media type is; a problem is JSON all the same.
        return self._request("GET", path, headers={"Accept": "*/*"}).text

    def log(self, job_id: str, offset: int = 0) -> Document:
        """`lines` of the solver's log from `offset`, `next_offset`, and whether it is `over`."""
        return self._document("GET", f"{_job_path(job_id)}/log", params={"offset": offset})

    def cancel(self, job_id: str) -> Document:
        """Stop a job; the best plan found so far is kept."""
        return self._document("DELETE", _job_path(job_id))

    def jobs(self, *, limit: int, **filters: str) -> Iterator[Document]:
        """The newest `limit` jobs that match, page by page."""
        params: dict[str, str | int] = {**filters, "limit": min(limit, 100)}
        while limit > 0:
            page = self._document("GET", "/v1/jobs", params=params)
            entries = page["jobs"]
            yield from entries[:limit]
            limit -= len(entries)
            cursor = page.get("next_cursor")
            if not cursor:
                return
            params["cursor"] = cursor

    def _submit(self, path: str, body: Document, fresh: bool) -> Document:
        headers = {"Cache-Control": "no-cache"} if fresh else {}
        return self._document("POST", path, json=body, headers=headers)

    def _document(self, method: str, path: str, **options: Any) -> Document:
        response = self._request(method, path, **options)
        try:
            content = response.json()
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise ServiceUnreachable(
                f"{self.server} answered with something else than JSON; is it a Loadmaster service?"
            )
        return content

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **options)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServiceUnreachable(
                f"no Loadmaster service answers at {self.server} "
                f"({error or type(error).__name__}); "
                "start one with `loadmaster serve` or give --server another address"
            ) from error
        if response.status_code >= 400:
            raise _problem(response)
        return response


def _job_path(job_id: str) -> str:
    if not job_id.strip("."):
        # A client takes dots for steps in the path, and would ask for something else.
        raise InputError("ID", f"{job_id!r} is no job's.", "`loadmaster jobs` lists them.")
    return f"/v1/jobs/{urllib.parse.quote(job_id, safe='')}"


def _problem(response: httpx.Response) -> ApiError:
    """The service's problem+json (RFC 9457) as an exception."""
    try:
        content = response.json()
    except ValueError:
        content = None
    if not isinstance(content, dict):
        content = {}
    errors = content.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else {}
    return ApiError(
        status=response.status_code,
        title=str(content.get("title") or response.reason_phrase or response.status_code),
        detail=str(first.get("message") or content.get("detail") or ""),
        code=str(content.get("code") or ""),
        path=str(first.get("path") or ""),
        remedy=str(first.get("remedy") or ""),
    )
