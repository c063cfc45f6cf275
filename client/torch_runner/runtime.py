"""PyTorch's pipeline runtime, set up to run a planned schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from client.torch_runner.errors import StageError
from client.torch_runner.executor import Executor
from client.torch_runner.private_names import (
    OFFLOAD,
    RELOAD,
    SENDS,
    ComputationType,
    RuntimeAction,
    ScheduleRuntime,
)
from client.torch_runner.schedule import Action, Schedule
from client.torch_runner.stage import PlannedStage

ACTION_OF = {"O": OFFLOAD, "R": RELOAD}


def build_runtime(
    schedule: Schedule,
    stages: Sequence[PlannedStage],
    loss_fn: Callable[..., Tensor],
    *,
    scale_grads: bool = True,
) -> Any:
    """PyTorch's `_PipelineScheduleRuntime` for this rank's stages (see `stage_for`).

    Call its `step(batch, target=…, losses=[…], return_outputs=False)` on every rank, the batch on
    the first stage's rank and the target on the last one's. With `scale_grads` gradients are
    divided by the number of micro-batches, as `loss_fn` that take a mean need. Outputs that are
    returned stay in memory, which no plan counts.

    Raises `StageError` if the stages are not those that the schedule has for this rank.
    """
    _check_stages(schedule, stages)

    def loss(*args: Any, **kwargs: Any) -> Tensor:
        with stages[0].planned().computing_loss():
            return loss_fn(*args, **kwargs)

    runtime = ScheduleRuntime(
        list(stages), schedule.micro_batches, loss_fn=loss, scale_grads=scale_grads
    )
    set_schedule(runtime, schedule, stages)
    return runtime


def set_schedule(
    runtime: Any, schedule: Schedule, stages: Sequence[PlannedStage], name: str = "pipeline"
) -> Executor:
    """Have a runtime run this schedule from its next step on; every rank has to, before that step.

    The schedule is of the same stages on the same ranks and of as many micro-batches. `name` tells
    it from schedules that the runtime ran before: ranks wait for each other under it. Returns what
    carries out the rank's offloads and waits.

    Raises `StageError` if the schedule does not fit the stages or the runtime.
    """
    rank = _check_stages(schedule, stages)
    if schedule.micro_batches != runtime._n_microbatches:
        raise StageError(
            f"The schedule has {schedule.micro_batches} micro-batches, and the runtime was built "
            f"for {runtime._n_microbatches}. Build another one."
        )
    first = dist.get_global_rank(stages[0].group or dist.group.WORLD, 0)
    executor = Executor(schedule, rank, stages[0].device, f"{name}-{first}")
    runtime._prepare_schedule_with_comms(
        {
            number: [_compute_action(action) for action in own if action.kind not in "OR"]
            for number, own in enumerate(schedule.actions)
        }
    )
    orders = runtime.pipeline_order_with_comms
    orders[rank] = woven(orders[rank], schedule.actions[rank])
    for stage in stages:
        stage.executor = executor
    if schedule.has_offloads:
        functions = runtime._comp_type_to_function_map
        # Not by register_custom_function, which warns where a schedule before had them.
        functions[OFFLOAD] = _for_micro_batch("O", executor.offload)
        functions[RELOAD] = _for_micro_batch("R", executor.reload)
    return executor


def _check_stages(schedule: Schedule, stages: Sequence[PlannedStage]) -> int:
    """The rank, if these are its stages."""
    if not stages or not all(isinstance(stage, PlannedStage) for stage in stages):
        raise StageError("Give the rank's stages, each made by stage_for.")
    rank, ranks = stages[0].group_rank, stages[0].group_size
    if ranks != len(schedule.actions):
        raise StageError(
            f"The schedule is for {len(schedule.actions)} ranks, the process group has {ranks}. "
            f"Start {len(schedule.actions)} processes, or give the stages their own group."
        )
    own, planned = sorted(stage.stage_index for stage in stages), schedule.stages_of(rank)
    if own != planned:
        raise StageError(f"Rank {rank} has stages {own}, and the schedule gives it {planned}.")
    if schedule.has_offloads and any(isinstance(stage.submod, FSDPModule) for stage in stages):
        raise StageError(
            "A schedule with offloads cannot run stages of fully_shard: both need the runtime's "
            "UNSHARD and RESHARD. Plan without offloading, and run the torch-csv."
        )
    return rank


def _compute_action(action: Action) -> Any:
    return RuntimeAction(action.stage, ComputationType(action.kind), action.micro_batch)


def woven(lowered: Sequence[Any], planned: Sequence[Action]) -> list[Any]:
    """A rank's operations with sends and receives, and its O and R at their places.

    Each comes right after the computation before it in the schedule, and after what that sends.
    """
    following: dict[Any, list[Any]] = {}
    before = None
    for action in planned:
        if action.kind not in "OR":
            before = _compute_action(action)
        else:
            kind = ACTION_OF[action.kind]
            copy = RuntimeAction(action.stage, kind, action.micro_batch)
            following.setdefault(before, []).append(copy)
    result = list(following.pop(None, ()))
    pending: list[Any] = []
    for action in lowered:
        if action.computation_type not in SENDS:
            result += pending
            pending = []
        result.append(action)
        pending += following.pop(action, ())
    return result + pending


def _for_micro_batch(kind: str, run: Callable[[Action], None]) -> Callable[[Any, Any], None]:
    def custom_function(action: Any, _: Any) -> None:
        # Those without a micro-batch are for fully_shard, and there is none.
        if action.microbatch_index is not None:
            run(Action(action.stage_index, kind, action.microbatch_index))

    return custom_function
