"""What a solve has found: published, refused, or asked for once more."""

from __future__ import annotations

from planner.following.drift import drifts
from planner.following.look import NewVersion, Solved
from planner.following.profile import fresh_problem, limit_changes
from planner.following.solve_records import MEMORY_REASONS, Reason, SolveInFlight
from planner.following.solving import MOST_RESTARTS, ask, moved_since
from planner.following.state import RunState
from planner.following.swapping import publish
from planner.following.turn import Turn
from planner.pipeline.feasibility.decide import find_infeasibility

MOST_DOUBLINGS = 4
"""`min_gain` doubles with each roll-back, this often at most."""
MOST_DEVICES_NAMED = 4


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
        if solving.reason is Reason.MEMORY_LIMIT_CHANGE:
            turn.change(limits_changed=True)
        if solved.state == "cancelled" or not _tries_first_again(turn, solving):
            turn.set_back("failed", solving.profile)
        return
    turn.change(anchor=solving.profile)
    misfit = misfit_of(turn.state, solving, solved)
    if misfit is not None:
        turn.tell("running_does_not_fit", misfit)
    refusal = why_not(turn.state, solving, solved, misfit)
    if refusal is not None:
        turn.tell("refused", refusal + _advice(turn.state, solved))
        is_proven = solved.state == "infeasible" or solved.unsafe is None
        if is_proven or not _tries_first_again(turn, solving):
            turn.set_back("refused", solving.profile)
        return
    figures = solved.replacement or {}
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
        "" if figures.get("running_fits", True) else ", since the running plan does not fit",
    )


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


def why_not(
    state: RunState, solving: SolveInFlight, solved: Solved, misfit: str | None
) -> str | None:
    """Why what a solve found is not published; None if it is. `misfit` is that of `misfit_of`."""
    if solved.state == "infeasible":
        return f"no plan fits the memory less its headroom: {solved.detail or '–'}"
    if solved.unsafe is not None:
        return f"the plan is not proven safe for any durations: {solved.unsafe}"
    if solving.start_version is None:
        return None
    figures = solved.replacement
    if figures is None:
        return "the running plan could not be timed on the fresh profile"
    is_about_memory = solving.reason in MEMORY_REASONS
    if not figures["running_fits"] and (is_about_memory or misfit is not None):
        return None
    least = least_gain(state)
    gain, low = figures["gain"], figures["gain_low"]
    if gain <= 0:
        return f"it would be {-gain:.1%} slower, and a swap has to save {least:.1%}"
    if low <= least:
        return f"it would save {gain:.1%}, {low:.1%} for sure, and a swap has to save {least:.1%}"
    if state.rolled_back_on is not None and not drifts(
        state.base, state.rolled_back_on, solving.profile, {}
    ):
        return "the profile is that on which the last plan was rolled back"
    return None


def least_gain(state: RunState) -> float:
    """What a new plan has to save, beyond the noise."""
    return state.settings.min_gain * 2.0 ** min(state.rollbacks, MOST_DOUBLINGS)


def _advice(state: RunState, solved: Solved) -> str:
    if solved.state == "infeasible" or solved.unsafe is None:
        return ""
    return f"; raise follow.solve_time_limit_s, now {state.settings.solve_time_limit_s:g}"
