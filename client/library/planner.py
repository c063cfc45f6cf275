"""`Planner`: ask for plans, from a service or without one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, Unpack

from client.library import requests
from client.library.backend import Backend
from client.library.connection import TIMEOUT_S, api_key_for, server_from
from client.library.job import Batch, Job
from client.library.requests import (
    BatchEntry,
    EstimateName,
    EstimateParts,
    Kind,
    PipelineParts,
    ShardingParts,
    TrainingParts,
)
from client.library.retries import Retries
from client.library.runs import Runs
from client.library.service import Service
from client.library.views import Estimate, PipelineSchedule, Result, ShardingPlan, TrainingPlan

Body = Mapping[str, Any]


class Planner:
    """Plans from a service. Use as a context manager, or call `close`.

    Requests are given as whole bodies, as keyword parts, or both (the parts win):
    `planner.pipeline_schedule(model="GPT-14.2B", cluster="8xA100-40GB", training={…})`. With
    `fresh=True` a stored answer is not used.

    Everything may raise what `client.errors` draws.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
    ) -> None:
        """`server` and `api_key` are those of LOADMASTER_SERVER and LOADMASTER_API_KEY unless
        given; a key from there goes to the server from there only. `timeout_s` is how long the
        service may take to answer a request."""
        server = server or server_from()
        self._backend: Backend = Service(
            server, api_key=api_key or api_key_for(server), timeout_s=timeout_s, retries=retries
        )

    @classmethod
    def local(cls, *, solves_at_once: int = 1, threads: int | None = None) -> Planner:
        """The same without a service: solves run in child processes of this one, `solves_at_once`
        of them, each with as many threads as its request asks for and at most `threads` (all cores
        unless given). Nothing is stored; what is running ends with this process."""
        # Only here: whoever asks a service needs nothing of the planner.
        from client.library.local import LocalBackend

        return cls.over(LocalBackend(solves_at_once, threads))

    @classmethod
    def over(cls, backend: Backend) -> Planner:
        """A planner that asks this backend."""
        planner = cls.__new__(cls)
        planner._backend = backend
        return planner

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
        """Close the connections; a local planner stops its solves."""
        self._backend.close()

    @property
    def runs(self) -> Runs:
        """Training runs whose plans the service keeps up to date. A local planner has none."""
        return Runs(self._backend.ask)

    def pipeline_schedule(
        self, body: Body | None = None, *, fresh: bool = False, **parts: Unpack[PipelineParts]
    ) -> Job[PipelineSchedule]:
        """Ask for a pipeline schedule of a `problem`, or of a `model`, `cluster` and `training`."""
        return self._submit("pipeline", requests.body_of(body, parts), fresh)

    def sharding_plan(
        self, body: Body | None = None, *, fresh: bool = False, **parts: Unpack[ShardingParts]
    ) -> Job[ShardingPlan]:
        """Ask for a sharding plan of a `graph` or a `transformer` over `devices`."""
        return self._submit("sharding", requests.body_of(body, parts), fresh)

    def training_plan(
        self, body: Body | None = None, *, fresh: bool = False, **parts: Unpack[TrainingParts]
    ) -> Job[TrainingPlan]:
        """Ask how to train a `model` on a `cluster` with a `training["global_batch_size"]`."""
        return self._submit("training", requests.body_of(body, parts), fresh)

    def preview(self, kind: Kind, body: Body) -> dict[str, Any]:
        """What a request would resolve to, and its bounds; nothing is solved."""
        return self._backend.preview(kind, body)

    def estimate(
        self, name: EstimateName, body: Body | None = None, **parts: Unpack[EstimateParts]
    ) -> Estimate:
        """An estimate, at once: `memory`, `step-time`, `recomputation`, `scaling`, `offload`,
        `communication` or `checkpoints`."""
        return Estimate(self._backend.estimate(name, requests.body_of(body, parts)))

    def batch(
        self,
        entries: Iterable[BatchEntry],
        *,
        name: str | None = None,
        tags: Iterable[str] = (),
        priority: int | None = None,
        fresh: bool = False,
    ) -> Batch:
        """Make a job of each of many requests, or, if one of them is wrong, of none."""
        body = requests.batch_body(entries, name, tags, priority)
        return Batch(self._backend, self._backend.submit_batch(body, fresh=fresh))

    def get(self, job_id: str) -> Job[Result]:
        """A job that was made earlier."""
        status = self._backend.status(job_id)
        return Job(self._backend, status["kind"], status)

    def get_batch(self, batch_id: str) -> Batch:
        """A batch that was made earlier."""
        return Batch(self._backend, self._backend.batch(batch_id))

    def jobs(
        self,
        *,
        limit: int = 20,
        state: str | None = None,
        kind: Kind | None = None,
        tag: str | None = None,
        name: str | None = None,
    ) -> Iterator[Job[Result]]:
        """The newest jobs that match."""
        filters = requests.filters(state=state, kind=kind, tag=tag, name=name)
        for status in self._backend.jobs(limit=limit, **filters):
            yield Job(self._backend, status["kind"], status)

    def _submit(self, kind: Kind, body: Body, fresh: bool) -> Job[Any]:
        accepted = self._backend.submit(kind, body, fresh=fresh)
        return Job(self._backend, kind, accepted, accepted.get("result"))
