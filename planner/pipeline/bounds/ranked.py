"""A problem whose micro-batches can be told by their rank."""

from __future__ import annotations

from dataclasses import replace

from planner.pipeline.problem import MicroBatchOrder, PipelineProblem, Stage


def with_micro_batches_ranked(problem: PipelineProblem) -> PipelineProblem:
    """The problem itself, or under free order one with all micro-batches alike that is no longer.

    Every schedule of the problem becomes one of the other where each operation takes its least
    time over the micro-batches and starts when it did: what it holds is never more, nor held for
    longer. The least of what stays on the device when the rest is offloaded is kept, not the
    largest part that can be.
    """
    if problem.micro_batch_order is MicroBatchOrder.FIXED or problem.alike:
        return problem
    return replace(
        problem,
        stages=tuple(map(_least_stage, problem.stages)),
        transfers=tuple(
            replace(t, forward_ns=_least(t.forward_ns), backward_ns=_least(t.backward_ns))
            for t in problem.transfers
        ),
    )


def _least(values: tuple[int, ...]) -> tuple[int, ...]:
    return (min(values),) * len(values)


def _least_stage(stage: Stage) -> Stage:
    kept = min(
        activation - away
        for activation, away in zip(stage.activation_bytes, stage.offload_bytes, strict=True)
    )
    activation = min(stage.activation_bytes)
    count = len(stage.forward_ns)
    return replace(
        stage,
        forward_ns=_least(stage.forward_ns),
        backward_input_ns=_least(stage.backward_input_ns),
        backward_weight_ns=_least(stage.backward_weight_ns),
        activation_bytes=(activation,) * count,
        weight_grad_bytes=(min(map(stage.late_bytes, range(count))),) * count,
        backward_workspace_bytes=_least(stage.backward_workspace_bytes),
        offload_bytes=(activation - kept,) * count,
        offload_ns=_least(stage.offload_ns),
        reload_ns=_least(stage.reload_ns),
    )
