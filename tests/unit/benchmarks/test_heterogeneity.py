"""Random clusters are what their kind says, and gains are measured against what fits."""

from __future__ import annotations

import pytest

from benchmarks.heterogeneity.clusters import KINDS, cluster
from benchmarks.heterogeneity.comparing import Comparison, classic_makespans, compared, placements
from benchmarks.heterogeneity.report import Results, chart, gains_table, record_of, spread
from benchmarks.solving import Solved
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.problem import Duplex, PipelineProblem

SEEDS = range(25)


def comparison(kind: str, ours_ns: int, fitting: list[tuple[int, str]]) -> Comparison:
    return Comparison(kind, Solved(ours_ns, ours_ns, True, 0.1, None), fitting)


def relative_times(problem: PipelineProblem) -> list[float]:
    """Of F, to that of the fastest stage."""
    fastest = min(stage.forward_ns[0] for stage in problem.stages)
    return [stage.forward_ns[0] / fastest for stage in problem.stages]


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_gives_the_same_cluster_and_another_seed_another(kind: str) -> None:
    assert cluster(kind, 3) == cluster(kind, 3)
    assert cluster(kind, 3) != cluster(kind, 4)


@pytest.mark.parametrize("kind", KINDS)
def test_clusters_are_within_the_ranges_that_the_page_states(kind: str) -> None:
    for seed in SEEDS:
        problem = cluster(kind, seed)
        devices, first = len(problem.devices), problem.stages[0]
        assert devices in (4, 8)
        assert problem.micro_batches // devices in (2, 3, 4)
        assert 0.94 < first.backward_input_ns[0] / first.forward_ns[0] < 1.06
        assert 0.49 < first.backward_weight_ns[0] / first.forward_ns[0] < 0.91
        assert find_infeasibility(problem) is None
        largest = max((devices - d) * s.activation_bytes[0] for d, s in enumerate(problem.stages))
        limit = problem.devices[0].activation_memory_bytes
        assert limit is not None
        assert (0.29 if kind == "shared switch" else 0.49) < limit / largest < 1.51


def test_only_the_last_stage_is_slow() -> None:
    for seed in SEEDS:
        *others, last = relative_times(cluster("slow last stage", seed))
        assert others == [1.0] * len(others)
        assert 1.19 < last < 1.81


def test_one_device_straggles_and_not_always_the_same() -> None:
    slow = []
    for seed in SEEDS:
        times = relative_times(cluster("straggler", seed))
        (device,) = (d for d, time in enumerate(times) if time > 1)
        assert 1.09 < times[device] < 1.61
        slow.append(device)
    assert len(set(slow)) > 3


def test_layers_are_uneven_in_time_and_bytes() -> None:
    problems = [cluster("uneven layers", seed) for seed in SEEDS]
    assert sum(max(relative_times(problem)) > 1.1 for problem in problems) > 20
    for problem in problems:
        assert max(relative_times(problem)) <= 2.01  # 4 layers against 2
        per_ns = {round(s.activation_bytes[0] / s.forward_ns[0], 3) for s in problem.stages}
        assert max(per_ns) - min(per_ns) < 0.01


def test_devices_share_a_switch() -> None:
    problems = [cluster("shared switch", seed) for seed in SEEDS]
    for problem in problems:
        links = [device.host_link for device in problem.devices]
        assert len(links) // len(set(links)) in (2, 4)
        assert problem.can_offload
        assert relative_times(problem) == [1.0] * len(links)
    assert {problem.host_link_duplex for problem in problems} == {Duplex.HALF, Duplex.FULL}


def test_a_free_placement_has_more_classic_schedules_to_beat() -> None:
    problem = cluster("slow last stage", 0)
    own = classic_makespans(placements(problem, is_free=False))
    free = classic_makespans(placements(problem, is_free=True))
    assert {name for _, name in own} <= {"GPipe", "1F1B", "ZB-H1", "ZB-H2"}
    assert set(own) < set(free)
    assert "V-Min" in {name for _, name in free}


def test_gains_are_shares_of_the_fastest_classic_makespan() -> None:
    found = comparison("straggler", 80, [(200, "1F1B"), (100, "ZB-H1")])
    assert found.gain == pytest.approx(20.0)
    assert found.gain_over_1f1b == pytest.approx(60.0)
    assert found.classic == (100, "ZB-H1")
    alone = comparison("straggler", 80, [])
    assert alone.gain is None
    assert alone.gain_over_1f1b is None


def test_clusters_without_a_fitting_classic_are_counted_apart() -> None:
    gained = [comparison(kind, 90, [(100, "ZB-H1")]) for kind in KINDS for _ in range(3)]
    alone = [comparison(kind, 90, []) for kind in KINDS]
    table = gains_table("", [*gained, *alone], "")
    assert [row[0] for row in table.rows] == [*KINDS, "all"]
    for row in table.rows:
        count = 16 if row[0] == "all" else 4
        own = dict(zip(table.columns, row, strict=True))
        assert own["clusters"] == str(count)
        assert own["a classic fits"] == str(count * 3 // 4)
        assert own["min"] == own["median"] == own["max"] == "10.0"
        assert own["median over 1F1B"] == "–"
        assert own["fastest classic, how often (three most frequent)"] == f"ZB-H1 {count * 3 // 4}"


def test_quantiles_of_known_values() -> None:
    assert spread([float(i) for i in range(11)]) == (0.0, 1.0, 5.0, 9.0, 10.0)


def test_a_plan_below_its_bound_is_wrong() -> None:
    wrong = Comparison("straggler", Solved(5, 6, False, 0.1, None), [])
    assert Results([wrong], 1.0, [], 1.0).wrong == ["straggler: 5 ns is below the bound"]


def test_a_small_run_from_drawing_to_the_page() -> None:
    own = list(compared(1, 1.0, is_free=False)) * 2
    assert [c.kind for c in own] == [*KINDS, *KINDS]
    fitting = [
        c if c.fitting else comparison(c.kind, c.answer.objective_ns or 1, [(10**12, "1F1B")])
        for c in own
    ]
    results = Results(fitting, 1.0, fitting, 1.0)
    assert results.wrong == []
    record = record_of(results, "again", ["heterogeneity.svg"], {})
    assert "2 random clusters of each kind" in record.note
    assert "0 of 16 were wrong" in record.note
    assert len(record.tables) == 2
    assert {figure.better for figure in record.figures} == {"more"}
    assert [series.label for series in chart(results).series] == list(KINDS)
