"""One of the ranks that a test starts: trains under schedules that follow a scripted run."""

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from client.library import run_follower
from client.torch_following import FollowingPipeline, StartingPlan, first_plan, share_run, starting
from client.torch_runner import load_schedule, stage_for
from tests.integration.torch import model, stock

LAYERS = [1] * 8
NOBODY = "http://127.0.0.1:9"


def train(run, first, rank, iterations):
    """Yields after each iteration what was run and how wrong it was."""
    modules = model.build(LAYERS)
    own = {index: modules[index] for index in first.schedule.stages_of(rank)}
    stages = [stage_for(first.schedule, i, own[i], "cpu") for i in own]
    last = len(LAYERS) - 1
    tokens, targets = model.batch()
    with FollowingPipeline(run, first, stages, model.loss) as pipeline:
        for number in iterations:
            for module in own.values():
                module.zero_grad()
            losses = []
            pipeline.step(
                number,
                *((tokens,) if 0 in own else ()),
                target=targets if last in own else None,
                losses=losses if last in own else None,
            )
            order = pipeline._runtime.pipeline_order_with_comms[rank]
            yield {
                **stock.compare(LAYERS, own, losses, model.MICRO_BATCHES),
                "iteration": number,
                "version": pipeline.version,
                "order": [str(action) for action in order if action.computation_type.name in OWN],
            }


OWN = ("FORWARD", "FULL_BACKWARD", "BACKWARD_INPUT", "BACKWARD_WEIGHT", "UNSHARD", "RESHARD")


def until(stop):
    """Iterations until a file is there, as the first rank sees it."""
    number = 0
    while True:
        flag = torch.tensor([int(stop.exists())])
        dist.broadcast(flag, src=0)
        if flag.item():
            return
        yield number
        number += 1
        time.sleep(0.01)


def main():
    folder, address = Path(sys.argv[1]), sys.argv[2]
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    run_follower.SEND_EVERY_S = 0.2
    dist.init_process_group(
        "gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=ranks
    )
    otherwise = load_schedule(folder / "otherwise.json")
    if rank == 2:
        plain = starting.schedule_of

        def schedule_of(plan):
            if plan.version == 3:
                raise ValueError("this rank cannot have version 3")
            return plain(plan)

        starting.schedule_of = schedule_of
    run = share_run({"problem": {}}, server=address)
    first = first_plan(run, wait_s=60, otherwise=otherwise)
    found = {"run": run.id, "first": first.version}
    # The file of the test process says when everything that is to happen has.
    found["followed"] = list(train(run, first, rank, until(folder / "stop")))
    # By now nobody answers.
    alone = share_run({"problem": {}}, server=NOBODY)
    assert alone is None
    first = first_plan(alone, wait_s=60, otherwise=otherwise)
    assert first == StartingPlan(otherwise)
    found["alone"] = list(train(alone, first, rank, range(2)))
    (folder / f"rank{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
