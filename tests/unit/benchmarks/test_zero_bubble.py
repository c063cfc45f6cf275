"""Profiles are solved as they were published, and the curve compares like with like."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.solving import Solved
from benchmarks.zero_bubble.curve import (
    CurvePoint,
    Dot,
    Way,
    best_classic,
    classic_dots,
    curve,
    curve_problem,
    limited,
)
from benchmarks.zero_bubble.profiles import (
    MAKESPAN_SETTINGS,
    SPAN_SETTINGS,
    Outcome,
    Profile,
    Setting,
    bubble_rate,
    outcomes,
    problem_of,
    published_profiles,
)
from benchmarks.zero_bubble.report import Results, chart, record_of
from planner.pipeline.classic.rows import comparison_rows
from planner.pipeline.documents import problem_to_document, read_problem
from planner.pipeline.problem import Objective, PipelineProblem

MS = 1_000_000


def profile(micro_batches: int) -> Profile:
    """The published 6.2B profile, shorter."""
    (found,) = [p for p in published_profiles() if (p.model, p.micro_batches) == ("6.2B", 32)]
    return replace(found, micro_batches=micro_batches)


def answer(objective_ns: int | None, bound_ns: int = 1) -> Solved:
    return Solved(objective_ns, bound_ns, objective_ns == bound_ns, 0.1, None)


@pytest.fixture(scope="module")
def problem() -> PipelineProblem:
    """The curve's profile with four micro-batches."""
    return read_problem(problem_to_document(curve_problem()) | {"micro_batches": 4})


def test_all_twelve_profiles_are_there() -> None:
    profiles = published_profiles()
    assert [(p.stages, p.micro_batches) for p in profiles] == [
        *((8, m) for m in (24, 32, 64, 24, 32, 64)),
        *((16, m) for m in (48, 64, 128)),
        *((32, m) for m in (96, 128, 256)),
    ]
    first = profiles[0]
    assert (first.forward_ns, first.hop_ns) == (18_522_000, 601_000)
    assert first.published == {
        "1F1B": 0.2431,
        "ZB-1p": 0.1585,
        "ZB-2p": 0.0433,
        "ZB-2p makespan": 0.1083,
        "ZB-V": 0.0703,
        "ZB-V makespan": 0.0722,
    }


@pytest.mark.parametrize("own", published_profiles(), ids=lambda p: f"{p.model}-{p.micro_batches}")
def test_our_1f1b_has_the_published_bubble(own: Profile) -> None:
    rows = comparison_rows(problem_of(own, SPAN_SETTINGS[0]))
    timed = next(row.timed for row in rows if row.name == "1F1B")
    assert timed is not None
    assert bubble_rate(own, timed.steady_span_ns) == pytest.approx(own.published["1F1B"], abs=1e-4)
    assert timed.steady_span_ns == timed.makespan_ns


def test_limits_count_activations_of_the_placement() -> None:
    one, two, v_shape = (problem_of(profile(4), setting) for setting in SPAN_SETTINGS)
    activation_bytes = 1024 * (34 * 4096 + 5 * 32 * 1024)
    assert one.devices[0].activation_memory_bytes == 8 * activation_bytes
    assert two.devices[0].activation_memory_bytes == 16 * activation_bytes
    assert v_shape.devices == one.devices
    assert len(v_shape.stages) == 16
    assert one.stages[0].weight_grad_bytes[0] == 1024 * 32 * 4096
    assert {s.objective for s in MAKESPAN_SETTINGS} == {Objective.MAKESPAN}
    assert one.objective is Objective.STEADY_SPAN


def test_within_1f1b_memory_the_known_optimum_is_proven_for_both_objectives() -> None:
    own = profile(12)
    settings = (MAKESPAN_SETTINGS[0], SPAN_SETTINGS[0])
    found = [outcome.answer for outcome in outcomes([own], settings, 1.0)]
    work_ns = 12 * (own.forward_ns + own.input_ns + own.weight_ns)
    # The bubble of ZB-H1: (p - 1) (F + B - W + 4 c).
    bubble_ns = 7 * (own.forward_ns + own.input_ns - own.weight_ns + 4 * own.hop_ns)
    for solved in found:
        assert solved.objective_ns == work_ns + bubble_ns
        assert solved.is_proven
        assert solved.wrong is None


@pytest.mark.parametrize(
    ("objective_ns", "verdict"),
    [(1_000_000, "less"), (1_100_000, "equal"), (1_200_000, "more"), (None, "more")],
)
def test_rates_are_compared_to_the_published_digits(objective_ns: int | None, verdict: str) -> None:
    own = replace(
        profile(10), forward_ns=40_000, input_ns=30_000, weight_ns=30_000, published={"X": 0.0909}
    )
    setting = Setting("X", 1, False, Objective.MAKESPAN, "X")
    outcome = Outcome(own, setting, answer(objective_ns, 1_000_000))
    assert outcome.verdict == verdict
    assert outcome.bound == 0.0


