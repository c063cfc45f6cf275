"""The comparison's rows: what they are computed on, whether they fit, and why not."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings

from planner.errors import Interrupted
from planner.pipeline.classic import rows, schedules
from planner.pipeline.classic.placement import (
    Placement,
    interleaved,
    is_interleaved,
    is_one_chunk,
    is_v_shape,
    merged,
    v_shape,
)
from planner.pipeline.classic.rows import (
    NOT_REACHED,
    TOO_LARGE,
    ClassicRow,
    Shortage,
    comparison_rows,
    row_document,
)
from planner.pipeline.classic.schedules import TimedClassic
from planner.pipeline.documents import problem_to_document, read_problem
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.verify import verify
from planner.sizes import GIB
from tests import referee
from tests.problems import problems, uniform_problem

ONE_CHUNK = ["GPipe", "1F1B", "ZB-H1", "ZB-H2"]
INTERLEAVED = ["Interleaved 1F1B", "GIS", "GIS-H", "PO-H", "PO-F"]
V_SHAPED = ["ZB-V", "V-Half", "V-Min"]
OFFLOADING = ["PO-H", "PO-F", "PipeOffload"]


def by_name(problem: PipelineProblem) -> dict[str, ClassicRow]:
    return {row.name: row for row in comparison_rows(problem)}


def totals(problem: PipelineProblem) -> list[tuple[int, ...]]:
    """What each device has of times and bytes, all micro-batches added up."""
    return [
        tuple(
            sum(sum(getattr(problem.stages[s], name)) for s in stages)
            for name in (
                "forward_ns",
                "backward_input_ns",
                "backward_weight_ns",
                "activation_bytes",
                "weight_grad_bytes",
                "offload_bytes",
                "offload_ns",
                "reload_ns",
            )
        )
        for stages in problem.stages_of_device
    ]


@settings(max_examples=60, deadline=None)
@given(problem=problems())
def test_no_unit_of_work_or_memory_is_lost(problem: PipelineProblem) -> None:
    one = merged(problem)
    assert is_one_chunk(one)
    assert is_interleaved(interleaved(one))
    assert is_v_shape(v_shape(one))
    for other in (one, interleaved(one), v_shape(one)):
        assert totals(other) == totals(problem)
        assert len(other.transfers) == len(other.stages) - 1


@settings(max_examples=40, deadline=None)
@given(problem=problems())
def test_rows_that_fit_are_valid(problem: PipelineProblem) -> None:
    for row in comparison_rows(problem):
        if row.schedule is None:
            assert row.reason
            assert not row.fits
            continue
        violations, figures = referee.check(
            problem_to_document(row.problem), row.schedule.to_document(lower_bound_ns=None)
        )
        assert bool(violations) == (not row.fits), (row.name, row.reason, violations)
        if row.fits:
            assert verify(row.problem, row.schedule) == []
            assert row.bubble_ratio == figures["bubble_ratio"]
        else:
            assert all("capacity" in violation for violation in violations)


def test_placements_of_a_one_chunk_problem() -> None:
    rows = list(comparison_rows(uniform_problem(offload_bytes=3, offload_ns=2, reload_ns=2)))
    assert [row.name for row in rows][-1] == "PipeOffload"
    assert {row.name: row.placement for row in rows} == {
        **dict.fromkeys([*ONE_CHUNK, "PipeOffload"], Placement.AS_POSTED),
        **dict.fromkeys(INTERLEAVED, Placement.INTERLEAVED),
        **dict.fromkeys(V_SHAPED, Placement.V_SHAPE),
    }
    for row in rows:
        assert row.hypothetical == (row.placement is not Placement.AS_POSTED)
        assert row.schedule is not None


@pytest.mark.parametrize(
    ("placement", "posted"),
    [([0, 1, 2, 0, 1, 2], INTERLEAVED), ([0, 1, 2, 2, 1, 0], V_SHAPED)],
    ids=["interleaved", "v_shape"],
)
def test_two_chunks_as_posted(placement: list[int], posted: list[str]) -> None:
    rows = by_name(uniform_problem(devices=3, placement=placement))
    as_posted = {name for name, row in rows.items() if not row.hypothetical}
    assert as_posted == {*posted, "PipeOffload"}
    assert rows["1F1B"].placement is Placement.ONE_CHUNK
    assert len(rows["1F1B"].problem.stages) == 3


def test_a_row_that_is_not_reached_says_so() -> None:
    problem = uniform_problem(offload_bytes=3, offload_ns=2, reload_ns=2)
    for row in comparison_rows(problem, lambda: True):
        assert row.schedule is None
        assert not row.fits
        assert row.reason == NOT_REACHED
        assert row_document(row)["makespan_ns"] is None


def test_a_family_cut_short_is_not_judged_by_members_that_do_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = uniform_problem(limit=1, offload_bytes=3, offload_ns=2, reload_ns=2)

    def cut_short(given: PipelineProblem, _: object) -> Iterator[TimedClassic]:
        yield schedules.one_forward_one_backward_schedule(given)
        raise Interrupted("the time was up")

    monkeypatch.setattr(rows, "_pipe_offload_family", cut_short)
    row = by_name(problem)["PipeOffload"]
    assert (row.schedule, row.fits, row.reason) == (None, False, NOT_REACHED)


def test_too_many_operations_for_the_dispatcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "DISPATCHED_OPERATIONS", 0)
    offload = {"offload_bytes": 3, "offload_ns": 2, "reload_ns": 2}
    row = by_name(uniform_problem(devices=2, placement=[0, 0, 1, 1], **offload))["PipeOffload"]
    assert row.reason == TOO_LARGE
    assert row.schedule is None
    row = by_name(uniform_problem(**offload))["PipeOffload"]
    assert row.fits
    assert row.schedule is not None


@pytest.mark.parametrize("placement", [[0, 1, 2, 0, 1, 2], [0, 1, 2, 2, 1, 0]])
def test_pipe_offload_is_the_best_of_its_family(placement: list[int]) -> None:
    offload = {"offload_bytes": 4, "offload_ns": 10, "reload_ns": 10}
    problem = uniform_problem(devices=3, placement=placement, micro_batches=9, limit=20, **offload)
    rows = by_name(problem)
    best = rows["PipeOffload"]
    assert best.fits
    assert best.timed is not None
    for name in ("PO-H", "PO-F"):
        row = rows[name]
        if row.fits and not row.hypothetical:
            assert row.timed is not None
            assert best.timed.makespan_ns <= row.timed.makespan_ns


def test_three_rounds_are_interleaved_as_posted() -> None:
    row = by_name(uniform_problem(devices=2, chunks=3, micro_batches=4))["Interleaved 1F1B"]
    assert row.placement is Placement.AS_POSTED
    assert row.schedule is not None
    assert verify(row.problem, row.schedule) == []


def test_out_of_memory_names_device_bytes_and_limit() -> None:
    row = by_name(uniform_problem(limit=8))["1F1B"]
    assert not row.fits
    assert row.reason == (
        "out of memory: device 0 needs 16 bytes and has 8 bytes, 8 bytes too little"
    )
    assert row.schedule is not None
    document = row_document(row)
    assert document["fits"] is False
    assert document["shortage"] == {
        "device": 0,
        "host": None,
        "needed_bytes": 16,
        "limit_bytes": 8,
    }


def test_sizes_of_a_shortage_are_said_in_gib_and_given_in_bytes() -> None:
    limit = 3 * GIB
    row = by_name(uniform_problem(activation_bytes=GIB, weight_grad_bytes=0, limit=limit))["1F1B"]
    assert row.reason == (
        "out of memory: device 0 needs 4.00 GiB and has 3.00 GiB, 1.00 GiB too little"
    )
    assert row.shortage == Shortage(0, None, 4 * GIB, limit)


def test_a_row_that_lacks_no_memory_has_no_shortage() -> None:
    for row in by_name(uniform_problem()).values():
        assert row_document(row)["shortage"] is None


def test_fused_backward_is_said() -> None:
    rows = by_name(uniform_problem(backward_weight_ns=0, weight_grad_bytes=0))
    for name in ("ZB-H1", "ZB-H2", *V_SHAPED):
        assert rows[name].fits
        assert "fused" in (rows[name].reason or "")
    first, second = rows["ZB-H1"].schedule, rows["1F1B"].schedule
    assert first is not None
    assert second is not None
    assert first.makespan_ns == second.makespan_ns


@pytest.mark.parametrize("name", OFFLOADING)
def test_offloading_schedules_need_something_to_offload(name: str) -> None:
    row = by_name(uniform_problem())[name]
    assert row.schedule is None
    assert not row.fits
    assert row.reason == "no stage can offload anything"
    document = row_document(row)
    assert document["makespan_ns"] is None
    assert document["bubble_ratio"] is None
    json.dumps(document)


def test_pipe_offload_fits_where_1f1b_does_not() -> None:
    rows = by_name(uniform_problem(limit=8, offload_bytes=3, offload_ns=6, reload_ns=6))
    row = rows["PipeOffload"]
    assert not rows["1F1B"].fits
    assert row.fits
    assert row.schedule is not None
    assert row.schedule.offloads > 0
    assert verify(row.problem, row.schedule) == []


def test_pipe_offload_obeys_a_shared_half_duplex_link_and_host_memory() -> None:
    problem = uniform_problem(
        limit=9, offload_bytes=3, offload_ns=6, reload_ns=7, hosts=[{"memory_bytes": 9}]
    )
    document = problem_to_document(problem)
    document["host_link_duplex"] = "half"
    for device in document["devices"]:
        device["host_link"] = "switch"
    row = by_name(read_problem(document))["PipeOffload"]
    assert row.fits
    assert row.schedule is not None
    violations, _ = referee.check(document, row.schedule.to_document(lower_bound_ns=None))
    assert violations == []


def test_no_offloading_row_fits_an_infeasible_problem() -> None:
    problem = uniform_problem(limit=3, offload_bytes=3, offload_ns=1, reload_ns=1)
    row = by_name(problem)["PipeOffload"]
    assert not row.fits
    assert "out of memory" in (row.reason or "")
