"""`Run`: telemetry goes out, plans come in, and the trainer never notices what goes wrong."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

import client.library.run_follower as run_follower
from client.errors import ServiceUnreachable
from client.library.retries import NO_RETRIES, Retries
from client.library.run import MOST_SAMPLES, Run
from client.library.service import Service
from tests.run_service import RUN_ID, ScriptedRuns

LONGEST_S = 20.0
STAGES = [{"stage": 0, "forward_ns": 1000}]


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for seconds here."""
    monkeypatch.setattr(run_follower, "SEND_EVERY_S", 0.02)
    monkeypatch.setattr(run_follower, "WAITING_S", 0.01)
    monkeypatch.setattr(run_follower, "SILENCE_S", 0.02)
    monkeypatch.setattr(run_follower, "RETRIES", Retries(first_pause_s=0.01, longest_pause_s=0.02))


@pytest.fixture
def script() -> ScriptedRuns:
    return ScriptedRuns()


@pytest.fixture
def joined(script: ScriptedRuns) -> Iterator[Callable[..., Run]]:
    """Joins the scripted run."""
    runs: list[Run] = []

    def join(rank: int = 0, prepare: Any = lambda plan: plan.version) -> Run:
        service = Service("http://service", retries=NO_RETRIES, transport=script.transport)
        runs.append(Run(service, RUN_ID, rank=rank, prepare=prepare))
        return runs[-1]

    yield join
    for run in runs:
        run.close()


def until(is_so: Callable[[], Any]) -> None:
    """Wait for what another thread does."""
    ends = time.monotonic() + LONGEST_S
    while not is_so():
        assert time.monotonic() < ends, "it has not come about"
        time.sleep(0.005)


def numbers(script: ScriptedRuns) -> list[int]:
    return [sample["iteration"] for sample in script.samples]


def test_what_is_measured_arrives_in_batches(
    script: ScriptedRuns, joined: Callable[..., Run]
) -> None:
    run = joined()
    for number in range(50):
        run.iteration(number, STAGES, iteration_ns=5000)
    run.close()
    assert numbers(script) == list(range(50))
    assert script.samples[0] == {"iteration": 0, "stages": STAGES, "iteration_ns": 5000}
    assert len([path for _, path, _ in script.requests if path.endswith("telemetry")]) < 50


def test_what_the_trainer_reuses_is_copied(
    script: ScriptedRuns, joined: Callable[..., Run]
) -> None:
    run, stage = joined(), {"stage": 0, "forward_ns": 1}
    run.iteration(0, [stage])
    stage["forward_ns"] = 2
    run.close()
    assert script.samples[0]["stages"] == [{"stage": 0, "forward_ns": 1}]


def test_a_plan_applies_exactly_from_its_iteration_on(
    script: ScriptedRuns, joined: Callable[..., Run]
) -> None:
    script.publish(apply_at=0)
    run = joined()
    until(lambda: run.plan_at(0) == 1)
    run.iteration(40, STAGES)
    until(lambda: script.samples)
    script.publish()
    until(lambda: run.plan_at(1000) == 2)
    apply_at = script.plans[2]["apply_at_iteration"]
    assert apply_at == 40 + script.swap_lead
    assert [run.plan_at(apply_at + shift) for shift in (-1, 0, 1)] == [1, 2, 2]
    assert script.acknowledged[2] == {0: 40}


def test_samples_say_which_plan_was_run(script: ScriptedRuns, joined: Callable[..., Run]) -> None:
    script.publish(apply_at=0)
    run = joined()
    until(lambda: run.plan_at(0) == 1)
    run.iteration(1, STAGES)
    run.iteration(2, STAGES, plan_version=7)
    run.close()
    assert [sample["plan_version"] for sample in script.samples] == [1, 7]


def test_a_version_waits_for_every_rank(script: ScriptedRuns, joined: Callable[..., Run]) -> None:
    script.ranks = 2
    script.publish(apply_at=0)
    first = joined(rank=0)
    until(lambda: first.plan_at(0) == 1)
    script.publish()
    until(lambda: 2 in script.acknowledged)
    assert [held.version for held in first.plans] == [1, 2]
    assert first.plan_at(10**6) == 1
    second = joined(rank=1)
    until(lambda: first.plan_at(10**6) == 2 and second.plan_at(10**6) == 2)


def test_a_rank_that_restarts_gets_what_is_running(
    script: ScriptedRuns, joined: Callable[..., Run]
) -> None:
    script.ranks = 2
    script.samples.append({"iteration": 500, "stages": STAGES})
    script.publish(apply_at=0)
    script.publish(apply_at=400)
    script.publish()
    run = joined()
    until(lambda: len(run.plans) == 2)
    # It may go on from a checkpoint from before the version was due.
    assert run.plan_at(350) == 2
    assert [held.version for held in run.wait_for_plan(0)] == [2]


