"""When a new plan is looked for, and what is asked for then."""

from __future__ import annotations

from planner.errors import SpecError
from planner.following.adapt import adapted
from planner.following.drift import DIFFERS, SIGNIFICANT, Drift, drifts
from planner.following.look import SolveWanted
from planner.following.profile import disbelieved, fresh_problem, limit_changes, stage_noise
from planner.following.solve_records import FIRST_REASONS, Reason, SolveInFlight
from planner.following.state import RunState
from planner.following.swapping import drop
from planner.following.turn import Turn
from planner.following.versions import VersionState

MOST_RESTARTS = 2
"""How often in a row a newer profile may replace a solve in flight: a run that never stops
changing gets plans all the same."""
BUSY_DEVIATIONS = 2.0
LEAST_LIMIT_SHIFT = 0.005
"""Of a memory limit; less is another count of the same memory."""


def look_for_more(turn: Turn) -> None:
    """Ask for a solve if something asks for one; at most one is in flight."""
    _learn_limits(turn)
    _tell_disbelieved(turn)
    if turn.state.shape_changed:
        drop(turn, "the run has another shape")
        turn.change(shape_changed=False, limits_changed=False)
        ask(turn, _reason_without_a_plan(turn.state))
        return
    solving = turn.state.solving
    if _limits_moved(turn, solving):
        turn.change(limits_changed=True, setback=None)
    if turn.state.limits_changed and not _backs_off(turn):
        drop(turn, "memory limits have changed")
        ask(turn, Reason.MEMORY_LIMIT_CHANGE, 0 if solving is None else solving.restarts + 1)
        return
    if solving is not None:
        moved = moved_since(turn, solving)
        if moved:
            drop(turn, f"the profile has changed again: {moved[0]}")
            ask(turn, solving.reason, solving.restarts + 1)
        return
    if turn.look.newest_iteration is not None and not _must_wait(turn):
        _ask_if_moved(turn)


def _tell_disbelieved(turn: Turn) -> None:
    found = disbelieved(turn.measured)
    new = sorted(found.keys() - turn.state.disbelieved)
    if new:
        turn.tell(
            "memory_disbelieved",
            f"memory deltas of stage {new[0]} are not believed: {found[new[0]]}; the planned sizes "
            "count" + (f"; likewise of {len(new) - 1} other stages" if new[1:] else ""),
        )
    if found.keys() != turn.state.disbelieved:
        turn.change(disbelieved=frozenset(found))


def _ask_if_moved(turn: Turn) -> None:
    state = turn.state
    if not state.has_plan:
        ask(turn, _reason_without_a_plan(state))
        return
    moved = drifts(state.base, state.anchor, turn.estimates, turn.series)
    if moved:
        ask(turn, Reason(moved[0].kind), told=str(moved[0]))
        return
    # A setback whose back-off is over leaves all that asked for the solve to be asked again.
    busy = _busy_links(turn) if state.setback is not None else _newly_busy_links(turn)
    if busy:
        ask(turn, Reason.LINK_BUSY, told=f"the host link of stage {min(busy)}")
        return
    if not _interval_is_over(turn):
        return
    differs = drifts(state.base, state.anchor, turn.estimates, turn.series, DIFFERS)
    if differs:
        ask(turn, Reason.INTERVAL, told=str(differs[0]))


def _interval_is_over(turn: Turn) -> bool:
    """Whether the last solve was asked for at least `resolve_every` iterations ago."""
    state = turn.state
    last = (
        state.first_iteration if state.last_solve_iteration is None else state.last_solve_iteration
    )
    return last is not None and turn.newest - last >= state.settings.resolve_every


def _reason_without_a_plan(state: RunState) -> Reason:
    return Reason.SHAPE_CHANGE if state.versions else Reason.FIRST


def _must_wait(turn: Turn) -> bool:
    """While a version is being swapped in or measured, and in the cool-down after."""
    state = turn.state
    if turn.newest < state.cool_down_until or _backs_off(turn):
        return True
    if state.running is not None and state.version(state.running).state is VersionState.RUNNING:
        return True
    waiting = state.pending
    if waiting is None:
        return False
    if waiting.needs_restart:
        # Nothing is known of its shape before ranks restart with it.
        return True
    # A version that some rank never acknowledges holds nothing up for ever.
    patience = waiting.published_at_iteration + state.settings.resolve_every
    return waiting.state is VersionState.SCHEDULED or turn.newest < patience


def _backs_off(turn: Turn) -> bool:
    """Whether what is measured is what the last solve came to nothing for, not long enough ago or
    provably for good."""
    setback = turn.state.setback
    if setback is None or (setback.until is not None and turn.newest >= setback.until):
        return False
    _forget_setback(turn)
    return turn.state.setback is not None


