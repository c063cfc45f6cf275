"""Plan without a service: the same calls, solved in child processes of this one.

python examples/client/local.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

from client import Planner


def main(folder: Path) -> None:
    """From how to train to a schedule, and a picture of it."""
    with Planner.local() as planner:
        plan = planner.training_plan(
            model="GPT-1.7B",
            cluster="4xA100-40GB",
            training={"global_batch_size": 32},
            search={"finalists": 1, "top": 3},
            solver={"time_limit_s": 10},
        ).result(timeout=300)
        print(f"best: {plan.step_time_ns / 1e6:.3f} ms a step with {dict(plan.training)}")
        memory = planner.estimate(
            "memory", model="GPT-1.7B", cluster="4xA100-40GB", training=plan.training
        )
        print(f"the fullest GPU holds {memory['peak_bytes'] / 2**30:.2f} GiB")
        job = planner.pipeline_schedule(
            model="GPT-1.7B",
            cluster="4xA100-40GB",
            training={"micro_batches": 8, "pipeline_parallel": 4},
            solver={"search_iterations": 2000},
        )
        schedule = job.result(
            timeout=300, progress=lambda status: print(status.phase or status.state)
        )
        picture = folder / "schedule.svg"
        picture.write_text(schedule.svg(), encoding="utf-8")
        print(f"{schedule}: {picture}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
