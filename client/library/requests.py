"""What is asked of a service: each request as a description, for whoever sends it."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypedDict

from client.errors import InputError

Document = dict[str, Any]
Kind = Literal["pipeline", "sharding", "training"]
EstimateName = Literal[
    "memory",
    "step-time",
    "recomputation",
    "scaling",
    "offload",
    "communication",
    "checkpoints",
]

DEFAULT_SERVER = "http://127.0.0.1:8400"
TERMINAL_STATES = frozenset({"succeeded", "failed", "cancelled", "infeasible"})
PLAN_PATHS: Mapping[str, str] = {
    "pipeline": "/v1/pipeline-schedules",
    "sharding": "/v1/sharding-plans",
    "training": "/v1/training-plans",
}
LARGEST_PAGE = 100
EVENT_STREAM = "text/event-stream"


@dataclass(frozen=True)
class Call:
    """A request. All of them may be sent again: those that make something carry a key for that."""

    method: str
    path: str
    params: Mapping[str, str | int] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    longest_wait_s: float = 0.0
    """How long the service may take before it answers, because it was asked to wait."""


class JobParts(TypedDict, total=False):
    """Fields of every body that belong to the job."""

    name: str
    tags: Sequence[str]
    priority: int
    webhook: Mapping[str, Any]


class PipelineParts(JobParts, total=False):
    """Of a pipeline schedule: a `problem`, or `model`, `cluster` and `training`."""

    problem: Mapping[str, Any]
    model: str | Mapping[str, Any]
    cluster: str | Mapping[str, Any]
    training: Mapping[str, Any]
    solver: Mapping[str, Any]


class ShardingParts(JobParts, total=False):
    """Of a sharding plan: a `graph` or a `transformer`, `devices`, and what it is judged by."""

    graph: Mapping[str, Any]
    transformer: str | Mapping[str, Any]
    devices: int | str | Mapping[str, Any]
    device_memory_bytes: int | Sequence[int | None]
    alpha: float | Sequence[float]
    pareto: bool
    training: Mapping[str, Any]
    communication: Literal["volume", "time"]
    redundancy: Literal["source", "mesh"]
    stages: int
    pin: Mapping[str, str | Sequence[str]]
    forbid: Mapping[str, str | Sequence[str]]
    explain: Sequence[Mapping[str, str]]
    objective: Mapping[str, float]
    solver: Mapping[str, Any]


class TrainingParts(JobParts, total=False):
    """Of a training plan: `model`, `cluster`, what is fixed of `training`, what to `search`."""

    model: str | Mapping[str, Any]
    cluster: str | Mapping[str, Any]
    training: Mapping[str, Any]
    search: Mapping[str, Any]
    memory_headroom: float
    routing_frequency: Sequence[Any]
    solver: Mapping[str, Any]


class EstimateParts(TypedDict, total=False):
    """Of an estimate: the model on the cluster, and the fields of single estimates."""

    model: str | Mapping[str, Any]
    cluster: str | Mapping[str, Any]
    training: Mapping[str, Any]
    most_overhead: float
    kind: str
    bytes_to_move: int
    chunk_bytes: int
    overlap: float
    in_network_reduction: bool
    parameters_bytes: int
    state_bytes: int
    storage_bytes_per_s: float
    storage_bytes_per_s_per_node: float
    fast_storage: Literal["host_memory", "ssd"]
    fast_bytes_per_s_per_node: float
    fast_contents: Literal["parameters", "state"]
    fast_share: float
    blocking_share: float
    fast_blocking_share: float
    failures_per_day: float
    gpu_mtbf_hours: float
    node_mtbf_hours: float
    detection_s: float
    reschedule_s: float
    load_s: float
    iteration_ns: int
    preemption_notice_s: float


class BatchEntry(TypedDict):
    """One request of a batch: its kind, and what would be posted for it alone."""

    kind: Kind
    request: Mapping[str, Any]
    name: NotRequired[str]


def body_of(body: Mapping[str, Any] | None, parts: Mapping[str, Any]) -> Document:
    """A whole body, with the keyword parts in place of what it says of them."""
    return {**(body or {}), **parts}


def filters(**wanted: str | None) -> dict[str, str]:
    """Of a listing, those that are given."""
    return {field: value for field, value in wanted.items() if value is not None}


def batch_body(
    entries: Iterable[BatchEntry], name: str | None, tags: Iterable[str], priority: int | None
) -> Document:
    """The body of a batch, with those of the fields for all of it that are given."""
    fields = {"name": name, "tags": list(tags) or None, "priority": priority}
    given = {field: value for field, value in fields.items() if value is not None}
    return {**given, "requests": [dict(entry) for entry in entries]}


def submit(kind: str, body: Mapping[str, Any], *, fresh: bool, key: str | None) -> Call:
    """Ask for a plan. `fresh` solves again even where a stored answer exists; with a `key` the
    request can be sent again and makes nothing twice."""
    return _post(PLAN_PATHS[kind], body, fresh=fresh, key=key)


def preview(kind: str, body: Mapping[str, Any]) -> Call:
    """What a request resolves to; nothing is made."""
    return Call("POST", PLAN_PATHS[kind], {"validate_only": "true"}, body=body)


def estimate(name: str, body: Mapping[str, Any]) -> Call:
    """Ask for an estimate."""
    return Call("POST", f"/v1/{_quoted(name)}-estimates", body=body)


def status(job_id: str, *, etag: str | None = None, wait_s: int = 0) -> Call:
    """A job without its result; with an `etag` and `wait_s` once it differs from what is known."""
    headers = {} if etag is None else {"If-None-Match": etag}
    if wait_s:
        headers["Prefer"] = f"wait={wait_s}"
    return Call("GET", job_path(job_id), headers=headers, longest_wait_s=wait_s)


def result(job_id: str) -> Call:
    """The answer of a job that is over."""
    return Call("GET", f"{job_path(job_id)}/result")


def progress(job_id: str, offset: int) -> Call:
    """A page of the steps of its solve."""
    return Call("GET", f"{job_path(job_id)}/progress", {"offset": offset})


def log(job_id: str, offset: int) -> Call:
    """A page of its solver's log."""
    return Call("GET", f"{job_path(job_id)}/log", {"offset": offset})


