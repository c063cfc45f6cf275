"""A schedule for the runner `client.torch_runner`: like the CSV, and with offloads and waits.

The document:

`format`, `version`         what it is; the runner refuses other versions
`micro_batches`             their number
`stages`                    per stage its `rank`, and whether its backward is `split` (I and W)
`ranks`                     per rank `actions` in its order; `after`, what an action waits for
                            besides the one before it on its queue; `peak_bytes`, the schedule's
                            peak of activations; and `peak_bytes_in_turn`, the peak if each
                            operation ends before its rank's next one starts, as on a CPU
`makespan_ns`               the schedule's
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from planner.errors import CannotExport
from planner.export.format import Document, Format, Source
from planner.export.schedule_csv import schedule_of_best, with_schedule
from planner.export.torch_csv.cells import Cell
from planner.export.torch_csv.orders import RankOrders, rank_orders, read_part
from planner.export.torch_schedule.check import check_sequence
from planner.export.torch_schedule.waits import waits_of_cells
from planner.pipeline.effects import memory_effects

NAME = "torch-schedule"
VERSION = 1
WITHOUT_WAITS = (
    "The waits with which ranks keep the memory limits were not derived for this schedule, so a "
    "late offload could exceed them. Solve it again with more time (solver.time_limit_s)."
)


def write(part: Document, _: Source) -> str:
    """The document. Raises `CannotExport` or `WrongSchedule` where it could not be run."""
    schedule = part["schedule"]
    problem, ops = read_part(part)
    if "waits" not in schedule and any(op.op in "OR" for op in ops):
        raise CannotExport(WITHOUT_WAITS)
    whole = rank_orders(problem, ops)
    after = waits_of_cells(whole, schedule)
    check_sequence(whole, after)
    ranks = range(len(whole.problem.devices))
    document = {
        "format": f"loadmaster-{NAME}",
        "version": VERSION,
        "micro_batches": whole.problem.micro_batches,
        "stages": [
            {"rank": stage.device, "split": any(stage.backward_weight_ns)}
            for stage in whole.problem.stages
        ],
        "makespan_ns": schedule["makespan_ns"],
        "ranks": [_rank(whole, rank, after, schedule) for rank in ranks],
    }
    return json.dumps(document, separators=(",", ":")) + "\n"


def _rank(
    whole: RankOrders, rank: int, after: dict[Cell, list[Cell]], schedule: Document
) -> dict[str, Any]:
    cells = [whole.cell(op.token) for op in whole.of_rank[rank]]
    return {
        "actions": [str(cell) for cell in cells],
        "after": {str(cell): [str(own) for own in after[cell]] for cell in cells if cell in after},
        "peak_bytes": schedule["peak_memory_bytes"][rank],
        "peak_bytes_in_turn": _peak_in_turn(whole, rank),
    }


def _peak_in_turn(whole: RankOrders, rank: int) -> int:
    used = peak = 0
    for op in whole.of_rank[rank]:
        for memory, allocated, freed in memory_effects(whole.problem, op.token):
            if memory == ("device", rank):
                peak = max(peak, used + allocated)
                used += allocated - freed
    return peak


TORCH_SCHEDULE = Format(
    name=NAME,
    title="Operations with offloads for Loadmaster's PyTorch runner (JSON)",
    media_type="application/json",
    extension="torch.json",
    carries="The order of the operations on each rank with offloads, reloads and waits; peaks.",
    leaves_out="Times.",
    written_for=f"client.torch_runner, version {VERSION} of its schedules",
    part=with_schedule,
    hindrance=None,
    write=write,
)
BEST_TORCH_SCHEDULE = replace(
    TORCH_SCHEDULE,
    title="Operations of the best plan's schedule for Loadmaster's PyTorch runner (JSON)",
    part=schedule_of_best,
)
