"""Traces of PyTorch's profiler give a measured problem."""

from __future__ import annotations

from typing import Any

import pytest

from client.errors import InputError
from client.importers.kineto import from_kineto
from planner.pipeline.documents import read_problem

Events = list[dict[str, Any]]


def _range(name: str, begin_us: float, duration_us: float) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "user_annotation",
        "name": name,
        "ts": begin_us,
        "dur": duration_us,
        "args": {},
    }


def _memory(at_us: float, change: int, device_type: int = 0) -> dict[str, Any]:
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "ts": at_us,
        "args": {"Bytes": change, "Device Type": device_type},
    }


def _kernel(number: int, launched_us: float, begin_us: float, duration_us: float) -> Events:
    of_launch = {"args": {"correlation": number}}
    return [
        {"ph": "X", "cat": "cuda_runtime", "ts": launched_us, "dur": 1, "tid": number, **of_launch},
        {"ph": "X", "cat": "kernel", "ts": begin_us, "dur": duration_us, "tid": 7, **of_launch},
    ]


def _iteration(stages: range, names: str, micro_batches: int = 3) -> Events:
    """F of (stage + 1) us, I of 2 us and W of 1.5 us, one after the other, of each micro-batch."""
    events: Events = []
    now = 0.0
    for m in range(micro_batches):
        for s in stages:
            for op, duration in (("F", s + 1.0), ("I", 2.0), ("W", 1.5)):
                events.append(_range(names.format(op=op, s=s, m=m), now, duration))
                now += 10
    return events


@pytest.mark.parametrize("names", ["{op} {s} {m}", "PP:{s}{op}{m}"])
def test_ranges_of_both_namings_give_times(names: str) -> None:
    events = [_range("PP:0SEND_F0", 0, 99), _range("optimizer", 0, 99)]
    trace = {"traceEvents": events + _iteration(range(2), names)}
    problem = read_problem(from_kineto([trace]).document["problem"])
    assert problem.micro_batches == 3
    assert [stage.forward_ns[0] for stage in problem.stages] == [1000, 2000]
    assert [stage.backward_input_ns[0] for stage in problem.stages] == [2000, 2000]
    assert [stage.backward_weight_ns[0] for stage in problem.stages] == [1500, 1500]
    assert [stage.device for stage in problem.stages] == [0, 1]


def test_each_rank_has_a_trace() -> None:
    traces = [
        {
            "traceEvents": _iteration(range(0, 4, 2), "PP:{s}{op}{m}"),
            "distributedInfo": {"rank": 0},
        },
        {
            "traceEvents": _iteration(range(1, 4, 2), "PP:{s}{op}{m}"),
            "distributedInfo": {"rank": 5},
        },
    ]
    problem = read_problem(from_kineto(traces).document["problem"])
    assert [stage.device for stage in problem.stages] == [0, 1, 0, 1]
    with pytest.raises(InputError, match="stage 0"):
        from_kineto(traces[1:])


def test_schedules_with_one_stage_per_rank_have_fused_backwards() -> None:
    traces = [
        {"traceEvents": [_range("Forward 0", 0, 3.0), _range("Backward 0", 5, 7.0)]}
        for _ in range(2)
    ]
    problem = read_problem(from_kineto(traces).document["problem"])
    assert [stage.backward_input_ns[0] for stage in problem.stages] == [7000, 7000]
    assert not problem.stages[0].has_weight_op(0)


def test_memory_follows_allocations_within_ranges() -> None:
    trace = {
        "traceEvents": [
            *_iteration(range(1), "{op} {s} {m}", micro_batches=1),
            _memory(0.5, 1000),
            _memory(5.0, 77),  # between operations
            _memory(10.5, 300),
            _memory(11.0, -500),
            _memory(20.5, -800),
        ]
    }
    (stage,) = read_problem(from_kineto([trace]).document["problem"]).stages
    assert stage.activation_bytes == (1000,)
    assert stage.weight_grad_bytes == (800,)
    assert stage.backward_workspace_bytes == (300,)


def test_on_a_gpu_kernels_count_whoever_launched_them() -> None:
    events = [
        _range("F 0 0", 0, 5),
        _range("B 0 0", 10, 5),
        *_kernel(1, 1, 100, 20),
        *_kernel(2, 2, 120, 30),
        *_kernel(3, 11, 150, 80),
        *_kernel(4, 40, 240, 500),  # after the ranges
        _memory(1.0, 5),
        _memory(1.0, 4096, device_type=1),
        _memory(11.0, -4096, device_type=1),
    ]
    (stage,) = read_problem(from_kineto([{"traceEvents": events}]).document["problem"]).stages
    assert (stage.forward_ns, stage.backward_input_ns) == ((50_000,), (80_000,))
    assert stage.activation_bytes == (4096,)


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        ({}, "are missing"),
        ({"traceEvents": [_range("step", 0, 1)]}, "no operations"),
        ({"traceEvents": [_range("F 0 0", 0, 1)]}, "no backward of stage 0"),
        ({"traceEvents": _iteration(range(1, 2), "{op} {s} {m}")}, "stage 0"),
    ],
)
def test_traces_that_do_not_say_enough_are_refused(trace: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        from_kineto([trace])


def test_split_and_fused_backwards_of_a_stage_are_not_mixed() -> None:
    events = [*_iteration(range(1), "PP:{s}{op}{m}"), _range("PP:0B3", 500, 50.0)]
    imported = from_kineto([{"traceEvents": events}])
    (stage,) = read_problem(imported.document["problem"]).stages
    assert stage.backward_input_ns[0] == 2000
    assert any("only the split" in note for note in imported.notes)
