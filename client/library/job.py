"""Handles of jobs and batches: to wait for them, and to get what comes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Self, TypeVar, cast

from client.errors import NoPlan
from client.library.backend import Backend
from client.library.requests import Document
from client.library.showing import comparison_html, status_html
from client.library.views import Result, Status, Timeline, result_of

ResultT = TypeVar("ResultT", bound=Result, covariant=True)
OnProgress = Callable[[Status], object]


class Job(Generic[ResultT]):
    """A job that was asked for. Nothing is asked for again while nobody asks for it here."""

    def __init__(
        self, backend: Backend, kind: str, known: Mapping[str, Any], result: Document | None = None
    ) -> None:
        self._backend = backend
        self.kind = kind
        self.id = str(known["id"])
        self._known = Status(known)
        self._document = result

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.kind} {self.state}>"

    @property
    def state(self) -> str:
        """As it was last heard of; `status()` asks."""
        return self._known.state

    def status(self) -> Status:
        """How far it is now."""
        self._known = Status(self._backend.status(self.id))
        return self._known

    def wait(self, timeout: float | None = None, progress: OnProgress | None = None) -> Self:
        """Until it is over; `progress` is called whenever something has changed.

        Raises `WaitTimeout` after `timeout` seconds; the job goes on.
        """
        if not self._known.is_over:
            for document in self._backend.follow(self.id, timeout):
                self._known = Status(document)
                if progress is not None:
                    progress(self._known)
        return self

    def result(self, timeout: float | None = None, progress: OnProgress | None = None) -> ResultT:
        """The plan, waited for where it is not there yet.

        Raises `Infeasible` where nothing fits, `NoPlan` where the job failed or was cancelled too
        early, and what `wait` raises.
        """
        return cast("ResultT", result_of(self.kind, self.document(timeout, progress)))

    def document(
        self, timeout: float | None = None, progress: OnProgress | None = None
    ) -> Document:
        """The whole answer as JSON, that nothing fits too. Raises as `result` does otherwise."""
        if self._document is None:
            self.wait(timeout, progress)
            self._document = self._backend.result(self.id)
        return self._document

    def cancel(self) -> Status:
        """Stop it; `result()` is then the best plan so far."""
        self._known = Status(self._backend.cancel(self.id))
        return self._known

    def timeline(self, row: Mapping[str, Any] | None = None) -> Timeline:
        """Its schedule with memory over time and what each operation waited for; with a `row` of
        the result's `comparison` that of a classic schedule."""
        return Timeline(self._backend.timeline(self.id, row))

    def exports(self) -> list[Mapping[str, Any]]:
        """The formats that are about what the plan has: `format`, `title`, `written_for` and, where
        it cannot be written in that one, the `hindrance`."""
        return list(self._backend.exports(self.id))

    def export(self, format: str) -> str:  # noqa: A002 (as the address and the command call it)
        """The plan in the format of another program: `csv`, `chrome-trace`, …"""
        return self._backend.export(self.id, format)

    def log(self, offset: int = 0) -> list[str]:
        """Lines of the solver's log from an offset on, at most a page."""
        return list(self._backend.log(self.id, offset)["lines"])

    def _repr_html_(self) -> str:
        """What is known; only a plan that is there is fetched to be shown."""
        if self.state not in ("succeeded", "cancelled"):
            return status_html(self._known.document)
        try:
            shown: Any = self.result()
        except NoPlan:
            return status_html(self._known.document)
        return str(shown._repr_html_())


class Batch:
    """Many jobs that were asked for at once."""

    def __init__(self, backend: Backend, known: Mapping[str, Any]) -> None:
        self._backend = backend
        self.id = str(known["id"])

    def __repr__(self) -> str:
        return f"<Batch {self.id}>"

    def document(self) -> Mapping[str, Any]:
        """How it is getting on: `states`, `over`, `best` of each kind, and the `comparison`."""
        return self._backend.batch(self.id)

    def jobs(self) -> list[Job[Result]]:
        """Its jobs, in the order of the requests."""
        rows = self.document()["comparison"]
        return [Job(self._backend, row["kind"], {**row, "id": row["job_id"]}) for row in rows]

    def wait(
        self,
        timeout: float | None = None,
        progress: Callable[[Mapping[str, Any]], object] | None = None,
    ) -> Self:
        """Until all its jobs are over; `progress` gets `document()` whenever it has changed.

        Raises `WaitTimeout` after `timeout` seconds; the jobs go on.
        """
        for document in self._backend.follow_batch(self.id, timeout):
            if progress is not None:
                progress(document)
        return self

    def comparison(self) -> list[Mapping[str, Any]]:
        """For each request `job_id`, `name`, `kind`, `state`, `engine`, `objective`, `bound`, `gap`
        and `ratio` (its objective over the best of its kind)."""
        return list(self.document()["comparison"])

    def cancel(self) -> None:
        """Stop those of its jobs that are not over."""
        self._backend.cancel_batch(self.id)

    def _repr_html_(self) -> str:
        return comparison_html(self.document())
