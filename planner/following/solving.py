"""When a new plan is looked for, and whether what was found is published."""

from __future__ import annotations

from planner.errors import SpecError
from planner.following.adapt import adapted
from planner.following.drift import DIFFERS, Drift, drifts
from planner.following.estimates import Estimates
from planner.following.look import NewVersion, Solved, SolveWanted
from planner.following.profile import disbelieved, fresh_problem, limit_changes, stage_noise
from planner.following.state import FIRST_REASONS, MEMORY_REASONS, Reason, RunState, SolveInFlight
from planner.following.swapping import drop, publish
from planner.following.turn import Turn
from planner.following.versions import VersionState
from planner.pipeline.feasibility.decide import find_infeasibility

MOST_RESTARTS = 2
"""How often in a row a newer profile may replace a solve in flight: a run that never stops
changing gets plans all the same."""
MOST_DOUBLINGS = 4
"""`min_gain` doubles with each roll-back, this often at most."""
BUSY_DEVIATIONS = 2.0
MOST_DEVICES_NAMED = 4
LEAST_LIMIT_SHIFT = 0.005
"""Of a memory limit; less is another count of the same memory."""


def take_result(turn: Turn) -> None:
    """Publish or refuse what the solve in flight has found, if it is over."""
    solving, solved = turn.state.solving, turn.look.solved
    if solving is None or solved is None or solved.number != solving.number:
        return
    if turn.state.shape_changed or turn.state.limits_changed:
        # It answers what is asked no more, and is dropped below.
        return
    turn.change(solving=None)
    moved = _moved_since(turn, solving)
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
    refusal = why_not(turn.state, solving, solved)
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


def _advice(state: RunState, solved: Solved) -> str:
    if solved.state == "infeasible" or solved.unsafe is None:
        return ""
    return f"; raise follow.solve_time_limit_s, now {state.settings.solve_time_limit_s:g}"


def _tries_first_again(turn: Turn, solving: SolveInFlight) -> bool:
    """A trainer that waits for the first plan of its shape sends no telemetry that would ask for
    one again, so the solve is repeated at once, each time with twice the time."""
    if turn.state.has_plan or solving.restarts >= MOST_RESTARTS:
        return False
    ask(turn, solving.reason, solving.restarts + 1)
    return True


def why_not(state: RunState, solving: SolveInFlight, solved: Solved) -> str | None:
    """Why what a solve found is not published; None if it is."""
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
    if not figures["running_fits"] and (is_about_memory or misfit_of(state, solving, solved)):
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
        moved = _moved_since(turn, solving)
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
    busy = _busy_links(turn) - state.busy_links
    if busy:
        ask(turn, Reason.LINK_BUSY, told=f"the host link of stage {min(busy)}")
        return
    last = (
        state.first_iteration if state.last_solve_iteration is None else state.last_solve_iteration
    )
    if last is None or turn.newest - last < state.settings.resolve_every:
        return
    differs = drifts(state.base, state.anchor, turn.estimates, turn.series, DIFFERS)
    if differs:
        ask(turn, Reason.INTERVAL, told=str(differs[0]))


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
    """Whether what is measured is what the last solve came to nothing for, not long enough ago."""
    setback = turn.state.setback
    if setback is None or turn.newest >= setback.until:
        return False
    _forget_setback(turn)
    return turn.state.setback is not None


def _forget_setback(turn: Turn) -> None:
    """Of another profile it says nothing."""
    state = turn.state
    if state.setback is not None and drifts(
        state.base, state.setback.profile, turn.estimates, turn.series
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
        turn.change(limits_solved_for=limits, limits_changed=False)
        turn.set_back("refused", profile)
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


def _moved_since(turn: Turn, solving: SolveInFlight) -> list[Drift]:
    """What has drifted since a solve was asked for, unless newer profiles have had their turns.
    The first plan of a run is not waited for any longer because of its profile."""
    if solving.reason is Reason.FIRST or solving.restarts >= MOST_RESTARTS:
        return []
    return drifts(turn.state.base, solving.profile, turn.estimates, turn.series)


def _busy_links(turn: Turn) -> frozenset[int]:
    limit = turn.state.settings.link_busy_limit
    estimates: Estimates = turn.estimates
    return frozenset(
        s
        for (s, name), own in estimates.items()
        if name == "link_busy_share" and own.value - BUSY_DEVIATIONS * own.error > limit
    )


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
    """The memory limit that each stage reported last."""
    newest: dict[int, tuple[int, int]] = {}
    first = turn.state.first_iteration or 0
    for sample in turn.samples:
        limit = sample.values.get("memory_limit_bytes")
        if limit is not None and sample.iteration >= first:
            known = newest.get(sample.stage, (-1, 0))
            newest[sample.stage] = max(known, (sample.iteration, int(limit)))
    reported = {stage: limit for stage, (_, limit) in newest.items()}
    return {**turn.state.limits_solved_for, **reported}


def _learn_limits(turn: Turn) -> None:
    """The first limits that stages report are those that the run's problem was made for."""
    known = turn.state.memory_limits
    new = {stage: limit for stage, limit in _limits(turn).items() if stage not in known}
    if new:
        turn.change(
            memory_limits={**known, **new},
            limits_solved_for={**turn.state.limits_solved_for, **new},
        )
