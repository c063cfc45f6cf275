"""Ask a service for a pipeline schedule, watch it, and write what programs take from it.

    python examples/client/schedule.py [FOLDER]

The service is the one at LOADMASTER_SERVER, or one on this machine.
"""

from __future__ import annotations

import sys
from pathlib import Path

from client import Infeasible, Planner, Status


def show(status: Status) -> None:
    """One line whenever something has changed."""
    best = "–" if status.best is None else f"{status.best / 1e6:.3f} ms"
    gap = "" if status.gap is None else f", gap {100 * status.gap:.1f} %"
    print(f"{status.state:>10}  {status.phase or '':<20} best {best}{gap}")


def main(folder: Path) -> None:
    """Solve, and leave the schedule as CSV and as a trace for Perfetto."""
    with Planner() as planner:
        job = planner.pipeline_schedule(
            model="GPT-1.7B",
            cluster="4xA100-40GB",
            training={"micro_batch_size": 1, "micro_batches": 8},
            solver={"time_limit_s": 5},
            name="example",
        )
        try:
            schedule = job.result(timeout=120, progress=show)
        except Infeasible as error:
            print(error, *error.infeasibility["remedies"], sep="\n")
            return
        print(f"{schedule.makespan_ns / 1e6:.3f} ms, proven optimal: {schedule.proven}")
        for row in schedule.comparison:
            if row["fits"]:
                print(f"  {row['name']} ({row['placement']}): {row['makespan_ns'] / 1e6:.3f} ms")
        for name, file in (("csv", "schedule.csv"), ("chrome-trace", "trace.json")):
            (folder / file).write_text(job.export(name), encoding="utf-8")
            print(f"written: {folder / file}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
