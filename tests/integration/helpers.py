"""Steps that many service tests share."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import func, select, text, update
from starlette.testclient import TestClient

from app.database import Database
from app.models import Solve
from app.services.attempts import Attempts, Progress, Standing, WorkOrder
from app.services.transitions import Answered, Ending
from app.settings import Settings
from tests.integration.fakes import START, succeeded
from workers.capacity import Capacity
from workers.solver_keeper import SolverKeeper
from workers.supervise import Supervisor

ADDRESS = "/v1/pipeline-schedules"
SHARDING_ADDRESS = "/v1/sharding-plans"
TRAINING_ADDRESS = "/v1/training-plans"


def post(
    client: TestClient, script: Any = "answer", *, address: str = ADDRESS, **more: Any
) -> dict[str, Any]:
    """Post a request and return the answer's body."""
    headers = more.pop("headers", {})
    response = client.post(address, json={"script": script, **more}, headers=headers)
    assert response.status_code in (200, 202), response.text
    body: dict[str, Any] = response.json()
    return body


def job(client: TestClient, job_id: str) -> dict[str, Any]:
    """The light view of a job."""
    body: dict[str, Any] = client.get(f"/v1/jobs/{job_id}").json()
    return body


def only_solve(database: Database) -> Solve:
    """The single solve there is, large columns included."""
    with database.reading() as session:
        solve_id = session.scalars(select(Solve.id)).one()
    return solve_row(database, solve_id)


def solve_row(database: Database, solve_id: str) -> Solve:
    """One solve, large columns included."""
    from sqlalchemy.orm import undefer

    columns = (Solve.spec, Solve.incumbent, Solve.started_from, Solve.result, Solve.error)
    with database.reading() as session:
        statement = select(Solve).where(Solve.id == solve_id)
        return session.scalars(statement.options(*map(undefer, columns))).one()


def count_solves(database: Database) -> int:
    """How many solves there are."""
    with database.reading() as session:
        return session.scalars(select(func.count()).select_from(Solve)).one()


def newest_solve_id(database: Database) -> str:
    """The solve that was made last."""
    with database.reading() as session:
        statement = select(Solve.id).order_by(Solve.created_at.desc()).limit(1)
        return session.scalars(statement).one()


def claim(attempts: Attempts, database: Database) -> WorkOrder:
    """Claim the newest solve."""
    order = attempts.claim(newest_solve_id(database))
    assert order is not None
    return order


def finish(
    attempts: Attempts, database: Database, ending: Ending | None = None, **result: Any
) -> None:
    """Claim the newest solve and end it, by a success with an incumbent unless told otherwise."""
    order = claim(attempts, database)
    answer = succeeded(**result)
    progress = Progress(incumbent=START, objective=answer["objective"], lower_bound=5)
    assert attempts.end(order.fence, ending or Answered(answer), progress) is Standing.GO_ON


def supervise(
    order: WorkOrder,
    attempts: Attempts,
    settings: Settings,
    should_leave: Callable[[], bool] = lambda: False,
    memory_bytes: int | None = None,
) -> None:
    """Run an order as a worker would, with a solver server of its own."""
    capacity = Capacity(concurrency=1, threads=2, memory_bytes=memory_bytes)
    with solver_keeper(settings) as keeper:
        Supervisor(order, attempts, settings, should_leave, keeper.orders, capacity).run()


@contextmanager
def solver_keeper(settings: Settings) -> Iterator[SolverKeeper]:
    """A solver server that is kept running."""
    keeper = SolverKeeper(settings.solver_command)
    keeper.start()
    try:
        yield keeper
    finally:
        keeper.stop()


def set_columns(database: Database, **values: Any) -> None:
    """Change every solve, as no code would."""
    with database.writing() as session:
        session.execute(update(Solve).values(**values))


def lapse_leases(database: Database) -> None:
    """Let every lease be over."""
    with database.writing() as session:
        session.execute(text("UPDATE solves SET lease_until = 1 WHERE state = 'running'"))


def eventually(condition: Callable[[], Any], within_s: float = 30.0) -> Any:
    """The first true value of a condition."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.05)
    return value


def loads(text_or_none: str | None) -> Any:
    """JSON of a column that has some."""
    assert text_or_none is not None
    return json.loads(text_or_none)
