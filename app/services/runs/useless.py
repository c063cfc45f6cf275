"""Telling people of reports that were of no use: dropped, or too late time after time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from app.repositories.runs import NewEvent, RunRepository
from app.services.runs.newest import Begun
from app.services.runs.posts import Post, Taken

MANY_LATE = 10
"""Iterations that came too late, with none between that did not, after which an event says so."""
MOST_NAMED = 8


def add_events(session: Session, events: Mapping[str, NewEvent]) -> None:
    """Add an event to each of these runs."""
    runs = RunRepository(session)
    for run_id, event in sorted(events.items()):
        # It locks the run, so that nobody else numbers an event of it meanwhile.
        runs.tell(run_id)
        runs.add_events(run_id, [event])


def stray_events(started: Mapping[str, Begun]) -> dict[str, NewEvent]:
    """By run that what it reported far from where it begins was dropped."""
    return {
        run_id: NewEvent(
            "iterations_dropped",
            f"Reports of {_named(own.stray)} were dropped: no other iteration is near, and the "
            f"run's others are from {own.first} on.",
            own.newest,
        )
        for run_id, own in started.items()
        if own.stray
    }


def _named(iterations: Sequence[int]) -> str:
    named = ", ".join(map(str, iterations[:MOST_NAMED]))
    if len(iterations) > MOST_NAMED:
        return f"iterations {named} and {len(iterations) - MOST_NAMED} more"
    return f"iteration {named}" if len(iterations) == 1 else f"iterations {named}"


def late_in_a_row(
    before: Mapping[str, int], posts: Sequence[Post], outcomes: Sequence[Taken | Exception]
) -> dict[str, int]:
    """By run how many iterations came too late since one that did not."""
    late = dict(before)
    for post, outcome in zip(posts, outcomes, strict=True):
        if not isinstance(outcome, Taken):
            continue
        if outcome.late < len(post.samples):
            late.pop(post.run_id, None)
        else:
            iterations = {sample.iteration for sample in post.samples}
            late[post.run_id] = late.get(post.run_id, 0) + len(iterations)
    return late


def late_events(
    before: Mapping[str, int],
    late: Mapping[str, int],
    posts: Sequence[Post],
    outcomes: Sequence[Taken | Exception],
) -> dict[str, NewEvent]:
    """By run that nothing it reports is of use any more; told once until something is."""
    events = {}
    for post, outcome in zip(posts, outcomes, strict=True):
        count = late.get(post.run_id, 0)
        if isinstance(outcome, Taken) and before.get(post.run_id, 0) < MANY_LATE <= count:
            events[post.run_id] = NewEvent(
                "all_late",
                f"The last {count} iterations reported, up to "
                f"{max(sample.iteration for sample in post.samples)}, were too late to be of use: "
                f"the newest is {outcome.newest_iteration}, and {outcome.facts.kept_iterations} "
                "up to it are kept. If that number was wrong, or iterations start anew, begin "
                "another run.",
                outcome.newest_iteration,
            )
    return events
