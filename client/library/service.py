"""The REST API, synchronously: one method per thing to ask for, answers as JSON documents."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Generator, Iterator, Mapping
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


class Service:
    """Talks to one service. Use as a context manager, or call `close`.

    Every method raises `ApiError` where the service refuses (with the field and the remedy),
    `ServiceUnreachable` where nothing answers, and `IncompatibleServer` where what answers is too
    old or too new.
    """

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        *,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._connection = Connection.to(server, api_key, timeout_s)
        self._retries = Retries() if retries is None else retries
        self.server = self._connection.server
        self._http = httpx.Client(
            base_url=self.server, headers=self._connection.headers, transport=transport
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

    def submit(self, kind: str, body: Mapping[str, Any], *, fresh: bool = False) -> Document:
        """Ask for a plan of this kind: `id`, `state`, `cache` and, if known already, `result`.

        `fresh` solves again even where a stored answer exists.
        """
        return self.ask(requests.submit(kind, body, fresh=fresh, key=new_key()))

    def preview(self, kind: str, body: Mapping[str, Any]) -> Document:
        """What a request resolves to, and its bounds; nothing is solved."""
        return self.ask(requests.preview(kind, body))

    def estimate(self, name: str, body: Mapping[str, Any]) -> Document:
        """The answer of an estimate (`memory`, `step-time`, …), at once."""
        return self.ask(requests.estimate(name, body))

    def status(self, job_id: str) -> Document:
        """State, best objective, bound and gap of a job."""
        return self.ask(requests.status(job_id))

    def result(self, job_id: str) -> Document:
        """The answer of a job that is over (409 before). Raises `NoPlan` where it has none."""
        return self.ask(requests.result(job_id))

    def progress(self, job_id: str) -> list[Document]:
        """All steps of its solve so far, page by page."""
        steps: list[Document] = []
        offset = 0
        while True:
            page = self.ask(requests.progress(job_id, offset))
            steps += page["steps"]
            offset = page["next_offset"]
            if not page["steps"]:
                return steps

    def log(self, job_id: str, offset: int = 0) -> Document:
        """`lines` of the solver's log from `offset`, `next_offset`, and whether it is `over`."""
        return self.ask(requests.log(job_id, offset))

    def timeline(self, job_id: str, row: Mapping[str, Any] | None = None) -> Document:
        """The operations, memory and idle time of its schedule, or of the classic schedule of a
        `row` of the result's comparison."""
        return self.ask(requests.timeline(job_id, row))

    def formats(self) -> list[Document]:
        """All formats of answers, with what each carries and leaves out."""
        return list(self.ask(requests.formats())["formats"])

    def exports(self, job_id: str) -> list[Document]:
        """The formats that are about what the job's answer has; `hindrance` says why it cannot be
        written in one."""
        return list(self.ask(requests.exports(job_id))["exports"])

    def export(self, job_id: str, name: str) -> str:
        """The answer of a job in the format of this name."""
        return self.send(requests.export(job_id, name)).text

    def cancel(self, job_id: str) -> Document:
        """Stop a job; the best plan found so far is kept."""
        return self.ask(requests.cancel(job_id))

    def jobs(self, *, limit: int, **filters: str) -> Iterator[Document]:
        """The newest `limit` jobs that match, page by page."""
        cursor: str | None = None
        while limit > 0:
            page = self.ask(requests.jobs(limit, filters, cursor))
            yield from page["jobs"][:limit]
            limit -= len(page["jobs"])
            cursor = page.get("next_cursor")
            if not cursor:
                return

    def submit_batch(self, body: Mapping[str, Any], *, fresh: bool = False) -> Document:
        """Ask for many plans at once: the batch's `id`, and how many of its jobs are known."""
        return self.ask(requests.submit_batch(body, fresh=fresh, key=new_key()))

    def batch(self, batch_id: str) -> Document:
        """How the jobs of a batch are getting on, and the comparison of their answers."""
        return self.ask(requests.batch(batch_id))

    def cancel_batch(self, batch_id: str) -> Document:
        """Stop those of its jobs that are not over."""
        return self.ask(requests.cancel_batch(batch_id))

    def ask(self, call: Call) -> Document:
        """The JSON object that a request is answered with."""
        return document_of(self.server, self.send(call))

    def send(self, call: Call) -> httpx.Response:
        """The answer, after as many tries as it takes or is allowed."""
        trial = self._retries.begin()
        while True:
            outcome = self._try(call)
            pause_s = trial.pause_after(outcome)
            if pause_s is None:
                return settled(self.server, outcome)
            time.sleep(pause_s)

    def follow(self, job_id: str, timeout_s: float | None = None) -> Iterator[Document]:
        """The job's status each time that it changes, until it is over. Raises `WaitTimeout`."""
        return self._run(following.follow_job(job_id, Deadline(timeout_s)))

    def follow_batch(self, batch_id: str, timeout_s: float | None = None) -> Iterator[Document]:
        """The batch each time that it changes, until it is over. Raises `WaitTimeout`."""
        return self._run(following.follow_batch(batch_id, Deadline(timeout_s)))

    def _try(self, call: Call) -> httpx.Response | httpx.TransportError:
        try:
            return self._http.send(self._request(call, self._connection.timeout_of(call)))
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

    def _run(self, steps: Steps) -> Generator[Document, None, None]:
        """Take the steps, and yield what they tell."""
        reply: Reply = None
        with contextlib.ExitStack() as stream:
            events: Iterator[Event] = iter(())
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
                        time.sleep(seconds)
                    case Send(call):
                        reply = self._answer(call)
                    case Next():
                        reply = next(events, None)
                    case Listen(call):
                        stream.close()
                        try:
                            events = self._listen(call, stream)
                        except ClientError as error:
                            reply = error

    def _answer(self, call: Call) -> httpx.Response | ClientError:
        try:
            response = settled(self.server, self._try(call))
            if response.content:
                document_of(self.server, response)
        except ClientError as error:
            return error
        return response

    def _listen(self, call: Call, stream: contextlib.ExitStack) -> Iterator[Event]:
        request = self._request(call, self._connection.stream_timeout)
        try:
            response = self._http.send(request, stream=True)
            stream.callback(response.close)
            if response.is_error:
                response.read()
                raise refusal(response)
        except httpx.HTTPError as error:
            raise unreachable(self.server, error) from error
        if EVENT_STREAM not in response.headers.get("content-type", ""):
            raise ServiceUnreachable(f"{self.server} sent no stream of events")
        return _events(response)


def new_key() -> str:
    """With which a request can be sent again and makes nothing twice."""
    return str(uuid.uuid4())


def _events(response: httpx.Response) -> Iterator[Event]:
    """Until the stream ends or is lost, which makes no difference."""
    reader = EventReader()
    with contextlib.suppress(httpx.HTTPError):
        for line in response.iter_lines():
            event = reader.read(line)
            if event is not None:
                yield event
