"""A run's state survives its document, and changes only as its body does."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from planner.errors import SpecError
from planner.following.estimates import Estimate, estimates_of
from planner.following.measured import Before, Period
from planner.following.settings import FollowSettings, read_follow
from planner.following.solve_records import Reason, Setback, SolveInFlight
from planner.following.state import RunState, changed, new_run, same_shape
from planner.following.versions import VersionRecord, VersionState
from tests.unit.following.runs import SETTINGS, problem, samples


def full() -> RunState:
    profile = estimates_of(samples(range(20)))
    return replace(
        new_run(problem(), SETTINGS, given_plan=True),
        versions=(
            VersionRecord(1, VersionState.CONFIRMED, Reason.GIVEN, 0, 0),
            VersionRecord(2, VersionState.RUNNING, Reason.INTERVAL, 30, 40, 0.1, 0.08),
            VersionRecord(3, VersionState.PUBLISHED, Reason.LINK_BUSY, 50),
        ),
        running=2,
        first_iteration=3,
        anchor=profile,
        memory_limits={0: 5},
        limits_solved_for={0: 4},
        solving=SolveInFlight(4, Reason.STAGE_TIME_DRIFT, 60, profile, 2, 1),
        solves=4,
        last_solve_iteration=60,
        cool_down_until=70,
        setback=Setback("failed", 2, 90, profile, Reason.LINK_BUSY),
        rollbacks=1,
        rolled_back_on=profile,
        busy_links=frozenset({2, 0}),
        ever_acked=True,
        before=Before(
            1, Period(1e6, 0.01, {(0, "forward_ns"): Estimate(1e5, 1.0, 2.0, 20, 0, 40)})
        ),
        limits_changed=True,
    )


@pytest.mark.parametrize(
    "state",
    [full(), *(new_run(problem(), SETTINGS, given_plan=given) for given in (True, False))],
)
def test_a_state_survives_its_document(state: RunState) -> None:
    text = json.dumps(state.to_document(), allow_nan=False)
    assert RunState.from_document(json.loads(text), state.base) == state


def test_a_setback_that_an_older_version_stored_has_no_reason() -> None:
    document = json.loads(json.dumps(full().to_document()))
    del document["setback"]["reason"]
    setback = RunState.from_document(document, problem()).setback
    assert setback is not None
    assert (setback.reason, setback.times) == (None, 2)


def test_iterations_count_after_the_warm_up_but_not_right_after_a_swap() -> None:
    counted = [i for i in range(50) if full().counts(i)]
    assert counted == [i for i in range(8, 50) if i not in (40, 41)]


def test_before_the_first_sample_nothing_counts() -> None:
    assert not new_run(problem(), SETTINGS, given_plan=True).counts(1_000)


def test_another_shape_keeps_the_versions_and_forgets_the_profile() -> None:
    base = problem()
    other = replace(base, micro_batches=1, stages=base.stages)
    state = changed(full(), other, SETTINGS, 55)
    assert [version.state for version in state.versions] == ["confirmed", "confirmed", "superseded"]
    assert (state.running, state.anchor, state.before) == (None, {}, None)
    assert (state.first_iteration, state.shape_since, state.shape_changed) == (56, 4, True)
    assert state.solving == full().solving


def test_the_same_problem_changes_nothing_but_settings() -> None:
    other = SETTINGS.model_copy(update={"window": 30})
    assert changed(full(), problem(), other, 55) == replace(full(), settings=other)


def test_shapes_are_the_same_whatever_times_and_limits() -> None:
    assert same_shape(problem(10), problem(None))
    assert not same_shape(problem(), problem(offload=True))


def test_defaults_are_those_documented() -> None:
    settings = read_follow({})
    assert (settings.resolve_every, settings.warm_up, settings.min_gain) == (50, 20, 0.02)
    assert (settings.memory_headroom, settings.link_busy_limit) == (0.02, 0.85)
    assert settings.cool_down_iterations == 50
    assert FollowSettings(cool_down=0).cool_down_iterations == 0


@pytest.mark.parametrize(
    "raw",
    [
        {"resolve_every": 0},
        {"window": 5},
        {"window": 201},
        {"min_gain": 1},
        {"memory_headroom": -0.1},
        {"measure_over": 4},
        {"solve_time_limit_s": 0},
        {"link_busy_limit": 1.5},
        {"ranks": 0},
        {"often": 1},
    ],
)
def test_wrong_settings_are_refused_by_name(raw: dict[str, float]) -> None:
    with pytest.raises(SpecError) as caught:
        read_follow(raw)
    assert caught.value.path == ("follow", *raw)
