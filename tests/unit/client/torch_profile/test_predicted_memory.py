"""A problem that was profiled predicts the memory of a run in the schedule's order.

The run's memory is read from the events of PyTorch's profiler, which shares nothing with the
meter that the profile uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from planner.pipeline.classic.schedules import (
    gpipe_schedule,
    one_forward_one_backward_schedule,
    zero_bubble_h1_schedule,
)
from planner.pipeline.documents import read_problem
from planner.pipeline.memory import device_memory_events, memory_timeline
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule, TimedOp
from planner.pipeline.verify import verify
from tests.unit.client.torch_profile.tiny import TINY_PIPELINE

pytestmark = pytest.mark.torch

STAGES, MICRO_BATCHES = 4, 8
SCHEDULES = {
    "GPipe": gpipe_schedule,
    "1F1B": one_forward_one_backward_schedule,
    "ZB-H1": zero_bubble_h1_schedule,
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("profile") / "tiny_pipeline.py"
    file.write_text(TINY_PIPELINE)
    return f"{file}:transformer"


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("split", ["deferred", "native", "fused"])
def test_predicted_peaks_are_what_a_run_takes(target: str, split: str) -> None:
    from client.torch_profile.run import run_profile

    profile = run_profile(
        target, stages=STAGES, micro_batches=MICRO_BATCHES, split=split, repeat=1, threads=1
    )
    problem = read_problem(profile.problem())
    run = PipelineRun(target, split)
    for name, make in SCHEDULES.items():
        schedule = make(problem).schedule
        verify(problem, schedule)
        measured = run.peaks_bytes(problem, schedule)
        assert list(schedule.peak_memory_bytes) == pytest.approx(measured, rel=0.01), name
        assert min(measured) > 0


class PipelineRun:
    """The stages of the profiled model, run in one process in the order of a schedule."""

    def __init__(self, target: str, split: str) -> None:
        import torch

        from client.torch_profile.operations import stages_of
        from client.torch_profile.pipeline import load_pipeline
        from client.torch_profile.splits import Split

        self.pipeline = load_pipeline(target, STAGES, torch.device("cpu"))
        self.stages = stages_of(self.pipeline, Split(split))
        self.border: dict[tuple[int, int], list[Any]] = {}

    def peaks_bytes(self, problem: PipelineProblem, schedule: Schedule) -> list[int]:
        """The most that each device takes at once, without what lies at the
        borders of stages.

        Counted at the borders of operations, and within backwards, whose workspace a problem
        knows.
        """
        ops = sorted(schedule.ops, key=lambda op: (op.start_ns, op.stage))
        self._run(ops)  # gradients and whatever else stays are there from now on
        live = [0] * len(problem.devices)
        peaks = [0] * len(problem.devices)
        for op, changes in self._changes(problem, ops):
            device = problem.stages[op.stage].device
            levels = list(_running_sums(live[device], changes))
            live[device] = levels[-1]
            peaks[device] = max(peaks[device], live[device])
            if op.op == "B":
                peaks[device] = max(peaks[device], *levels)
        assert live == [0] * len(live)
        return peaks

    def _changes(
        self, problem: PipelineProblem, ops: list[TimedOp]
    ) -> Iterator[tuple[TimedOp, list[int]]]:
        """Allocations and frees within each operation, those of the border taken out."""
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            borders = self._run(ops)
        tree = profiler.profiler.kineto_results.experimental_event_tree()
        ranges = {event.name: event for event in _flat(tree)}
        for op, border_bytes in zip(ops, borders, strict=True):
            event = ranges[_label(op)]
            sizes = [
                inner.extra_fields.alloc_size
                for inner in sorted(_flat([event]), key=lambda inner: inner.start_time_ns)
                if hasattr(inner.extra_fields, "alloc_size")
            ]
            # What F sends has its buffer before, what B sends back gets there afterwards.
            yield op, [-border_bytes, *sizes] if op.op == "F" else [*sizes, -border_bytes]

    def _run(self, ops: list[TimedOp]) -> list[int]:
        """Run everything; bytes that each operation adds at the borders."""
        sent: dict[tuple[int, int], Any] = {}
        sent_back: dict[tuple[int, int], Any] = {}
        added = [self._one(op, sent, sent_back) for op in ops]
        self.border.clear()
        return added

    def _one(self, op: TimedOp, sent: Any, sent_back: Any) -> int:
        from torch.profiler import record_function

        from client.torch_profile.operations import copied, received

        s, m = op.stage, op.micro_batch
        stage, key = self.stages[s], (s, m)
        if op.op == "F":
            inputs = received(sent.pop((s - 1, m))) if s else self.pipeline.micro_batch
            self.border[key] = [*inputs]
            with record_function(_label(op)):
                outputs = stage.forward(m, inputs)
                if stage.loss is None:
                    sent[key] = outputs
                del outputs
            return self._hold(key, sent.get(key, ()))
        if op.op == "W":
            with record_function(_label(op)):
                stage.backward_weight(m)
            return 0
        grads = None
        if stage.loss is None:
            grads = tuple(None if g is None else copied(g) for g in sent_back[s + 1, m])
            self._hold(key, grads)
        with record_function(_label(op)):
            sent_back[key] = stage.backward(m, grads)
        return self._hold(key, sent_back[key])

    def _hold(self, key: tuple[int, int], tensors: Any) -> int:
        known = {tensor.untyped_storage().data_ptr() for tensor in self.border[key]}
        new = {
            tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
            for tensor in tensors
            if tensor is not None
        }
        self.border[key] += [tensor for tensor in tensors if tensor is not None]
        return sum(size for pointer, size in new.items() if pointer not in known)


def test_the_memory_of_a_problem_follows_the_deltas(target: str) -> None:
    """At every border of operations of one micro-batch, not only at the peak."""
    from client.torch_profile.run import run_profile

    profile = run_profile(target, stages=2, micro_batches=1, split="native", repeat=1, threads=1)
    problem = read_problem(profile.problem())
    schedule = one_forward_one_backward_schedule(problem).schedule
    ends = {(op.op, op.stage): op.end_ns for op in schedule.ops}
    for s, stage in enumerate(profile.measured.stages):
        assert stage.weight is not None
        deltas = {"F": stage.forward, "B": stage.backward, "W": stage.weight}
        timeline = memory_timeline(device_memory_events(problem, schedule.ops)[s])
        level = 0
        for name, op in deltas.items():
            level += op.memory.delta_bytes
            # F's memory is there from its start on; at its end B may take more already.
            until = ends[name, s] - (name == "F")
            assert [used for when, used in timeline if when <= until][-1] == level
    first, second = profile.measured.stages
    assert first.backward.memory.delta_bytes == 0
    assert second.backward.memory.delta_bytes > 0


def _label(op: TimedOp) -> str:
    return f"{op.op} {op.stage} {op.micro_batch}"


def _flat(events: Any) -> Iterator[Any]:
    for event in events:
        yield event
        yield from _flat(event.children)


def _running_sums(begin: int, changes: list[int]) -> Iterator[int]:
    for change in changes:
        begin += change
        yield begin
