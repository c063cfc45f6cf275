"""Webhooks: who is to be told of which job, what is due, and how each try went."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field

from sqlalchemy import Select, insert, select, update
from sqlalchemy.orm import Session, undefer

from app.database import clock_ms
from app.models import OVER, DeliveryState, Job, Solve, Webhook, WebhookAttempt
from app.repositories.job_rows import JOB_STATE


@dataclass(frozen=True)
class NewWebhook:
    """An address to be told of a job; without a secret the service's own signs."""

    job_id: str
    url: str
    origin: str
    secret: str | None = field(repr=False)


@dataclass(frozen=True)
class Due:
    """A delivery that may be tried now, and where it would go."""

    webhook_id: str
    attempts: int
    origin: str
    tenant: str


class WebhookRepository:
    """Queries and writes of the tables `webhooks` and `webhook_attempts`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, webhooks: Sequence[NewWebhook]) -> None:
        """These addresses are told when their jobs are over."""
        if webhooks:
            self._session.execute(
                insert(Webhook), [{"id": str(uuid.uuid4()), **asdict(new)} for new in webhooks]
            )

    def of_job(self, job_id: str) -> Sequence[Webhook]:
        """The webhooks of a job."""
        statement = (
            select(Webhook).where(Webhook.job_id == job_id).order_by(Webhook.created_at, Webhook.id)
        )
        return self._session.scalars(statement).all()

    def attempts_of(self, webhook_ids: Collection[str]) -> Sequence[WebhookAttempt]:
        """How the tries of these webhooks went, in their order."""
        statement = (
            select(WebhookAttempt)
            .where(WebhookAttempt.webhook_id.in_(webhook_ids))
            .order_by(WebhookAttempt.webhook_id, WebhookAttempt.number)
        )
        return self._session.scalars(statement).all()

    def any_waiting_for_a_job_that_is_over(self) -> bool:
        """Whether `release` has something to do."""
        return self._session.scalars(_ripe().limit(1)).one_or_none() is not None

    def release(self, limit: int) -> None:
        """Those whose jobs are over are due."""
        # Rows that another process is releasing are left to it: it does the same.
        ripe = self._session.scalars(
            _ripe().limit(limit).with_for_update(of=Webhook, skip_locked=True)
        ).all()
        self._session.execute(
            update(Webhook)
            .where(Webhook.id.in_(ripe), Webhook.state == DeliveryState.WAITING)
            .values(state=DeliveryState.PENDING, not_before=clock_ms())
            .execution_options(synchronize_session=False)
        )

    def next_due(self, *, but_to: Collection[str], but_of: Collection[str]) -> Due | None:
        """The one that is due for longest, but to none of these origins and of none of these
        tenants."""
        statement = (
            select(Webhook.id, Webhook.attempts, Webhook.origin, Job.tenant)
            .join(Job, Webhook.job_id == Job.id)
            .where(
                Webhook.state == DeliveryState.PENDING,
                Webhook.not_before <= clock_ms(),
                Webhook.origin.not_in(but_to),
                Job.tenant.not_in(but_of),
            )
            .order_by(Webhook.not_before, Webhook.id)
            .limit(1)
        )
        row = self._session.execute(statement).one_or_none()
        return None if row is None else Due(*row)

    def claim(self, webhook_id: str, attempts: int, patience_ms: int) -> Webhook | None:
        """The webhook with its secret, to be tried by this process alone, or None if another one
        was faster. Whoever dies while it tries is followed after this patience."""
        claimed = self._session.scalars(
            update(Webhook)
            .where(
                Webhook.id == webhook_id,
                Webhook.state == DeliveryState.PENDING,
                Webhook.attempts == attempts,
                Webhook.not_before <= clock_ms(),
            )
            .values(attempts=attempts + 1, not_before=clock_ms() + patience_ms)
            .returning(Webhook.id)
            .execution_options(synchronize_session=False)
        ).one_or_none()
        if claimed is None:
            return None
        statement = select(Webhook).where(Webhook.id == claimed).options(undefer(Webhook.secret))
        return self._session.scalars(statement).one()

    def settle(self, webhook: Webhook, state: DeliveryState, *, wait_ms: int) -> bool:
        """Write what came of the try that was claimed; whether it was still this process's."""
        finished_at = None if state is DeliveryState.PENDING else clock_ms()
        settled = self._session.scalars(
            update(Webhook)
            .where(
                Webhook.id == webhook.id,
                Webhook.state == DeliveryState.PENDING,
                Webhook.attempts == webhook.attempts,
            )
            .values(state=state, not_before=clock_ms() + wait_ms, finished_at=finished_at)
            .returning(Webhook.id)
            .execution_options(synchronize_session=False)
        )
        return settled.one_or_none() is not None

    def log(
        self,
        webhook: Webhook,
        *,
        duration_ms: int,
        status: int | None,
        error: str | None,
    ) -> None:
        """Keep how the try went."""
        self._session.add(
            WebhookAttempt(
                webhook_id=webhook.id,
                number=webhook.attempts,
                at=clock_ms() - duration_ms,
                duration_ms=duration_ms,
                status=status,
                error=error,
            )
        )


def _ripe() -> Select[str]:
    return (
        select(Webhook.id)
        .join(Job, Webhook.job_id == Job.id)
        .join(Solve, Job.solve_id == Solve.id)
        .where(Webhook.state == DeliveryState.WAITING, JOB_STATE.in_(OVER))
    )
