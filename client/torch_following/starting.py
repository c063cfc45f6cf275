"""How all ranks of a training begin alike: with the same run, and with the same plan."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from client.errors import ClientError, ServiceUnreachable
from client.library.run import Run
from client.library.run_views import RunPlan
from client.torch_following.agreement import Agreement
from client.torch_runner.errors import ScheduleError
from client.torch_runner.schedule import Schedule, read_schedule

log = logging.getLogger("loadmaster.run")


@dataclass(frozen=True)
class StartingPlan:
    """A schedule to begin with. `version` is None where it is none of the run's."""

    schedule: Schedule
    version: int | None = None


def schedule_of(plan: RunPlan) -> Schedule:
    """The plan as `client.torch_runner` runs it; the `prepare` of a run.

    Raises what `planner.errors` and `client.torch_runner.errors` draw where PyTorch could not run
    it, or not with as many processes as there are.
    """
    # Only here: whoever has no plan to convert needs nothing of the planner.
    from planner.export.format import Source
    from planner.export.torch_schedule.write import write

    part = {"problem": plan.problem, "schedule": plan.schedule}
    schedule = read_schedule(json.loads(write(part, Source("pipeline", part))))
    ranks = len(schedule.actions)
    if dist.get_world_size() % ranks:
        raise ScheduleError(f"It is for {ranks} ranks, and there are {dist.get_world_size()}.")
    return schedule


def share_run(
    body: Mapping[str, Any] | None = None,
    *,
    run_id: str | None = None,
    plan: Mapping[str, Any] | None = None,
    follow: Mapping[str, Any] | None = None,
    group: dist.ProcessGroup | None = None,
    server: str | None = None,
    api_key: str | None = None,
) -> Run | None:
    """The run of a whole process group: its first rank creates it from `body`, the others join.

    With a `run_id` all join that one, as after a restart. Every rank of the group has to call
    this. None where no service answers: train without one then. Raises on every rank what creating
    it raised on the first, for a body that is wrong.
    """
    rank = dist.get_rank(group)
    run: Run | None = None
    fault: Exception | None = None
    if run_id is None and rank == 0:
        ranks = {"ranks": dist.get_world_size(group)}
        try:
            run = Run.create(
                body,
                plan=plan,
                follow={**ranks, **(follow or {})},
                prepare=schedule_of,
                server=server,
                api_key=api_key,
            )
        except Exception as error:
            # Raised below, when the others know: they wait for an id.
            fault = error
    told = (run_id if run is None else run.id, None if fault is None else str(fault))
    said = [(*told, isinstance(fault, ServiceUnreachable))]
    first = dist.get_global_rank(group or dist.group.WORLD, 0)
    dist.broadcast_object_list(said, src=first, group=group)
    found_id, message, is_away = said[0]
    if is_away:
        if rank == 0:
            log.warning("Training is not followed: %s", message)
        return None
    if found_id is None:
        raise fault or ClientError(str(message))
    return run or Run.join(found_id, rank=rank, prepare=schedule_of, server=server, api_key=api_key)


def first_plan(
    run: Run | None,
    *,
    wait_s: float,
    otherwise: Schedule | None = None,
    group: dist.ProcessGroup | None = None,
) -> StartingPlan | None:
    """The newest plan that every rank has within the time, the same on all of them.

    Every rank of the group has to call this. Where there is none, that of the schedule `otherwise`,
    or None without one.
    """
    agreement = Agreement(group)
    held = () if run is None else run.wait_for_plan(wait_s)
    agreement.propose(own.version for own in held)
    version = agreement.agreed()
    if run is None or version is None:
        return None if otherwise is None else StartingPlan(otherwise)
    run.begin_with(version)
    (schedule,) = (own.prepared for own in held if own.version == version)
    return StartingPlan(schedule, version)
