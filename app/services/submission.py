"""Taking on a request: answer it from a stored result, join a solve in flight, or queue one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from app.database import Database, is_deadlock
from app.errors import RETRY_AFTER_S, DatabaseUnavailable
from app.models import DEFAULT_PRIORITY, LONG, SHORT
from app.observability import metrics
from app.repositories.batches import BatchRepository, NewBatch
from app.repositories.jobs import JobRepository, NewJob
from app.repositories.webhooks import NewWebhook, WebhookRepository
from app.services.idempotency import RequestKey, claim, made_before
from app.services.placing import Overtaken, Place, Placing, Wish
from app.services.quotas import check_queued
from app.services.request_texts import NOTHING_KEPT, Posted
from app.services.resolutions import Resolution
from app.settings import Settings

MAX_TRIES = 50
T = TypeVar("T")
_MADE = "made"
"""What a session notes of the jobs that were made in it."""


@dataclass(frozen=True)
class WebhookTarget:
    """An address that is told when a job is over; without a secret the service's own signs."""

    url: str
    origin: str
    secret: str | None = field(repr=False)


@dataclass(frozen=True)
class JobOptions:
    """What a client says about a job beside the work itself."""

    name: str | None = None
    tags: tuple[str, ...] = ()
    priority: int = DEFAULT_PRIORITY
    webhook: WebhookTarget | None = None


@dataclass(frozen=True)
class Wanted:
    """One job that is asked for."""

    resolved: Resolution
    options: JobOptions
    posted: Posted = NOTHING_KEPT


@dataclass(frozen=True)
class Made:
    """The id of the job or batch, and whether an earlier request with the same key made it."""

    id: str
    replayed: bool = False


@dataclass(frozen=True)
class Prepared:
    """A job to be made: all that can be made ready before the database is asked for its lock."""

    job_id: str
    wanted: Wanted
    wish: Wish


class Submission:
    """Makes the jobs of requests. `wake` tells the dispatcher that something was queued."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        solver_version: str,
        wake: Callable[[], None],
    ) -> None:
        self._database = database
        self._settings = settings
        self._version = solver_version
        self._wake = wake

    def made_before(self, tenant: str, key: RequestKey | None) -> Made | None:
        """What an earlier request with this key made: nothing has to be resolved again."""
        if key is None:
            return None
        with self._database.reading() as session:
            made_id = made_before(session, self._settings, tenant, key)
        return None if made_id is None else Made(made_id, replayed=True)

    def submit(
        self, tenant: str, wanted: Wanted, *, fresh: bool, key: RequestKey | None = None
    ) -> Made:
        """Make one job; with `fresh` no stored or running solve answers it."""
        prepared = self.prepare(tenant, wanted, fresh=fresh)
        return self._commit(tenant, prepared.job_id, [prepared], key)

    def submit_batch(
        self,
        tenant: str,
        name: str | None,
        wanted: Sequence[Wanted],
        *,
        fresh: bool,
        key: RequestKey | None = None,
    ) -> Made:
        """Make all of these jobs, or none, and the batch that they belong to."""
        prepared = [self.prepare(tenant, one, fresh=fresh) for one in wanted]
        batch = NewBatch(str(uuid.uuid4()), tenant, name, [one.job_id for one in prepared])
        return self._commit(tenant, batch.id, prepared, key, batch)

    def prepare(
        self, tenant: str, wanted: Wanted, *, fresh: bool, started_from: str | None = None
    ) -> Prepared:
        """A job for `make`; `started_from` (JSON text) is where its solve starts, which then has
        to be `fresh`."""
        columns = {
            **wanted.resolved.columns,
            "solver_version": self._version,
            "tenant": tenant,
            "queue": queue_of(wanted.resolved.time_limit_s, self._settings),
        }
        wish = Wish(wanted.resolved, columns, wanted.options.priority, fresh, started_from)
        return Prepared(str(uuid.uuid4()), wanted, wish)

    def _commit(
        self,
        tenant: str,
        made_id: str,
        prepared: Sequence[Prepared],
        key: RequestKey | None,
        batch: NewBatch | None = None,
    ) -> Made:
        def make(session: Session) -> None:
            self.make(session, tenant, prepared)
            if batch is not None:
                BatchRepository(session).add(batch)

        return self.once(tenant, key, made_id, make)

    def once(
        self, tenant: str, key: RequestKey | None, made_id: str, make: Callable[[Session], None]
    ) -> Made:
        """Make something in a transaction, unless an earlier request with this key has."""

        def claim_and_make(session: Session) -> Made:
            # The key comes first: whoever waits for it holds nothing that others need.
            if key is not None and not claim(session, self._settings, tenant, key, made_id):
                known = made_before(session, self._settings, tenant, key)
                if known is None:
                    raise Overtaken
                return Made(known, replayed=True)
            make(session)
            return Made(made_id)

        return self.transaction(claim_and_make)

    def transaction(self, work: Callable[[Session], T]) -> T:
        """Do this in a transaction, and again where others were quicker; what it makes by `make`
        is told of once it has committed. Raises `DatabaseUnavailable` where they always were."""
        for _ in range(MAX_TRIES):
            try:
                with self._database.writing() as session:
                    done = work(session)
            except Overtaken:
                continue
            except OperationalError as error:
                if not is_deadlock(error):
                    raise
                continue
            for prepared, places in session.info.get(_MADE, ()):
                self._tell(prepared, places)
            return done
        raise always_overtaken()

    def make(self, session: Session, tenant: str, prepared: Sequence[Prepared]) -> None:
        """Make the jobs, and the solves that they need, as part of a `transaction`."""
        placing = Placing(session, tenant, self._version)
        places = placing.place([one.wish for one in prepared])
        if any(place.cache == "miss" for place in places):
            check_queued(session, tenant, self._settings)
        pairs = list(zip(prepared, places, strict=True))
        JobRepository(session).add([_new_job(tenant, one, place) for one, place in pairs])
        WebhookRepository(session).add(
            [
                NewWebhook(one.job_id, hook.url, hook.origin, hook.secret)
                for one in prepared
                if (hook := one.wanted.options.webhook) is not None
            ]
        )
        session.info.setdefault(_MADE, []).append((prepared, places))

    def _tell(self, prepared: Sequence[Prepared], places: Sequence[Place]) -> None:
        for one, place in zip(prepared, places, strict=True):
            metrics.job_taken_on(one.wish.columns["kind"], place.cache)
        if any(place.cache != "hit" for place in places):
            self._wake()


def always_overtaken() -> DatabaseUnavailable:
    """The error of whoever was overtaken `MAX_TRIES` times in a row: the database is too busy."""
    return DatabaseUnavailable(
        f"Others wrote first {MAX_TRIES} times in a row. Nothing was changed; try again in "
        f"{RETRY_AFTER_S} s.",
        headers={"Retry-After": str(RETRY_AFTER_S)},
    )


def queue_of(time_limit_s: float, settings: Settings) -> str:
    """The queue of a solve, by what it may cost at most: its time limit."""
    return SHORT if time_limit_s <= settings.short_time_limit_s else LONG


def _new_job(tenant: str, prepared: Prepared, place: Place) -> NewJob:
    options, posted = prepared.wanted.options, prepared.wanted.posted
    return NewJob(
        id=prepared.job_id,
        solve_id=place.solve_id,
        tenant=tenant,
        name=options.name,
        tags=options.tags,
        priority=options.priority,
        cache=place.cache,
        model=posted.model,
        request=posted.text,
    )