def _forget_setback(turn: Turn) -> None:
    """Of another profile, or other busy links, it says nothing. Small changes count where no time
    that passes would end it, as they do for a plan: every `resolve_every` iterations."""
    state, setback = turn.state, turn.state.setback
    if setback is None:
        return
    looks_closely = setback.until is None and _interval_is_over(turn)
    significant = DIFFERS if looks_closely else SIGNIFICANT
    if _newly_busy_links(turn) or drifts(
        state.base, setback.profile, turn.estimates, turn.series, significant
    ):
        turn.change(setback=None)


def ask(turn: Turn, reason: Reason, restarts: int = 0, told: str | None = None) -> None:
    """Ask for a solve of the newest profile; changed limits are what it is for before all else."""
    _forget_setback(turn)
    state = turn.state
    if state.limits_changed:
        reason = Reason.MEMORY_LIMIT_CHANGE
    profile = {**state.anchor, **turn.estimates}
    limits = _limits(turn)
    changes = limit_changes(state.base, state.memory_limits, limits)
    try:
        problem = fresh_problem(state.base, profile, state.settings.memory_headroom, changes)
    except SpecError as error:
        turn.tell("refused", f"the profile cannot be planned: {error}")
        turn.change(
            limits_solved_for=limits,
            limits_changed=reason is Reason.MEMORY_LIMIT_CHANGE,
            busy_links=_busy_links(turn),
        )
        turn.set_back("refused", reason, profile)
        return
    number = state.solves + 1
    start = _start_version(state)
    turn.change(
        solves=number,
        limits_changed=False,
        last_solve_iteration=turn.newest,
        limits_solved_for=limits,
        busy_links=_busy_links(turn),
        solving=SolveInFlight(number, reason, turn.newest, profile, start, restarts),
    )
    turn.solve = SolveWanted(
        number=number,
        reason=reason,
        problem=problem,
        start_version=start,
        noise=stage_noise(problem, profile),
        time_limit_s=_time_limit_s(state, reason, restarts),
        solver=adapted(state.base, profile).solver(),
    )
    turn.tell("solve_asked", f"solve {number} ({reason})" + (f": {told}" if told else ""))


def _time_limit_s(state: RunState, reason: Reason, restarts: int) -> float:
    limit_s = state.settings.solve_time_limit_s
    return limit_s * 2.0**restarts if reason in FIRST_REASONS else limit_s


def _start_version(state: RunState) -> int | None:
    """What runs or, before anything does, what was published last for this shape."""
    if state.running is not None:
        return state.running
    newest = state.newest
    return newest.number if newest is not None and newest.number >= state.shape_since else None


def moved_since(turn: Turn, solving: SolveInFlight) -> list[Drift]:
    """What has drifted since a solve was asked for, unless newer profiles have had their turns.
    The first plan of a run is not waited for any longer because of its profile."""
    if solving.reason is Reason.FIRST or solving.restarts >= MOST_RESTARTS:
        return []
    return drifts(turn.state.base, solving.profile, turn.estimates, turn.series)


def _busy_links(turn: Turn) -> frozenset[int]:
    limit = turn.state.settings.link_busy_limit
    return frozenset(
        s
        for (s, name), own in turn.estimates.items()
        if name == "link_busy_share" and own.value - BUSY_DEVIATIONS * own.error > limit
    )


def _newly_busy_links(turn: Turn) -> frozenset[int]:
    """Those that were not when a solve was last asked for."""
    return _busy_links(turn) - turn.state.busy_links


def _limits_moved(turn: Turn, solving: SolveInFlight | None) -> bool:
    """Whether a stage reports another memory limit than the newest solve was asked for with."""
    if solving is not None and solving.restarts >= MOST_RESTARTS:
        return False
    known = turn.state.limits_solved_for
    return any(
        abs(limit - known[stage]) > LEAST_LIMIT_SHIFT * known[stage]
        for stage, limit in _limits(turn).items()
    )


def _limits(turn: Turn) -> dict[int, int]:
    """The memory limit that each stage reported last, also before the window."""
    return {**turn.state.limits_solved_for, **turn.reported_limits}


def _learn_limits(turn: Turn) -> None:
    """The first limits that stages report are those that the run's problem was made for."""
    known = turn.state.memory_limits
    new = {stage: limit for stage, limit in _limits(turn).items() if stage not in known}
    if new:
        turn.change(
            memory_limits={**known, **new},
            limits_solved_for={**turn.state.limits_solved_for, **new},
        )
