"""Runs planned schedules, with their offloads, in PyTorch's own pipeline runtime.

    schedule = load_schedule("schedule.json")
    stages = [stage_for(schedule, index, module_of(index), device)
              for index in schedule.stages_of(rank)]
    runtime = build_runtime(schedule, stages, loss_fn)
    runtime.step(batch, target=target, losses=losses, return_outputs=False)

Needs PyTorch and nothing else. See docs/running-plans.md.
"""

from client.torch_runner.deferred_weights import defer_weight_gradients
from client.torch_runner.runtime import build_runtime, set_schedule
from client.torch_runner.schedule import Schedule, load_schedule
from client.torch_runner.stage import PlannedStage, stage_for

__all__ = [
    "PlannedStage",
    "Schedule",
    "build_runtime",
    "defer_weight_gradients",
    "load_schedule",
    "set_schedule",
    "stage_for",
]
