"""Reads the schedules that `loadmaster export … --to torch-schedule` writes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from client.torch_runner.errors import ScheduleError

FORMAT = "loadmaster-torch-schedule"
VERSION = 1
_ACTION = re.compile(r"(\d+)([FIWBOR])(\d+)", re.ASCII)


class Action(NamedTuple):
    """One operation of a stage on a micro-batch: F, I, W, B (I and W in one), O or R."""

    stage: int
    kind: str
    micro_batch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.micro_batch}"


@dataclass(frozen=True)
class Schedule:
    """What each rank runs.

    `actions` has per rank its operations in order, `after` what an operation waits for besides,
    on its own rank or on others. `peak_bytes` and `peak_bytes_in_turn` are the predicted peaks of
    each rank's activations: with copies beside the computation, and with one operation at a time.
    """

    micro_batches: int
    rank_of_stage: tuple[int, ...]
    is_split: tuple[bool, ...]
    actions: tuple[tuple[Action, ...], ...]
    after: Mapping[Action, tuple[Action, ...]]
    peak_bytes: tuple[int, ...]
    peak_bytes_in_turn: tuple[int, ...]

    @property
    def has_offloads(self) -> bool:
        """Whether any rank offloads."""
        return any(action.kind in "OR" for own in self.actions for action in own)

    def stages_of(self, rank: int) -> list[int]:
        """The stages of a rank, ascending."""
        return [stage for stage, own in enumerate(self.rank_of_stage) if own == rank]

    def awaited_elsewhere(self, rank: int) -> frozenset[Action]:
        """The operations of a rank that operations of others wait for."""
        return frozenset(
            early
            for late, own in self.after.items()
            for early in own
            if self.rank_of_stage[early.stage] == rank != self.rank_of_stage[late.stage]
        )


def load_schedule(path: str | Path) -> Schedule:
    """Read a schedule and check it.

    Raises `ScheduleError` if it is no such file, of another version, or would run wrongly.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ScheduleError(f"{path}: no schedule could be read: {error}") from error
    return read_schedule(document)


def read_schedule(document: Any) -> Schedule:
    """The same from the document in the file."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ScheduleError(
            "This is no schedule for the runner. Write one with "
            "`loadmaster export JOB --to torch-schedule`."
        )
    if document.get("version") != VERSION:
        raise ScheduleError(
            f"The schedule has version {document.get('version')}, and this runner reads version "
            f"{VERSION}. Export it with the Loadmaster that the runner comes from."
        )
    try:
        schedule = _schedule(document)
    except (KeyError, TypeError, IndexError) as error:
        raise ScheduleError(f"The schedule is damaged: {error!r}. Export it again.") from error
    _check(schedule)
    return schedule


def _schedule(document: Mapping[str, Any]) -> Schedule:
    stages, ranks = document["stages"], document["ranks"]
    return Schedule(
        micro_batches=document["micro_batches"],
        rank_of_stage=tuple(stage["rank"] for stage in stages),
        is_split=tuple(stage["split"] for stage in stages),
        actions=tuple(_actions(rank["actions"]) for rank in ranks),
        after={
            _action(late): _actions(early)
            for rank in ranks
            for late, early in rank["after"].items()
        },
        peak_bytes=tuple(rank["peak_bytes"] for rank in ranks),
        peak_bytes_in_turn=tuple(rank["peak_bytes_in_turn"] for rank in ranks),
    )


def _actions(texts: Iterable[str]) -> tuple[Action, ...]:
    return tuple(map(_action, texts))


def _action(text: str) -> Action:
    match = _ACTION.fullmatch(text)
    if match is None:
        raise ScheduleError(f"{text!r} is no action. Actions are written like 2F0.")
    return Action(int(match[1]), match[2], int(match[3]))


BEFORE = {"B": "FR", "I": "FR", "W": "I", "O": "F", "R": "O"}
"""Per kind what comes before it of its stage and micro-batch, where that is there."""


def _check(schedule: Schedule) -> None:
    """What PyTorch does not notice itself, and what it does not know."""
    known = {action for own in schedule.actions for action in own}
    for rank, own in enumerate(schedule.actions):
        _check_order(schedule, rank, own)
    for stage in range(len(schedule.rank_of_stage)):
        for micro_batch in range(schedule.micro_batches):
            has = "".join(kind for kind in "FIWBOR" if Action(stage, kind, micro_batch) in known)
            if has not in ("FIW", "FB", "FIWOR", "FBOR"):
                raise ScheduleError(
                    f"Stage {stage} runs {has or 'nothing'} of micro-batch {micro_batch}. It needs "
                    "F and either B or I and W, and O and R only together."
                )
    for late, own in schedule.after.items():
        for action in (late, *own):
            if action not in known:
                raise ScheduleError(f"{late} waits for {own}, but no rank runs {action}.")
    last = len(schedule.rank_of_stage) - 1
    order = schedule.actions[schedule.rank_of_stage[last]]
    forwards = [a.micro_batch for a in order if a.kind == "F" and a.stage == last]
    if forwards != sorted(forwards):
        raise ScheduleError(
            "The last stage's forwards are out of order, with which PyTorch computes wrong "
            "gradients. Number the micro-batches in the order in which it runs them."
        )


def _check_order(schedule: Schedule, rank: int, order: Sequence[Action]) -> None:
    twice = [action for action, times in Counter(order).items() if times > 1]
    if twice:
        raise ScheduleError(f"Rank {rank} runs {twice[0]} twice.")
    place = {action: position for position, action in enumerate(order)}
    for action in order:
        if action.stage not in schedule.stages_of(rank):
            raise ScheduleError(f"Rank {rank} runs {action}, but has no stage {action.stage}.")
        if action.micro_batch >= schedule.micro_batches:
            raise ScheduleError(
                f"Rank {rank} runs {action}, but there are {schedule.micro_batches} micro-batches."
            )
        for kind in BEFORE.get(action.kind, ""):
            before = action._replace(kind=kind)
            if place.get(before, -1) > place[action]:
                raise ScheduleError(f"Rank {rank} runs {action} before {before}.")
