"""`client.Run` and the service's own rules: from a drift to a swap, without a network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

import client.library.run_follower as run_follower
from app.database import Database
from app.services.attempts import Attempts
from app.services.runs.keeper import RunKeeper
from app.settings import Settings
from client.library.retries import NO_RETRIES, Retries
from client.library.run import Run
from client.library.runs import Runs
from client.library.service import Service
from tests.integration.following import (
    FOLLOW,
    PASS_NS,
    PASSES,
    PROBLEM,
    STAGES,
    answer_solve,
    keeper_of,
    look,
    ops,
    queued,
    view,
)

LONGEST_S = 60.0
TOLD = ("loadmaster-version", "etag", "content-type", "preference-applied")


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for seconds here."""
    monkeypatch.setattr(run_follower, "SEND_EVERY_S", 0.05)
    monkeypatch.setattr(run_follower, "WAITING_S", 0.05)
    monkeypatch.setattr(run_follower, "SILENCE_S", 0.05)
    monkeypatch.setattr(run_follower, "FIRST_HOLD_S", 0)
    monkeypatch.setattr(run_follower, "HOLD_S", 0)
    monkeypatch.setattr(run_follower, "RETRIES", Retries(first_pause_s=0.05, longest_pause_s=0.1))


@pytest.fixture
def service_of(run_client: TestClient) -> Callable[[], Service]:
    """Asks the API in this process."""

    def handle(request: httpx.Request) -> httpx.Response:
        answer = run_client.request(
            request.method,
            request.url.raw_path.decode(),
            content=request.content,
            headers={
                name: value
                for name, value in request.headers.items()
                if name not in ("host", "accept-encoding", "content-length")
            },
        )
        headers = {name: answer.headers[name] for name in TOLD if name in answer.headers}
        return httpx.Response(answer.status_code, content=answer.content, headers=headers)

    transport = httpx.MockTransport(handle)
    return lambda: Service(transport=transport, retries=NO_RETRIES)


@pytest.fixture
def keeper(database: Database, settings: Settings) -> RunKeeper:
    return keeper_of(database, settings)


@pytest.fixture
def runs(service_of: Callable[[], Service]) -> Runs:
    return Runs(service_of().ask)


@pytest.fixture
def join(service_of: Callable[[], Service]) -> Iterator[Callable[[str, int], Run]]:
    ranks: list[Run] = []

    def join(run_id: str, rank: int) -> Run:
        ranks.append(
            Run(service_of(), run_id, rank=rank, prepare=lambda plan: (plan.version, plan.schedule))
        )
        return ranks[-1]

    yield join
    for rank in ranks:
        rank.close()


def until(is_so: Callable[[], Any]) -> None:
    ends = time.monotonic() + LONGEST_S
    while not is_so():
        assert time.monotonic() < ends, "it has not come about"
        time.sleep(0.02)


def train(
    ranks: list[Run], iterations: range, slowdown: Mapping[int, float] | None = None
) -> list[set[int]]:
    """Run these iterations, a stage on each rank; which versions their ranks ran."""
    versions = []
    for number in iterations:
        versions.append({rank.plan_at(number)[0] for rank in ranks})
        for rank in ranks:
            pass_ns = round(PASS_NS * (slowdown or {}).get(rank.rank, 1.0))
            stage = {"stage": rank.rank, **{name: {"median": pass_ns} for name in PASSES}}
            rank.iteration(number, [stage], 8 * PASS_NS)
    return versions


def begun(runs: Runs, join: Callable[[str, int], Run]) -> tuple[str, list[Run]]:
    run = runs.create(problem=PROBLEM, follow=FOLLOW, plan={"ops": ops()}, name="ours")
    ranks = [join(run.id, rank) for rank in range(STAGES)]
    until(lambda: all(rank.plan_at(0) for rank in ranks))
    return run.id, ranks


def test_ranks_follow_a_drift_to_a_new_plan(
    runs: Runs,
    join: Callable[[str, int], Run],
    run_client: TestClient,
    database: Database,
    keeper: RunKeeper,
    attempts: Attempts,
) -> None:
    run_id, ranks = begun(runs, join)

    def reported(newest: int) -> bool:
        look(database, keeper)
        return bool(view(run_client, run_id)["newest_iteration"] == newest)

    assert train(ranks, range(30)) == [{1}] * 30
    until(lambda: reported(29))
    train(ranks, range(30, 60), {1: 1.5})
    until(lambda: reported(59) and queued(database))
    answer_solve(attempts, database, gain=0.2)
    until(lambda: look(database, keeper) and runs.get(run_id).newest_version == 2)
    # Both fetch and acknowledge it by themselves.
    until(lambda: look(database, keeper) and runs.get(run_id).versions[0]["state"] == "scheduled")
    apply_at = runs.get(run_id).versions[0]["apply_at_iteration"]
    until(lambda: all(rank.plan_at(apply_at)[0] == 2 for rank in ranks))
    versions = train(ranks, range(60, apply_at + 5), {1: 1.5})
    assert versions == [{1}] * (apply_at - 60) + [{2}] * 5
    until(lambda: reported(apply_at + 4) and runs.get(run_id).running_version == 2)
    # A rank that restarts gets what is running, whatever iteration it goes on from.
    again = join(run_id, 0)
    until(lambda: again.plan_at(0))
    assert again.plan_at(0)[0] == 2
    plan = runs.plan(run_id)
    assert plan is not None
    assert again.plan_at(0)[1] == plan.schedule


def test_a_stopped_run_ends_the_following_and_not_the_training(
    runs: Runs, join: Callable[[str, int], Run]
) -> None:
    run_id, ranks = begun(runs, join)
    assert runs.stop(run_id).state == "stopped"
    train(ranks, range(5))
    until(lambda: not any(rank.is_followed for rank in ranks))
    assert train(ranks, range(5, 10)) == [{1}] * 5
    assert [run.id for run in runs.list(state="stopped")] == [run_id]
    assert list(runs.list(state="active")) == []


def test_what_the_service_refuses_is_left_out(
    runs: Runs, join: Callable[[str, int], Run], run_client: TestClient
) -> None:
    run_id, ranks = begun(runs, join)
    for number in range(20):
        stage = STAGES if number == 7 else 0
        ranks[0].iteration(number, [{"stage": stage, "forward_ns": 1000}])
    until(lambda: view(run_client, run_id)["newest_iteration"] == 19)
    assert ranks[0].is_followed
