"""What a keeper remembers of runs, and when that still holds."""

from __future__ import annotations

from typing import Any

from app.repositories.run_rows import RunRow
from app.services.runs.memory import Memory, Remembered, Samples, window_of
from planner.following.settings import FollowSettings
from planner.following.state import RunState, new_run
from planner.following.telemetry import Sample
from planner.pipeline.documents import read_problem

STATE: RunState = new_run(
    read_problem(
        {
            "micro_batches": 1,
            "devices": [{}],
            "stages": [{"device": 0, "forward_ns": 1, "backward_input_ns": 1}],
        }
    ),
    FollowSettings(),
    given_plan=True,
)


def row(run_id: str = "a", **more: Any) -> RunRow:
    known = {"id": run_id, "revision": 3, "looked": 7, "keeper": "me", **more}
    return RunRow(**{name: known.get(name) for name in RunRow._fields})


def remembered(samples: int = 1) -> Remembered:
    window: Samples = {(number, 0): Sample(number, 0, {}) for number in range(samples)}
    return Remembered(revision=3, looked=7, state=STATE, samples=window)


def test_what_nobody_else_has_changed_still_holds() -> None:
    memory = Memory()
    memory.put("a", remembered())
    assert memory.get(row(), "me") is not None
    for changed in ({"revision": 4}, {"looked": 8}, {"keeper": "other"}, {"keeper": None}):
        assert memory.get(row(**changed), "me") is None
    assert memory.get(row("b"), "me") is None
    memory.forget("a")
    assert memory.get(row(), "me") is None


def test_what_was_not_looked_at_for_longest_goes_first() -> None:
    memory = Memory(most_samples=10)
    for run_id in ("a", "b", "a", "c"):
        memory.put(run_id, remembered(4))
    assert memory.get(row("b"), "me") is None
    assert memory.get(row("a"), "me") is not None
    # One run may have more than fits beside others.
    memory.put("d", remembered(40))
    assert memory.get(row("d"), "me") is not None
    assert memory.get(row("a"), "me") is None


def test_the_window_moves_on_and_ends_with_the_newest_iteration() -> None:
    rows = [(number, 0, '{"forward_ns":1}') for number in range(8)]
    known = window_of({}, rows, newest=5, window=3)
    assert sorted(known) == [(3, 0), (4, 0), (5, 0)]
    moved = window_of(known, [(6, 0, "{}"), (5, 0, '{"forward_ns":9}')], newest=6, window=3)
    assert sorted(moved) == [(4, 0), (5, 0), (6, 0)]
    assert moved[5, 0].values == {"forward_ns": 1}
    assert window_of({}, rows, newest=None, window=3) == {}
