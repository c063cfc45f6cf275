"""What became of the webhooks of a job."""

from __future__ import annotations

from collections.abc import Sequence

from app.callers import Caller
from app.database import Database
from app.errors import JobNotFound
from app.models import DeliveryState, Webhook, WebhookAttempt
from app.repositories.jobs import JobRepository
from app.repositories.webhooks import WebhookRepository
from app.schemas.times import instant, known_instant
from app.schemas.webhooks import DeliveryAttempt, WebhookList, WebhookView


class DeliveryLog:
    """Reading it, each call one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_job(self, caller: Caller, job_id: str) -> WebhookList:
        """The webhooks of a job and how each try went."""
        with self._database.reading() as session:
            if JobRepository(session).get(caller.tenant, job_id) is None:
                raise JobNotFound(f"There is no job {job_id}.")
            repository = WebhookRepository(session)
            webhooks = repository.of_job(job_id)
            attempts = repository.attempts_of([webhook.id for webhook in webhooks])
        return WebhookList(webhooks=[_view(webhook, attempts) for webhook in webhooks])


def _view(webhook: Webhook, attempts: Sequence[WebhookAttempt]) -> WebhookView:
    is_pending = webhook.state == DeliveryState.PENDING
    return WebhookView(
        id=webhook.id,
        # What follows may be a token of the receiver's.
        url=webhook.url.partition("?")[0],
        state=DeliveryState(webhook.state),
        next_attempt_at=known_instant(webhook.not_before) if is_pending else None,
        attempts=[
            DeliveryAttempt(
                number=attempt.number,
                at=known_instant(attempt.at),
                duration_ms=attempt.duration_ms,
                status=attempt.status,
                error=attempt.error,
            )
            for attempt in attempts
            if attempt.webhook_id == webhook.id
        ],
        created_at=known_instant(webhook.created_at),
        finished_at=instant(webhook.finished_at),
    )
