"""`AsyncPlanner`: `Planner` for programs with an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, Unpack

from client.library import requests
from client.library.async_job import AsyncBatch, AsyncJob
from client.library.async_service import AsyncService
from client.library.connection import TIMEOUT_S, api_key_for, server_from
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
from client.library.runs import AsyncRuns
from client.library.views import Estimate, PipelineSchedule, Result, ShardingPlan, TrainingPlan

Body = Mapping[str, Any]


class AsyncPlanner:
    """Plans from a service. Use as an asynchronous context manager, or await `aclose`.

    Its methods are those of `Planner`, with the same arguments.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
    ) -> None:
        """As `Planner`."""
        server = server or server_from()
        self._service = AsyncService(
            server, api_key=api_key or api_key_for(server), timeout_s=timeout_s, retries=retries
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._service.aclose()

    @property
    def runs(self) -> AsyncRuns:
        """As `Planner.runs`."""
        return AsyncRuns(self._service.ask)

    async def pipeline_schedule(
        self, body: Body | None = None, *, fresh: bool = False, **parts: Unpack[PipelineParts]
    ) -> AsyncJob[PipelineSchedule]:
        """As `Planner.pipeline_schedule`."""
        return await self._submit("pipeline", requests.body_of(body, parts), fresh)

    async def sharding_plan(
        self, body: Body | None = None, *, fresh: bool = False, **parts: Unpack[ShardingParts]
    ) -> AsyncJob[ShardingPlan]:
        """As `Planner.sharding_plan`."""
        return await self._submit("sharding", requests.body_of(body, parts), fresh)

    async def training_plan(
        self, body: Body | None = None, *, fresh: bool = False, **parts: Unpack[TrainingParts]
    ) -> AsyncJob[TrainingPlan]:
        """As `Planner.training_plan`."""
        return await self._submit("training", requests.body_of(body, parts), fresh)

    async def preview(self, kind: Kind, body: Body) -> dict[str, Any]:
        """As `Planner.preview`."""
        return await self._service.preview(kind, body)

    async def estimate(
        self, name: EstimateName, body: Body | None = None, **parts: Unpack[EstimateParts]
    ) -> Estimate:
        """As `Planner.estimate`."""
        return Estimate(await self._service.estimate(name, requests.body_of(body, parts)))

    async def batch(
        self,
        entries: Iterable[BatchEntry],
        *,
        name: str | None = None,
        tags: Iterable[str] = (),
        priority: int | None = None,
        fresh: bool = False,
    ) -> AsyncBatch:
        """As `Planner.batch`."""
        body = requests.batch_body(entries, name, tags, priority)
        return AsyncBatch(self._service, await self._service.submit_batch(body, fresh=fresh))

    async def get(self, job_id: str) -> AsyncJob[Result]:
        """As `Planner.get`."""
        status = await self._service.status(job_id)
        return AsyncJob(self._service, status["kind"], status)

    async def get_batch(self, batch_id: str) -> AsyncBatch:
        """As `Planner.get_batch`."""
        return AsyncBatch(self._service, await self._service.batch(batch_id))

    async def jobs(
        self,
        *,
        limit: int = 20,
        state: str | None = None,
        kind: Kind | None = None,
        tag: str | None = None,
        name: str | None = None,
    ) -> AsyncIterator[AsyncJob[Result]]:
        """As `Planner.jobs`."""
        filters = requests.filters(state=state, kind=kind, tag=tag, name=name)
        async for status in self._service.jobs(limit=limit, **filters):
            yield AsyncJob(self._service, status["kind"], status)

    async def _submit(self, kind: Kind, body: Body, fresh: bool) -> AsyncJob[Any]:
        accepted = await self._service.submit(kind, body, fresh=fresh)
        return AsyncJob(self._service, kind, accepted, accepted.get("result"))
