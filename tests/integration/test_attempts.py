"""Claims, leases, fencing and the sweep on real databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from starlette.testclient import TestClient

from app.database import Database, clock_ms
from app.models import SolveState
from app.repositories.logs import LogRepository
from app.repositories.queue import Dispatch
from app.services.attempts import SHORTEST_ATTEMPT_S, Attempts, Progress, Standing
from app.services.sweeping import send_unclaimed, send_unsent, take_back_lapsed
from app.services.transitions import Answered, Crashed, GivenBack, Overran
from app.settings import Settings
from tests.integration.fakes import START, succeeded
from tests.integration.helpers import (
    claim,
    job,
    lapse_leases,
    loads,
    newest_solve_id,
    only_solve,
    post,
    set_columns,
)


class Broker:
    """Remembers what was sent, or takes nothing."""

    def __init__(self, up: bool = True) -> None:
        self.up = up
        self.sent: list[Dispatch] = []

    def publish(self, dispatch: Dispatch) -> None:
        if not self.up:
            raise ConnectionError("the broker is away")
        self.sent.append(dispatch)


def test_only_one_of_many_workers_gets_a_solve(
    client: TestClient, database: Database, settings: Settings
) -> None:
    post(client)
    solve_id = newest_solve_id(database)
    workers = [Attempts(database, settings, f"worker {n}", "1") for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        orders = list(pool.map(lambda worker: worker.claim(solve_id), workers))
    assert sum(order is not None for order in orders) == 1
    assert only_solve(database).attempt == 1


def test_an_attempt_that_lost_its_lease_writes_nothing(
    client: TestClient, database: Database, settings: Settings, attempts: Attempts
) -> None:
    post(client)
    old = claim(attempts, database)
    lapse_leases(database)
    assert take_back_lapsed(database, settings) == 1
    new = claim(attempts, database)
    assert new.fence.attempt == old.fence.attempt + 1
    news = Progress(incumbent=START, objective=1, log_lines=["from the dead"])
    assert attempts.renew(old.fence, news) is Standing.LOST
    assert attempts.end(old.fence, Answered(succeeded(objective=1)), news) is Standing.LOST
    solve = only_solve(database)
    assert (solve.state, solve.best_objective, solve.losses) == ("running", None, 1)
    with database.reading() as session:
        assert LogRepository(session).tail(solve.id, 10) == []
    assert attempts.end(new.fence, Answered(succeeded()), Progress()) is Standing.GO_ON
    assert attempts.end(new.fence, Answered(succeeded()), Progress()) is Standing.LOST


def test_a_renewed_lease_is_not_taken_back(
    client: TestClient, database: Database, settings: Settings, attempts: Attempts
) -> None:
    post(client)
    order = claim(attempts, database)
    lapse_leases(database)
    attempts.renew(order.fence, Progress())
    assert take_back_lapsed(database, settings) == 0


def test_lost_workers_are_counted_and_backed_off(
    client: TestClient, database: Database, settings: Settings, attempts: Attempts
) -> None:
    settings = settings.model_copy(update={"max_losses": 3})
    broker = Broker()
    job_id = post(client)["id"]
    for losses in (1, 2, 3):
        set_columns(database, not_before=0)
        claim(attempts, database)
        lapse_leases(database)
        take_back_lapsed(database, settings)
        solve = only_solve(database)
        assert (solve.state, solve.losses, solve.crashes) == ("queued", losses, 0)
        sent = send_unsent(database, broker.publish, settings)
        assert sent == (1 if losses == 1 else 0), "only the first retry comes at once"
    claim(attempts, database)
    lapse_leases(database)
    take_back_lapsed(database, settings)
    assert job(client, job_id)["state"] == "failed"
    assert loads(only_solve(database).error)["code"] == "worker_lost"


def test_a_lost_solve_that_nobody_waits_for_is_cancelled(
    client: TestClient, database: Database, settings: Settings, attempts: Attempts
) -> None:
    job_id = post(client)["id"]
    order = claim(attempts, database)
    attempts.renew(order.fence, Progress(incumbent=START, objective=7))
    client.delete(f"/v1/jobs/{job_id}")
    lapse_leases(database)
    take_back_lapsed(database, settings)
    assert job(client, job_id)["state"] == "cancelled"
    assert client.get(f"/v1/jobs/{job_id}/result").json()["schedule"]["makespan_ns"] == 7


def test_many_sweeps_at_once_take_back_once(
    client: TestClient, database: Database, settings: Settings, attempts: Attempts
) -> None:
    post(client)
    claim(attempts, database)
    lapse_leases(database)
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: take_back_lapsed(database, settings), range(8)))
    assert sum(taken) == 1
    assert only_solve(database).losses == 1


def test_three_crashes_fail_a_solve_with_its_last_lines(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = post(client)["id"]
    for crashes in (1, 2):
        order = claim(attempts, database)
        attempts.end(order.fence, Crashed("killed", ["stderr"]), Progress(log_lines=["a line"]))
        assert only_solve(database).crashes == crashes
        assert job(client, job_id)["state"] == "queued"
    order = claim(attempts, database)
    attempts.end(order.fence, Crashed("killed", ["stderr"]), Progress())
    error = loads(only_solve(database).error)
    assert error == {
        "code": "solver_crashed",
        "detail": "killed",
        "log_tail": ["a line", "a line", "stderr"],
    }


def test_a_solve_that_was_given_back_goes_on_from_its_plan_with_the_time_left(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client, time_limit_s=60)
    first = claim(attempts, database)
    assert (first.start, first.time_left_s) == (None, 60)
    news = Progress(spent_ms=20_000, incumbent=START, objective=9, lower_bound=5)
    attempts.end(first.fence, GivenBack(), news)
    solve = only_solve(database)
    assert (solve.crashes, solve.losses, solve.dispatched_at) == (0, 0, None)
    second = claim(attempts, database)
    resumed = {**START, "origin": {"kind": "earlier_attempt"}}
    assert (second.start, second.time_left_s) == (resumed, 40)
    assert (second.best_objective, second.lower_bound, second.spent_ms) == (9, 5, 20_000)
    attempts.end(second.fence, GivenBack(), Progress(spent_ms=70_000))
    assert claim(attempts, database).time_left_s == SHORTEST_ATTEMPT_S


def test_a_solver_that_overran_answers_with_its_plan_or_fails(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = post(client)["id"]
    order = claim(attempts, database)
    news = Progress(incumbent=START, objective=7, lower_bound=7, bound_name="tail")
    attempts.end(order.fence, Overran(), news)
    view = job(client, job_id)
    assert (view["state"], view["best_makespan_ns"]) == ("succeeded", 7)
    result = client.get(f"/v1/jobs/{job_id}/result").json()
    assert result["provenance"]["stopped_by"] == "time limit"
    certificate = result["certificate"]
    assert (certificate["proven_optimal"], certificate["bound_name"]) == (True, "tail")
    assert certificate["bounds"] == [{"name": "tail", "value_ns": 7}]
    other = post(client, "answer 2")["id"]
    attempts.end(claim(attempts, database).fence, Overran(), Progress())
    assert client.get(f"/v1/jobs/{other}/result").json()["code"] == "no_plan_within_limit"


def test_ids_are_sent_once_and_again_when_nobody_claims_them(
    client: TestClient, database: Database, settings: Settings
) -> None:
    broker = Broker()
    post(client, "answer 1")
    post(client, "answer 2", priority=7)
    assert send_unsent(database, broker.publish, settings) == 2
    assert [dispatch.priority for dispatch in broker.sent] == [7, 5]
    assert send_unsent(database, broker.publish, settings) == 0
    assert send_unclaimed(database, broker.publish, settings) == 0
    set_columns(database, dispatched_at=1)
    assert send_unclaimed(database, broker.publish, settings) == 2
    assert len(broker.sent) == 4


def test_what_nobody_takes_is_sent_again_more_and_more_rarely(
    client: TestClient, database: Database, settings: Settings
) -> None:
    broker = Broker()
    post(client)
    with database.reading() as session:
        now = session.scalars(select(clock_ms())).one()

    def sent_after(waited_s: int, silent_s: int) -> int:
        sent_at = now - silent_s * 1000
        set_columns(database, created_at=sent_at - waited_s * 1000, dispatched_at=sent_at)
        return send_unclaimed(database, broker.publish, settings)

    assert (sent_after(0, 20), sent_after(0, 31)) == (0, 1)
    assert (sent_after(120, 100), sent_after(120, 121)) == (0, 1)
    assert (sent_after(86_400, 590), sent_after(86_400, 601)) == (0, 1)
    set_columns(database, not_before=now - 40_000)
    assert (sent_after(86_400, 29), sent_after(86_400, 31)) == (0, 1), "queued again a while ago"


def test_a_solve_that_is_queued_again_waits_from_then_on(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client)
    order = claim(attempts, database)
    attempts.end(order.fence, GivenBack(), Progress())
    solve = only_solve(database)
    assert solve.created_at <= solve.not_before
    with database.reading() as session:
        assert session.scalars(select(clock_ms())).one() >= solve.not_before


def test_a_worker_that_shuts_down_passes_the_id_on(
    client: TestClient, database: Database, settings: Settings, attempts: Attempts
) -> None:
    broker = Broker()
    post(client)
    send_unsent(database, broker.publish, settings)
    attempts.refuse(newest_solve_id(database))
    assert send_unsent(database, broker.publish, settings) == 1


def test_a_broker_that_is_away_loses_nothing(
    client: TestClient, database: Database, settings: Settings
) -> None:
    broker = Broker(up=False)
    post(client, "answer 1")
    post(client, "answer 2")
    assert send_unsent(database, broker.publish, settings) == 0
    broker.up = True
    assert send_unsent(database, broker.publish, settings) == 2


def test_many_dispatchers_at_once_send_once(
    client: TestClient, database: Database, settings: Settings
) -> None:
    broker = Broker()
    for n in range(10):
        post(client, f"answer {n}")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: send_unsent(database, broker.publish, settings), range(4)))
    assert len({dispatch.solve_id for dispatch in broker.sent}) == len(broker.sent) == 10


@pytest.mark.parametrize(
    "values",
    [
        {"state": "sleeping"},
        {"state": "running"},
        {"state": "succeeded"},
        {"state": "succeeded", "finished_at": 1},
        {"state": "failed", "finished_at": 1},
        {"error": "{}"},
        {"stop_requested": True},
        {"lease_until": 1},
        {"attempt": -1},
        {"priority": 10},
    ],
)
def test_the_database_refuses_states_that_make_no_sense(
    client: TestClient, database: Database, values: dict[str, object]
) -> None:
    post(client)
    with pytest.raises(IntegrityError):
        set_columns(database, **values)
    assert only_solve(database).state == SolveState.QUEUED
