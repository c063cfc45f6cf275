"""Storing posts of runs within one transaction: what is new of each, in the order they came."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from app.errors import InvalidRequest, RunNotFound, RunStopped, ServiceError
from app.models import RunStatus
from app.repositories.run_rows import RunReader
from app.repositories.run_telemetry import Key, Reported, Row, RunFacts, TelemetryRepository
from app.services.runs.newest import (
    FURTHEST_AHEAD,
    FURTHEST_FIRST,
    Begun,
    advanced,
    begun,
    confirmed_newest,
)
from app.services.runs.posts import Post, Taken
from app.services.runs.useless import add_events, stray_events
from planner.following.telemetry import PLAN_VERSION


class _Shapes:
    """Since which version runs have the shape that they have, read once of each."""

    def __init__(self, session: Session) -> None:
        self._reader = RunReader(session.connection())
        self._since: dict[str, int] = {}

    def since(self, run_id: str) -> int:
        """The first version of the shape, or the one that is to be."""
        if run_id not in self._since:
            state = json.loads(self._reader.document(run_id, "state") or "{}")
            # Of a run that has had no other shape, no report is of an older one.
            since = int(state.get("shape_since", 1))
            self._since[run_id] = since if since > 1 else 0
        return self._since[run_id]


def store_all(session: Session, posts: Sequence[Post]) -> Sequence[Taken | Exception]:
    """Within one transaction, in the order in which they came."""
    telemetry = TelemetryRepository(session.connection())
    facts = telemetry.hold({post.run_id for post in posts})
    newest = {run_id: own.newest_iteration for run_id, own in facts.items()}
    shapes = _Shapes(session)
    refused: dict[Post, Exception] = {}
    rows: dict[Key, Row] = {}
    for post in posts:
        own = facts.get(post.run_id)
        try:
            newest[post.run_id] = _check(post, own, newest.get(post.run_id), shapes)
        except ServiceError as error:
            refused[post] = error
    kept = {
        post: _kept(post, facts[post.run_id], newest[post.run_id])
        for post in posts
        if post not in refused
    }
    for samples in kept.values():
        for key, row in samples.items():
            rows.setdefault(key, row)
    stored = telemetry.insert(list(rows.values())) if rows else set()
    started = _begin(telemetry, kept, facts, newest)
    jumped_from = _confirm_jumps(telemetry, kept, facts, newest)
    telemetry.note(_reported(stored, newest, started, jumped_from))
    add_events(session, stray_events(started))
    outcomes: list[Taken | Exception] = []
    for post in posts:
        if post in refused:
            outcomes.append(refused[post])
            continue
        accepted = stored & kept[post].keys()
        # Of posts that have the same sample, the first one was accepted.
        stored -= accepted
        outcomes.append(
            Taken(
                accepted=len(accepted),
                known=len(kept[post]) - len(accepted),
                late=len(post.samples) - len(kept[post]),
                facts=facts[post.run_id],
                newest_iteration=newest[post.run_id],
            )
        )
    return outcomes


def _check(post: Post, facts: RunFacts | None, newest: int | None, shapes: _Shapes) -> int | None:
    """The newest iteration with this post, None where there is none before it. Raises what
    `TelemetryWriter.store` says."""
    if facts is None or facts.tenant != post.tenant:
        raise RunNotFound(f"There is no run {post.run_id}.")
    if facts.state == RunStatus.STOPPED:
        raise RunStopped("The run was stopped, and takes no telemetry any more.")
    _check_stages(post, facts, shapes)
    iterations = {sample.iteration for sample in post.samples}
    furthest = max(iterations)
    if newest is None and furthest > FURTHEST_FIRST:
        raise InvalidRequest.of(
            "iteration",
            f"{furthest} is too large for the first report of a run.",
            f"Number the iterations of a run from 0, or from where it resumes, up to "
            f"{FURTHEST_FIRST}.",
        )
    known = min(iterations) if newest is None else newest
    if furthest > known + FURTHEST_AHEAD:
        raise InvalidRequest.of(
            "iteration",
            f"{furthest} is more than {FURTHEST_AHEAD} after {known}, the newest one.",
            "Number the iterations of a run without gaps; begin another run where they start anew.",
        )
    return None if newest is None else advanced(newest, iterations)


def _check_stages(post: Post, facts: RunFacts, shapes: _Shapes) -> None:
    """A stage that the run does not have (any more) may be reported by ranks that have not been
    restarted yet: it is stored and, being of an older shape, counts for nothing."""
    unknown = [sample for sample in post.samples if sample.stage >= facts.stages]
    if not unknown:
        return
    since = shapes.since(facts.id)
    for sample in unknown:
        if sample.values.get(PLAN_VERSION, 0) >= since:
            raise InvalidRequest.of(
                "stages",
                f"there is no stage {sample.stage}.",
                f"The run has {facts.stages} stages, counted from 0.",
            )


def _begin(
    telemetry: TelemetryRepository,
    kept: Mapping[Post, Mapping[Key, Row]],
    facts: Mapping[str, RunFacts],
    newest: dict[str, int | None],
) -> Mapping[str, Begun]:
    """Find where runs begin that have no newest iteration yet; what they reported far from there is
    removed."""
    found = {}
    for run_id in sorted({post.run_id for post in kept if newest[post.run_id] is None}):
        by_stage = telemetry.by_stage(run_id, -1)
        own = begun(by_stage, facts[run_id].kept_iterations)
        if own is not None:
            found[run_id], newest[run_id] = own, own.newest
            telemetry.remove(run_id, own.stray)
    return found


def _confirm_jumps(
    telemetry: TelemetryRepository,
    kept: Mapping[Post, Mapping[Key, Row]],
    facts: Mapping[str, RunFacts],
    newest: dict[str, int | None],
) -> Mapping[str, int]:
    """Move on the newest iteration of runs that posts were far ahead of, where most stages are;
    by run what it was before."""
    jumped = {
        run_id
        for samples in kept.values()
        for run_id, iteration, _ in samples
        if (known := newest[run_id]) is not None and iteration > known
    }
    before = {}
    for run_id in jumped:
        known = newest[run_id]
        assert known is not None
        window = facts[run_id].kept_iterations
        confirmed = confirmed_newest(known, telemetry.by_stage(run_id, known - window), window)
        if confirmed > known:
            before[run_id], newest[run_id] = known, confirmed
    return before


def _kept(post: Post, facts: RunFacts, newest: int | None) -> dict[Key, Row]:
    """The samples that are recent enough to be of use: all while it is not known where the run
    begins."""
    first = -1 if newest is None else newest - facts.kept_iterations
    return {
        (post.run_id, sample.iteration, sample.stage): (
            post.run_id,
            sample.iteration,
            sample.stage,
            sample.to_text(),
        )
        for sample in post.samples
        if sample.iteration > first
    }


def _reported(
    stored: set[Key],
    newest: Mapping[str, int | None],
    started: Mapping[str, Begun],
    jumped_from: Mapping[str, int],
) -> Sequence[Reported]:
    # What was stored ahead of the newest iteration has not been looked at yet.
    lowest = {run_id: iteration + 1 for run_id, iteration in jumped_from.items()}
    lowest |= {run_id: own.first for run_id, own in started.items()}
    for run_id, iteration, _ in stored:
        lowest[run_id] = min(iteration, lowest.get(run_id, iteration))
    return [
        Reported(run_id, newest[run_id], changed_from) for run_id, changed_from in lowest.items()
    ]
