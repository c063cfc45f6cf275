"""Redis or PostgreSQL is gone, or hangs: what clients see, and that all goes on afterwards."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.chaos.asking import ADDRESS, Asker, problem
from tests.chaos.deployments import asking, deployed, restart_killed
from tests.chaos.form import by_form, record
from tests.integration.topology import BROKER, DATABASE, Topology, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.timeout(by_form(240, 600))]

POSTS = by_form(15, 100)
DATABASE_TIMEOUT_S = by_form(2.0, 5.0)
CONNECT_TIMEOUT_S = 5.0
BROKER_TIMEOUT_S = by_form(10, 2)
HELD_MS = by_form(5_000, 100)
"""How much longer than with a broker a post may take: less than one that waits for the broker. The
short form also runs on machines that are busy with other tests."""
SHORT_OUTAGE_S, LONG_OUTAGE_S = 3.0, 12.0


@pytest.fixture(scope="module")
def topology() -> Iterator[Topology]:
    with deployed(
        apis=1,
        workers=1,
        seconds=0.1,
        # Messages that a worker has taken must not be used up while the database is away.
        LOADMASTER_RESEND_AFTER_S="600",
        # Counted in Redis as well.
        LOADMASTER_REQUESTS_PER_MINUTE="100000",
        LOADMASTER_DATABASE_TIMEOUT_S=str(DATABASE_TIMEOUT_S),
        LOADMASTER_BROKER_TIMEOUT_S=str(BROKER_TIMEOUT_S),
    ) as topology:
        yield topology


@pytest.fixture(scope="module")
def asker(topology: Topology) -> Iterator[Asker]:
    with asking(topology) as asker:
        yield asker


@pytest.fixture(autouse=True)
def nothing_was_started_again(topology: Topology) -> Iterator[None]:
    """API and worker live through all of it."""
    before = {name: topology.members[name].pid for name in ("api-1", "worker-1")}
    yield
    for name, pid in before.items():
        assert topology.members[name].pid == pid
        assert topology.members[name].exit_code is None


numbers = iter(range(1_000_000))


def post_some(asker: Asker, count: int = POSTS) -> tuple[list[str], float]:
    """The ids of new jobs, which are all taken on, and the longest of the times that took."""
    job_ids, longest_s = [], 0.0
    for _ in range(count):
        body = problem(next(numbers))
        began = time.perf_counter()
        answer = asker.once("POST", ADDRESS, json=body)
        longest_s = max(longest_s, time.perf_counter() - began)
        assert answer.status_code == 202, answer.text
        job_ids.append(answer.json()["id"])
    return job_ids, 1000 * longest_s


def wait_until_solved(asker: Asker, job_ids: list[str], within_s: float = 120) -> float:
    """Seconds until all are."""
    began = time.monotonic()
    wanted = set(job_ids)

    def are_solved() -> bool:
        states = asker.states()
        return all(states[job_id] == "succeeded" for job_id in wanted)

    wait_until(are_solved, "all jobs solved", within_s)
    return round(time.monotonic() - began, 1)


@contextmanager
def dead(topology: Topology, name: str) -> Iterator[None]:
    """kill -9, and a start at the end."""
    topology.members[name].kill()
    try:
        yield
    finally:
        restart_killed(topology, name)


@contextmanager
def hanging(topology: Topology, name: str) -> Iterator[None]:
    """Connections are taken, and nothing is answered."""
    pids = descendants(topology.members[name].pid)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def descendants(pid: int) -> list[int]:
    """A process and all that it started, itself first, so that it starts no more meanwhile."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(found for child in children for found in descendants(int(child)))]


@pytest.mark.parametrize("outage", [dead, hanging])
def test_without_the_broker_requests_are_taken_on_and_solved_later(
    topology: Topology, asker: Asker, outage: Callable[[Topology, str], object]
) -> None:
    wait_until_solved(asker, post_some(asker, 2)[0])
    _, usual_ms = post_some(asker)
    with outage(topology, BROKER):  # type: ignore[attr-defined]
        job_ids, longest_ms = post_some(asker)
        time.sleep(SHORT_OUTAGE_S)
        more, longest_later_ms = post_some(asker)
        assert asker.ask("GET", "/readyz").json()["status"] == "degraded"
    solved_after_s = wait_until_solved(asker, job_ids + more)
    longest_ms = max(longest_ms, longest_later_ms)
    record(
        f"broker {outage.__name__}",
        posts=2 * POSTS,
        longest_post_ms=round(longest_ms, 1),
        longest_post_with_broker_ms=round(usual_ms, 1),
        solved_after_s=solved_after_s,
    )
    assert longest_ms <= usual_ms + HELD_MS


@pytest.mark.parametrize("outage", by_form([dead], [dead, hanging]))
def test_without_the_database_clients_are_told_to_come_again(
    topology: Topology, asker: Asker, outage: Callable[[Topology, str], object]
) -> None:
    job_ids, _ = post_some(asker)
    requests = (
        ("GET", "/v1/jobs", None),
        ("GET", f"/v1/jobs/{job_ids[0]}", None),
        ("POST", ADDRESS, problem(next(numbers))),
        ("DELETE", f"/v1/jobs/{job_ids[0]}", None),
    )
    longest_s = 0.0
    with outage(topology, DATABASE):  # type: ignore[attr-defined]
        until = time.monotonic() + by_form(SHORT_OUTAGE_S, LONG_OUTAGE_S)
        refused = 0
        while refused < len(requests) or time.monotonic() < until:
            method, path, body = requests[refused % len(requests)]
            began = time.monotonic()
            answer = asker.once(method, path, json=body)
            longest_s = max(longest_s, time.monotonic() - began)
            check_refusal(answer)
            refused += 1
        assert asker.once("GET", "/healthz").status_code == 200
        assert asker.once("GET", "/readyz").status_code == 503
    began = time.monotonic()
    asker.ask("GET", "/v1/jobs")
    usable_after_s = time.monotonic() - began
    more, _ = post_some(asker)
    solved_after_s = wait_until_solved(asker, job_ids + more)
    record(
        f"database {outage.__name__}",
        refused=refused,
        longest_answer_s=round(longest_s, 2),
        database_timeout_s=DATABASE_TIMEOUT_S,
        usable_after_s=round(usable_after_s, 1),
        solved_after_s=solved_after_s,
    )
    # A connection that is found dead is tried again once, by connecting anew.
    assert longest_s <= DATABASE_TIMEOUT_S + CONNECT_TIMEOUT_S + by_form(20, 2)


def check_refusal(answer: httpx.Response) -> None:
    """503, when to come again, and nothing about the inside."""
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "database_unavailable"
    for word in ("Traceback", "psycopg", "sqlalchemy", "SELECT", "127.0.0.1"):
        assert word not in answer.text
