"""`Planner.runs` and `AsyncPlanner.runs`: the runs whose plans a service keeps up to date."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Unpack

from client.library import requests, run_requests
from client.library.requests import Call, Document, PipelineParts
from client.library.run_views import RunPlan, RunView
from client.library.service import new_key

Body = Mapping[str, Any]


class Runs:
    """What can be asked about runs, for people and programs beside the training itself, which uses
    `client.Run`. Everything may raise what `client.errors` draws."""

    def __init__(self, ask: Callable[[Call], Document]) -> None:
        self._ask = ask

    def create(
        self,
        body: Body | None = None,
        *,
        plan: Body | None = None,
        follow: Body | None = None,
        **parts: Unpack[PipelineParts],
    ) -> RunView:
        """Begin a run of the pipeline of a `problem`, or of a `model`, `cluster` and `training`.

        `plan` is the schedule that it runs already, if any; `follow` says how it is followed
        (`resolve_every`, `min_gain`, …).
        """
        return RunView(
            self._ask(run_requests.create(run_body(body, plan, follow, parts), new_key()))
        )

    def get(self, run_id: str) -> RunView:
        """How a run stands."""
        return RunView(self._ask(run_requests.run(run_id)))

    def list(self, *, limit: int = 20, state: str | None = None) -> Iterator[RunView]:
        """The newest runs that match."""
        cursor: str | None = None
        filters = requests.filters(state=state)
        while limit > 0:
            page = self._ask(run_requests.runs(limit, filters, cursor))
            yield from map(RunView, page["runs"][:limit])
            limit -= len(page["runs"])
            cursor = page.get("next_cursor")
            if not cursor:
                return

    def change(self, run_id: str, changes: Body) -> RunView:
        """Other settings (`follow`), or another `problem`, `cluster` or `training`."""
        return RunView(self._ask(run_requests.change(run_id, changes)))

    def stop(self, run_id: str) -> RunView:
        """Follow a run no longer; its plans stay."""
        return RunView(self._ask(run_requests.stop(run_id)))

    def purge(self, run_id: str) -> None:
        """Forget a run that is stopped."""
        self._ask(run_requests.purge(run_id))

    def plan(self, run_id: str, version: int | None = None) -> RunPlan | None:
        """The plan of this number, or the newest one; None before there is one."""
        if version is not None:
            return RunPlan(self._ask(run_requests.plan_version(run_id, version)))
        return plan_in(self._ask(run_requests.plan(run_id)))

    def diagnosis(self, run_id: str) -> Document:
        """What its telemetry says is wrong, and what to do."""
        return self._ask(run_requests.diagnosis(run_id))

    def proposals(self, run_id: str) -> Document:
        """Other numbers of micro-batches and other partitions that would make it faster."""
        return self._ask(run_requests.proposals(run_id))


class AsyncRuns:
    """As `Runs`, for programs with an event loop."""

    def __init__(self, ask: Callable[[Call], Awaitable[Document]]) -> None:
        self._ask = ask

    async def create(
        self,
        body: Body | None = None,
        *,
        plan: Body | None = None,
        follow: Body | None = None,
        **parts: Unpack[PipelineParts],
    ) -> RunView:
        """As `Runs.create`."""
        call = run_requests.create(run_body(body, plan, follow, parts), new_key())
        return RunView(await self._ask(call))

    async def get(self, run_id: str) -> RunView:
        """As `Runs.get`."""
        return RunView(await self._ask(run_requests.run(run_id)))

    async def list(self, *, limit: int = 20, state: str | None = None) -> AsyncIterator[RunView]:
        """As `Runs.list`."""
        cursor: str | None = None
        filters = requests.filters(state=state)
        while limit > 0:
            page = await self._ask(run_requests.runs(limit, filters, cursor))
            for run in page["runs"][:limit]:
                yield RunView(run)
            limit -= len(page["runs"])
            cursor = page.get("next_cursor")
            if not cursor:
                return

    async def change(self, run_id: str, changes: Body) -> RunView:
        """As `Runs.change`."""
        return RunView(await self._ask(run_requests.change(run_id, changes)))

    async def stop(self, run_id: str) -> RunView:
        """As `Runs.stop`."""
        return RunView(await self._ask(run_requests.stop(run_id)))

    async def purge(self, run_id: str) -> None:
        """As `Runs.purge`."""
        await self._ask(run_requests.purge(run_id))

    async def plan(self, run_id: str, version: int | None = None) -> RunPlan | None:
        """As `Runs.plan`."""
        if version is not None:
            return RunPlan(await self._ask(run_requests.plan_version(run_id, version)))
        return plan_in(await self._ask(run_requests.plan(run_id)))

    async def diagnosis(self, run_id: str) -> Document:
        """As `Runs.diagnosis`."""
        return await self._ask(run_requests.diagnosis(run_id))

    async def proposals(self, run_id: str) -> Document:
        """As `Runs.proposals`."""
        return await self._ask(run_requests.proposals(run_id))


def run_body(
    body: Body | None, plan: Body | None, follow: Body | None, parts: Mapping[str, Any]
) -> Document:
    """The body of a new run."""
    own = {"plan": plan, "follow": follow}
    given = {name: value for name, value in own.items() if value is not None}
    return {**requests.body_of(body, parts), **given}


def plan_in(document: Document) -> RunPlan | None:
    """The plan of an answer; before there is one, answers have no `schedule`."""
    return RunPlan(document) if document.get("schedule") else None
