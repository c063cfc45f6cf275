"""What the service counts, and the functions that count it.

What can be read from the rows (queue depth and the like) is not counted here: see
`app.observability.rows`. docs/operations.md lists all metrics.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

from app.models import Solve, SolveState
from app.observability.process_files import metrics_folder

WebhookOutcome = Literal["delivered", "retried", "failed"]
LookOutcome = Literal["done", "overtaken", "refused", "failed"]

# Metrics open their files as they are made.
metrics_folder()
_without_creation_times: Any = disable_created_metrics
_without_creation_times()
REGISTRY = CollectorRegistry()
SIZES = ((1_000, "small"), (10_000, "medium"), (100_000, "large"))
LARGEST_SIZE = "huge"
# The client library counts under locks of its own. A process that is forked while a thread counts
# would find them taken for ever, hence one lock around all counting that forking waits for.
_counting = threading.Lock()
os.register_at_fork(
    before=_counting.acquire, after_in_parent=_counting.release, after_in_child=_counting.release
)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

JOBS = Counter(
    "loadmaster_jobs_total",
    "Jobs taken on: answered from the cache (hit), joined to a solve in flight, or new (miss).",
    ("kind", "cache"),
    registry=REGISTRY,
)
QUEUE_WAIT = Histogram(
    "loadmaster_queue_wait_seconds",
    "From taking a solve on to its first start.",
    ("kind", "queue"),
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600),
    registry=REGISTRY,
)
SOLVE_DURATION = Histogram(
    "loadmaster_solve_duration_seconds",
    "Wall time of all attempts of a solve that is over.",
    ("kind", "engine", "state", "size"),
    buckets=(0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600),
    registry=REGISTRY,
)
GAP = Histogram(
    "loadmaster_gap_ratio",
    "Gap between objective and lower bound of a solve that is over, as a share of the objective.",
    ("kind", "engine"),
    buckets=(0, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1),
    registry=REGISTRY,
)
ATTEMPTS = Counter(
    "loadmaster_attempts_total",
    "Attempts that ended, and how: answered, crashed, lost (lease lapsed) and so on.",
    ("kind", "engine", "ending"),
    registry=REGISTRY,
)
WEBHOOKS = Histogram(
    "loadmaster_webhook_delivery_seconds",
    "Tries to deliver a webhook.",
    ("outcome",),
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    registry=REGISTRY,
)
HTTP_REQUESTS = Counter(
    "loadmaster_http_requests_total",
    "HTTP requests that were answered.",
    ("method", "route", "status"),
    registry=REGISTRY,
)
HTTP_DURATION = Histogram(
    "loadmaster_http_request_duration_seconds",
    "From the request to the end of its answer; streams of events are not in it.",
    ("method", "route"),
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60),
    registry=REGISTRY,
)
EVENT_STREAMS = Gauge(
    "loadmaster_event_streams",
    "Streams of events that are open.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
WORKER_SLOTS = Gauge(
    "loadmaster_worker_slots",
    "Solves that the workers which report here can run at once.",
    multiprocess_mode="livesum",
    registry=REGISTRY,
)
DATABASE_ERRORS = Counter(
    "loadmaster_database_errors_total",
    "Times that the database did not do what it was asked for.",
    registry=REGISTRY,
)
BROKER_ERRORS = Counter(
    "loadmaster_broker_errors_total",
    "Times that the broker took no message.",
    registry=REGISTRY,
)
TELEMETRY = Counter(
    "loadmaster_run_telemetry_samples_total",
    "Samples (of a stage in an iteration) that runs posted: accepted, known already, or too late.",
    ("outcome",),
    registry=REGISTRY,
)
RUN_LOOKS = Counter(
    "loadmaster_run_looks_total",
    "Looks at runs: done, overtaken by another process, refused, or failed.",
    ("outcome",),
    registry=REGISTRY,
)
RUN_SOLVES = Counter(
    "loadmaster_run_solves_total",
    "Solves that were asked for because of what a run reported.",
    ("reason",),
    registry=REGISTRY,
)
RUN_VERSIONS = Counter(
    "loadmaster_run_versions_total",
    "States that plans of runs reached: published, scheduled, running (a swap), confirmed, "
    "rolled_back or superseded.",
    ("state",),
    registry=REGISTRY,
)
EXPIRED = Counter(
    "loadmaster_expired_total",
    "What retention removed.",
    ("what",),
    registry=REGISTRY,
)


def job_taken_on(kind: str, cache: str) -> None:
    """A job was made; `cache` says whether its answer was known."""
    with _counting:
        JOBS.labels(kind, cache).inc()


def solve_started(solve: Solve) -> None:
    """A worker claimed a solve for the first time."""
    if solve.started_at is not None:
        wait_s = max(0, solve.started_at - solve.created_at) / 1000
        with _counting:
            QUEUE_WAIT.labels(solve.kind, solve.queue).observe(wait_s)


def attempt_ended(solve: Solve, ending: str) -> None:
    """An attempt ended; `solve` is as it was written."""
    with _counting:
        ATTEMPTS.labels(solve.kind, solve.engine, ending).inc()
    if SolveState(solve.state).is_over:
        solve_ended(solve)


def solve_ended(solve: Solve) -> None:
    """A solve is over."""
    size = size_class(solve.operations)
    gap = relative_gap(solve.best_objective, solve.lower_bound)
    with _counting:
        duration = SOLVE_DURATION.labels(solve.kind, solve.engine, str(solve.state), size)
        duration.observe(solve.spent_ms / 1000)
        if gap is not None:
            GAP.labels(solve.kind, solve.engine).observe(gap)


def size_class(operations: int) -> str:
    """The class of a problem's size, by its operations."""
    return next((name for below, name in SIZES if operations < below), LARGEST_SIZE)


