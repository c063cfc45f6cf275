"""Times of iterations are complete, of the right operations, and nobody waits for them."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

from client.torch_following.telemetry import measure_of, stage_samples  # noqa: E402
from client.torch_following.timing import ClockTimer, EventTimer, Iteration  # noqa: E402
from client.torch_runner.schedule import Action  # noqa: E402

CPU = torch.device("cpu")


class Device:
    """A device that does what it is given when the test says so; each event is 1 ms later."""

    def __init__(self) -> None:
        self.recorded = 0
        self.done = 0
        self.made = 0

    def event(self) -> Event:
        self.made += 1
        return Event(self)


class Event:
    def __init__(self, device: Device) -> None:
        self.device = device
        self.at = 0

    def record(self) -> None:
        self.device.recorded += 1
        self.at = self.device.recorded

    def query(self) -> bool:
        return self.at <= self.device.done

    def elapsed_time(self, end: Event) -> float:
        assert self.query()
        assert end.query()
        return float(end.at - self.at)


def run_iteration(timer: Any, number: int) -> None:
    timer.begin(number, 5)
    for kind in "FIW":
        with timer.timing(Action(2, kind, 0)):
            pass
    timer.end()


def test_events_are_read_once_they_have_passed() -> None:
    device = Device()
    timer = EventTimer(device.event)
    run_iteration(timer, 0)
    assert list(timer.finished()) == []
    run_iteration(timer, 1)
    device.done = 8
    (done,) = timer.finished()
    assert (done.number, done.plan_version, done.span_ns) == (0, 5, 7_000_000)
    assert done.taken_ns == {(2, kind): [1_000_000] for kind in "FIW"}
    assert list(timer.finished()) == []


def test_a_device_far_behind_costs_samples_and_no_waiting() -> None:
    device = Device()
    timer = EventTimer(device.event)
    for number in range(10):
        run_iteration(timer, number)
    device.done = device.recorded
    assert [done.number for done in timer.finished()] == [7, 8, 9]


def test_events_are_used_again() -> None:
    device = Device()
    timer = EventTimer(device.event)
    for number in range(10):
        run_iteration(timer, number)
        device.done = device.recorded
        assert [done.number for done in timer.finished()] == [number]
    assert device.made == 8


def test_a_clock_knows_at_once() -> None:
    timer = ClockTimer()
    with timer.timing(Action(2, "F", 0)):
        pass
    run_iteration(timer, 3)
    (done,) = timer.finished()
    assert (done.number, done.plan_version) == (3, 5)
    assert set(done.taken_ns) == {(2, kind) for kind in "FIW"}
    assert done.span_ns is not None
    assert done.span_ns >= sum(times[0] for times in done.taken_ns.values())


def iteration(**taken_ns: list[int]) -> Iteration:
    own = Iteration(0, None)
    own.taken_ns.update({(int(key[1:]), key[0]): times for key, times in taken_ns.items()})
    return own


def measure(value: int) -> dict[str, int]:
    return {"mean": value, "median": value, "p95": value}


def test_each_stage_is_said_in_the_fields_of_a_problem() -> None:
    own = iteration(F0=[10], I0=[20], W0=[30], O0=[4], R0=[5], F3=[7], B3=[8])
    assert stage_samples(own, CPU) == [
        {
            "stage": 0,
            "forward_ns": measure(10),
            "backward_input_ns": measure(20),
            "backward_weight_ns": measure(30),
            "offload_ns": measure(4),
            "reload_ns": measure(5),
        },
        {"stage": 3, "forward_ns": measure(7), "backward_input_ns": measure(8)},
    ]


def test_the_loss_is_part_of_the_last_forward() -> None:
    own = iteration(F1=[10, 20], L1=[1, 2])
    (stage,) = stage_samples(own, CPU)
    assert stage == {"stage": 1, "forward_ns": measure_of([11, 22])}


def test_micro_batches_are_summed_up() -> None:
    assert measure_of([1, 100, 2, 3]) == {"mean": 26, "median": 2, "p95": 100}
    assert measure_of(range(1, 101)) == {"mean": 50, "median": 50, "p95": 95}
