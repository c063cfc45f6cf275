"""What a solve has found: published, refused, or asked for once more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.following.drift import drifts
from planner.following.look import NewVersion, Solved
from planner.following.profile import fresh_problem, limit_changes
from planner.following.solve_records import MEMORY_REASONS, Reason, SetbackKind, SolveInFlight
from planner.following.solving import MOST_RESTARTS, ask, moved_since
from planner.following.state import RunState
from planner.following.swapping import publish
from planner.following.turn import Turn
from planner.pipeline.feasibility.decide import find_infeasibility

MOST_DOUBLINGS = 4
"""`min_gain` doubles with each roll-back, this often at most."""
MOST_DEVICES_NAMED = 4
LEAST_SHOWN = 0.0005
"""Smaller shares are 0.0 % in words."""


def take_result(turn: Turn) -> None:
    """Publish or refuse what the solve in flight has found, if it is over."""
    solving, solved = turn.state.solving, turn.look.solved
    if solving is None or solved is None or solved.number != solving.number:
        return
    if turn.state.shape_changed or turn.state.limits_changed:
        # It answers what is asked no more, and `look_for_more` drops it.
        return
    turn.change(solving=None)
    moved = moved_since(turn, solving)
    if moved:
        turn.tell("outdated", f"solve {solving.number} is of an older profile: {moved[0]}")
        ask(turn, solving.reason, solving.restarts + 1)
        return
    if solved.state in ("failed", "cancelled"):
        turn.tell("solve_failed", f"solve {solving.number} {solved.state}: {solved.detail or '–'}")
        if solved.state == "cancelled" or not _tries_first_again(turn, solving):
            _set_back(turn, "failed", solving)
        return
    misfit = misfit_of(turn.state, solving, solved)
    if misfit is not None:
        turn.tell("running_does_not_fit", misfit)
    refusal = why_not(turn.state, solving, solved, misfit)
    if refusal is not None:
        turn.tell("refused", refusal.why)
        if refusal.is_proven or not _tries_first_again(turn, solving):
            _set_back(turn, "refused", solving, is_proven=refusal.is_proven)
        return
    figures = solved.replacement or {}
    turn.change(anchor=solving.profile)
    publish(
        turn,
        NewVersion(
            number=len(turn.state.versions) + 1,
            solve=solving.number,
            copy_of=None,
            reason=solving.reason,
            predicted_gain=figures.get("gain"),
            gain_low=figures.get("gain_low"),
            needs_restart=turn.state.awaits_restart,
        ),
        _in_spite_of_its_gain(turn.state, figures, misfit),
    )


def _in_spite_of_its_gain(state: RunState, figures: Mapping[str, Any], misfit: str | None) -> str:
    """Why a plan that saves too little is published all the same, for its event."""
    if figures.get("running_fits", True) or _is_worth_it(state, figures):
        return ""
    if misfit is None:
        return ", since the running plan does not leave the headroom"
    return ", since the running plan does not fit"


def _is_worth_it(state: RunState, figures: Mapping[str, Any]) -> bool:
    gain: float = min(figures["gain"], figures["gain_low"])
    return gain > least_gain(state)


def _set_back(
    turn: Turn, kind: SetbackKind, solving: SolveInFlight, *, is_proven: bool = False
) -> None:
    """The running plan is still that of its older profile, so that what asked for the solve asks
    for one again; changed limits, which no profile shows, are remembered for it."""
    if solving.reason is Reason.MEMORY_LIMIT_CHANGE and not is_proven:
        turn.change(limits_changed=True)
    turn.set_back(kind, solving.reason, solving.profile, is_proven=is_proven)


def _tries_first_again(turn: Turn, solving: SolveInFlight) -> bool:
    """A trainer that waits for the first plan of its shape sends no telemetry that would ask for
    one again, so the solve is repeated at once, each time with twice the time."""
    if turn.state.has_plan or solving.restarts >= MOST_RESTARTS:
        return False
    ask(turn, solving.reason, solving.restarts + 1)
    return True


def misfit_of(state: RunState, solving: SolveInFlight, solved: Solved) -> str | None:
    """Which devices the running plan is too large for, by what is measured; None where it fits,
    where nothing runs, and where that is not known."""
    if solving.start_version is None:
        return None
    peaks = (solved.replacement or {}).get("running_peaks_bytes")
    if peaks is None and solved.state != "infeasible":
        return None
    changes = limit_changes(state.base, state.memory_limits, state.limits_solved_for)
    problem = fresh_problem(state.base, solving.profile, 0.0, changes)
    if peaks is None:
        # What was proven is that nothing leaves the headroom.
        shortage = find_infeasibility(problem)
        if shortage is None:
            return None
        return f"running plan no longer fits, nor does any other: {shortage.summary}"
    short = [
        f"device {d} needs {peak} of {limit} bytes"
        for d, (peak, device) in enumerate(zip(peaks, problem.devices, strict=True))
        if (limit := device.activation_memory_bytes) is not None and peak > limit
    ]
    if not short:
        return None
    more = f" and {len(short) - MOST_DEVICES_NAMED} more" if len(short) > MOST_DEVICES_NAMED else ""
    return f"running plan no longer fits: {', '.join(short[:MOST_DEVICES_NAMED])}{more}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why what a solve found is not published, in words; whether it is proven that whatever else is
    found for the same profile, under the same settings, would not be either."""

    why: str
    is_proven: bool = False


