"""Cursors, preferences, limits, kept plans and settings."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cursors import decode_cursor, encode_cursor
from app.errors import InvalidRequest, LimitExceeded
from app.services.kept_plan import result_of_incumbent, with_provenance
from app.services.limits import EstimateLimits, PipelineLimits, ShardingLimits, TrainingLimits
from app.services.waiting import wanted_wait_s
from app.settings import Settings

SPEC = {
    "kind": "pipeline",
    "candidates": [
        {"placement": "one", "problem": {"micro_batches": 1, "objective": "steady_span"}},
        {"placement": "two", "problem": {"micro_batches": 2}},
    ],
    "options": {"engine": "highs"},
}
INCUMBENT = {"placement": "two", "schedule": {"makespan_ns": 8, "lower_bound_ns": None}}

TRAINING_INCUMBENT = {
    "plans": [{"step_time_ns": 11}],
    "certificate": {"proven_optimal": False, "lower_bound_ns": 9},
}
SHARDING_INCUMBENT = {
    "instance": {"operators": [], "edges": []},
    "plan": {"choice": [], "objective": 10.5, "status": "optimal", "lower_bound": 10.5},
    "baselines": [],
    "certificate": {"verified": True, "proven_optimal": True, "objective": 10.5},
}


@given(st.integers(0, 10**14), st.uuids().map(str))
def test_a_cursor_says_what_was_put_in(created_at: int, job_id: str) -> None:
    assert decode_cursor(encode_cursor(created_at, job_id)) == (created_at, job_id)


@given(st.text(max_size=40))
def test_any_other_cursor_is_refused(cursor: str) -> None:
    with contextlib.suppress(InvalidRequest):
        assert decode_cursor(cursor)[0] >= 0


@pytest.mark.parametrize(
    ("prefer", "seconds"),
    [
        (None, 0),
        ("", 0),
        ("respond-async", 0),
        ("wait=5", 5),
        ("Wait = 5", 5),
        ('respond-async, wait="7"; x=1', 7),
        ("wait=600", 60),
        ("wait=-1", 0),
        ("wait=1.5", 0),
        ("wait=soon", 0),
        ("waiting=5", 0),
    ],
)
def test_the_wait_preference(prefer: str | None, seconds: float) -> None:
    assert wanted_wait_s(prefer, 60) == seconds


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"problem": None},
        {"problem": 3, "training": "preset"},
        {"problem": {"micro_batches": "many", "stages": {"a": 1}}},
        {"problem": {"micro_batches": True}},
        {"training": {"micro_batches": 4096, "pipeline_parallel": 256}},
        {"graph": {"operators": "many"}, "devices": "4x8xH100", "transformer": "BERT-Large"},
        {"graph": [], "devices": {"count": None}, "transformer": {"layers": 96}},
    ],
)
def test_bodies_of_any_form_pass_the_size_check(body: dict[str, object]) -> None:
    PipelineLimits(Settings()).check_body(body)
    ShardingLimits(Settings()).check_body(body)
    TrainingLimits(Settings()).check_body(body)
    EstimateLimits(Settings()).check_body(body)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"problem": {"micro_batches": 4097}}, "problem.micro_batches"),
        ({"training": {"micro_batches": 1e300}}, "training.micro_batches"),
        ({"problem": {"stages": [0] * 257}}, "problem.stages"),
        ({"problem": {"devices": [0] * 257}}, "problem.devices"),
        ({"training": {"pipeline_parallel": 257}}, "training.pipeline_parallel"),
    ],
)
def test_bodies_too_large_to_resolve_are_refused(body: dict[str, object], path: str) -> None:
    with pytest.raises(LimitExceeded) as refused:
        PipelineLimits(Settings()).check_body(body)
    assert refused.value.errors[0].path == path


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"graph": {"operators": [0] * 20_001}}, "graph.operators"),
        ({"transformer": {"layers": 1e300}}, "transformer.layers"),
        ({"devices": 1025}, "devices"),
        ({"devices": {"count": 1025}}, "devices.count"),
    ],
)
def test_graphs_and_groups_too_large_to_resolve_are_refused(
    body: dict[str, object], path: str
) -> None:
    with pytest.raises(LimitExceeded) as refused:
        ShardingLimits(Settings()).check_body(body)
    assert refused.value.errors[0].path == path


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"training": {"micro_batches": 4097}}, "training.micro_batches"),
        ({"training": {"pipeline_parallel": 257}}, "training.pipeline_parallel"),
        ({"cluster": "8193x8xH100"}, "cluster"),
        ({"cluster": {"gpu": "H100", "nodes": 8193, "gpus_per_node": 8}}, "cluster"),
    ],
)
def test_what_is_too_large_to_estimate_is_refused(body: dict[str, object], path: str) -> None:
    with pytest.raises(LimitExceeded) as refused:
        EstimateLimits(Settings()).check_body(body)
    assert refused.value.errors[0].path == path


def test_a_kept_plan_is_a_result() -> None:
    origin = {"kind": "same_problem", "job_id": "j", "distance": 0.0}
    result = result_of_incumbent(
        SPEC,
        INCUMBENT,
        objective=8,
        lower_bound=6,
        reason="time limit",
        started_from=origin,
    )
    assert result["problem"] == {"micro_batches": 2}
    assert result["schedule"] == {"makespan_ns": 8, "lower_bound_ns": 6}
    assert result["certificate"]["gap"] == 0.25
    assert result["certificate"]["objective"] == "makespan"
    assert result["certificate"]["proven_optimal"] is False
    assert result["provenance"]["engine"] == "highs"
    assert result["provenance"]["started_from"] == origin


def test_a_kept_plan_names_the_bound_it_was_proven_by() -> None:
    bounds = [{"name": "tail", "value_ns": 7}, {"name": "arrival and work", "value_ns": 6}]
    result = result_of_incumbent(
        SPEC,
        {**INCUMBENT, "bounds": bounds},
        objective=8,
        lower_bound=8,
        bound_name="recycling",
        reason="time limit",
        started_from=None,
    )
    assert result["schedule"]["lower_bound_ns"] == 8
    certificate = result["certificate"]
    assert (certificate["proven_optimal"], certificate["gap"]) == (True, 0.0)
    assert (certificate["lower_bound_ns"], certificate["bound_name"]) == (8, "recycling")
    assert certificate["bounds"] == [{"name": "recycling", "value_ns": 8}, *bounds]


def test_a_kept_plan_has_the_bound_of_its_own_placement() -> None:
    result = result_of_incumbent(
        SPEC,
        {**INCUMBENT, "bounds": [{"name": "tail", "value_ns": 8}]},
        objective=8,
        lower_bound=4,
        bound_name="tail",
        reason="time limit",
        started_from=None,
    )
    # Another placement may still be better than this one, of which nothing can be.
    certificate = result["certificate"]
    assert not certificate["proven_optimal"]
    assert (certificate["lower_bound_ns"], certificate["gap"]) == (8, 0.0)
    assert certificate["bounds"] == [{"name": "tail", "value_ns": 8}]


@pytest.mark.parametrize(("bound", "gap", "proven"), [(None, None, False), (8, 0.0, True)])
def test_a_kept_plan_knows_what_is_proven(
    bound: int | None, gap: float | None, proven: bool
) -> None:
    result = result_of_incumbent(
        SPEC,
        INCUMBENT,
        objective=8,
        lower_bound=bound,
        reason="cancelled",
        started_from=None,
    )
    assert result["certificate"]["gap"] == gap
    assert result["certificate"]["proven_optimal"] is proven


@pytest.mark.parametrize(
    ("kind", "incumbent"), [("sharding", SHARDING_INCUMBENT), ("training", TRAINING_INCUMBENT)]
)
def test_other_kept_plans_keep_what_was_proven_when_they_were_found(
    kind: str, incumbent: dict[str, object]
) -> None:
    result = result_of_incumbent(
        {"kind": kind, "options": {"engine": "highs"}},
        incumbent,
        objective=11,
        lower_bound=10,
        reason="cancelled",
        started_from=None,
    )
    provenance = result.pop("provenance")
    assert result == incumbent
    assert (provenance["engine"], provenance["stopped_by"]) == ("highs", "cancelled")


def test_a_gap_too_small_to_show_is_no_proof() -> None:
    result = result_of_incumbent(
        SPEC,
        INCUMBENT,
        objective=10**9,
        lower_bound=10**9 - 1,
        reason="time limit",
        started_from=None,
    )
    assert result["certificate"]["gap"] == 0
    assert not result["certificate"]["proven_optimal"]


def test_provenance_is_extended_not_replaced() -> None:
    text = with_provenance({"provenance": {"engine": "cbc"}}, attempts=2)
    assert text == '{"provenance":{"engine":"cbc","attempts":2}}'


def test_the_default_database_is_a_file_in_the_data_folder(tmp_path: Path) -> None:
    url = Settings(data_dir=tmp_path).resolved_database_url
    assert url == f"sqlite:///{tmp_path}/loadmaster.db"


def test_an_empty_broker_address_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADMASTER_BROKER_URL", "")
    monkeypatch.setenv("LOADMASTER_SOLVER_COMMAND", '["a", "b"]')
    settings = Settings()
    assert (settings.broker_url, settings.solver_command) == (None, ("a", "b"))
