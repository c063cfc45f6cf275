"""The background thread that delivers webhooks."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from app.database import UNREACHABLE, Database, milliseconds
from app.models import DeliveryState, Webhook
from app.observability import metrics
from app.repositories.job_rows import JobReader
from app.repositories.webhooks import Due, WebhookRepository
from app.services.webhooks.messages import message_of, signed_headers
from app.services.webhooks.sending import NoAnswer, Sender
from app.services.webhooks.targets import AddressRefused, Endpoint, WebhookTargets
from app.settings import Settings

logger = logging.getLogger(__name__)
OUTCOMES: dict[DeliveryState, metrics.WebhookOutcome] = {
    DeliveryState.DELIVERED: "delivered",
    DeliveryState.PENDING: "retried",
    DeliveryState.FAILED: "failed",
}

POLL_S = 1.0
RELEASED_AT_ONCE = 500
PATIENCE_S = 120.0
"""How long after a try began it is certainly over: looking up a name may take half a minute."""
MOST_AT_ONCE = 8
MOST_PER_ORIGIN, MOST_PER_TENANT = 2, 6
GONE = 410


@dataclass(frozen=True)
class Claimed:
    """A try that is this process's to make."""

    due: Due
    webhook: Webhook
    body: bytes


@dataclass(frozen=True)
class Outcome:
    """How a try went: a status, or else why there is none."""

    status: int | None = None
    error: str | None = None

    @property
    def is_delivered(self) -> bool:
        """Whether the receiver took it."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_final(self) -> bool:
        """Whether trying again is useless."""
        return self.is_delivered or self.status == GONE


class Notifier:
    """Runs in the API and in each worker's main process, beside the dispatcher.

    Each try has a thread of its own; of one origin and of one tenant only some run at once, so
    that receivers that are slow hold up nobody else's.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        targets: WebhookTargets | None = None,
        sender: Sender | None = None,
    ) -> None:
        self._database = database
        self._settings = settings
        self._targets = targets or WebhookTargets(settings)
        self._sender = sender or Sender(settings.webhook_timeout_s)
        self._lock = threading.Lock()
        self._under_way: dict[threading.Thread, Due] = {}
        self._awake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """End the threads; tries that take longer are left behind, and made again by whoever is
        next."""
        self._stopping.set()
        self._awake.set()
        until = time.monotonic() + timeout_s
        with self._lock:
            threads = [self._thread, *self._under_way]
        for thread in threads:
            if thread.is_alive():
                thread.join(max(0.0, until - time.monotonic()))

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.round()
            except UNREACHABLE as error:
                # The thread outlives a database that is down: the next round tries again.
                logger.error("webhooks are not delivered: %s", error)
            except Exception:
                # It outlives a fault of its own too: another round may not meet it.
                logger.exception("webhooks are not delivered")
            self._awake.wait(POLL_S)
            self._awake.clear()

    def round(self) -> None:
        """Begin as many of the tries that are due as may run now."""
        self._release()
        while not self._stopping.is_set():
            due = self._next_due()
            if due is None:
                return
            claimed = self._claim(due)
            if claimed is not None:
                self._begin(claimed)

    def _release(self) -> None:
        with self._database.reading() as session:
            if not WebhookRepository(session).any_waiting_for_a_job_that_is_over():
                return
        with self._database.writing() as session:
            WebhookRepository(session).release(RELEASED_AT_ONCE)

    def _next_due(self) -> Due | None:
        with self._lock:
            under_way = list(self._under_way.values())
        if len(under_way) >= MOST_AT_ONCE:
            return None
        but_to = _at_least(MOST_PER_ORIGIN, (due.origin for due in under_way))
        but_of = _at_least(MOST_PER_TENANT, (due.tenant for due in under_way))
        with self._database.reading() as session:
            return WebhookRepository(session).next_due(but_to=but_to, but_of=but_of)

    def _claim(self, due: Due) -> Claimed | None:
        with self._database.writing() as session:
            webhook = WebhookRepository(session).claim(
                due.webhook_id, due.attempts, milliseconds(PATIENCE_S)
            )
            if webhook is None:
                return None
            row = JobReader(session.connection()).one(due.tenant, webhook.job_id)
            assert row is not None
            return Claimed(due, webhook, message_of(row))

    def _begin(self, claimed: Claimed) -> None:
        thread = threading.Thread(
            target=self._deliver, args=(claimed,), name="webhook", daemon=True
        )
        with self._lock:
            self._under_way[thread] = claimed.due
        thread.start()

    def _deliver(self, claimed: Claimed) -> None:
        try:
            began = time.monotonic()
            outcome = self._try(claimed)
            self._settle(claimed.webhook, outcome, milliseconds(time.monotonic() - began))
        except UNREACHABLE as error:
            # Whoever is next makes the try again after `PATIENCE_S`.
            logger.error("the webhook %s: %s", claimed.webhook.id, error)
        except Exception:
            logger.exception("the webhook %s", claimed.webhook.id)
        finally:
            with self._lock:
                del self._under_way[threading.current_thread()]
            self._awake.set()

    def _try(self, claimed: Claimed) -> Outcome:
        webhook = claimed.webhook
        secret = webhook.secret
        if secret is None:
            if self._settings.webhook_secret is None:
                return Outcome(error="the service has no secret to sign with any more")
            secret = self._settings.webhook_secret.get_secret_value()
        try:
            endpoint = Endpoint.of(webhook.url)
            addresses = self._targets.addresses_of(endpoint)
            headers = signed_headers(webhook.id, secret, claimed.body)
            return Outcome(self._sender.post(endpoint, addresses, claimed.body, headers))
        except AddressRefused as error:
            return Outcome(error=f"the address {error}")
        except NoAnswer as error:
            return Outcome(error=str(error))
        except (OSError, UnicodeError):
            return Outcome(error="the name could not be looked up")

    def _settle(self, webhook: Webhook, outcome: Outcome, duration_ms: int) -> None:
        waits = self._settings.webhook_retries_s
        wait_s = 0.0
        if outcome.is_delivered:
            state = DeliveryState.DELIVERED
        elif outcome.is_final or webhook.attempts > len(waits):
            state = DeliveryState.FAILED
        else:
            state = DeliveryState.PENDING
            wait_s = waits[webhook.attempts - 1]
        with self._database.writing() as session:
            webhooks = WebhookRepository(session)
            if webhooks.settle(webhook, state, wait_ms=milliseconds(wait_s)):
                webhooks.log(
                    webhook,
                    duration_ms=duration_ms,
                    status=outcome.status,
                    error=outcome.error,
                )
        metrics.webhook_tried(OUTCOMES[state], duration_ms / 1000)


def _at_least(limit: int, values: Iterable[str]) -> list[str]:
    return [value for value, count in Counter(values).items() if count >= limit]
