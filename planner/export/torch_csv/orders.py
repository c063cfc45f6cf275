"""What each rank runs, in PyTorch's notation, from the documents of a problem and a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

from planner.errors import CannotExport
from planner.export.torch_csv.cells import Cell
from planner.export.torch_csv.check import check_orders
from planner.export.torch_csv.operations import read_operations
from planner.pipeline.documents import read_problem
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import TimedOp, Token

NOT_ALIKE = (
    "On the last stage the micro-batches run in another order than theirs, with which PyTorch "
    "computes wrong gradients, and they cannot be numbered anew because their costs differ. Solve "
    "the problem with micro_batch_order: fixed."
)


@dataclass(frozen=True)
class RankOrders:
    """A schedule as ranks run it: without a clock, micro-batches numbered as PyTorch needs them.

    `ops` are the timed operations in sequence (by start; where starts are equal, as listed) under
    the schedule's own numbers, and `number_of` has PyTorch's.
    """

    problem: PipelineProblem
    ops: tuple[TimedOp, ...]
    number_of: Mapping[int, int]

    @cached_property
    def of_rank(self) -> list[list[TimedOp]]:
        """The operations of each device, in its order."""
        own: list[list[TimedOp]] = [[] for _ in self.problem.devices]
        for op in self.ops:
            own[self.problem.stages[op.stage].device].append(op)
        return own

    def cell(self, token: Token) -> Cell:
        """An operation of the schedule in PyTorch's notation, under its new number."""
        kind = token.op
        split = self.problem.stages[token.stage].has_weight_op(token.micro_batch)
        name = ("I" if split else "B") if kind == "B" else kind
        return Cell(token.stage, name, self.number_of[token.micro_batch])

    def computations(self) -> list[list[Cell]]:
        """Per rank its operations but O and R."""
        return [
            [self.cell(op.token) for op in order if op.op not in "OR"] for order in self.of_rank
        ]


def read_part(part: Mapping[str, Any]) -> tuple[PipelineProblem, list[TimedOp]]:
    """The problem of a part with `problem` and `schedule`, and its operations in sequence. Raises
    `SpecError` or `WrongSchedule` where they are none."""
    problem = read_problem(part["problem"])
    ops = read_operations(part["schedule"]["ops"], problem)
    return problem, sorted(ops, key=attrgetter("start_ns"))


def rank_orders(problem: PipelineProblem, ops: Sequence[TimedOp]) -> RankOrders:
    """The orders of operations in sequence, whose computations are checked.

    Where the last stage's forwards are not in the order of the micro-batches, these are numbered
    anew, if they are alike. Raises `CannotExport` where they are not, `WrongSchedule` where the
    computations could not be run.
    """
    whole = RankOrders(problem, tuple(ops), _numbers(problem, ops))
    check_orders(whole.computations(), len(problem.stages), problem.micro_batches)
    return whole


def _numbers(problem: PipelineProblem, ops: Sequence[TimedOp]) -> dict[int, int]:
    last = len(problem.stages) - 1
    forwards = [op.micro_batch for op in ops if op.op == "F" and op.stage == last]
    if forwards == sorted(forwards) or sorted(forwards) != list(range(problem.micro_batches)):
        # In order, or not complete, which the check of the orders says better.
        return {m: m for m in range(problem.micro_batches)}
    if not problem.alike:
        raise CannotExport(NOT_ALIKE)
    return {micro_batch: number for number, micro_batch in enumerate(forwards)}
