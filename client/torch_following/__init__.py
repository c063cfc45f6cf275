"""Plans that follow a training run in PyTorch: measures each stage, and swaps schedules on all
ranks at once.

    run = share_run(body)                       # rank 0 creates it, the others join
    first = first_plan(run, wait_s=60)          # the same on every rank
    stages = [stage_for(first.schedule, index, …) for index in first.schedule.stages_of(rank)]
    pipeline = FollowingPipeline(run, first, stages, loss_fn)
    for iteration in range(iterations):
        pipeline.step(iteration, batch, target=target, losses=losses)
        …
    pipeline.close()

Needs PyTorch and the client. See docs/following-a-run.md.
"""

from client.torch_following.pipeline import FollowingPipeline
from client.torch_following.starting import StartingPlan, first_plan, share_run

__all__ = ["FollowingPipeline", "StartingPlan", "first_plan", "share_run"]
