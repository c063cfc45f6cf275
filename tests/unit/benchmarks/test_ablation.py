"""The ablation: variants of the solver, their course over time, and what is said of them."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.ablation.courses import Course, best_bound_ns, contradictions, courses, gap
from benchmarks.ablation.proof_rates import Rate, proof_rate, random_problem
from benchmarks.ablation.report import (
    adds_row,
    chart,
    gaps_row,
    mean_course,
    rates_table,
    record_of,
)
from benchmarks.ablation.sizes import Size, milp_sizes
from benchmarks.ablation.variants import AUTO, HEURISTICS, VARIANTS
from planner.pipeline.documents import read_problem
from planner.pipeline.feasibility.decide import find_infeasibility
from tests.benchmark_problems import benchmark_document, best_known

MS = 1_000_000
SMALL = random_problem(2, 2, 1)
"""Not proven by the heuristics, but within a moment by an engine."""


def course(variant: str, *values_ms: tuple[float, int], bound_ms: int = 0, **fields: Any) -> Course:
    known: dict[str, Any] = {
        "problem": "p",
        "variant": variant,
        "limit_s": 10.0,
        "seconds": 10.0,
        "cpu_s": 5.0,
        "values": [(at, value * MS) for at, value in values_ms],
        "bound_ns": bound_ms * MS,
        "proven_s": None,
        "exact": None,
        "wrong": None,
    }
    return Course(**{**known, **fields})


def all_variants() -> list[Course]:
    """The search shortens, CP-SAT proves, CBC and HiGHS do nothing."""
    return [
        course(HEURISTICS, (0.5, 200), (0.9, 100), bound_ms=70),
        course("+ local search", (0.9, 100), (5.0, 80), bound_ms=70),
        course("+ CBC", (0.9, 100), bound_ms=75),
        course("+ HiGHS", (0.9, 100), bound_ms=70),
        course("+ CP-SAT", (0.9, 100), (8.0, 80), bound_ms=80, proven_s=9.0),
        course(AUTO, (0.9, 100), (2.0, 80), bound_ms=80, proven_s=3.0),
    ]


def test_variants_leave_out_what_they_say() -> None:
    problem = benchmark_document("offload-4x8-tight")
    runs = {run.variant: run for run in courses("p", problem, 4.0, (HEURISTICS, "+ local search"))}
    heuristics, searched = runs[HEURISTICS], runs["+ local search"]
    assert heuristics.best_ns is not None
    assert searched.best_ns is not None
    assert searched.best_ns < heuristics.best_ns
    assert heuristics.exact is None
    assert searched.exact is None
    assert not list(contradictions([heuristics, searched]))


@pytest.mark.parametrize("variant", ["+ CBC", "+ HiGHS", "+ CP-SAT", AUTO])
def test_engines_prove_a_small_problem(variant: str) -> None:
    runs = list(courses("p", SMALL, 15.0, (HEURISTICS, variant)))
    assert runs[0].proven_s is None
    assert runs[1].proven_s is not None
    assert runs[1].bound_ns == runs[1].best_ns
    assert runs[1].exact is not None
    assert not list(contradictions(runs))


def test_the_gap_is_to_the_best_bound_that_any_variant_proves() -> None:
    runs = all_variants()
    assert best_bound_ns(runs) == 80 * MS
    assert gaps_row(runs[0], best_bound_ns(runs))[2:5] == ["20.00 %"] * 3
    assert gaps_row(runs[1], best_bound_ns(runs))[2:7] == [
        "20.00 %", "0.00 %", "0.00 %", "80.00", "12.50 %",
    ]  # fmt: skip
    late = course("+ CBC", (4.0, 100))
    assert gaps_row(late, 80 * MS)[2] == "–"
    assert gap(None, 1) is None


def test_what_each_variant_adds_and_where_it_adds_nothing() -> None:
    runs = [all_variants()]
    assert adds_row(runs, "+ local search")[1:] == [
        "1 of 1", "20.00 %", "20.00 %", "0 of 1", "–", "–", "0 of 1",
    ]  # fmt: skip
    assert adds_row(runs, "+ CBC")[1:] == [
        "0 of 1", "–", "–", "0 of 1", "p", "0 of 1", "0 of 1",
    ]  # fmt: skip
    assert adds_row(runs, "+ CP-SAT")[4:] == ["1 of 1", "–", "0 of 1", "0 of 1"]
    assert adds_row(runs, AUTO)[4:] == ["1 of 1", "–", "0 of 1", "1 of 1"]
    further = course("+ CBC", (1.0, 79))
    assert adds_row([[*all_variants()[:2], further]], "+ CBC")[6] == "1 of 1"


def test_bounds_above_a_schedule_and_refused_schedules_are_found() -> None:
    assert not list(contradictions(all_variants()))
    too_high = [*all_variants(), course("+ CBC", (1.0, 100), bound_ms=81)]
    assert list(contradictions(too_high)) == ["p, + CBC: bound 81000000 ns above 80000000 ns"]
    refused = course("+ CBC", (1.0, 60), wrong="overlap")
    assert list(contradictions([*all_variants(), refused])) == ["p, + CBC: overlap"]


def test_the_mean_gap_over_time_begins_once_every_problem_has_a_schedule() -> None:
    late = [course(variant, (3.0, 100), bound_ms=80) for variant in VARIANTS]
    points = mean_course([all_variants(), late], AUTO, 10.0)
    assert points == [(3.0, pytest.approx(10.0)), (10.0, pytest.approx(10.0))]
    assert mean_course([all_variants()], AUTO, 10.0) == [(0.9, pytest.approx(20.0))]
    assert [series.label for series in chart([late]).series] == list(VARIANTS)


def test_reductions_make_the_milp_smaller() -> None:
    name = "balanced-4x8-1f1b-memory"
    best_ns = best_known()[name]["makespan_ns"]
    stated, by_memory, by_makespan = milp_sizes(benchmark_document(name), best_ns, best_ns)
    assert stated is not None
    assert by_memory is not None
    assert by_makespan is not None
    # On each of 4 devices 24 operations, less what is in order anyway.
    assert stated.binaries == 4 * (3 * 8 * 8 - 3 * 8 * 9 // 2)
    assert stated.binaries > by_memory.binaries > by_makespan.binaries
    assert stated.rows > by_memory.rows > by_makespan.rows


@pytest.mark.parametrize("seed", range(6))
def test_random_problems_can_be_solved(seed: int) -> None:
    for stages, micro_batches in ((2, 4), (8, 16)):
        problem = read_problem(random_problem(stages, micro_batches, seed))
        assert len(problem.devices) == stages
        assert problem.micro_batches == micro_batches
        assert problem.can_offload == (seed % 2 == 1)
        assert find_infeasibility(problem) is None
    assert random_problem(2, 4, seed) == random_problem(2, 4, seed)


def test_what_the_heuristics_prove_counts_for_all() -> None:
    rate = proof_rate(1, 2, 2, 5.0)
    assert rate.proven == dict.fromkeys((HEURISTICS, "+ CBC", "+ CP-SAT", AUTO), 2)
    assert all(len(own) == 1 for own in rate.runs)


def test_proofs_by_size_are_counted_with_the_gap_of_the_open_ones() -> None:
    open_ones = [course(HEURISTICS, (1.0, 100)), course("+ CBC", (1.0, 100), bound_ms=90)]
    open_ones.append(course(AUTO, (1.0, 100), bound_ms=80))
    proven = {HEURISTICS: 1, "+ CBC": 1, "+ CP-SAT": 1, AUTO: 1}
    rate = Rate(4, 8, 2, proven, [open_ones, [course(HEURISTICS, (1.0, 80), proven_s=1.0)]])
    table = rates_table([rate], 5.0)
    assert table.rows == [["4 x 8", *["1 of 2"] * 4, "10.00 %", "50 %"]]
    assert "2 random problems per size, 5 s" in table.note


def test_the_record_has_all_tables_and_shows_models_that_were_too_large() -> None:
    part = {"variables": 9, "binaries": 5, "constraints": 7, "window": [0, 2]}
    runs = all_variants()
    runs[2] = course("+ CBC", (0.9, 100), bound_ms=75, exact={"rounds": [part]})
    run_of_whole = {"variables": 6, "constraints": 4, "kind": "whole"}
    rounds = [{"variables": 8, "constraints": 9, "kind": "band"}, run_of_whole]
    runs[4] = course("+ CP-SAT", (0.9, 100), bound_ms=75, exact={"rounds": rounds})
    sizes = {"p": (Size(1000, 200, 3000), None, Size(900, 100, 2000))}
    record = record_of([runs], sizes, [], 5.0, {}, ["ablation.svg"])
    for table in record.tables:
        assert all(len(cells) == len(table.columns) for cells in table.rows)
    assert record.tables[2].rows == [
        [
            "p", "1,000 / 200 / 3,000", "–", "900 / 100 / 2,000", "50 %",
            "9 / 5 / 7 in parts", "no run", "6 / 4",
        ],
    ]  # fmt: skip
    figures = {figure.name: figure.value for figure in record.figures}
    assert figures["mean gap, heuristics"] == pytest.approx(20.0)
    assert figures[f"mean gap, {AUTO}"] == 0.0
