"""What operations wait for, and why devices are idle: by hand, and on random schedules."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from planner.errors import OrderError
from planner.pipeline.documents import read_problem
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule, TimedOp, Token, Wait
from planner.pipeline.timeline.document import Title, timeline_document
from planner.pipeline.timing import orders_of, schedule_from_ops, time_orders
from tests.problems import problems, uniform_problem
from tests.random_schedules import random_schedule

TITLE = Title("Loadmaster", "as_posted", True, None, None, None)
Op = tuple[str, int, int]


def timeline(problem: PipelineProblem, schedule: Schedule) -> dict[str, Any]:
    return timeline_document(problem, schedule, TITLE)


def at(problem: PipelineProblem, *waits: Wait, **starts: int) -> dict[str, Any]:
    """The timeline of operations named by kind, stage and micro-batch: `F01=3`."""
    durations = {
        "F": "forward_ns",
        "B": "backward_input_ns",
        "W": "backward_weight_ns",
        "O": "offload_ns",
        "R": "reload_ns",
    }
    ops = []
    for name, start in starts.items():
        s, m = int(name[1]), int(name[2])
        length = getattr(problem.stages[s], durations[name[0]])[m]
        ops.append(TimedOp(name[0], s, m, start, start + length))  # type: ignore[arg-type]
    schedule = schedule_from_ops(problem, ops)
    return timeline(problem, Schedule(**{**vars(schedule), "waits": waits}))


def early_schedule(problem: PipelineProblem, seed: int) -> Schedule:
    """A random schedule, as early as its orders allow."""
    assume(find_infeasibility(problem) is None)
    ops = random_schedule(problem, Random(seed)).ops
    try:
        return time_orders(problem, orders_of(problem, ops))
    except OrderError:
        # Operations of no length may share an instant in an order that their times do not tell.
        reject()


def binding(document: dict[str, Any], name: str) -> tuple[str, str | None]:
    """What the operation waits for, and the name of the one whose end let it start."""
    ops = document["ops"]
    columns = zip(ops["op"], ops["stage"], ops["micro_batch"], strict=True)
    names = [f"{op}{stage}{micro_batch}" for op, stage, micro_batch in columns]
    i = names.index(name)
    after = ops["after"][i]
    return ops["waits_for"][i], None if after is None else names[after]


def gaps(document: dict[str, Any], device: int) -> list[tuple[int, int, str]]:
    idle = document["devices"][device]["idle"]
    return [(gap["start_ns"], gap["end_ns"], gap["reason"]) for gap in idle]


def test_transfers_between_devices_and_the_ends() -> None:
    problem = uniform_problem(devices=2, micro_batches=1, transfer_ns=3)
    found = at(problem, F00=0, F10=13, B10=23, W10=35, B00=38, W00=50)
    assert binding(found, "F00") == ("start", None)
    assert binding(found, "F10") == ("dependency", "F00")
    assert binding(found, "B10") == ("device", "F10")
    assert binding(found, "B00") == ("dependency", "B10")
    assert gaps(found, 0) == [(10, 38, "dependency")]
    assert gaps(found, 1) == [(0, 13, "fill"), (43, 58, "drain")]
    ops = found["ops"]
    path = [f"{ops['op'][i]}{ops['stage'][i]}" for i in found["critical_path"]]
    assert path == ["F0", "F1", "B1", "B0", "W0"]


def test_what_could_be_earlier_is_slack() -> None:
    problem = uniform_problem(devices=2, micro_batches=1, transfer_ns=3)
    found = at(problem, F00=0, F10=13, B10=23, W10=35, B00=39, W00=51)
    assert binding(found, "B00") == ("slack", None)
    assert gaps(found, 0) == [(10, 39, "slack")]


def test_an_epilogue_is_not_idle() -> None:
    problem = read_problem(
        {
            "micro_batches": 1,
            "devices": [{"epilogue_ns": 7}, {"epilogue_ns": 1}, {"epilogue_ns": 5}],
            "stages": [
                {"device": 0, "forward_ns": 2, "backward_input_ns": 3},
                {"device": 1, "forward_ns": 2, "backward_input_ns": 3},
            ],
        }
    )
    found = at(problem, F00=0, F10=2, B10=4, B00=7)
    assert found["makespan_ns"] == 17
    assert [device["busy_ns"] for device in found["devices"]] == [12, 6, 0]
    assert [device["epilogue_ns"] for device in found["devices"]] == [7, 1, 0]
    assert gaps(found, 0) == [(2, 7, "dependency")]
    assert gaps(found, 1) == [(0, 2, "fill"), (8, 17, "drain")]
    assert gaps(found, 2) == [(0, 17, "fill")]


def offloading(limit: int | None = 6, **more: Any) -> PipelineProblem:
    """One device; F 2 ns, B 3 ns; activations of 4 bytes, of which 4 can be moved in 5 ns."""
    stage = {
        "device": 0,
        "forward_ns": 2,
        "backward_input_ns": 3,
        "activation_bytes": 4,
        "offload_bytes": 4,
        "offload_ns": 5,
        "reload_ns": 5,
    }
    device: dict[str, Any] = {"activation_memory_bytes": limit, "host_link": "pcie", "host": 0}
    document = {"micro_batches": 2, "devices": [device], "stages": [stage], "hosts": [{}], **more}
    return read_problem({"micro_batch_order": "free", **document})


def test_memory_that_an_offload_frees() -> None:
    found = at(offloading(), F00=0, O00=2, F01=7, B01=9, R00=12, B00=17)
    assert binding(found, "O00") == ("dependency", "F00")
    assert binding(found, "F01") == ("memory", "O00")
    # The reload has to wait for the memory, and what needs it for the reload.
    assert binding(found, "R00") == ("memory", "B01")
    assert binding(found, "B00") == ("memory", "R00")
    assert gaps(found, 0) == [(2, 7, "memory"), (12, 17, "memory")]
    assert found["devices"][0]["memory"] == {"at_ns": [0, 20], "bytes": [4, 0]}


def test_a_link_that_takes_its_time() -> None:
    found = at(offloading(limit=None), F00=0, O00=2, F01=2, B01=4, R00=7, B00=12)
    assert binding(found, "R00") == ("link", "O00")
    assert binding(found, "B00") == ("link", "R00")
    assert gaps(found, 0) == [(7, 12, "link")]
    assert found["links"] == [
        {"link": "pcie", "devices": [0], "offload_busy_ns": 5, "reload_busy_ns": 5}
    ]


def test_a_link_that_is_busy() -> None:
    both = at(offloading(limit=None), F00=0, O00=2, F01=2, O01=7, R00=7, B00=12, R01=12, B01=17)
    assert binding(both, "O01") == ("link", "O00")
    assert binding(both, "R01") == ("link", "R00")
    assert binding(both, "B01") == ("link", "R01")
    assert gaps(both, 0) == [(4, 12, "link"), (15, 17, "link")]


def test_a_reload_that_comes_late_for_no_reason_is_slack() -> None:
    found = at(offloading(limit=None), F00=0, O00=2, F01=2, B01=4, R00=9, B00=14)
    assert binding(found, "R00") == ("slack", None)
    assert binding(found, "B00") == ("slack", "R00")
    assert gaps(found, 0) == [(7, 14, "slack")]


def test_memory_of_the_host() -> None:
    problem = offloading(limit=None, hosts=[{"memory_bytes": 4}])
    found = at(problem, F00=0, O00=2, F01=2, R00=7, B00=12, O01=12, R01=17, B01=22)
    assert binding(found, "O01") == ("memory", "R00")
    assert binding(found, "B01") == ("memory", "R01")
    assert gaps(found, 0) == [(4, 12, "link"), (15, 22, "memory")]
    assert found["hosts"] == [
        {
            "host": 0,
            "limit_bytes": 4,
            "peak_bytes": 4,
            "memory": {"at_ns": [0, 2, 22], "bytes": [0, 4, 0]},
        }
    ]


def test_a_limit_that_is_not_kept_is_not_waited_for() -> None:
    found = at(offloading(limit=3), F00=0, O00=2, F01=7, B01=9, R00=12, B00=17)
    assert found["devices"][0]["peak_bytes"] > 3
    assert binding(found, "F01") == ("slack", None)


def test_a_wait_for_memory_is_one_of_memory() -> None:
    problem = uniform_problem(devices=2, micro_batches=1)
    wait = Wait(Token("W", 1, 0), (Token("B", 0, 0),))
    times = {"F00": 0, "F10": 10, "B10": 20, "B00": 32, "W10": 44, "W00": 44}
    assert binding(at(problem, **times), "W10") == ("slack", None)
    assert binding(at(problem, wait, **times), "W10") == ("memory", "B00")


def test_a_whole_backward_sends_its_gradient_after_the_weights() -> None:
    problem = uniform_problem(devices=2, micro_batches=1)
    ops = [
        TimedOp("F", 0, 0, 0, 10),
        TimedOp("F", 1, 0, 10, 20),
        TimedOp("B", 1, 0, 20, 32),
        TimedOp("W", 1, 0, 32, 40),
        TimedOp("B", 0, 0, 40, 52),
        TimedOp("W", 0, 0, 52, 60),
    ]
    schedule = schedule_from_ops(problem, ops)
    whole = timeline_document(problem, schedule, TITLE, whole_backward=True)
    assert binding(whole, "B00") == ("dependency", "W10")
    assert binding(timeline(problem, schedule), "B00") == ("slack", None)


@settings(max_examples=150, deadline=None)
@given(problem=problems(), seed=st.integers(0, 2**32 - 1))
def test_every_instant_of_every_device_is_accounted_for(
    problem: PipelineProblem, seed: int
) -> None:
    schedule = early_schedule(problem, seed)
    found = timeline(problem, schedule)
    ops = found["ops"]
    for device in found["devices"]:
        own = [
            i
            for i, kind in enumerate(ops["op"])
            if kind in "FBW" and problem.stages[ops["stage"][i]].device == device["device"]
        ]
        lengths = sum(ops["end_ns"][i] - ops["start_ns"][i] for i in own)
        assert device["busy_ns"] == lengths + device["epilogue_ns"]
        assert device["busy_ns"] + sum(device["idle_ns"].values()) == schedule.makespan_ns
        for reason, total in device["idle_ns"].items():
            spans = [g["end_ns"] - g["start_ns"] for g in device["idle"] if g["reason"] == reason]
            assert sum(spans) == total
        for one, other in pairwise(device["idle"]):
            assert one["end_ns"] <= other["start_ns"]
        for gap in device["idle"]:
            assert gap["start_ns"] < gap["end_ns"]
            assert gap["next"] is None or ops["start_ns"][gap["next"]] == gap["end_ns"]
            for i in own:
                began, ended = ops["start_ns"][i], ops["end_ns"][i]
                outside = ended <= gap["start_ns"] or began >= gap["end_ns"]
                assert outside or began == ended


@settings(max_examples=300, deadline=None)
@given(problem=problems(), seed=st.integers(0, 2**32 - 1))
def test_a_schedule_as_early_as_its_orders_allow_has_no_slack(
    problem: PipelineProblem, seed: int
) -> None:
    ops = timeline(problem, early_schedule(problem, seed))["ops"]
    assert "slack" not in ops["waits_for"]


@settings(max_examples=150, deadline=None)
@given(problem=problems(), seed=st.integers(0, 2**32 - 1))
def test_what_an_operation_waits_for_ends_when_it_starts(
    problem: PipelineProblem, seed: int
) -> None:
    found = timeline(problem, early_schedule(problem, seed))
    ops = found["ops"]
    assert ops["start_ns"] == sorted(ops["start_ns"])
    latencies = {0} | {
        lag for hop in problem.transfers for lag in (*hop.forward_ns, *hop.backward_ns)
    }
    for start, after, waits_for in zip(
        ops["start_ns"], ops["after"], ops["waits_for"], strict=True
    ):
        if after is None:
            assert waits_for == "start"
            assert start == 0
        else:
            assert start - ops["end_ns"][after] in latencies
    path = found["critical_path"]
    ends = [
        end + problem.devices[problem.stages[stage].device].epilogue_ns
        for kind, stage, end in zip(ops["op"], ops["stage"], ops["end_ns"], strict=True)
        if kind in "FBW"
    ]
    last = path[-1]
    epilogue = problem.devices[problem.stages[ops["stage"][last]].device].epilogue_ns
    assert ops["end_ns"][last] + epilogue == max(ends)
    assert all(ops["after"][other] == one for one, other in pairwise(path))
