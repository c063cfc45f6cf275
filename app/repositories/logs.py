"""The bounded log of a solve."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from app.models import SolveLogLine

MAX_LINE_CHARACTERS = 2000


class LogRepository:
    """Queries and writes of the table `solve_log_lines`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def append(self, solve_id: str, lines: Sequence[str], keep: int) -> None:
        """Add lines and drop the oldest of more than `keep`."""
        if not lines:
            return
        first = self.next_offset(solve_id)
        self._session.execute(
            insert(SolveLogLine),
            [
                {"solve_id": solve_id, "seq": first + n, "line": _storable(line)}
                for n, line in enumerate(lines)
            ],
        )
        self._session.execute(
            delete(SolveLogLine).where(
                SolveLogLine.solve_id == solve_id, SolveLogLine.seq < first + len(lines) - keep
            )
        )

    def next_offset(self, solve_id: str) -> int:
        """The number that the next line gets."""
        highest = select(func.max(SolveLogLine.seq)).where(SolveLogLine.solve_id == solve_id)
        last = self._session.scalar(highest)
        return 0 if last is None else last + 1

    def tail(self, solve_id: str, count: int) -> list[str]:
        """The last lines, oldest first."""
        statement = (
            select(SolveLogLine.line)
            .where(SolveLogLine.solve_id == solve_id)
            .order_by(SolveLogLine.seq.desc())
            .limit(count)
        )
        return list(reversed(self._session.scalars(statement).all()))


def _storable(line: str) -> str:
    cleaned = line.replace("\x00", "").encode("utf-8", "replace").decode()
    return cleaned[:MAX_LINE_CHARACTERS]
