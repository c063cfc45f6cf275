"""What keeps solves moving when something died: send, send again, take back.

Every step is a compare-and-set on the rows, so any number of processes may sweep at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from app.database import Database
from app.models import LONG, SHORT
from app.observability import metrics
from app.repositories.leases import Fence, LeaseRepository
from app.repositories.queue import Dispatch, QueueRepository
from app.repositories.running_limits import RunningLimits
from app.services.attempts import close
from app.services.transitions import PLAN_COLUMNS, Lost, ending_name
from app.settings import Settings

logger = logging.getLogger(__name__)
BATCH = 100
HEAD_OF_LINE = 64

Publish = Callable[[Dispatch], None]


class InDoubt:
    """Solves whose rows say, or may come to say, that they were sent, although they were not.

    A commit without an answer may still take effect. What marks the row again waits for it.
    """

    def __init__(self) -> None:
        self._solve_ids: set[str] = set()

    def add(self, solve_ids: Iterable[str]) -> None:
        """Their rows are about to say so."""
        self._solve_ids.update(solve_ids)

    def discard(self, solve_id: str) -> None:
        """It was sent."""
        self._solve_ids.discard(solve_id)

    def settle(self, database: Database) -> None:
        """Have them sent again; they are forgotten only once their rows say so."""
        if not self._solve_ids:
            return
        with database.writing() as session:
            QueueRepository(session).mark_unsent(sorted(self._solve_ids))
        self._solve_ids.clear()


def forget_sent(database: Database) -> None:
    """Send everything queued again: the broker may be a new one that knows nothing of it.

    A message that comes twice is harmless; one that is lost would be waited for.
    """
    with database.writing() as session:
        QueueRepository(session).mark_all_unsent()


def send_unsent(
    database: Database, publish: Publish, settings: Settings, in_doubt: InDoubt | None = None
) -> int:
    """Send the ids of queued solves that were not sent yet; returns how many."""
    with database.reading() as session:
        rooms = RunningLimits(session, settings).rooms_to_send()
        waiting = QueueRepository(session).unsent(BATCH, rooms)
    return _send(database, publish, waiting, in_doubt or InDoubt())


def send_unclaimed(
    database: Database, publish: Publish, settings: Settings, in_doubt: InDoubt | None = None
) -> int:
    """Send ids again that nobody acted on; returns how many."""
    with database.reading() as session:
        rooms = RunningLimits(session, settings).rooms_to_run()
        waiting = [
            dispatch
            for queue in (SHORT, LONG)
            for dispatch in QueueRepository(session).unclaimed(
                queue, HEAD_OF_LINE, settings.resend_after_s, rooms
            )
        ]
    return _send(database, publish, waiting, in_doubt or InDoubt())


def take_back_lapsed(database: Database, settings: Settings) -> int:
    """Requeue running solves whose worker fell silent; returns how many."""
    with database.reading() as session:
        lapsed = QueueRepository(session).lapsed()
    return sum(_take_back(database, settings, fence) for fence in lapsed)


def _send(database: Database, publish: Publish, waiting: list[Dispatch], in_doubt: InDoubt) -> int:
    if not waiting:
        return 0
    with database.writing() as session:
        queue = QueueRepository(session)
        taken = [dispatch for dispatch in waiting if queue.mark_sent(dispatch)]
        in_doubt.add(dispatch.solve_id for dispatch in taken)
    for sent, dispatch in enumerate(taken):
        try:
            publish(dispatch)
        except Exception as error:
            # Broker libraries raise a wide range of errors, and each means the same here.
            metrics.broker_failed()
            logger.warning("the broker takes no messages: %s", error)
            in_doubt.settle(database)
            return sent
        in_doubt.discard(dispatch.solve_id)
    return len(taken)


def _take_back(database: Database, settings: Settings, fence: Fence) -> bool:
    with database.writing() as session:
        solve = LeaseRepository(session).lock_lapsed(fence, *PLAN_COLUMNS)
        if solve is None:
            return False
        logger.warning("lost worker %s, which had solve %s", solve.worker, solve.id)
        close(session, solve, Lost(), settings)
    metrics.attempt_ended(solve, ending_name(Lost()))
    return True