def relative_gap(objective: int | None, bound: int | None) -> float | None:
    """The gap as a share of the objective; None where there is none."""
    if objective is None or bound is None:
        return None
    if bound >= objective:
        return 0.0
    return (objective - bound) / objective if objective > 0 else None


def webhook_tried(outcome: WebhookOutcome, seconds: float) -> None:
    """A webhook was sent, or could not be."""
    with _counting:
        WEBHOOKS.labels(outcome).observe(seconds)


def http_answered(method: str, route: str, status: int, seconds: float, *, is_stream: bool) -> None:
    """A request was answered; `route` is its template, never the path itself."""
    method = method if method in METHODS else "other"
    with _counting:
        HTTP_REQUESTS.labels(method, route, status).inc()
        if not is_stream:
            HTTP_DURATION.labels(method, route).observe(seconds)


@contextmanager
def event_stream() -> Iterator[None]:
    """A stream of events is open."""
    with _counting:
        EVENT_STREAMS.inc()
    try:
        yield
    finally:
        with _counting:
            EVENT_STREAMS.dec()


def worker_slots(count: int) -> None:
    """This worker can run so many solves at once."""
    with _counting:
        WORKER_SLOTS.set(count)


def database_failed() -> None:
    """The database did not do what it was asked for."""
    with _counting:
        DATABASE_ERRORS.inc()


def broker_failed() -> None:
    """The broker took no message."""
    with _counting:
        BROKER_ERRORS.inc()


def telemetry_taken(outcomes: Mapping[str, int]) -> None:
    """Telemetry was posted; how many of its samples had which outcome."""
    with _counting:
        for outcome, samples in outcomes.items():
            TELEMETRY.labels(outcome).inc(samples)


def run_looked_at(outcome: LookOutcome) -> None:
    """A run was looked at, or could not be."""
    with _counting:
        RUN_LOOKS.labels(outcome).inc()


def run_solve_wanted(reason: str) -> None:
    """A solve was asked for because of what a run reported."""
    with _counting:
        RUN_SOLVES.labels(reason).inc()


def run_version_became(state: str) -> None:
    """A plan of a run reached this state."""
    with _counting:
        RUN_VERSIONS.labels(state).inc()


def expired(what: str, count: int) -> None:
    """Retention removed so many of something."""
    if count:
        with _counting:
            EXPIRED.labels(what).inc(count)
