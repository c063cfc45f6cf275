"""The background thread that sends queued solves to the broker and sweeps the rows."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from app.database import UNREACHABLE, Database
from app.observability import metrics
from app.repositories.queue import Dispatch
from app.services.retention import Retention
from app.services.sweeping import (
    InDoubt,
    Publish,
    forget_sent,
    send_unclaimed,
    send_unsent,
    take_back_lapsed,
)
from app.settings import Settings

logger = logging.getLogger(__name__)


class Dispatcher:
    """Runs in the API and in each worker's main process; `publish` of None sends nothing.

    Requests only wake it: a broker that hangs holds up this thread, never a client.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        publish: Publish | None,
        after_round: Callable[[], None] | None = None,
    ) -> None:
        self._database = database
        self._settings = settings
        self._publish = None if publish is None else self._noting_failure(publish)
        self._broker_is_away = False
        self._after_round = after_round
        self._retention = Retention(database, settings)
        self._awake = threading.Event()
        self._stopping = threading.Event()
        self._forget_sent = False
        self._in_doubt = InDoubt()
        self._thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)

    def start(self, *, afresh: bool = False) -> None:
        """Begin with a sweep. With `afresh`, what was sent before is sent again."""
        self._forget_sent = afresh
        self._thread.start()

    def wake(self) -> None:
        """Something was queued: look now."""
        self._awake.set()

    def stop(self, timeout_s: float = 2.0) -> None:
        """End the thread; one that waits for a dead broker is left behind, as a daemon."""
        self._stopping.set()
        self._awake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        next_sweep = 0.0
        while not self._stopping.is_set():
            is_due = time.monotonic() >= next_sweep
            if is_due:
                next_sweep = time.monotonic() + self._settings.sweep_s
            self._round(is_due)
            if self._after_round is not None:
                self._after_round()
            self._awake.wait(max(0.0, next_sweep - time.monotonic()))
            self._awake.clear()

    def _round(self, is_due: bool) -> None:
        try:
            self._catch_up()
            if is_due:
                self._broker_is_away = False
                self.sweep()
            self._send_unsent()
        except UNREACHABLE as error:
            # The thread outlives a database that is down: the next round tries again.
            metrics.database_failed()
            logger.error("the sweep failed: %s", error)
        except Exception:
            # It outlives a fault of its own too: another round may not meet it.
            logger.exception("the sweep failed")

    def _catch_up(self) -> None:
        if self._forget_sent:
            forget_sent(self._database)
            self._forget_sent = False
        self._in_doubt.settle(self._database)

    def _send_unsent(self) -> None:
        if self._publish is None:
            return
        # Each try claims many rows, and gives them up again where it fails: not for every request
        # that wakes this thread meanwhile.
        while not self._broker_is_away and send_unsent(
            self._database, self._publish, self._settings, self._in_doubt
        ):
            pass

    def _noting_failure(self, publish: Publish) -> Publish:
        def publish_or_note(dispatch: Dispatch) -> None:
            try:
                publish(dispatch)
            except Exception:
                self._broker_is_away = True
                raise

        return publish_or_note

    def sweep(self) -> None:
        """Take back what lost workers held, send again what nobody claimed, and remove a little of
        what has expired."""
        take_back_lapsed(self._database, self._settings)
        if self._publish is not None:
            send_unclaimed(self._database, self._publish, self._settings, self._in_doubt)
        self._retention.sweep()
