"""Whether a table of operations runs, and computes what an iteration has to.

PyTorch (2.12 to 2.14) takes some wrong tables without a word and then computes wrong gradients or
none: it looks up losses of the last stage by their position, keeps operations in sets, and reads
only the beginning of a cell. Nothing that fails here is ever written.
"""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from planner.errors import WrongSchedule
from planner.export.torch_csv.cells import COMPUTE, Cell, parsed

Order = Sequence[Cell]
"""The operations of one rank, in the order in which it runs them."""
SHOWN = 40
"""Characters of a text that is no cell."""


def check_csv(text: str, stages: int, micro_batches: int) -> list[list[Cell]]:
    """The operations of each rank in a compute-only CSV of this many stages and micro-batches.

    Empty cells are idle time and left out. Raises `WrongSchedule` at the first fault, which names
    the rank, the cell and the remedy.
    """
    orders = [
        [_read(rank, field) for field in row if field.strip()]
        for rank, row in enumerate(_rows(text))
    ]
    check_orders(orders, stages, micro_batches)
    return orders


def check_orders(orders: Sequence[Order], stages: int, micro_batches: int) -> None:
    """The same for operations that are read already; O and R are not among them.

    Raises `WrongSchedule`.
    """
    ranges = {"stage": stages, "micro_batch": micro_batches}
    for rank, order in enumerate(orders):
        if not order:
            raise WrongSchedule(
                rank,
                None,
                "runs nothing, and PyTorch needs a stage on every rank.",
                "Leave the row (the device) out.",
            )
        for cell in order:
            _check_ranges(rank, cell, ranges)
    rank_of = _ranks_of_stages(orders, stages)
    _check_each_once(orders, rank_of, micro_batches)
    for rank, order in enumerate(orders):
        _check_backward_after_forward(rank, order)
    _check_losses(orders[rank_of[stages - 1]], rank_of[stages - 1], stages - 1)
    _check_deadlock(orders, stages)


