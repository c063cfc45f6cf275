"""The order of operations for PyTorch: what is written, and what never is."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.errors import CannotExport, WrongSchedule
from planner.export.format import Source
from planner.export.registry import export, formats_of
from planner.export.torch_csv.check import check_csv
from planner.pipeline.documents import problem_to_document
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.robust.waits import with_waits
from tests.problems import problems
from tests.random_schedules import random_schedule

TWO_RANKS = "0F0,0F1,0I0,0W0,0B1\r\n1F0,1B0,1F1,1I1,1W1\r\n"
"""Right: two stages, two micro-batches, fused and split backwards."""


def op(kind: str, stage: int, micro_batch: int, start_ns: int) -> dict[str, Any]:
    return {
        "op": kind,
        "stage": stage,
        "micro_batch": micro_batch,
        "start_ns": start_ns,
        "end_ns": start_ns + 10,
    }


def answer(ops: list[dict[str, Any]], devices: list[int], **quantities: Any) -> dict[str, Any]:
    stage = {"forward_ns": 10, "backward_input_ns": 10, **quantities}
    micro_batches = 1 + max(own["micro_batch"] for own in ops)
    return {
        "problem": {
            "micro_batches": micro_batches,
            "micro_batch_order": "free",
            "devices": [{} for _ in range(max(devices) + 1)],
            "stages": [{"device": device, **stage} for device in devices],
        },
        "schedule": {"ops": ops, "makespan_ns": 1000, "peak_memory_bytes": [0] * len(devices)},
    }


def written(part: dict[str, Any], name: str = "torch-csv") -> str:
    return export(Source("pipeline", part), name)[1]


def out_of_order(**quantities: Any) -> dict[str, Any]:
    """Two stages on two ranks that both run micro-batch 1 first."""
    ops = [op("F", 0, 1, 0), op("F", 0, 0, 10), op("F", 1, 1, 10), op("B", 1, 1, 20)]
    ops += [op("F", 1, 0, 30), op("B", 1, 0, 40), op("B", 0, 1, 30), op("B", 0, 0, 50)]
    return answer(ops, [0, 1], **quantities)


def test_a_right_table_is_read() -> None:
    orders = check_csv(TWO_RANKS, stages=2, micro_batches=2)
    assert [len(order) for order in orders] == [5, 5]
    # Idle time is no operation.
    assert check_csv(TWO_RANKS.replace("0F1,", "0F1,,"), 2, 2) == orders


@pytest.mark.parametrize(
    ("table", "rank", "cell", "words"),
    [
        (TWO_RANKS.replace("1F0,1B0,1F1", "1F1,1F0,1B0"), 1, "1F1", "out of order"),
        (TWO_RANKS.replace("0I0,0W0,0B1", "0I0,0W0,0I0"), 0, "0I0", "twice"),
        (TWO_RANKS.replace("0F1,", "0F1,0F0,"), 0, "0F0", "twice"),
        (TWO_RANKS.replace(",0B1", ""), 0, "0B1", "never runs backward"),
        (TWO_RANKS.replace("0F1,", ""), 0, "0F1", "never runs forward"),
        (TWO_RANKS.replace("0W0,", ""), 0, "0W0", "for its input only"),
        (TWO_RANKS.replace("0I0,0W0", "0W0,0I0"), 0, "0W0", "before 0I0"),
        (TWO_RANKS.replace("0B1", "0B1,0W1"), 0, "0W1", "repeats the backward of 0B1"),
        (TWO_RANKS.replace("1F0,1B0", "1B0,1F0"), 1, "1B0", "before 1F0"),
        (TWO_RANKS.replace("0F1", "0F5"), 0, "0F5", "no micro-batch 5"),
        (TWO_RANKS.replace("0F1", "2F1"), 0, "2F1", "no stage 2"),
        (TWO_RANKS.replace("0F1", "0F1xyz"), 0, "0F1xyz", "no operation"),
        (TWO_RANKS.replace("0F1", "0F"), 0, "0F", "no operation"),
        (TWO_RANKS.replace("0F1", "F1"), 0, "F1", "no operation"),
        (TWO_RANKS.replace("0F1", "(0F1;0B0)OVERLAP_F_B"), 0, "(0F1;0B0)OVERLAP_F_B", "no op"),
        (TWO_RANKS.replace("0F1", "0F1,0O0"), 0, "0O0", "torch-schedule"),
        (TWO_RANKS.replace("0F1", f"{'1' * 5000}F1"), 0, f"{'1' * 40}…", "no operation"),
        (TWO_RANKS + "0" * 200_000, None, None, "cannot be read"),
        (TWO_RANKS.replace("0F1", "0UNSHARD0"), 0, "0UNSHARD0", "no computation"),
        (TWO_RANKS.replace("0F1", "1F1"), 1, "1F0", "stage 1 is on rank 0"),
        (TWO_RANKS + "\r\n", 2, None, "runs nothing"),
        ("0F0,0F1,0B0,0B1\r\n", None, None, "No rank runs stage 1"),
        (TWO_RANKS.replace("0F0,0F1,0I0", "0F0,0I0,0F1").replace("1B0,1F1", "1F1,1B0"), 0, "0I0",
         "deadlock"),
    ],
)  # fmt: skip
def test_a_wrong_table_is_refused(
    table: str, rank: int | None, cell: str | None, words: str
) -> None:
    with pytest.raises(WrongSchedule, match=words) as refused:
        check_csv(table, stages=2, micro_batches=2)
    assert (refused.value.rank, refused.value.cell) == (rank, cell)
    assert refused.value.remedy in str(refused.value)


def test_ranks_are_rows_in_their_order_on_any_mapping() -> None:
    ops = [op("F", 0, 0, 0), op("F", 1, 0, 10), op("F", 2, 0, 20), op("B", 2, 0, 30)]
    ops += [op("B", 1, 0, 40), op("W", 1, 0, 60), op("B", 0, 0, 50), op("W", 0, 0, 70)]
    part = answer(ops, [1, 0, 1], backward_weight_ns=10)
    part["problem"]["stages"][2]["backward_weight_ns"] = 0
    assert written(part) == "1F0,1I0,1W0\r\n0F0,2F0,2B0,0I0,0W0\r\n"


def test_alike_micro_batches_are_numbered_anew() -> None:
    assert written(out_of_order()) == "0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n"


def test_unlike_micro_batches_are_not() -> None:
    with pytest.raises(CannotExport, match="micro_batch_order: fixed"):
        written(out_of_order(activation_bytes=[1, 2]))


def test_a_schedule_with_offloads_is_for_the_runner() -> None:
    ops = [op("F", 0, 0, 0), op("O", 0, 0, 10), op("R", 0, 0, 20), op("B", 0, 0, 30)]
    part = answer(ops, [0], offload_bytes=1, activation_bytes=1, offload_ns=10, reload_ns=10)
    part["schedule"]["waits"] = []
    hindrances = {own.name: why for own, why in formats_of(Source("pipeline", part))}
    assert "torch-schedule" in str(hindrances["torch-csv"])
    assert hindrances["torch-schedule"] is None
    with pytest.raises(CannotExport, match="torch-schedule"):
        written(part)


def test_what_would_deadlock_is_never_written() -> None:
    part = out_of_order()
    for own in part["schedule"]["ops"]:
        own["start_ns"] = 0 if own["op"] == "B" else 10
    with pytest.raises(CannotExport, match="rank 0, cell '0B0': comes before 0F0"):
        written(part)


@settings(max_examples=100, deadline=None)
@given(problems(micro_batch_order="fixed", offload=False), st.randoms(use_true_random=False))
def test_every_schedule_in_fixed_order_is_written_under_its_own_numbers(
    problem: PipelineProblem, random: Random
) -> None:
    assume(all(problem.stages_of_device) and find_infeasibility(problem) is None)
    schedule = with_waits(problem, random_schedule(problem, random))
    document = schedule.to_document(None)
    table = written({"problem": problem_to_document(problem), "schedule": document})
    orders = check_csv(table, len(problem.stages), problem.micro_batches)
    for device, order in enumerate(orders):
        assert [(cell.stage, cell.micro_batch, cell.kind.replace("I", "B")) for cell in order] == [
            (own.stage, own.micro_batch, own.op)
            for own in schedule.ops
            if problem.stages[own.stage].device == device
        ]
        for cell in order:
            split = problem.stages[cell.stage].has_weight_op(cell.micro_batch)
            assert cell.kind in ("FIW" if split else "FB")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("op", None, "one of F, B, W, O, R"),
        ("op", "I", "one of F, B, W, O, R"),
        ("op", "", "one of F, B, W, O, R"),
        ("op", ["F"], "one of F, B, W, O, R"),
        ("stage", 2, "has 0 to 1"),
        ("stage", -1, "whole number"),
        ("stage", 1.0, "whole number"),
        ("stage", "0", "whole number"),
        ("micro_batch", 2, "has 0 to 1"),
        ("micro_batch", 0.5, "whole number"),
        ("micro_batch", None, "whole number"),
        ("micro_batch", True, "whole number"),
        ("start_ns", float("nan"), "whole number"),
        ("start_ns", "x", "whole number"),
        ("end_ns", 0, "no earlier end"),
    ],
)
@pytest.mark.parametrize("name", ["torch-csv", "torch-schedule"])
def test_what_is_no_operation_is_named(name: str, field: str, value: Any, words: str) -> None:
    part = out_of_order()
    part["schedule"]["ops"][2][field] = value
    with pytest.raises(CannotExport, match=rf"^ops\.2\.{field} cannot be .*{words}"):
        written(part, name)


@pytest.mark.parametrize("name", ["torch-csv", "torch-schedule"])
def test_an_entry_that_is_no_object_is_named(name: str) -> None:
    part = out_of_order()
    part["schedule"]["ops"][3] = None
    with pytest.raises(CannotExport, match="cannot be None"):
        written(part, name)
