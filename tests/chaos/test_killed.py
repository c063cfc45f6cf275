"""Whatever is killed, every job ends as it should, and its result is written once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from itertools import count

import pytest

from planner.cores import usable_cores
from tests.chaos.asking import Asker
from tests.chaos.deployments import (
    asking,
    deployed,
    restart_database,
    restart_killed,
    slow_solver,
)
from tests.chaos.form import LONG_S, by_form, record, seeded_random
from tests.chaos.watching import Watch
from tests.integration.topology import BROKER, Topology
from tests.unit.embedded.conftest import start as start
from tests.unit.embedded.service import PROGRAMS, Service, Start

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.timeout(by_form(240, LONG_S))]

SOLVE_S = 2.0
TWO_SOLVES_AT_ONCE = str(max(1, usable_cores() // 2))
"""The threads of a solve of which a worker runs two or three, so that there is work for as many
strikes on a machine of many cores."""
KILL_WORKER_EVERY_S = by_form(4.0, 2.0)
BROKER_STRIKE, DATABASE_STRIKE = by_form((1, 2), (20, 40))
KILL_CHILD_EVERY_S = by_form(5.0, 2.0)
"""Of three, one of which is the only worker."""
OUTCOME_S = 1200.0
DONE = "succeeded"


def kill_until_done(watch: Watch, jobs: int, every_s: float, kill: Callable[[], None]) -> int:
    """Calls `kill` until all solves are over; how often that was."""
    deadline = time.monotonic() + OUTCOME_S
    kills = 0
    while watch.solves().get(DONE, 0) < jobs:
        assert time.monotonic() < deadline, watch.solves()
        kill()
        kills += 1
        time.sleep(every_s)
    return kills


def check(asker: Asker, watch: Watch, job_ids: list[str]) -> None:
    """All jobs are over, each with its own answer, which was written once."""
    assert watch.solves() == {DONE: len(job_ids)}
    assert asker.states() == dict.fromkeys(job_ids, DONE)
    asker.check_answers(job_ids)
    watch.check()


class Saboteur:
    """Kills a worker at each turn; once the broker, and once the database is restarted."""

    def __init__(self, topology: Topology, chance: random.Random) -> None:
        self._topology = topology
        self._chance = chance
        self._workers = [name for name in topology.members if name.startswith("worker")]
        self._special = {BROKER_STRIKE: self._broker, DATABASE_STRIKE: self._database}
        self._numbers = count()

    def strike(self) -> None:
        restart_worker = self._topology.members[self._chance.choice(self._workers)]
        restart_worker.kill()
        restart_worker.start()
        if special := self._special.pop(next(self._numbers), None):
            special()

    @property
    def is_through(self) -> bool:
        return not self._special

    def _broker(self) -> None:
        restart_killed(self._topology, BROKER)

    def _database(self) -> None:
        restart_database(self._topology)


def test_workers_are_killed_and_the_servers_restarted() -> None:
    jobs = by_form(20, 500)
    chance = seeded_random()
    threads = {"LOADMASTER_SOLVER_THREADS": TWO_SOLVES_AT_ONCE}
    with (
        deployed(apis=2, workers=3, seconds=SOLVE_S, **threads) as topology,
        asking(topology) as asker,
    ):
        watch = Watch(topology.database_url)
        began = time.monotonic()
        job_ids = asker.post_all(jobs)
        saboteur = Saboteur(topology, chance)
        kills = kill_until_done(watch, jobs, KILL_WORKER_EVERY_S, saboteur.strike)
        took_s = time.monotonic() - began
        assert saboteur.is_through
        check(asker, watch, job_ids)
        record(
            "the services of the compose file as processes, kill -9 of workers, Redis once; "
            "PostgreSQL restarted",
            jobs=jobs,
            kills=kills,
            seconds=round(took_s),
            **watch.troubles(),
        )
        watch.close()


def test_the_children_of_the_embedded_default_are_killed(start: Start) -> None:
    jobs = by_form(16, 150)
    chance = seeded_random()
    service = start(
        "data",
        *("--port", "0"),
        LOADMASTER_SOLVER_COMMAND=slow_solver(SOLVE_S),
        LOADMASTER_SOLVER_THREADS=TWO_SOLVES_AT_ONCE,
    )
    service.wait_until_ready()
    watch = Watch(f"sqlite:///{service.data_dir / 'loadmaster.db'}")
    asker = Asker([service.url])
    killed = dict.fromkeys(PROGRAMS, 0)
    turns = chance.sample(sorted(PROGRAMS), len(PROGRAMS))

    def strike() -> None:
        name = turns[0]
        if kill_child(service, name):
            killed[name] += 1
            turns.append(turns.pop(0))

    began = time.monotonic()
    job_ids = asker.post_all(jobs)
    kill_until_done(watch, jobs, KILL_CHILD_EVERY_S, strike)
    took_s = time.monotonic() - began
    assert all(killed.values()), killed
    check(asker, watch, job_ids)
    record(
        "loadmaster serve, kill -9 of worker, API and broker",
        jobs=jobs,
        kills=sum(killed.values()),
        killed=killed,
        seconds=round(took_s),
        **watch.troubles(),
    )
    watch.close()
    asker.close()


def kill_child(service: Service, name: str) -> bool:
    """kill -9 of a child and its process group; False if it has not been started again yet."""
    pid = service.child(name)
    if pid is None:
        return False
    os.killpg(pid, signal.SIGKILL)
    return True
