"""The REST API, asynchronously: `client.library.service` for programs with an event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from client.errors import ClientError, InputError, ServiceUnreachable
from client.library import following, requests
from client.library.answers import document_of, refusal, settled, unreachable
from client.library.connection import TIMEOUT_S, Connection
from client.library.events import Event, EventReader
from client.library.following import Deadline, Listen, Next, Reply, Send, Sleep, Steps, Tell
from client.library.requests import DEFAULT_SERVER, EVENT_STREAM, Call, Document
from client.library.retries import Retries
from client.library.service import new_key


class AsyncService:
    """Talks to one service. Use as an asynchronous context manager, or await `aclose`.

    Raises what `Service` raises.
    """

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        *,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._connection = Connection.to(server, api_key, timeout_s)
        self._retries = Retries() if retries is None else retries
        self.server = self._connection.server
        self._http = httpx.AsyncClient(
            base_url=self.server, headers=self._connection.headers, transport=transport
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
        await self._http.aclose()

    async def submit(self, kind: str, body: Mapping[str, Any], *, fresh: bool = False) -> Document:
        """As `Service.submit`."""
        return await self.ask(requests.submit(kind, body, fresh=fresh, key=new_key()))

    async def preview(self, kind: str, body: Mapping[str, Any]) -> Document:
        """What a request resolves to, and its bounds; nothing is solved."""
        return await self.ask(requests.preview(kind, body))

    async def estimate(self, name: str, body: Mapping[str, Any]) -> Document:
        """The answer of an estimate (`memory`, `step-time`, …), at once."""
        return await self.ask(requests.estimate(name, body))

    async def status(self, job_id: str) -> Document:
        """State, best objective, bound and gap of a job."""
        return await self.ask(requests.status(job_id))

    async def result(self, job_id: str) -> Document:
        """The answer of a job that is over (409 before). Raises `NoPlan` where it has none."""
        return await self.ask(requests.result(job_id))

    async def progress(self, job_id: str) -> list[Document]:
        """All steps of its solve so far, page by page."""
        steps: list[Document] = []
        offset = 0
        while True:
            page = await self.ask(requests.progress(job_id, offset))
            steps += page["steps"]
            offset = page["next_offset"]
            if not page["steps"]:
                return steps

    async def log(self, job_id: str, offset: int = 0) -> Document:
        """`lines` of the solver's log from `offset`, `next_offset`, and whether it is `over`."""
        return await self.ask(requests.log(job_id, offset))

    async def timeline(self, job_id: str, row: Mapping[str, Any] | None = None) -> Document:
        """The operations, memory and idle time of its schedule, or of the classic schedule of a
        `row` of the result's comparison."""
        return await self.ask(requests.timeline(job_id, row))

    async def exports(self, job_id: str) -> list[Document]:
        """The formats that are about what the job's answer has."""
        return list((await self.ask(requests.exports(job_id)))["exports"])

    async def export(self, job_id: str, name: str) -> str:
        """The answer of a job in the format of this name."""
        return (await self.send(requests.export(job_id, name))).text

    async def cancel(self, job_id: str) -> Document:
        """Stop a job; the best plan found so far is kept."""
        return await self.ask(requests.cancel(job_id))

    async def jobs(self, *, limit: int, **filters: str) -> AsyncIterator[Document]:
        """The newest `limit` jobs that match, page by page."""
        cursor: str | None = None
        while limit > 0:
            page = await self.ask(requests.jobs(limit, filters, cursor))
            for job in page["jobs"][:limit]:
                yield job
            limit -= len(page["jobs"])
            cursor = page.get("next_cursor")
            if not cursor:
                return

    async def submit_batch(self, body: Mapping[str, Any], *, fresh: bool = False) -> Document:
        """Ask for many plans at once: the batch's `id`, and how many of its jobs are known."""
        return await self.ask(requests.submit_batch(body, fresh=fresh, key=new_key()))

    async def batch(self, batch_id: str) -> Document:
        """How the jobs of a batch are getting on, and the comparison of their answers."""
        return await self.ask(requests.batch(batch_id))

    async def cancel_batch(self, batch_id: str) -> Document:
        """Stop those of its jobs that are not over."""
        return await self.ask(requests.cancel_batch(batch_id))

    async def ask(self, call: Call) -> Document:
        """As `Service.ask`."""
        return document_of(self.server, await self.send(call))

    async def send(self, call: Call) -> httpx.Response:
        """The answer, after as many tries as it takes or is allowed."""
        trial = self._retries.begin()
        while True:
            outcome = await self._try(call)
            pause_s = trial.pause_after(outcome)
            if pause_s is None:
                return settled(self.server, outcome)
            await asyncio.sleep(pause_s)

    def follow(self, job_id: str, timeout_s: float | None = None) -> AsyncIterator[Document]:
        """The job's status each time that it changes, until it is over. Raises `WaitTimeout`."""
        return self._run(following.follow_job(job_id, Deadline(timeout_s)))

    def follow_batch(
        self, batch_id: str, timeout_s: float | None = None
    ) -> AsyncIterator[Document]:
        """The batch each time that it changes, until it is over. Raises `WaitTimeout`."""
        return self._run(following.follow_batch(batch_id, Deadline(timeout_s)))

    async def _try(self, call: Call) -> httpx.Response | httpx.TransportError:
        try:
            return await self._http.send(self._request(call, self._connection.timeout_of(call)))
        except httpx.TransportError as error:
            return error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise unreachable(self.server, error) from error

    def _request(self, call: Call, timeout: httpx.Timeout) -> httpx.Request:
        if self._http.is_closed:
            raise InputError("planner", "is closed.", "Make another one.")
        return self._http.build_request(
            call.method,
            call.path,
            params=dict(call.params),
            headers=dict(call.headers),
            json=None if call.body is None else dict(call.body),
            timeout=timeout,
        )

    async def _run(self, steps: Steps) -> AsyncGenerator[Document, None]:
        """Take the steps, and yield what they tell."""
        reply: Reply = None
        async with contextlib.AsyncExitStack() as stream:
            events: AsyncIterator[Event] | None = None
            while True:
                try:
                    step = steps.send(reply)
                except StopIteration:
                    return
                reply = None
                match step:
                    case Tell(document):
                        yield document
                    case Sleep(seconds):
                        await asyncio.sleep(seconds)
                    case Send(call):
                        reply = await self._answer(call)
                    case Next():
                        reply = None if events is None else await anext(events, None)
                    case Listen(call):
                        await stream.aclose()
                        try:
                            events = await self._listen(call, stream)
                        except ClientError as error:
                            reply = error

    async def _answer(self, call: Call) -> httpx.Response | ClientError:
        try:
            response = settled(self.server, await self._try(call))
            if response.content:
                document_of(self.server, response)
        except ClientError as error:
            return error
        return response

    async def _listen(self, call: Call, stream: contextlib.AsyncExitStack) -> AsyncIterator[Event]:
        request = self._request(call, self._connection.stream_timeout)
        try:
            response = await self._http.send(request, stream=True)
            stream.push_async_callback(response.aclose)
            if response.is_error:
                await response.aread()
                raise refusal(response)
        except httpx.HTTPError as error:
            raise unreachable(self.server, error) from error
        if EVENT_STREAM not in response.headers.get("content-type", ""):
            raise ServiceUnreachable(f"{self.server} sent no stream of events")
        return _events(response)


async def _events(response: httpx.Response) -> AsyncIterator[Event]:
    """Until the stream ends or is lost, which makes no difference."""
    reader = EventReader()
    with contextlib.suppress(httpx.HTTPError):
        async for line in response.aiter_lines():
            event = reader.read(line)
            if event is not None:
                yield event
