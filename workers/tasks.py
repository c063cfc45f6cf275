"""The one task: claim a solve and run it."""

from __future__ import annotations

import logging

from app.broker import SOLVE_TASK
from app.observability.context import bound
from workers import runtime
from workers.celery_app import celery_app, shutdown_flag, solver_keeper
from workers.supervise import Supervisor

logger = logging.getLogger(__name__)


def solve(solve_id: str) -> None:
    """Solve if it is still queued; a message that came twice, or late, finds nothing to do."""
    attempts = runtime.attempts()
    if shutdown_flag.is_set():
        attempts.refuse(solve_id)
        return
    with shutdown_flag.instead_of_sigterm():
        order = attempts.claim(solve_id)
        if order is None:
            logger.info("solve %s is not to be run here now", solve_id)
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


celery_app.task(name=SOLVE_TASK, ignore_result=True)(solve)
