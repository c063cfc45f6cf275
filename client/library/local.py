"""The planner without a service: requests are resolved in this process and solved in children of
it, the answers are the documents that a service would give."""

from __future__ import annotations

import math
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from app.errors import ServiceError
from app.schemas.requests import split_body
from client.errors import ApiError, InputError, WaitTimeout
from client.library.local_batches import batch_view
from client.library.local_charts import export_of, exports_of, timeline_of
from client.library.local_job import LocalJob, Order
from client.library.requests import Call, Document
from planner.cores import usable_cores
from planner.errors import SpecError
from planner.estimates.registry import ESTIMATES
from planner.export.format import Source
from planner.pipeline.request import resolve_request as resolve_pipeline
from planner.sharding.request import resolve_request as resolve_sharding
from planner.training.request import resolve_request as resolve_training
from workers.solver_keeper import SolverKeeper

AnswerT = TypeVar("AnswerT")


class Resolved(Protocol):
    """A request as the planner resolved it."""

    @property
    def spec(self) -> Document: ...
    @property
    def engine(self) -> str: ...
    @property
    def time_limit_s(self) -> float: ...
    def preview(self) -> Document: ...


SOLVER_SERVER = (sys.executable, "-m", "workers.solver_server")
RESOLVERS: Mapping[str, Callable[[Mapping[str, Any]], Resolved]] = {
    "pipeline": resolve_pipeline,
    "sharding": resolve_sharding,
    "training": resolve_training,
}
STOP_WITHIN_S = 10.0


class LocalBackend:
    """Keeps jobs and batches in memory. Jobs begin in the order in which they were asked for,
    those of a higher priority first."""

    def __init__(self, solves_at_once: int, threads: int | None) -> None:
        for name, number in (("solves_at_once", solves_at_once), ("threads", threads)):
            if number is not None and number < 1:
                raise InputError(name, f"cannot be {number}.", "Give 1 or more.")
        self._threads = threads or usable_cores()
        self._changed = threading.Condition()
        self._jobs: dict[str, LocalJob] = {}
        self._batches: dict[str, tuple[str | None, list[LocalJob]]] = {}
        self._waiting: list[LocalJob] = []
        self._is_closed = False
        self._keeper: SolverKeeper | None = None
        self._places = solves_at_once
        self._workers: list[threading.Thread] = []

    def close(self) -> None:
        """Stop all solves."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for job in self._jobs.values():
            if not job.is_over:
                job.cancel()
        for worker in self._workers:
            worker.join(STOP_WITHIN_S)
        if self._keeper is not None:
            self._keeper.stop()

    def ask(self, call: Call) -> Document:
        """Only a service follows runs. Raises `InputError`."""
        raise InputError("planner", "keeps no runs: it is local.", "Use a service, Planner(URL).")

    def submit(self, kind: str, body: Mapping[str, Any], *, fresh: bool = False) -> Document:
        """Begin a solve, or queue it behind others. Nothing is stored, so all are `fresh`."""
        job = LocalJob(_answered(lambda: _order(kind, body)), self._changed)
        self._begin([job])
        return job.view()

    def preview(self, kind: str, body: Mapping[str, Any]) -> Document:
        """What a request resolves to, and its bounds."""
        return _answered(lambda: RESOLVERS[kind](split_body(body)[1]).preview())

    def estimate(self, name: str, body: Mapping[str, Any]) -> Document:
        """The answer of an estimate."""
        if name not in ESTIMATES:
            raise ApiError(404, "Not found", f"There is no {name} estimate.", "not_found")
        return _answered(lambda: ESTIMATES[name](body))

    def status(self, job_id: str) -> Document:
        """How far a job is."""
        with self._changed:
            return self._job(job_id).view()

    def result(self, job_id: str) -> Document:
        """The answer of a job that is over."""
        with self._changed:
            return self._job(job_id).result()

    def progress(self, job_id: str) -> list[Document]:
        """The last steps of its solve."""
        with self._changed:
            return list(self._job(job_id).steps)

    def log(self, job_id: str, offset: int = 0) -> Document:
        """The solver's log from an offset on."""
        with self._changed:
            job = self._job(job_id)
            lines = list(job.log)[offset:]
            return {"lines": lines, "next_offset": offset + len(lines), "over": job.is_over}

    def timeline(self, job_id: str, row: Mapping[str, Any] | None = None) -> Document:
        """Its schedule in time, or that of a row of its comparison."""
        return timeline_of(self.result(job_id), self._job(job_id).order.spec, row)

    def exports(self, job_id: str) -> list[Document]:
        """The formats that are about what its answer has."""
        return exports_of(self._source(job_id))

    def export(self, job_id: str, name: str) -> str:
        """Its answer in the format of this name."""
        return export_of(self._source(job_id), name)

    def _source(self, job_id: str) -> Source:
        order = self._job(job_id).order
        return Source(order.kind, self.result(job_id), order.request, job_id)

    def cancel(self, job_id: str) -> Document:
        """Stop a job; the best plan so far is kept."""
        job = self._job(job_id)
        job.cancel()
        return job.view()

    def jobs(self, *, limit: int, **filters: str) -> Iterator[Document]:
        """The newest jobs that match."""
        with self._changed:
            views = [job.view() for job in reversed(self._jobs.values())]
        matching = [view for view in views if _matches(view, filters)]
        yield from matching[:limit]

    def submit_batch(self, body: Mapping[str, Any], *, fresh: bool = False) -> Document:
        """Begin or queue a solve of each of many requests, or, if one of them is wrong, of none."""
        jobs = [
            LocalJob(_answered(partial(_batch_order, body, entry), place), self._changed)
            for entry, place in _entries(body)
        ]
        batch_id = str(uuid.uuid4())
        self._batches[batch_id] = (body.get("name"), jobs)
        self._begin(jobs)
        return self.batch(batch_id)

    def batch(self, batch_id: str) -> Document:
        """How its jobs are getting on, and the comparison of their answers."""
        name, jobs = self._batch(batch_id)
        with self._changed:
            return batch_view(batch_id, name, jobs)

    def cancel_batch(self, batch_id: str) -> Document:
        """Stop those of its jobs that are not over."""
        for job in self._batch(batch_id)[1]:
            if not job.is_over:
                job.cancel()
        return self.batch(batch_id)

    def follow(self, job_id: str, timeout_s: float | None = None) -> Iterator[Document]:
        """The job's status each time that it changes."""
        job = self._job(job_id)
        return self._follow([job], job.view, f"job {job_id}", timeout_s)

    def follow_batch(self, batch_id: str, timeout_s: float | None = None) -> Iterator[Document]:
        """The batch each time that it changes."""
        name, jobs = self._batch(batch_id)
        return self._follow(
            jobs, lambda: batch_view(batch_id, name, jobs), f"batch {batch_id}", timeout_s
        )

    def _follow(
        self,
        jobs: Sequence[LocalJob],
        view: Callable[[], Document],
        what: str,
        timeout_s: float | None,
    ) -> Iterator[Document]:
        ends = math.inf if timeout_s is None else time.monotonic() + timeout_s
        seen = -1

        def has_news() -> bool:
            return sum(job.version for job in jobs) != seen

        while True:
            left_s = ends - time.monotonic()
            with self._changed:
                if not self._changed.wait_for(has_news, None if left_s == math.inf else left_s):
                    raise WaitTimeout(f"{what} was not over in time; it goes on.")
                seen = sum(job.version for job in jobs)
                document, is_over = view(), all(job.is_over for job in jobs)
            yield document
            if is_over:
                return

    def _begin(self, jobs: Sequence[LocalJob]) -> None:
        with self._changed:
            if self._is_closed:
                raise InputError("planner", "is closed.", "Make another one.")
            if self._keeper is None:
                self._keeper = SolverKeeper(SOLVER_SERVER)
                self._keeper.start()
            for job in jobs:
                self._jobs[job.id] = job
            self._waiting += jobs
            self._waiting.sort(key=lambda job: -job.order.priority)
            while len(self._workers) < min(self._places, len(self._jobs)):
                # Not to be waited for at the end: the solvers end with this process.
                worker = threading.Thread(target=self._work, args=(self._keeper,), daemon=True)
                self._workers.append(worker)
                worker.start()
            self._changed.notify_all()

    def _work(self, keeper: SolverKeeper) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or self._waiting)
                if self._is_closed:
                    return
                job = self._waiting.pop(0)
            job.run(keeper.orders, self._threads)

    def _job(self, job_id: str) -> LocalJob:
        if job_id not in self._jobs:
            raise ApiError(404, "Not found", f"There is no job {job_id}.", "job_not_found")
        return self._jobs[job_id]

    def _batch(self, batch_id: str) -> tuple[str | None, list[LocalJob]]:
        if batch_id not in self._batches:
            raise ApiError(404, "Not found", f"There is no batch {batch_id}.", "batch_not_found")
        return self._batches[batch_id]


