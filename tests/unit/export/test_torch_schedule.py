"""Schedules for the PyTorch runner: ranks that follow them keep every limit and never get stuck."""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.errors import CannotExport
from planner.export.format import Source
from planner.export.registry import export
from planner.export.torch_csv.cells import Cell, parsed
from planner.pipeline.documents import problem_to_document
from planner.pipeline.effects import memory_effects, memory_limits
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.robust.any_durations import verify_any_durations
from planner.pipeline.robust.waits import with_waits
from planner.pipeline.schedule import Schedule, Token
from tests.problems import problems
from tests.random_schedules import random_schedule


def written(problem: PipelineProblem, schedule: Schedule) -> dict[str, Any]:
    part = {"problem": problem_to_document(problem), "schedule": schedule.to_document(None)}
    document: dict[str, Any] = json.loads(export(Source("pipeline", part), "torch-schedule")[1])
    return document


def cell(text: str) -> Cell:
    found = parsed(text)
    assert found is not None
    return found


def token(own: Cell) -> Token:
    return Token("B" if own.kind == "I" else own.kind, own.stage, own.micro_batch)


def run(problem: PipelineProblem, document: dict[str, Any], random: Random) -> list[int]:
    """Run all ranks, each one operation after the other, whichever is ready; each rank's peak.

    Asserts that all limits hold and that everything is run.
    """
    orders = [list(map(cell, rank["actions"])) for rank in document["ranks"]]
    after = {
        cell(late): set(map(cell, early))
        for rank in document["ranks"]
        for late, early in rank["after"].items()
    }
    limits, used = memory_limits(problem), defaultdict(int)
    peaks = [0] * len(orders)
    done: set[Cell] = set()
    while any(orders):
        ready = [own for own in orders if own and _may_run(problem, own[0], after, done)]
        assert ready, "deadlock"
        own = random.choice(ready).pop(0)
        for key, allocated, freed in memory_effects(problem, token(own)):
            used[key] += allocated
            assert used[key] <= limits.get(key, used[key])
            if key[0] == "device":
                peaks[key[1]] = max(peaks[key[1]], used[key])
            used[key] -= freed
        done.add(own)
    return peaks


def _may_run(
    problem: PipelineProblem, own: Cell, after: dict[Cell, set[Cell]], done: set[Cell]
) -> bool:
    if not after.get(own, set()) <= done:
        return False
    if own.kind == "F":
        return own.stage == 0 or own._replace(stage=own.stage - 1) in done
    if own.kind in "BI" and own.stage + 1 < len(problem.stages):
        return any(own._replace(stage=own.stage + 1, kind=kind) in done for kind in "BI")
    return True


@settings(max_examples=150, deadline=None)
@given(
    problems(micro_batch_order="fixed", offload=True, memory="tight", hosts=True),
    st.randoms(use_true_random=False),
)
def test_ranks_that_follow_a_schedule_keep_the_limits(
    problem: PipelineProblem, random: Random
) -> None:
    assume(all(problem.stages_of_device) and find_infeasibility(problem) is None)
    schedule = with_waits(problem, random_schedule(problem, random))
    assume(verify_any_durations(problem, schedule) == [])
    document = written(problem, schedule)
    peaks = run(problem, document, random)
    assert peaks == [rank["peak_bytes_in_turn"] for rank in document["ranks"]]
    assert [rank["peak_bytes"] for rank in document["ranks"]] == list(schedule.peak_memory_bytes)


STAGE = {"forward_ns": 10, "backward_input_ns": 10, "backward_weight_ns": 5}
MOVED = {"activation_bytes": 8, "offload_bytes": 6, "offload_ns": 4, "reload_ns": 4}


def op(kind: str, stage: int, start_ns: int, end_ns: int) -> dict[str, Any]:
    own = {"op": kind, "stage": stage, "micro_batch": 0}
    return {**own, "start_ns": start_ns, "end_ns": end_ns}


