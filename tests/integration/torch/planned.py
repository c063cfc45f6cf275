"""Runs exported schedules with offloads through the runner, and measures memory independently."""

from contextlib import contextmanager

from client.torch_runner import build_runtime, load_schedule, stage_for
from tests.integration.torch import model, stock
from tests.integration.torch.metering import Watch


def attach(watch, executor):
    """Have the watch see each operation that the runner runs."""
    plain = executor.running

    @contextmanager
    def running(action):
        with watch.operation(action.kind, str(action)), plain(action):
            yield

    executor.running = running


def run(case, rank):
    """Two steps: gradients and losses of the first, and the bytes of the second."""
    schedule = load_schedule(case["path"])
    layers = case["layers"]
    modules = model.build(layers)
    own = {index: modules[index] for index in schedule.stages_of(rank)}
    stages = [stage_for(schedule, i, own[i], "cpu", split=case["split"]) for i in own]
    runtime = build_runtime(schedule, stages, model.loss)
    last = len(layers) - 1
    losses = []
    stock.feed(runtime, own, last, schedule.micro_batches, losses if last in own else None)
    result = stock.compare(layers, own, losses, schedule.micro_batches)
    # By now gradients of parameters and buffers are there.
    watch = Watch(stages)
    attach(watch, stages[0].executor)
    with watch.meter:
        stock.feed(runtime, own, last, schedule.micro_batches, None)
        watch.end_of_operation()
    return {**result, "levels": watch.levels, "peaks": watch.peaks}
