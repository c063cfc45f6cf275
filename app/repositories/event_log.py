"""The writing end of a solve's events: what workers and the sweep note beside what they change."""

from __future__ import annotations

from sqlalchemy import ColumnElement, String, func, insert, literal, select
from sqlalchemy.orm import Session

from app.database import clock_ms
from app.models import Solve, SolveEvent

MOST_STEPS = 2000
"""Events of a solve after which steps are no longer noted; changes of its state always are."""
MAX_DETAIL_CHARACTERS = 200
COLUMNS = ("state", "attempt", "phase", "spent_ms", "best_objective", "lower_bound")


class EventLog:
    """Appends to `solve_events`, in the transaction that changed the solve and so has it locked."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def change(self, solve_id: str, detail: str | None = None) -> None:
        """Note the solve as it is by now, after a change of its state."""
        self._append(solve_id, detail, literal(True))

    def step(self, solve_id: str) -> None:
        """Note a better plan, bound or a new phase, unless there are too many events already."""
        self._append(solve_id, None, _next_number(solve_id) < MOST_STEPS)

    def _append(self, solve_id: str, detail: str | None, condition: ColumnElement[bool]) -> None:
        self._session.flush()
        row = select(
            Solve.id,
            _next_number(solve_id),
            clock_ms(),
            *(getattr(Solve, name) for name in COLUMNS),
            literal(detail and detail[:MAX_DETAIL_CHARACTERS], String),
        ).where(Solve.id == solve_id, condition)
        names = ["solve_id", "seq", "at", *COLUMNS, "detail"]
        self._session.execute(insert(SolveEvent).from_select(names, row))


def _next_number(solve_id: str) -> ColumnElement[int]:
    last = select(func.max(SolveEvent.seq)).where(SolveEvent.solve_id == solve_id)
    return func.coalesce(last.scalar_subquery() + 1, 0)