def test_a_rank_that_restarts_in_another_shape_begins_with_the_plan_for_it(
    script: ScriptedRuns, joined: Callable[..., Run]
) -> None:
    script.samples.append({"iteration": 500, "stages": STAGES})
    script.publish(apply_at=0)
    script.publish(needs_restart=True)
    run = joined()
    until(lambda: 2 in script.acknowledged)
    assert [held.version for held in run.plans] == [2]
    assert run.plan_at(350) == 2


def test_a_shape_that_the_rank_cannot_run_leaves_it_with_what_is_running(
    script: ScriptedRuns, joined: Callable[..., Run]
) -> None:
    def prepare(plan: Any) -> int:
        if plan.needs_restart:
            raise ValueError("for 8 ranks, and there are 4")
        return int(plan.version)

    script.samples.append({"iteration": 500, "stages": STAGES})
    script.publish(apply_at=0)
    script.publish(needs_restart=True)
    run = joined(prepare=prepare)
    until(lambda: run.plan_at(350) == 1)
    assert 2 not in script.acknowledged


def test_a_rank_that_does_not_count_follows_all_the_same(
    script: ScriptedRuns, joined: Callable[..., Run], caplog: pytest.LogCaptureFixture
) -> None:
    script.publish(apply_at=0)
    run = joined(rank=1)
    until(lambda: run.plan_at(0) == 1)
    script.publish(apply_at=5)
    until(lambda: run.plan_at(5) == 2)
    assert "no such rank" in caplog.text
    assert run.is_followed


def test_before_training_the_newest_plans_are_to_begin_with(
    script: ScriptedRuns, joined: Callable[..., Run]
) -> None:
    script.ranks = 2
    run = joined()
    assert run.wait_for_plan(0.05) == ()
    script.publish()
    assert [held.version for held in run.wait_for_plan(LONGEST_S)] == [1]
    assert run.plan_at(0) is None
    run.begin_with(1)
    assert run.plan_at(0) == 1


def test_what_cannot_be_prepared_is_not_acknowledged(
    script: ScriptedRuns, joined: Callable[..., Run], caplog: pytest.LogCaptureFixture
) -> None:
    def prepare(plan: Any) -> int:
        if plan.version == 2:
            raise ValueError("PyTorch could not run it")
        return int(plan.version)

    script.publish(apply_at=0)
    run = joined(prepare=prepare)
    until(lambda: run.plan_at(0) == 1)
    script.publish()
    until(lambda: "PyTorch could not run it" in caplog.text)
    script.publish()
    until(lambda: run.plan_at(10**6) == 3)
    assert 2 not in script.acknowledged


def test_what_needs_a_restart_is_left_alone(
    script: ScriptedRuns, joined: Callable[..., Run]
) -> None:
    script.publish(apply_at=0)
    run = joined()
    until(lambda: run.plan_at(0) == 1)
    script.publish(needs_restart=True)
    until(lambda: any(path.endswith("plan/2") for _, path, _ in script.requests))
    script.publish()
    until(lambda: run.plan_at(10**6) == 3)
    assert [held.version for held in run.plans] == [1, 3]
    assert 2 not in script.acknowledged


FAULTS = [500, 503, 429, 401, httpx.ConnectError("nobody there"), httpx.ReadTimeout("too slow")]


@pytest.mark.parametrize("fault", FAULTS)
def test_an_outage_is_told_once_and_nothing_is_lost(
    fault: Any,
    script: ScriptedRuns,
    joined: Callable[..., Run],
    caplog: pytest.LogCaptureFixture,
) -> None:
    script.fault = fault
    run = joined()
    for number in range(30):
        run.iteration(number, STAGES)
    until(lambda: len(script.requests) > 5)
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "Training goes on" in warnings[0].message
    script.fault = None
    until(lambda: sorted(numbers(script)) == list(range(30)))
    script.fault = fault
    run.iteration(30, STAGES)
    before = len(script.requests)
    until(lambda: len(script.requests) > before + 5)
    # Not again so soon: a service that comes and goes is no news.
    assert len([own for own in caplog.records if own.levelno >= logging.WARNING]) == 1


def test_a_long_outage_keeps_the_newest_samples_only(
    script: ScriptedRuns, joined: Callable[..., Run]
) -> None:
    script.fault = 500
    run = joined()
    for number in range(2 * MOST_SAMPLES):
        run.iteration(number, STAGES)
    until(lambda: len(script.requests) > 3)
    script.fault = None
    until(lambda: numbers(script)[-1:] == [2 * MOST_SAMPLES - 1])
    run.close()
    assert len(numbers(script)) <= MOST_SAMPLES
    assert min(numbers(script)) >= MOST_SAMPLES