def _rows(text: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader(io.StringIO(text))
    except csv.Error as error:
        raise WrongSchedule(
            None, None, f"The table cannot be read: {error}.", "Write cells with commas between."
        ) from error


def _read(rank: int, field: str) -> Cell:
    cell = parsed(field)
    if cell is None:
        raise WrongSchedule(
            rank,
            field if len(field) <= SHOWN else f"{field[:SHOWN]}…",
            "is no operation, although PyTorch may take its beginning for one.",
            "Write stage, kind and micro-batch and nothing else, as in 2F0.",
        )
    if cell.kind not in COMPUTE:
        raise WrongSchedule(
            rank,
            field,
            "is no computation, and a compute-only table has nothing else.",
            f"Give only {', '.join(COMPUTE)}; offloads (O) and reloads (R) need torch-schedule.",
        )
    return cell


def _check_ranges(rank: int, cell: Cell, ranges: Mapping[str, int]) -> None:
    for field, count in ranges.items():
        if getattr(cell, field) >= count:
            name = field.replace("_", "-")
            raise WrongSchedule(
                rank,
                str(cell),
                f"there is no {name} {getattr(cell, field)}.",
                f"Give a {name} from 0 to {count - 1}.",
            )


def _ranks_of_stages(orders: Sequence[Order], stages: int) -> dict[int, int]:
    rank_of: dict[int, int] = {}
    for rank, order in enumerate(orders):
        for cell in order:
            other = rank_of.setdefault(cell.stage, rank)
            if other != rank:
                raise WrongSchedule(
                    rank,
                    str(cell),
                    f"stage {cell.stage} is on rank {other} already.",
                    "Run all operations of a stage on one rank.",
                )
    for stage in range(stages):
        if stage not in rank_of:
            raise WrongSchedule(
                None, None, f"No rank runs stage {stage}.", "Give each stage to a rank."
            )
    return rank_of


def _check_each_once(
    orders: Sequence[Order], rank_of: Mapping[int, int], micro_batches: int
) -> None:
    seen: set[Cell] = set()
    for rank, order in enumerate(orders):
        for cell in order:
            if cell in seen:
                raise WrongSchedule(
                    rank, str(cell), "is there twice.", "Run each operation once per micro-batch."
                )
            seen.add(cell)
            clash = _other_backward(cell, seen)
            if clash is not None:
                raise WrongSchedule(
                    rank,
                    str(cell),
                    f"repeats the backward of {clash}.",
                    "Give either B, or I and W.",
                )
    for stage, rank in sorted(rank_of.items()):
        for micro_batch in range(micro_batches):
            _check_complete(rank, stage, micro_batch, seen)


def _other_backward(cell: Cell, seen: set[Cell]) -> Cell | None:
    others = "IW" if cell.kind == "B" else "B" if cell.kind in "IW" else ""
    for kind in others:
        if cell._replace(kind=kind) in seen:
            return cell._replace(kind=kind)
    return None


def _check_complete(rank: int, stage: int, micro_batch: int, seen: set[Cell]) -> None:
    def lacks(kind: str) -> bool:
        return Cell(stage, kind, micro_batch) not in seen

    if lacks("F"):
        missing, why = "F", "never runs forward"
    elif lacks("B") and lacks("I"):
        missing, why = "B", "never runs backward"
    elif lacks("B") and lacks("W"):
        missing, why = "W", "runs backward for its input only"
    else:
        return
    cell = Cell(stage, missing, micro_batch)
    raise WrongSchedule(
        rank,
        str(cell),
        f"is missing: micro-batch {micro_batch} {why} on stage {stage}.",
        "Add it" + (", or I and W." if missing == "B" else "."),
    )


BEFORE = {"B": "F", "I": "F", "W": "I"}
"""What must have run on the same stage."""


def _check_backward_after_forward(rank: int, order: Order) -> None:
    done: set[Cell] = set()
    for cell in order:
        before = BEFORE.get(cell.kind)
        if before is not None and cell._replace(kind=before) not in done:
            raise WrongSchedule(
                rank,
                str(cell),
                f"comes before {cell._replace(kind=before)}.",
                "Put it after that.",
            )
        done.add(cell)


def _check_losses(order: Order, rank: int, last_stage: int) -> None:
    """PyTorch appends losses as they are computed, and takes them by the micro-batch's number."""
    forwards = [cell for cell in order if cell.stage == last_stage and cell.kind == "F"]
    for position, cell in enumerate(forwards):
        if cell.micro_batch != position:
            raise WrongSchedule(
                rank,
                str(cell),
                "the last stage's forwards are out of order, with which PyTorch computes wrong "
                "gradients.",
                f"Number the micro-batches so that this one is {position}.",
            )


def _check_deadlock(orders: Sequence[Order], stages: int) -> None:
    """Run all ranks as far as they get."""
    done: set[Cell] = set()
    position = [0] * len(orders)
    waiting: dict[Cell, int] = {}
    ready = deque(range(len(orders)))
    while ready:
        rank = ready.popleft()
        while position[rank] < len(orders[rank]):
            cell = orders[rank][position[rank]]
            need = _needs(cell, stages)
            if need and done.isdisjoint(need):
                waiting.update(dict.fromkeys(need, rank))
                break
            done.add(cell)
            position[rank] += 1
            if cell in waiting:
                ready.append(waiting.pop(cell))
    for rank, order in enumerate(orders):
        if position[rank] < len(order):
            cell = order[position[rank]]
            raise WrongSchedule(
                rank,
                str(cell),
                f"waits for {_needs(cell, stages)[0]}, which waits for it in the end: a deadlock.",
                "Change the order of one of the ranks between them.",
            )


def _needs(cell: Cell, stages: int) -> tuple[Cell, ...]:
    """What must have run on another stage before a computation: any one of these."""
    stage, kind, micro_batch = cell
    if kind == "F" and stage:
        return (Cell(stage - 1, "F", micro_batch),)
    if kind in "BI" and stage + 1 < stages:
        return Cell(stage + 1, "I", micro_batch), Cell(stage + 1, "B", micro_batch)
    return ()