def timeline(job_id: str, row: Mapping[str, Any] | None) -> Call:
    """Its schedule in time, or that of a row of its comparison."""
    params = {} if row is None else {"schedule": row["name"], "placement": row["placement"]}
    return Call("GET", f"{job_path(job_id)}/timeline", params)


def formats() -> Call:
    """All formats of answers."""
    return Call("GET", "/v1/exports")


def exports(job_id: str) -> Call:
    """The formats that are about what its answer has."""
    return Call("GET", f"{job_path(job_id)}/exports")


def export(job_id: str, name: str) -> Call:
    """Its answer in the format of this name."""
    # Whatever the media type is; a problem is JSON all the same.
    return Call("GET", f"{job_path(job_id)}/export/{_quoted(name)}", headers={"Accept": "*/*"})


def cancel(job_id: str) -> Call:
    """Stop it."""
    return Call("DELETE", job_path(job_id))


def events(job_id: str, last_event_id: str | None) -> Call:
    """Its news as a stream, from after the last event on."""
    headers = {"Accept": EVENT_STREAM, "Accept-Encoding": "identity"}
    if last_event_id is not None:
        headers["Last-Event-ID"] = last_event_id
    return Call("GET", f"{job_path(job_id)}/events", headers=headers)


def jobs(limit: int, filters: Mapping[str, str], cursor: str | None) -> Call:
    """A page of the jobs that match, the newest first."""
    params: dict[str, str | int] = {**filters, "limit": min(limit, LARGEST_PAGE)}
    if cursor is not None:
        params["cursor"] = cursor
    return Call("GET", "/v1/jobs", params)


def submit_batch(body: Mapping[str, Any], *, fresh: bool, key: str | None) -> Call:
    """Ask for many plans at once."""
    return _post("/v1/batches", body, fresh=fresh, key=key)


def batch(batch_id: str, *, etag: str | None = None) -> Call:
    """How its jobs are getting on, and how their answers compare."""
    return Call(
        "GET", _batch_path(batch_id), headers={} if etag is None else {"If-None-Match": etag}
    )


def cancel_batch(batch_id: str) -> Call:
    """Stop those of its jobs that are not over."""
    return Call("DELETE", _batch_path(batch_id))


def job_path(job_id: str) -> str:
    """The address of a job below the server's. Raises `InputError` for what is no id."""
    if not job_id.strip("."):
        # A client takes dots for steps in the path, and would ask for something else.
        raise InputError("ID", f"{job_id!r} is no job's.", "`loadmaster jobs` lists them.")
    return f"/v1/jobs/{_quoted(job_id)}"


def _batch_path(batch_id: str) -> str:
    if not batch_id.strip("."):
        raise InputError("ID", f"{batch_id!r} is no batch's.", "Give the id of one.")
    return f"/v1/batches/{_quoted(batch_id)}"


def _post(path: str, body: Mapping[str, Any], *, fresh: bool, key: str | None) -> Call:
    headers = {"Cache-Control": "no-cache"} if fresh else {}
    if key is not None:
        headers["Idempotency-Key"] = key
    return Call("POST", path, headers=headers, body=body)


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")