@pytest.mark.parametrize("wrong", [{"forward_ns": -1}, {"forward_ns": float("nan")}, {1: object()}])
def test_one_wrong_sample_costs_no_other(
    wrong: dict[Any, Any],
    script: ScriptedRuns,
    joined: Callable[..., Run],
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = joined()
    for number in range(20):
        run.iteration(number, [{"stage": 0, **wrong}] if number % 7 == 3 else STAGES)
    run.close()
    assert numbers(script) == [number for number in range(20) if number % 7 != 3]
    assert len([own for own in caplog.records if own.levelno >= logging.WARNING]) == 1


NAN = float("nan")


def test_what_cannot_have_been_measured_is_left_out_with_one_warning(
    script: ScriptedRuns, joined: Callable[..., Run], caplog: pytest.LogCaptureFixture
) -> None:
    run = joined()
    wrong = {"backward_input_ns": NAN, "peak_memory_bytes": "abc", "reload_ns": -1}
    right = {"stage": 0, "forward_ns": {"mean": 5}, "backward_memory_delta_bytes": -7}
    for number in (1, 2):
        run.iteration(number, [{**right, **wrong}], iteration_ns=NAN)
    for number in (NAN, -1, "abc", True, 2**60):
        run.iteration(number, STAGES)
    run.iteration(3, [{**right, "gpu_utilisation": 0.5}], iteration_ns=9)
    run.close()
    assert script.samples == [
        {"iteration": 1, "stages": [right]},
        {"iteration": 2, "stages": [right]},
        {"iteration": 3, "stages": [{**right, "gpu_utilisation": 0.5}], "iteration_ns": 9},
    ]
    [warning] = [own for own in caplog.records if own.levelno >= logging.WARNING]
    assert "backward_input_ns nan" in warning.message


@pytest.mark.parametrize(
    ("number", "stages"), [(1, [3]), (1, 3), ("one", STAGES), (None, STAGES), (1, None)]
)
def test_no_argument_raises(
    number: Any, stages: Any, script: ScriptedRuns, joined: Callable[..., Run]
) -> None:
    run = joined()
    run.iteration(number, stages)
    run.iteration(5, STAGES)
    run.close()
    assert numbers(script) == [5]


def test_a_run_that_is_stopped_is_left(
    script: ScriptedRuns, joined: Callable[..., Run], caplog: pytest.LogCaptureFixture
) -> None:
    script.publish(apply_at=0)
    run = joined()
    until(lambda: run.plan_at(0) == 1)
    assert run.is_followed
    script.is_stopped = True
    until(lambda: not run.is_followed)
    assert "stopped" in caplog.text
    run.iteration(9, STAGES)
    assert run.plan_at(9) == 1
    before = len(script.requests)
    run.close()
    assert len(script.requests) == before


def test_closing_takes_no_longer_than_it_may(
    script: ScriptedRuns, joined: Callable[..., Run]
) -> None:
    script.delay_s = 3
    run = joined()
    run.iteration(0, STAGES)
    begin = time.monotonic()
    run.close(timeout_s=0.1)
    assert time.monotonic() - begin < 2
    assert not run.is_followed


def test_many_threads_may_report(script: ScriptedRuns, joined: Callable[..., Run]) -> None:
    run = joined()

    def report(first: int) -> None:
        for number in range(first, first + 100):
            run.iteration(number, STAGES)

    threads = [threading.Thread(target=report, args=(100 * index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.close()
    assert sorted(numbers(script)) == list(range(800))


def test_a_forked_child_reports_nothing_and_ends(
    script: ScriptedRuns, joined: Callable[..., Run]
) -> None:
    script.publish(apply_at=0)
    run = joined()
    until(lambda: run.plan_at(0) == 1)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for number in range(100):
                run.iteration(number, STAGES)
            run.close()
            status = 0 if run.plan_at(5) == 1 and not run.is_followed else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    run.iteration(200, STAGES)
    run.close()
    assert numbers(script) == [200]


def test_a_run_is_created_from_a_body_and_parts(script: ScriptedRuns) -> None:
    with script.served() as address:
        with Run.create({"name": "a"}, server=address, follow={"ranks": 4}, model="GPT-2") as run:
            assert run.id == RUN_ID
            assert run.rank == 0
        (body,) = script.created
        assert body == {"name": "a", "model": "GPT-2", "follow": {"ranks": 4}}


def test_no_run_without_a_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("client.library.service.Retries", lambda: NO_RETRIES)
    with pytest.raises(ServiceUnreachable):
        Run.create(model="GPT-2", server="http://127.0.0.1:9")
