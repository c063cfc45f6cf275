"""What keeps polls quick that come at the same time, and none waiting for ever."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import anyio
import pytest
from anyio.to_thread import run_sync
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app.database import Database
from app.repositories.job_rows import JobRow
from app.services.polls import READERS, Polls
from app.settings import Settings

POLLS = 20
LONG_S, SHORT_S = 60.0, 1.0


class SlowPolls(Polls):
    """Notes what is read together, and reads nothing until it is let go."""

    def __init__(self, folder: Path, timeout_s: float) -> None:
        url = f"sqlite:///{folder}/any.db"
        super().__init__(Database(Settings(database_url=url, database_timeout_s=timeout_s)))
        self.let_go = threading.Event()
        self.reads: list[list[str]] = []
        self.fault: Exception | None = None

    def _read(self, job_ids: Collection[str]) -> Mapping[str, JobRow]:
        self.reads.append(list(job_ids))
        self.let_go.wait(LONG_S)
        if self.fault is not None:
            raise self.fault
        return {}


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[SlowPolls]:
    polls = SlowPolls(tmp_path, LONG_S)
    yield polls
    polls.let_go.set()


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[SlowPolls]:
    polls = SlowPolls(tmp_path, SHORT_S)
    yield polls
    polls.let_go.set()


async def ask(polls: SlowPolls, job_ids: Collection[str]) -> list[JobRow | BaseException | None]:
    """One after the other, and let go once all of them wait."""
    asked = []
    for job_id in job_ids:
        asked.append(asyncio.create_task(polls.row(job_id)))
        await anyio.wait_all_tasks_blocked()
    polls.let_go.set()
    return await asyncio.gather(*asked, return_exceptions=True)


def test_those_who_wait_are_read_together(patient: SlowPolls) -> None:
    job_ids = [str(number) for number in range(POLLS)]
    answers = asyncio.run(ask(patient, [*job_ids, *job_ids]))
    assert answers == [None] * (2 * POLLS)
    busy, together = patient.reads[:READERS], patient.reads[READERS:]
    assert sorted(busy) == [[job_id] for job_id in job_ids[:READERS]]
    # Those that are being read when somebody asks again are read again.
    assert [set(read) for read in together] == [set(job_ids)]


def test_a_fault_reaches_all_and_the_next_are_read(patient: SlowPolls) -> None:
    patient.fault = OperationalError("SELECT", {}, Exception("gone"))

    async def ask_twice() -> None:
        failed = await ask(patient, ["1", "2", "3", "4"])
        assert failed == [patient.fault] * 4
        patient.fault = None
        assert await patient.row("5") is None

    asyncio.run(ask_twice())


def test_a_database_that_hangs_holds_up_nobody_else(impatient: SlowPolls) -> None:
    async def ask_all() -> None:
        polls = [asyncio.create_task(impatient.row(str(number))) for number in range(POLLS)]
        # The threads that are there for everything else are still to be had.
        assert await run_sync(lambda: "served") == "served"
        answers = await asyncio.gather(*polls, return_exceptions=True)
        assert all(isinstance(answer, PoolTimeout) for answer in answers)
        assert len(impatient.reads) <= READERS
        impatient.let_go.set()
        assert await impatient.row("again") is None

    asyncio.run(ask_all())


def test_what_a_server_starts_with_is_left_out_of_collections(tmp_path: Path) -> None:
    program = (
        "import gc; from app.main import create_app; create_app(); print(gc.get_freeze_count())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "LOADMASTER_DATABASE_URL": f"sqlite:///{tmp_path}/any.db"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LONG_S,
    )
    assert int(done.stdout.splitlines()[-1]) > 50_000
