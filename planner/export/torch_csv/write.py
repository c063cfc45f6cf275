"""A schedule as a compute-only CSV of PyTorch's `torch.distributed.pipelining`.

A row per rank, in the order of its operations; PyTorch infers from the rows which stage is where,
and adds what is sent and received. A fused backward is `B`, a split one `I` and `W`.
"""

from __future__ import annotations

from dataclasses import replace

from planner.errors import CannotExport
from planner.export.format import Document, Format, Source
from planner.export.schedule_csv import schedule_of_best, with_schedule
from planner.export.torch_csv.check import check_csv
from planner.export.torch_csv.orders import rank_orders, read_part

NAME = "torch-csv"
WRITTEN_FOR = "torch.distributed.pipelining (PyTorch 2.12 to 2.14), compute_only"
OFFLOADS = (
    "PyTorch's CSV has no offloads and reloads, and this schedule counts on some. Export it as "
    "torch-schedule, which the runner client.torch_runner executes, or solve the problem without "
    "offload_bytes."
)


def write(part: Document, _: Source) -> str:
    """The table. Raises `CannotExport` or `WrongSchedule` where PyTorch could not run it."""
    problem, ops = read_part(part)
    if any(op.op in "OR" for op in ops):
        raise CannotExport(OFFLOADS)
    whole = rank_orders(problem, ops)
    text = "".join(",".join(map(str, order)) + "\r\n" for order in whole.computations())
    # What is read back is what PyTorch will read.
    check_csv(text, len(problem.stages), problem.micro_batches)
    return text


TORCH_CSV = Format(
    name=NAME,
    title="Order of operations for PyTorch's pipeline runtime (CSV)",
    media_type="text/csv; charset=utf-8",
    extension="torch.csv",
    carries="The order of the operations on each rank, and which stages are where.",
    leaves_out="Times and memory; offloads and reloads (a schedule with any is refused).",
    written_for=WRITTEN_FOR,
    part=with_schedule,
    hindrance=None,
    write=write,
)
BEST_TORCH_CSV = replace(
    TORCH_CSV,
    title="Order of the best plan's operations for PyTorch's pipeline runtime (CSV)",
    part=schedule_of_best,
)
