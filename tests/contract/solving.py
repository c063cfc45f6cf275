"""A service in process whose solves are ended as soon as they are posted."""

from __future__ import annotations

from itertools import count
from typing import Any

from sqlalchemy import select
from starlette.types import ASGIApp, Receive, Scope, Send

from app.database import Database
from app.models import PIPELINE, SHARDING, TRAINING, Solve, SolveState
from app.services.attempts import Attempts, Progress
from app.services.transitions import Answered
from app.settings import Settings
from planner.version import __version__
from tests.integration.fakes import (
    SHARDING_START,
    START,
    TRAINING_START,
    infeasible,
    sharded,
    succeeded,
    trained,
)

FAILED: dict[str, Any] = {"state": "failed", "code": "failed", "detail": "Not for this one."}
RESULTS = {PIPELINE: succeeded, SHARDING: sharded, TRAINING: trained}
STARTS = {PIPELINE: START, SHARDING: SHARDING_START, TRAINING: TRAINING_START}


class SolvedAtOnce:
    """ASGI middleware that does a worker's part after every POST: of six solves three succeed, one
    is infeasible, one fails, and one is left in the queue."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._database = Database(settings)
        self._attempts = Attempts(self._database, settings, "test-worker", __version__)
        self._left: set[str] = set()
        self._numbers = count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
        if scope["type"] == "http" and scope["method"] == "POST":
            self._work()

    def close(self) -> None:
        self._database.dispose()

    def _work(self) -> None:
        queued = select(Solve.id, Solve.kind).where(Solve.state == SolveState.QUEUED)
        with self._database.reading() as session:
            rows = session.execute(queued.order_by(Solve.created_at)).all()
        for solve_id, kind in rows:
            if solve_id not in self._left:
                self._end(solve_id, kind, next(self._numbers) % 6)

    def _end(self, solve_id: str, kind: str, number: int) -> None:
        if number == 5:
            self._left.add(solve_id)
            return
        order = self._attempts.claim(solve_id)
        assert order is not None
        result = {3: infeasible(), 4: FAILED}.get(number) or RESULTS[kind]()
        progress = Progress(log_lines=["a line"], is_step=True)
        if number < 3:
            progress.incumbent, progress.objective = STARTS[kind], result["objective"]
        self._attempts.end(order.fence, Answered(result), progress)