def test_a_way_without_offloading_has_nothing_to_offload(problem: PipelineProblem) -> None:
    half = limited(problem, Way(False, False), 0.5)
    assert half.devices[0].activation_memory_bytes == 4 * problem.stages[0].activation_bytes[0]
    assert not half.can_offload
    assert limited(problem, Way(True, True), 0.5).can_offload
    assert limited(problem, Way(True, True), None).devices[0].activation_memory_bytes is None


def test_classic_schedules_take_the_memory_they_are_known_for() -> None:
    dots = {dot.name: dot for dot in classic_dots(curve_problem())}
    assert dots["GPipe"].peak == 4.0
    assert dots["1F1B"].peak == dots["ZB-H1"].peak == dots["ZB-V"].peak == 1.0
    assert (dots["V-Half"].peak, dots["V-Min"].peak) == (0.625, 0.5)
    assert dots["GIS-H"].peak == 0.75
    assert dots["V-Half"].placement == "v shape"
    assert dots["1F1B"].placement == "one chunk"
    assert round(dots["1F1B"].makespan_ns / MS) == 3120
    assert "PipeOffload" not in dots


def test_the_best_classic_schedule_fits_and_offloads_only_if_it_may() -> None:
    dots = [
        Dot("slow", "one chunk", 30, 0.5, 0),
        Dot("fast", "one chunk", 10, 1.0, 0),
        Dot("moving", "one chunk", 20, 0.25, 3),
    ]
    points = [CurvePoint(Way(False, True), 0.5, answer(9), 15)]
    assert best_classic(dots, points, 0.25, offloads=False) is None
    assert best_classic(dots, points, 0.25, offloads=True) == (20, "moving")
    assert best_classic(dots, points, 0.5, offloads=False) == (30, "slow")
    assert best_classic(dots, points, 0.5, offloads=True) == (15, "PipeOffload")
    assert best_classic(dots, points, 1.0, offloads=True) == (10, "fast")


def test_a_small_run_from_solving_to_the_page(problem: PipelineProblem) -> None:
    ways = (Way(False, False), Way(False, True))
    points = list(curve(problem, ways, (0.25, 1.0), 3.0))
    own = [profile(2)]
    results = Results(
        span=list(outcomes(own, SPAN_SETTINGS[:1], 0.25)),
        makespan=list(outcomes(own, MAKESPAN_SETTINGS[:1], 0.25)),
        limit_per_stage_s=0.25,
        points=points,
        dots=list(classic_dots(problem)),
        curve_limit_s=3.0,
    )
    assert results.wrong == []
    tight, roomy, moving, _ = (point.answer for point in points)
    assert tight.objective_ns is not None
    assert roomy.objective_ns is not None
    assert moving.objective_ns is not None
    assert roomy.objective_ns < tight.objective_ns
    assert moving.objective_ns < tight.objective_ns
    assert points[0].pipe_offload_ns is None
    assert points[2].pipe_offload_ns is not None
    record = record_of(results, "again", [], {})
    summary, span, _, table, _ = record.tables
    assert [row[:2] for row in summary.rows] == [["makespan", "ZB-1p"], ["span", "ZB-1p"]]
    # The last stage holds the second micro-batch up by F + B, and the first ends with its W.
    first = own[0]
    trip_ns = 8 * (first.forward_ns + first.input_ns) + 14 * first.hop_ns
    stage_ns = first.forward_ns + first.input_ns + first.weight_ns
    above = 100 * (1 - 2 * stage_ns / (trip_ns + stage_ns) - 0.1045)
    assert summary.rows[0][5:7] == ["0 / 0 / 1", f"{above:+.2f}"]
    assert span.rows[0][:5] == ["6.2B", "8", "2", "18.98", "10.45"]
    assert [row[0] for row in table.rows] == ["0.25", "1"]
    assert len(table.columns) == len(table.rows[0]) == 5
    picture = chart(results, is_v_shape=False)
    named = next(series for series in picture.series if series.names)
    assert {"1F1B", "ZB-H1"} <= set(named.names)
    assert "V-Half" not in named.names


def test_a_plan_below_its_bound_is_wrong() -> None:
    own = Outcome(profile(2), SPAN_SETTINGS[0], answer(5, 6))
    results = Results([own], [], 1.0, [], [], 1.0)
    assert len(results.wrong) == 1
