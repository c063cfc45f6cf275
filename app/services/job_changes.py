"""What has changed of all jobs of the tenants that are followed, look by look."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from app.database import Database, milliseconds
from app.models import SolveState
from app.repositories.job_changes import ChangeMark, ChangeReader
from app.repositories.job_rows import JobReader, JobRow

WINDOW_S = 10.0
"""A row shows what it was made or changed with when its transaction ends. Whatever changed so long
before a look counts as news for a stream that begins, so that nothing is lost between a client's
listing and its stream."""
ROWS_AT_ONCE = 500

Known = Mapping[str, Mapping[str, ChangeMark]]


@dataclass(frozen=True)
class Changes:
    """The jobs that were read, by tenant, and the ids of those that have changed since the last
    look: streams that begin are told of the others too."""

    rows: Mapping[str, list[JobRow]]
    changed: frozenset[str]


class JobChanges:
    """Looks of one process, one at a time: what they cost depends on what goes on, not on how many
    jobs a tenant has or how many streams follow them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: Known = {}
        self._looked_at = 0.0

    def look(self, following: Collection[str], beginning: Collection[str]) -> Changes:
        """The changes for tenants of which there were streams at the last look, and for those
        whose streams begin; a tenant may be both."""
        began = time.monotonic()
        # A look that failed is made up for by the next one.
        missed_s = began - self._looked_at if following else 0.0
        known = {tenant: self._known.get(tenant, {}) for tenant in following}
        with self._database.looking() as connection:
            marks = ChangeReader(connection).marks(
                {*following, *beginning}, _running(known), milliseconds(WINDOW_S + missed_s)
            )
            changed = frozenset(
                mark.id for mark in marks if _is_news(known.get(mark.tenant, {}).get(mark.id), mark)
            )
            wanted = [mark.id for mark in marks if mark.id in changed or mark.tenant in beginning]
            rows = list(_read(JobReader(connection), wanted))
        self._known, self._looked_at = _by_tenant(marks), began
        grouped: dict[str, list[JobRow]] = defaultdict(list)
        for row in rows:
            grouped[row.tenant].append(row)
        return Changes(grouped, changed)


def _is_news(known: ChangeMark | None, mark: ChangeMark) -> bool:
    """Of a job that is over nothing is news: its solve may go on for others."""
    return known is None or (known != mark and not SolveState(known.state).is_over)


def _running(known: Known) -> list[str]:
    """Jobs that may have gone back to the queue, where nothing else would find them."""
    return [
        mark.id
        for marks in known.values()
        for mark in marks.values()
        if mark.state == SolveState.RUNNING
    ]


def _read(reader: JobReader, job_ids: list[str]) -> Iterator[JobRow]:
    for first in range(0, len(job_ids), ROWS_AT_ONCE):
        yield from reader.some(job_ids[first : first + ROWS_AT_ONCE])


def _by_tenant(marks: Iterable[ChangeMark]) -> Known:
    known: dict[str, dict[str, ChangeMark]] = defaultdict(dict)
    for mark in marks:
        known[mark.tenant][mark.id] = mark
    return known
