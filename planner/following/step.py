"""One look at a run: what to do next, from what is remembered and what is new.

Everything that takes long (solving, verifying, timing the running plan again) is asked for here
and happens elsewhere; a step is medians of a window and a few comparisons.
"""

from __future__ import annotations

from planner.following.look import Look, Outcome
from planner.following.results import take_result
from planner.following.solving import look_for_more
from planner.following.state import RunState
from planner.following.swapping import follow_versions
from planner.following.turn import Turn


def step(state: RunState, look: Look) -> Outcome:
    """What follows from a look at a run. Deterministic; the same look once more changes nothing."""
    turn = Turn(state, look)
    if state.first_iteration is None and turn.samples:
        turn.change(first_iteration=min(sample.iteration for sample in turn.samples))
    follow_versions(turn)
    take_result(turn)
    look_for_more(turn)
    return turn.outcome()
