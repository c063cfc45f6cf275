"""Ask for many schedules at once without waiting for one after the other.

    python examples/client/sweep.py

How much memory of each GPU may activations take before the iteration gets longer?
"""

from __future__ import annotations

import asyncio

from client import AsyncPlanner, Infeasible, PipelineSchedule

MIB = 2**20
LIMITS_MIB = (100, 200, 300, 400)


async def schedule_within(planner: AsyncPlanner, limit_mib: int) -> PipelineSchedule | None:
    """The best schedule under a limit; None if nothing fits."""
    job = await planner.pipeline_schedule(
        problem={
            "micro_batches": 6,
            "devices": [{"activation_memory_bytes": limit_mib * MIB}] * 2,
            "stages": [
                {
                    "device": device,
                    "forward_ns": 1_000_000,
                    "backward_input_ns": 1_100_000,
                    "backward_weight_ns": 900_000,
                    "activation_bytes": 128 * MIB,
                    "offload_bytes": 120 * MIB,
                    "offload_ns": 500_000,
                    "reload_ns": 500_000,
                }
                for device in range(2)
            ],
            "transfers": [{"forward_ns": 10_000, "backward_ns": 10_000}],
        },
        solver={"time_limit_s": 5},
        tags=["sweep"],
    )
    try:
        return await job.result(timeout=120)
    except Infeasible:
        return None


async def main() -> None:
    """All limits at once."""
    async with AsyncPlanner() as planner:
        schedules = await asyncio.gather(*(schedule_within(planner, mib) for mib in LIMITS_MIB))
    for mib, schedule in zip(LIMITS_MIB, schedules, strict=True):
        if schedule is None:
            print(f"{mib} MiB: nothing fits")
        else:
            print(f"{mib} MiB: {schedule.makespan_ns / 1e6:.3f} ms, proven: {schedule.proven}")


if __name__ == "__main__":
    asyncio.run(main())
