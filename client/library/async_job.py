"""Handles of jobs and batches for programs with an event loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Self, cast

from client.library.async_service import AsyncService
from client.library.job import OnProgress, ResultT
from client.library.requests import Document
from client.library.views import Result, Status, Timeline, result_of


class AsyncJob(Generic[ResultT]):
    """`Job`, to be awaited."""

    def __init__(
        self,
        service: AsyncService,
        kind: str,
        known: Mapping[str, Any],
        result: Document | None = None,
    ) -> None:
        self._service = service
        self.kind = kind
        self.id = str(known["id"])
        self._known = Status(known)
        self._document = result

    def __repr__(self) -> str:
        return f"<AsyncJob {self.id} {self.kind} {self.state}>"

    @property
    def state(self) -> str:
        """As it was last heard of; `status()` asks."""
        return self._known.state

    async def status(self) -> Status:
        """As `Job.status`."""
        self._known = Status(await self._service.status(self.id))
        return self._known

    async def wait(self, timeout: float | None = None, progress: OnProgress | None = None) -> Self:
        """As `Job.wait`; `progress` is an ordinary function."""
        if not self._known.is_over:
            async for document in self._service.follow(self.id, timeout):
                self._known = Status(document)
                if progress is not None:
                    progress(self._known)
        return self

    async def result(
        self, timeout: float | None = None, progress: OnProgress | None = None
    ) -> ResultT:
        """As `Job.result`."""
        return cast("ResultT", result_of(self.kind, await self.document(timeout, progress)))

    async def document(
        self, timeout: float | None = None, progress: OnProgress | None = None
    ) -> Document:
        """As `Job.document`."""
        if self._document is None:
            await self.wait(timeout, progress)
            self._document = await self._service.result(self.id)
        return self._document

    async def cancel(self) -> Status:
        """As `Job.cancel`."""
        self._known = Status(await self._service.cancel(self.id))
        return self._known

    async def timeline(self, row: Mapping[str, Any] | None = None) -> Timeline:
        """As `Job.timeline`."""
        return Timeline(await self._service.timeline(self.id, row))

    async def exports(self) -> list[Mapping[str, Any]]:
        """As `Job.exports`."""
        return list(await self._service.exports(self.id))

    async def export(self, format: str) -> str:  # noqa: A002 (as the address and the command do)
        """As `Job.export`."""
        return await self._service.export(self.id, format)

    async def log(self, offset: int = 0) -> list[str]:
        """As `Job.log`."""
        return list((await self._service.log(self.id, offset))["lines"])


class AsyncBatch:
    """`Batch`, to be awaited."""

    def __init__(self, service: AsyncService, known: Mapping[str, Any]) -> None:
        self._service = service
        self.id = str(known["id"])

    def __repr__(self) -> str:
        return f"<AsyncBatch {self.id}>"

    async def document(self) -> Mapping[str, Any]:
        """As `Batch.document`."""
        return await self._service.batch(self.id)

    async def jobs(self) -> list[AsyncJob[Result]]:
        """As `Batch.jobs`."""
        rows = (await self.document())["comparison"]
        return [AsyncJob(self._service, row["kind"], {**row, "id": row["job_id"]}) for row in rows]

    async def wait(
        self,
        timeout: float | None = None,
        progress: Callable[[Mapping[str, Any]], object] | None = None,
    ) -> Self:
        """As `Batch.wait`; `progress` is an ordinary function."""
        async for document in self._service.follow_batch(self.id, timeout):
            if progress is not None:
                progress(document)
        return self

    async def comparison(self) -> list[Mapping[str, Any]]:
        """As `Batch.comparison`."""
        return list((await self.document())["comparison"])

    async def cancel(self) -> None:
        """As `Batch.cancel`."""
        await self._service.cancel_batch(self.id)