def _order(kind: str, body: Mapping[str, Any]) -> Order:
    """Raises `SpecError` and `ServiceError` that name the field at fault."""
    fields, rest = split_body(body)
    if fields.webhook is not None:
        raise SpecError(("webhook",), "needs a service.", "Leave it out, and wait for the job.")
    resolved = RESOLVERS[kind](rest)
    return Order(
        kind=kind,
        spec=resolved.spec,
        engine=resolved.engine,
        time_limit_s=resolved.time_limit_s,
        name=fields.name,
        tags=tuple(dict.fromkeys(fields.tags)),
        priority=fields.priority,
        request=dict(body),
    )


def _entries(body: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    entries = body.get("requests") or ()
    if not entries:
        raise ApiError(422, "Invalid request", "needs an entry.", "invalid_request", "requests")
    for position, entry in enumerate(entries):
        place = f"requests.{position}."
        if entry.get("kind") not in RESOLVERS:
            known = f"Give one of {', '.join(RESOLVERS)}."
            message = f"cannot be {entry.get('kind')!r}."
            raise ApiError(
                422, "Invalid request", message, "invalid_request", f"{place}kind", known
            )
        yield entry, f"{place}request."


def _batch_order(batch: Mapping[str, Any], entry: Mapping[str, Any]) -> Order:
    """What is said of the whole batch counts where the request says nothing; tags are added."""
    request = dict(entry["request"])
    defaults = {"name": entry.get("name"), "priority": batch.get("priority")}
    given = {name: value for name, value in defaults.items() if value is not None}
    tags = [*batch.get("tags", ()), *request.get("tags", ())]
    return _order(entry["kind"], {**given, **request, **({"tags": tags} if tags else {})})


def _matches(view: Document, filters: Mapping[str, str]) -> bool:
    tag = filters.get("tag")
    fields = {name: value for name, value in filters.items() if name != "tag"}
    return (tag is None or tag in view["tags"]) and all(
        view[name] == value for name, value in fields.items()
    )


def _answered(answer: Callable[[], AnswerT], place: str = "") -> AnswerT:
    """What the planner answers; its refusals are those of a service."""
    try:
        return answer()
    except SpecError as error:
        path = place + ".".join(map(str, error.path))
        message, remedy = error.message, error.remedy
    except ServiceError as error:
        first = error.errors[0] if error.errors else None
        path = place + (first.path if first else "")
        message, remedy = (first.message, first.remedy) if first else (str(error), "")
    raise ApiError(422, "Invalid request", message, "invalid_request", path, remedy)
