"""How a local job ends, by what its solver process does. Real solves are in the integration
tests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from client.errors import ApiError, NoPlan
from client.library import local_job
from client.library.local_job import LocalJob, Order
from planner.pipeline.request import resolve_request
from tests.unit.client.results import two_device_result

SCHEDULE = two_device_result()
STAGES = [{**stage, "offload_bytes": 0} for stage in SCHEDULE["problem"]["stages"]]
BODY = {"problem": {**SCHEDULE["problem"], "stages": STAGES}}
VALUE = SCHEDULE["schedule"]["makespan_ns"]
BOUND = {"event": "bound", "name": "work", "value": VALUE - 1000.5}
ANSWER = {
    "event": "result",
    "result": {
        "state": "succeeded",
        "document": SCHEDULE,
        "objective": VALUE,
        "lower_bound": VALUE,
        "proven_optimal": True,
    },
}


class FakeChild:
    """A solver process that says what it is told to."""

    said: tuple[dict[str, Any], ...] = ()
    exit_code: int | None = 0
    hangs = False
    on_event: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, *_: Any) -> None:
        self.pid, self.refused, self.is_lost = 1, None, False
        self.stderr_tail = ["Segmentation fault"]
        self.is_interrupted = self.is_closed = False
        self._said = list(self.said)

    @property
    def is_over(self) -> bool:
        return not self._said and not self.hangs

    def events(self, _: float) -> Iterator[dict[str, Any]]:
        if self._said:
            yield self._said.pop(0)
            self.on_event()

    def remaining_events(self) -> Iterator[dict[str, Any]]:
        return iter(())

    def interrupt(self) -> None:
        self.is_interrupted = True

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def job() -> LocalJob:
    resolved = resolve_request(BODY)
    order = Order("pipeline", resolved.spec, "auto", 5.0, "mine", (), 5, BODY)
    return LocalJob(order, threading.Condition())


def run(monkeypatch: pytest.MonkeyPatch, job: LocalJob, *said: dict[str, Any], **more: Any) -> None:
    child = type("Child", (FakeChild,), {"said": said, **more})
    monkeypatch.setattr(local_job, "SolverChild", child)
    with socket.socket() as orders:
        job.run(orders, 1)


def incumbent(job: LocalJob) -> dict[str, Any]:
    placement = job.order.spec["candidates"][0]["placement"]
    document = {"placement": placement, "schedule": SCHEDULE["schedule"]}
    return {"event": "incumbent", "document": document, "objective": VALUE, "found_by": "1F1B"}


def test_an_answer_is_the_result(monkeypatch: pytest.MonkeyPatch, job: LocalJob) -> None:
    with pytest.raises(ApiError) as early:
        job.result()
    assert (early.value.status, early.value.code) == (409, "not_over")
    run(
        monkeypatch,
        job,
        {"event": "phase", "name": "classic"},
        BOUND,
        {"event": "log", "line": "x"},
        ANSWER,
    )
    assert job.state == "succeeded"
    assert job.result()["schedule"] == SCHEDULE["schedule"]
    assert job.result()["provenance"]["attempts"] == 1
    assert (job.best, job.bound, job.gap) == (VALUE, VALUE, 0.0)
    assert [step["state"] for step in job.steps] == ["queued"] + ["running"] * 3 + ["succeeded"]
    assert [step["lower_bound_ns"] for step in job.steps][3] == VALUE - 1001
    assert list(job.log) == ["x"]
    assert job.view()["phase"] is None


def test_a_crash_fails_it_with_what_the_solver_said(
    monkeypatch: pytest.MonkeyPatch, job: LocalJob
) -> None:
    run(monkeypatch, job, exit_code=-11)
    with pytest.raises(NoPlan, match="Segmentation fault") as failed:
        job.result()
    assert (job.state, failed.value.code) == ("failed", "solver_crashed")


def test_a_cancelled_solve_keeps_the_plan_that_it_reported(
    monkeypatch: pytest.MonkeyPatch, job: LocalJob
) -> None:
    monkeypatch.setattr(local_job, "CANCEL_GRACE_S", 0.5)
    cancel = staticmethod(job.cancel)
    run(monkeypatch, job, BOUND, incumbent(job), hangs=True, exit_code=None, on_event=cancel)
    assert job.state == "cancelled"
    result = job.result()
    assert result["schedule"]["makespan_ns"] == VALUE
    assert result["certificate"]["verified"]
    assert result["certificate"]["lower_bound_ns"] == VALUE - 1001
    assert result["provenance"]["stopped_by"] == "cancelled"


def test_a_solver_that_does_not_stop_is_killed_and_its_plan_kept(
    monkeypatch: pytest.MonkeyPatch, job: LocalJob
) -> None:
    monkeypatch.setattr(local_job, "OVERRUN_S", -5.0 + 0.05)
    run(monkeypatch, job, incumbent(job), hangs=True, exit_code=None)
    assert job.state == "succeeded"
    assert job.result()["provenance"]["stopped_by"] == "time limit"


def test_a_solver_that_does_not_stop_and_has_nothing_fails(
    monkeypatch: pytest.MonkeyPatch, job: LocalJob
) -> None:
    monkeypatch.setattr(local_job, "OVERRUN_S", -5.0)
    run(monkeypatch, job, BOUND, hangs=True, exit_code=None)
    with pytest.raises(NoPlan) as failed:
        job.result()
    assert failed.value.code == "no_plan_within_limit"


def test_whoever_waits_is_told_whatever_goes_wrong(
    monkeypatch: pytest.MonkeyPatch, job: LocalJob
) -> None:
    run(monkeypatch, job, {"event": "incumbent"})
    with pytest.raises(NoPlan, match="KeyError") as failed:
        job.result()
    assert (job.state, failed.value.code) == ("failed", "internal_error")


def test_a_job_that_was_cancelled_before_its_turn_is_not_solved(
    monkeypatch: pytest.MonkeyPatch, job: LocalJob
) -> None:
    job.cancel()
    run(monkeypatch, job, ANSWER)
    assert job.state == "cancelled"
    with pytest.raises(NoPlan) as without:
        job.result()
    assert without.value.code == "no_plan"
