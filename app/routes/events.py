"""Server-Sent Events: the progress of a job, and the changes of all jobs of a tenant."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import EventSourceResponse, ServerSentEvent

from app.dependencies import IsAdmittedDep, JobId, ReadCaller, ServicesDep
from app.errors import (
    DatabaseUnavailable,
    InvalidRequest,
    JobNotFound,
    JobOver,
    TooManyStreams,
    TooManyStreamsOfTenant,
)
from app.observability import metrics
from app.schemas.jobs import links_of
from app.schemas.problems import problem_responses
from app.services.events import JobEvent, News, Position, stream, stream_of_all

BEGINNING = ServerSentEvent(retry=2000, comment="events follow")
router = APIRouter(prefix="/v1", tags=["jobs"])


async def _events(
    job_id: JobId,
    caller: ReadCaller,
    services: ServicesDep,
    is_admitted: IsAdmittedDep,
    log: Annotated[bool, Query(description="Tell the solver's log too.")] = False,
    last_event_id: Annotated[
        str | None, Header(description="Go on after the event with this id.")
    ] = None,
) -> AsyncIterator[AsyncIterable[JobEvent]]:
    """Refuses before the response begins; the stream's place is free again when it has ended,
    however it ends."""

    def since(position: Position) -> News:
        return services.events.since(caller, job_id, position, with_log=log)

    position = Position.read(last_event_id)
    news = await run_in_threadpool(since, position)
    if news.is_over and (position.is_start or not news.events):
        links = links_of(job_id)
        raise JobOver(
            f"Nothing follows. Its steps are at {links.progress}, its result at {links.result}."
        )
    with services.follower.following(caller.tenant, job_id) as watch:
        yield stream(since, watch, position, is_admitted)


@router.get(
    "/jobs/{job_id}/events",
    response_class=EventSourceResponse,
    responses=problem_responses(
        InvalidRequest,
        JobNotFound,
        JobOver,
        TooManyStreamsOfTenant,
        TooManyStreams,
        DatabaseUnavailable,
    ),
)
async def stream_job_events(
    events: Annotated[AsyncIterable[JobEvent], Depends(_events)],
) -> AsyncIterator[ServerSentEvent]:
    """What happens to the job from now on: `state` (the job as at its own address), `progress` (a
    step of its solve), `log`, and `end` once it is over. After `reconnect` come again with the id
    of the last event."""
    with metrics.event_stream():
        yield BEGINNING
        async for event in events:
            yield _sent(event)


async def _events_of_all(
    caller: ReadCaller, services: ServicesDep, is_admitted: IsAdmittedDep
) -> AsyncIterator[AsyncIterable[JobEvent]]:
    # Whether jobs can be read at all is known before the response begins.
    await run_in_threadpool(services.jobs.check_readable, caller)
    with services.follower.following_all(caller.tenant) as watch:
        yield stream_of_all(watch, is_admitted)


@router.get(
    "/events",
    response_class=EventSourceResponse,
    responses=problem_responses(TooManyStreamsOfTenant, TooManyStreams, DatabaseUnavailable),
)
async def stream_events(
    events: Annotated[AsyncIterable[JobEvent], Depends(_events_of_all)],
) -> AsyncIterator[ServerSentEvent]:
    """All jobs from now on: a `job` (as at its own address) for each that is made, begins, changes
    its phase, best or bound, or ends. Those that run are told at the beginning. After `reconnect`
    come again, and list the jobs."""
    with metrics.event_stream():
        yield BEGINNING
        async for event in events:
            yield _sent(event)


def _sent(event: JobEvent) -> ServerSentEvent:
    place = None if event.position is None else str(event.position)
    return ServerSentEvent(event=event.name, data=event.data, id=place)