def why_not(
    state: RunState, solving: SolveInFlight, solved: Solved, misfit: str | None
) -> Refusal | None:
    """Why what a solve found is not published; None if it is. `misfit` is that of `misfit_of`."""
    if solved.state == "infeasible":
        why = f"no plan fits the memory less its headroom: {solved.detail or '–'}"
        return Refusal(why, is_proven=True)
    more_time = f"raise follow.solve_time_limit_s, now {state.settings.solve_time_limit_s:g}"
    if solved.unsafe is not None:
        why = f"the plan is not proven safe for any durations: {solved.unsafe}"
        return Refusal(f"{why}; {more_time}")
    if solving.start_version is None:
        return None
    figures = solved.replacement
    if figures is None:
        return Refusal(f"the running plan could not be timed on the fresh profile; {more_time}")
    is_about_memory = solving.reason in MEMORY_REASONS
    if not figures["running_fits"] and (is_about_memory or misfit is not None):
        return None
    if not _is_worth_it(state, figures):
        least = least_gain(state)
        why = _too_little(figures["gain"], figures["gain_low"], least)
        return Refusal(why, is_proven=_saves_at_most(solved, figures) <= least)
    if state.rolled_back_on is not None and not drifts(
        state.base, state.rolled_back_on, solving.profile, {}
    ):
        why = "the profile is that on which the last plan was rolled back"
        return Refusal(why, is_proven=True)
    return None


def _too_little(gain: float, low: float, least: float) -> str:
    needed = f"a swap has to save {least:.1%}"
    if abs(gain) < LEAST_SHOWN:
        return f"it would be as fast as the plan that runs, and {needed}"
    if gain < 0:
        return f"it would be {-gain:.1%} slower, and {needed}"
    sure = f"{low:.1%} for sure" if low >= LEAST_SHOWN else "nothing for sure"
    return f"it would save {gain:.1%}, {sure}, and {needed}"


def _saves_at_most(solved: Solved, figures: Mapping[str, Any]) -> float:
    """The share of the running plan's objective that any plan saves at most, by the proven bound;
    all of it where there is none."""
    running_ns: int = figures["running_ns"]
    if solved.lower_bound_ns is None or running_ns <= 0:
        return 1.0
    return 1 - solved.lower_bound_ns / running_ns


def least_gain(state: RunState) -> float:
    """What a new plan has to save, beyond the noise."""
    return state.settings.min_gain * 2.0 ** min(state.rollbacks, MOST_DOUBLINGS)
