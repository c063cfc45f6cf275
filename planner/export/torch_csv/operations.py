"""The timed operations of a schedule's document, whoever wrote it."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, get_args

from planner.errors import WrongSchedule
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import OpKind, TimedOp

KINDS = get_args(OpKind)


def read_operations(documents: Iterable[Any], problem: PipelineProblem) -> list[TimedOp]:
    """In the document's order. Raises `WrongSchedule` at the first that is none, which names
    the field and the remedy."""
    ends = {"stage": len(problem.stages), "micro_batch": problem.micro_batches}
    return [_read(f"ops.{place}", document, ends) for place, document in enumerate(documents)]


def _read(where: str, document: Any, ends: Mapping[str, int]) -> TimedOp:
    if not isinstance(document, Mapping):
        _refuse(where, document, f"Give an object with {', '.join(TimedOp._fields)}.")
    kind = document["op"]
    if kind not in KINDS:
        _refuse(f"{where}.op", kind, f"Give one of {', '.join(KINDS)}.")
    stage, micro_batch, start_ns, end_ns = (
        _whole(where, field, document[field]) for field in TimedOp._fields[1:]
    )
    for field, value in (("stage", stage), ("micro_batch", micro_batch)):
        if value >= ends[field]:
            _refuse(f"{where}.{field}", value, f"The problem has 0 to {ends[field] - 1}.")
    if end_ns < start_ns:
        _refuse(f"{where}.end_ns", end_ns, f"It starts at {start_ns}: give no earlier end.")
    return TimedOp(kind, stage, micro_batch, start_ns, end_ns)


def _whole(where: str, field: str, value: Any) -> int:
    if type(value) is not int or value < 0:
        _refuse(f"{where}.{field}", value, "Give a whole number, 0 or more.")
    return value


def _refuse(where: str, value: Any, remedy: str) -> NoReturn:
    raise WrongSchedule(None, None, f"{where} cannot be {reprlib.repr(value)}.", remedy)
