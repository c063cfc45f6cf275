"""The compose file's services with a solver that only waits."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.chaos.asking import Asker
from tests.integration.topology import BROKER, DATABASE, Topology, wait_until

SLOW_SOLVER = Path(__file__).parent / "slow_solver.py"


def slow_solver(seconds: float) -> str:
    """The setting that makes every solve take so long."""
    return json.dumps([sys.executable, str(SLOW_SOLVER), str(seconds)])


@contextmanager
def deployed(*, apis: int, workers: int, seconds: float, **environment: str) -> Iterator[Topology]:
    """Servers, APIs and workers, as many solves per worker as there are cores."""
    own = {
        "LOADMASTER_SOLVER_COMMAND": slow_solver(seconds),
        "LOADMASTER_SOLVER_THREADS": "1",
        "LOADMASTER_REQUESTS_PER_MINUTE": "0",
        **environment,
    }
    with Topology(apis=apis, workers=workers, environment=own) as topology:
        try:
            yield topology
        except BaseException:
            print(topology.logs())
            raise


@contextmanager
def asking(topology: Topology, *scopes: str) -> Iterator[Asker]:
    """A client of all its APIs with a key."""
    more = [word for scope in scopes for word in ("--scope", scope)]
    command = ("loadmaster", "keys", "create", "--name", "chaos", *more)
    asker = Asker(list(topology.urls.values()), topology.run("api", *command).split()[-1])
    yield asker
    asker.close()


def restart_killed(topology: Topology, name: str) -> None:
    """kill -9 of everything that it is, and what a restart policy does then.

    PostgreSQL does not start while processes of the one before it are still about to end, and
    replays its log before it answers.
    """
    member = topology.members[name]
    member.kill()
    member.start()
    if name == BROKER:
        topology.wait_for_broker()
    if name == DATABASE:
        wait_until_database_is_back(topology)


def restart_database(topology: Topology) -> None:
    """An orderly restart, as of an upgrade."""
    topology.members[DATABASE].stop(signal.SIGINT)
    topology.members[DATABASE].start()
    wait_until_database_is_back(topology)


def wait_until_database_is_back(topology: Topology) -> None:
    """Start it again as long as it ends, until it takes connections."""
    member = topology.members[DATABASE]

    def answers() -> bool:
        if member.exit_code is not None:
            time.sleep(0.2)
            member.start()
        try:
            psycopg.connect(topology.database_url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    wait_until(answers, "PostgreSQL")
