"""`FollowingPipeline`: PyTorch's pipeline runtime under schedules that follow the run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import torch.distributed as dist
from torch import Tensor

from client.library.run import Run
from client.torch_following.agreement import Agreement
from client.torch_following.starting import StartingPlan
from client.torch_following.telemetry import stage_samples
from client.torch_following.timing import Timer, timer_for
from client.torch_runner.runtime import build_runtime, set_schedule
from client.torch_runner.schedule import Schedule
from client.torch_runner.stage import PlannedStage

log = logging.getLogger("loadmaster.run")


class FollowingPipeline:
    """Runs iterations, reports what they took, and switches to newer schedules.

    A schedule changes between two iterations and on all ranks at once: to the newest version that
    every rank holds and that is due (`Agreement`). A rank that could not fetch one keeps all of
    them on the schedule that they have, and while the service is away nothing changes.
    """

    def __init__(
        self,
        run: Run | None,
        first: StartingPlan,
        stages: Sequence[PlannedStage],
        loss_fn: Callable[..., Tensor],
        *,
        group: dist.ProcessGroup | None = None,
        scale_grads: bool = True,
    ) -> None:
        """`stages` are this rank's, each made by `stage_for` of the first schedule. `group` has all
        ranks of the run, the default group unless given; without a `run` only the first schedule
        runs. Raises `StageError` if the stages are not those of the schedule."""
        self.version = first.version
        self._run, self._stages, self._schedule = run, list(stages), first.schedule
        self._device = stages[0].device
        self._agreement = Agreement(group)
        self._proposed: dict[int, Schedule] = {}
        self._timer: Timer = timer_for(self._device)
        self._runtime = build_runtime(first.schedule, stages, loss_fn, scale_grads=scale_grads)
        self._time_operations()
        self._refused: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        elif self._run is not None:
            # Other ranks may be gone: nothing to wait for any more.
            self._run.close()

    @property
    def schedule(self) -> Schedule:
        """What runs now."""
        return self._schedule

    def step(self, iteration: int, *args: Any, **kwargs: Any) -> Any:
        """Run the pipeline once, as `runtime.step` does: the batch on the rank of the first stage,
        `target` and `losses` on that of the last. Every rank has to, with the same number.

        Outputs are returned only with `return_outputs=True`, since no plan counts them.
        """
        self._switch(iteration)
        self._timer.begin(iteration, self.version)
        outputs = self._runtime.step(*args, **{"return_outputs": False, **kwargs})
        self._timer.end()
        self._report()
        return outputs

    def close(self) -> None:
        """Report what is left, and leave the run."""
        if self._run is not None:
            # Read, for the process group to have nothing under way when it is taken down.
            self._agreement.agreed()
            self._report()
            self._run.close()

    def _switch(self, iteration: int) -> None:
        """Run what was agreed on in the last iteration, and agree on what comes after this one."""
        if self._run is None:
            return
        agreed = self._agreement.agreed()
        if agreed is not None and agreed > (self.version or 0):
            self._run_version(agreed, self._proposed[agreed])
        self._proposed = {
            own.version: own.prepared
            for own in self._run.due(iteration + 1)
            if own.version not in self._refused
        }
        self._agreement.propose(self._proposed)

    def _run_version(self, version: int, schedule: Schedule) -> None:
        """Every rank comes here at the same iteration, with the same plan."""
        before = self._runtime.pipeline_order_with_comms
        try:
            if schedule.is_split != self._schedule.is_split:
                raise ValueError("it splits other backwards, for which the stages were not made.")
            set_schedule(self._runtime, schedule, self._stages, f"version-{version}")
        except Exception as error:
            # The same everywhere, since it does not depend on the rank.
            self._runtime.pipeline_order_with_comms = before
            self._refused.add(version)
            log.warning("Version %d of the run cannot be run: %s", version, error)
            return
        self._schedule, self.version = schedule, version
        self._time_operations()

    def _time_operations(self) -> None:
        self._stages[0].planned().timing = self._timer.timing

    def _report(self) -> None:
        for done in self._timer.finished():
            if self._run is not None:
                self._run.iteration(
                    done.number,
                    stage_samples(done, self._device),
                    done.span_ns,
                    plan_version=done.plan_version,
                )
