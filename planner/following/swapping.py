"""From a published version to one that runs, and what becomes of it.

A version applies only where every rank has acknowledged it: two ranks on different versions wait
for each other for ever. The iteration that it applies from lies `swap_lead` after the newest one
and after the last acknowledgement, so that every rank learns of it before it gets there.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.following.look import NewVersion
from planner.following.measured import Before, measured_gain, period
from planner.following.solve_records import MEMORY_REASONS, Reason
from planner.following.state import SETTLING
from planner.following.telemetry import PLAN_VERSION
from planner.following.turn import Turn
from planner.following.versions import VersionRecord, VersionState

WORSE_DEVIATIONS = 2.0
"""A swap was for the worse if it lost more than so many standard errors, and `LEAST_LOSS`."""
LEAST_LOSS = 0.002


def follow_versions(turn: Turn) -> None:
    """Schedule what has been acknowledged, note what has been reached, measure what runs."""
    if turn.look.acks and not turn.state.ever_acked:
        turn.change(ever_acked=True)
    _schedule(turn)
    _reach(turn)
    _measure(turn)


def _schedule(turn: Turn) -> None:
    version = turn.state.pending
    if version is None or version.state is not VersionState.PUBLISHED:
        return
    acked = turn.look.acks.get(version.number, {})
    if len(acked) >= turn.state.ranks:
        apply_at = _apply_at(turn, version, acked)
        why = f"all {turn.state.ranks} ranks have acknowledged it"
    elif (since := _reported_since(turn, version)) is not None:
        apply_at = since
        why = "its ranks report it"
    elif _nobody_acknowledges(turn, version):
        apply_at = turn.newest + turn.state.settings.swap_lead
        why = "nobody in this run acknowledges"
    else:
        _tell_missing(turn, version, acked)
        return
    turn.replace_version(version.to(VersionState.SCHEDULED, apply_at_iteration=apply_at))
    if version.needs_restart:
        turn.change(first_iteration=apply_at)
    turn.tell("scheduled", f"version {version.number} applies from iteration {apply_at}: {why}")


def _tell_missing(turn: Turn, version: VersionRecord, acked: Mapping[int, int]) -> None:
    state = turn.state
    is_late = turn.newest >= version.published_at_iteration + state.settings.resolve_every
    if not is_late or state.missed_for == version.number:
        return
    turn.change(missed_for=version.number)
    named = ", ".join(map(str, state.missing_ranks(acked)))
    turn.tell(
        "ranks_missing",
        f"version {version.number} waits for {state.ranks - len(acked)} of {state.ranks} ranks to "
        f"acknowledge it, first of all {named}",
    )


def _apply_at(turn: Turn, version: VersionRecord, acked: Mapping[int, int]) -> int:
    if version.needs_restart:
        # Ranks restart with it, and have nothing else to run.
        return max(acked.values())
    return max(turn.newest, *acked.values()) + turn.state.settings.swap_lead


def _reported_since(turn: Turn, version: VersionRecord) -> int | None:
    """The first iteration that says that it ran this version, where nobody ever acknowledged or
    its ranks have to restart with it; None if there is none."""
    if turn.state.ever_acked and not version.needs_restart:
        return None
    said = (s.iteration for s in turn.samples if s.values.get(PLAN_VERSION) == version.number)
    return min(said, default=None)


def _nobody_acknowledges(turn: Turn, version: VersionRecord) -> bool:
    """Only once ranks have had the time to: a run's first acknowledgements come one by one. No time
    that passes says that a run has restarted."""
    if turn.state.ever_acked or version.needs_restart or turn.look.newest_iteration is None:
        return False
    return turn.newest >= version.published_at_iteration + turn.state.settings.swap_lead


def _reach(turn: Turn) -> None:
    version = turn.state.pending
    if version is None or version.state is not VersionState.SCHEDULED:
        return
    apply_at = version.apply_at_iteration
    assert apply_at is not None
    if turn.look.newest_iteration is None or turn.newest < apply_at:
        return
    older = turn.state.running
    running = version.to(VersionState.RUNNING)
    if older is None or version.copy_of is not None or version.needs_restart:
        # Nothing comparable ran before, or it ran before itself.
        running = running.to(VersionState.CONFIRMED)
    else:
        turn.change(before=_before(turn, older, apply_at))
    turn.change(running=version.number)
    turn.replace_version(running)
    turn.tell("running", f"version {version.number} runs since iteration {apply_at}")
    if older is not None:
        turn.cool_down()
    solving = turn.state.solving
    if solving is not None and solving.start_version != version.number:
        drop(turn, f"version {version.number} runs now")


def _before(turn: Turn, older: int, apply_at: int) -> Before | None:
    """How the older version ran in the last iterations before the swap."""
    first = apply_at - turn.state.settings.measure_over
    found = period(turn.samples, lambda i: first <= i < apply_at and turn.state.counts(i))
    return None if found is None else Before(older, found)


def _measure(turn: Turn) -> None:
    number = turn.state.running
    if number is None or turn.state.version(number).state is not VersionState.RUNNING:
        return
    version = turn.state.version(number)
    assert version.apply_at_iteration is not None
    first = version.apply_at_iteration + SETTLING
    over = turn.state.settings.measure_over
    if turn.newest < first + over - 1:
        return
    before = turn.state.before
    after = period(turn.samples, lambda i: i >= first, number)
    if before is None or after is None:
        if before is None or turn.newest >= first + 2 * over:
            turn.replace_version(version.to(VersionState.CONFIRMED))
            turn.change(before=None)
            turn.tell("confirmed", f"version {number} stays; too few iteration times to measure")
        return
    gain, noise = measured_gain(turn.state.base, before.period, after)
    figures = {"measured_gain": gain, "measured_noise": noise}
    words = f"measured {gain:+.1%} ± {noise:.1%}"
    turn.change(before=None)
    if gain >= -max(WORSE_DEVIATIONS * noise, LEAST_LOSS) or _older_may_not_fit(turn, version):
        turn.replace_version(version.to(VersionState.CONFIRMED, **figures))
        turn.change(rollbacks=max(0, turn.state.rollbacks - 1))
        turn.tell("confirmed", f"version {number} stays: {words}")
        return
    turn.replace_version(version.to(VersionState.ROLLED_BACK, **figures))
    turn.change(rollbacks=turn.state.rollbacks + 1, rolled_back_on=turn.state.anchor)
    turn.tell("rolled_back", f"version {number} is slower than version {before.version}: {words}")
    drop(turn, f"version {number} was rolled back")
    turn.cool_down()
    publish(
        turn,
        NewVersion(
            number=len(turn.state.versions) + 1,
            solve=None,
            copy_of=before.version,
            reason=Reason.ROLLED_BACK,
            predicted_gain=None,
            gain_low=None,
            needs_restart=False,
        ),
    )


def _older_may_not_fit(turn: Turn, version: VersionRecord) -> bool:
    """Whether memory has changed since the older version was made: slower is better than out of
    memory."""
    solving = turn.state.solving
    is_asked_for = solving is not None and solving.reason in MEMORY_REASONS
    return version.reason in MEMORY_REASONS or is_asked_for or turn.state.limits_changed


def publish(turn: Turn, new: NewVersion, why: str = "") -> None:
    """Publish a version in place of one that waits for acknowledgements. Its event ends in
    `why`."""
    waiting = turn.state.pending
    if waiting is not None:
        turn.replace_version(waiting.to(VersionState.SUPERSEDED))
        turn.tell("superseded", f"version {waiting.number} never ran")
    turn.replace_version(
        VersionRecord(
            number=new.number,
            state=VersionState.PUBLISHED,
            reason=new.reason,
            published_at_iteration=turn.newest,
            predicted_gain=new.predicted_gain,
            gain_low=new.gain_low,
            copy_of=new.copy_of,
            needs_restart=new.needs_restart,
        )
    )
    turn.publish = new
    turn.change(setback=None)
    gain = "" if new.predicted_gain is None else f", predicted {new.predicted_gain:+.1%}"
    again = "" if new.copy_of is None else f", version {new.copy_of} again"
    turn.tell("published", f"version {new.number} ({new.reason}){gain}{again}{why}")


def drop(turn: Turn, why: str) -> None:
    """Give up the solve in flight, if there is one; what it was for is asked again."""
    solving = turn.state.solving
    if solving is None:
        return
    turn.drop_solve = True
    turn.change(
        solving=None,
        limits_changed=turn.state.limits_changed or solving.reason is Reason.MEMORY_LIMIT_CHANGE,
        busy_links=frozenset(),
    )
    turn.tell("solve_dropped", why)
