"""The one task: claim a solve and run it."""

from __future__ import annotations

import logging
import time

from app.broker import SOLVE_TASK
from app.database import UNREACHABLE
from app.observability import metrics
from app.observability.context import bound
from app.services.attempts import Attempts, WorkOrder
from workers import runtime
from workers.celery_app import celery_app, shutdown_flag, solver_keeper
from workers.supervise import Supervisor

logger = logging.getLogger(__name__)
AGAIN_S = 1.0


def solve(solve_id: str) -> None:
    """Solve if it is still queued; a message that came twice, or late, finds nothing to do."""
    attempts = runtime.attempts()
    if shutdown_flag.is_set():
        _pass_on(attempts, solve_id)
        return
    with shutdown_flag.instead_of_sigterm():
        order = _claim(attempts, solve_id)
        if order is None:
            return
        with bound(solve_id=solve_id, attempt=order.fence.attempt):
            Supervisor(
                order,
                attempts,
                runtime.settings(),
                shutdown_flag.is_set,
                solver_keeper.orders,
                runtime.capacity(),
            ).run()


def _claim(attempts: Attempts, solve_id: str) -> WorkOrder | None:
    """Claim it, however long the database is away: else this message would be used up, and so
    would be all others, one after the other."""
    while not shutdown_flag.is_set():
        try:
            order = attempts.claim(solve_id)
        except UNREACHABLE as error:
            metrics.database_failed()
            logger.warning("cannot claim solve %s: %s", solve_id, error)
            time.sleep(AGAIN_S)
        else:
            if order is None:
                logger.info("solve %s is not to be run here now", solve_id)
            return order
    _pass_on(attempts, solve_id)
    return None


def _pass_on(attempts: Attempts, solve_id: str) -> None:
    """Let it be sent to another worker. While the database is away that has to wait until the sweep
    sends again what nobody claimed."""
    try:
        attempts.refuse(solve_id)
    except UNREACHABLE as error:
        metrics.database_failed()
        logger.warning("cannot pass on solve %s: %s", solve_id, error)


celery_app.task(name=SOLVE_TASK, ignore_result=True)(solve)