PART: dict[str, Any] = {
    "problem": {
        "micro_batches": 1,
        "devices": [{"host_link": "switch", "activation_memory_bytes": 8}] * 2,
        "stages": [{"device": 0, **STAGE, **MOVED}, {"device": 1, **STAGE, **MOVED}],
    },
    "schedule": {
        "ops": [
            *(op("F", 0, 0, 10), op("O", 0, 10, 14), op("F", 1, 10, 20), op("O", 1, 20, 24)),
            *(op("R", 1, 24, 28), op("R", 0, 28, 32), op("B", 1, 28, 38), op("W", 1, 38, 43)),
            *(op("B", 0, 38, 48), op("W", 0, 48, 53)),
        ],
        "makespan_ns": 53,
        "peak_memory_bytes": [8, 8],
        "waits": [
            {"op": "R", "stage": 0, "micro_batch": 0, "after": [
                {"op": "F", "stage": 1, "micro_batch": 0}]},
        ],
    },
}  # fmt: skip


def test_the_document_has_orders_waits_and_peaks() -> None:
    text = export(Source("pipeline", PART), "torch-schedule")[1]
    assert json.loads(text) == {
        "format": "loadmaster-torch-schedule",
        "version": 1,
        "micro_batches": 1,
        "stages": [{"rank": 0, "split": True}, {"rank": 1, "split": True}],
        "makespan_ns": 53,
        "ranks": [
            {
                "actions": ["0F0", "0O0", "0R0", "0I0", "0W0"],
                # The link's other device comes before, and so does what the schedule says.
                "after": {"0R0": ["1F0", "1R0"]},
                "peak_bytes": 8,
                "peak_bytes_in_turn": 8,
            },
            {
                "actions": ["1F0", "1O0", "1R0", "1I0", "1W0"],
                "after": {"1O0": ["0O0"]},
                "peak_bytes": 8,
                "peak_bytes_in_turn": 8,
            },
        ],
    }


def test_without_waits_a_schedule_with_offloads_is_not_safe() -> None:
    schedule = {key: value for key, value in PART["schedule"].items() if key != "waits"}
    with pytest.raises(CannotExport, match="time_limit_s"):
        export(Source("pipeline", {**PART, "schedule": schedule}), "torch-schedule")


Ops = list[dict[str, Any]]


def moved(ops: Ops, kind: str, start_ns: int) -> None:
    """Start an operation of the first stage at another time."""
    own = next(own for own in ops if (own["op"], own["stage"]) == (kind, 0))
    own |= {"start_ns": start_ns, "end_ns": start_ns + 4}


def without(ops: Ops, *kinds: str) -> None:
    ops[:] = [own for own in ops if own["stage"] or own["op"] not in kinds]


@pytest.mark.parametrize(
    ("change", "cell", "words"),
    [
        (lambda ops: moved(ops, "R", 9), "0R0", "comes before 0O0"),
        (lambda ops: without(ops, "R"), "0O0", "never reloaded.*Add 0R0"),
        (lambda ops: without(ops, "O"), "0R0", "never offloaded.*Add 0O0"),
        (lambda ops: ops.append(op("O", 0, 15, 19)), "0O0", "twice"),
        (lambda ops: ops.append(op("R", 0, 33, 37)), "0R0", "twice"),
        (lambda ops: moved(ops, "R", 49), "0I0", "comes before 0R0"),
        (lambda ops: moved(ops, "O", 0) or ops.insert(0, ops.pop(1)), "0O0", "comes before 0F0"),
        (lambda ops: moved(ops, "F", 21) or moved(ops, "O", 26), "1F0", "comes before 0F0"),
    ],
    ids=[
        *("R before O", "O without R", "R without O", "O twice", "R twice", "R after its backward"),
        *("O before F", "F before the F that it needs"),
    ],
)
def test_a_schedule_that_moves_wrongly_is_refused(change: Any, cell: str, words: str) -> None:
    part = copy.deepcopy(PART)
    change(part["schedule"]["ops"])
    with pytest.raises(CannotExport, match=f"rank {cell[0]}, cell '{cell}': .*{words}"):
        export(Source("pipeline", part), "torch-schedule")


def test_a_wait_for_what_comes_later_is_refused() -> None:
    part = copy.deepcopy(PART)
    (wait,) = part["schedule"]["waits"]
    wait["after"] = [{"op": "W", "stage": 0, "micro_batch": 0}]
    with pytest.raises(CannotExport, match="cell '0R0': comes before 0W0"):
        export(Source("pipeline", part), "torch-schedule")
