"""The thread behind a `Run`: sends telemetry, fetches plans and acknowledges them.

It is the only one that talks to the service. Nothing that happens here reaches the trainer: while
the service is away it is tried again at growing intervals, and what cannot go on ends quietly,
either with one line in the log.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from client.errors import ApiError, ClientError, IncompatibleServer, InputError
from client.library import run_requests
from client.library.answers import document_of
from client.library.requests import Call, Document
from client.library.retries import Retries
from client.library.run_plans import AT_ONCE, Held, HeldPlans
from client.library.run_samples import Sample, Samples
from client.library.run_views import RunPlan
from client.library.service import Service

log = logging.getLogger("loadmaster.run")

Prepare = Callable[[RunPlan], Any]
"""Makes of a plan what the trainer needs to switch to it. Called in the thread of the follower; a
plan for which it raises is not switched to."""

SEND_EVERY_S = 2.0
WAITING_S = 0.25
"""How soon it asks again while a version is acknowledged and its iteration still open."""
SILENCE_S = 5.0
"""A rank that has nothing to send asks after so long."""
FIRST_HOLD_S, HOLD_S = 5, 20
"""How long the service may hold a poll before there is a plan, and after."""
MOST_PER_POST = 200
RETRIES = Retries(first_pause_s=0.5, longest_pause_s=30.0)
LEAST_BETWEEN_WARNINGS_S = 300.0
NOT_MODIFIED = 304
TOO_MUCH_OR_WRONG = (400, 413, 422)
UNPLANNED = ("failed", "infeasible", "cancelled")
GONE = (404, 409, 410)
"""The run is unknown, stopped, or forgotten: nothing more will come of it."""


class Follower:
    """Follows one run for one rank. `start` begins; `close` ends within a time limit."""

    def __init__(
        self,
        service: Service,
        run_id: str,
        rank: int,
        samples: Samples,
        plans: HeldPlans,
        prepare: Prepare,
    ) -> None:
        self.newest_iteration = 0
        self.is_over = False
        self._service, self._run_id, self._rank = service, run_id, rank
        self._samples, self._plans, self._prepare = samples, plans, prepare
        self._wake, self._closing = threading.Event(), threading.Event()
        self._refused: set[int] = set()
        self._to_acknowledge: set[int] = set()
        self._has_sent = self._has_refusal = self._is_unplanned = False
        self._etag: str | None = None
        self._asked_at = -SILENCE_S
        self._failures, self._warned_at = 0, -LEAST_BETWEEN_WARNINGS_S
        self._thread = threading.Thread(target=self._follow, name="loadmaster-run", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Send what there is now."""
        self._wake.set()

    def close(self, timeout_s: float) -> None:
        """Send what is left if that can be done in time, and end."""
        self._closing.set()
        self._wake.set()
        self._thread.join(timeout_s)
        self.is_over = True

    def _follow(self) -> None:
        try:
            while not self._closing.is_set():
                pause_s = self._turn()
                # What wakes the thread early must not make it impatient with a service that fails.
                (self._closing if self._failures else self._wake).wait(pause_s)
                self._wake.clear()
            while self._samples and not self._failures:
                self._turn()
        except ClientError as error:
            log.warning(
                "Run %s is not followed any more: %s. Training goes on.",
                self._run_id,
                str(error).rstrip("."),
            )
        except Exception:
            log.warning("Run %s is not followed any more.", self._run_id, exc_info=True)
        finally:
            self.is_over = True
            self._samples.clear()
            self._service.close()

    def _turn(self) -> float:
        """Say and ask what there is to; seconds until the next time. Raises what is final."""
        try:
            self._talk()
            self._acknowledge()
        except ClientError as error:
            if _is_final(error):
                raise
            self._failed(error)
            return RETRIES.pause_s(self._failures)
        if self._failures:
            self._failures = 0
            log.info("The service answers again; run %s is followed.", self._run_id)
        rest_s = WAITING_S if self._plans.waits_for_iteration else SEND_EVERY_S
        return 0.0 if len(self._samples) >= MOST_PER_POST else rest_s * random.uniform(0.75, 1.25)

    def _failed(self, error: ClientError) -> None:
        self._failures += 1
        now = time.monotonic()
        if self._failures == 1 and now - self._warned_at >= LEAST_BETWEEN_WARNINGS_S:
            self._warned_at = now
            log.warning(
                "Run %s: %s. Training goes on with the plan that it has; tried again meanwhile.",
                self._run_id,
                str(error).rstrip("."),
            )

    def _talk(self) -> None:
        samples = self._samples.take(MOST_PER_POST)
        if samples:
            self._has_sent = True
            try:
                self._send(samples)
            except ClientError:
                self._samples.put_back(samples)
                raise
        elif not self._closing.is_set() and self._may_ask():
            self._ask_for_plan()

    def _may_ask(self) -> bool:
        """A rank that sends learns of plans by the answers; one that does not asks, and is kept
        waiting by the service."""
        silence_s = WAITING_S if self._plans.waits_for_iteration else SILENCE_S
        return not self._has_sent or time.monotonic() - self._asked_at >= silence_s

    def _send(self, samples: list[Sample]) -> None:
        """Post samples; of those that are refused the others are posted without them."""
        try:
            answer = self._ask(run_requests.telemetry(self._run_id, samples))
        except (ApiError, TypeError, ValueError) as error:
            if isinstance(error, ApiError) and error.status not in TOO_MUCH_OR_WRONG:
                raise
            if len(samples) == 1:
                self._refuse(error)
                return
            middle = len(samples) // 2
            self._send(samples[:middle])
            self._send(samples[middle:])
            return
        self._learn(answer.get("plan") or {})

    def _refuse(self, error: Exception) -> None:
        if not self._has_refusal:
            self._has_refusal = True
            log.warning("Run %s: telemetry is refused and left out: %s", self._run_id, error)

    def _ask_for_plan(self) -> None:
        hold_s = 0
        if not self._has_sent and self._asked_at > 0:
            hold_s = HOLD_S if self._plans.all else FIRST_HOLD_S
        call = run_requests.news(self._run_id, self._etag, hold_s)
        response = self._service.send(call)
        self._asked_at = time.monotonic()
        if response.status_code == NOT_MODIFIED:
            return
        self._etag = response.headers.get("etag")
        self._learn(document_of(self._service.server, response))

    def _ask(self, call: Call) -> Document:
        answer = self._service.ask(call)
        self._asked_at = time.monotonic()
        return answer

    def _learn(self, news: Document) -> None:
        """Take what the service says of plans: the newest one, and which one is running."""
        newest, running = news.get("version"), news.get("running_version")
        if not isinstance(newest, int):
            self._note_no_plan(news.get("state"))
            return
        if not self._plans.all:
            self._begin(newest, running)
        elif self._is_news(newest):
            plan = self._fetched(newest)
            if plan.needs_restart:
                self._refused.add(newest)
                log.info("Run %s: version %d needs a restart.", self._run_id, newest)
            else:
                self._hold(plan, plan.apply_at_iteration)
        self._plans.schedule(newest, news.get("apply_at_iteration"))

    def _note_no_plan(self, state: Any) -> None:
        """The solve of the first plan may have ended without one."""
        if state in UNPLANNED and not self._is_unplanned:
            self._is_unplanned = True
            log.warning("Run %s has no plan: its solve is %s.", self._run_id, state)

    def _begin(self, newest: int, running: Any) -> None:
        """Take what a rank that has just started runs first: what the others run, or a newer plan
        that was waiting for a restart."""
        plan = None if newest in self._refused else self._fetched(newest)
        if plan is not None and plan.needs_restart and self._hold(plan, AT_ONCE):
            return
        if running not in (None, newest, *self._refused):
            self._hold(self._fetched(running), AT_ONCE)
        if plan is not None and not plan.needs_restart:
            self._hold(plan, AT_ONCE if running == newest else plan.apply_at_iteration)

    def _is_news(self, version: int) -> bool:
        return version not in self._refused and version > self._plans.all[-1].version

    def _fetched(self, version: int) -> RunPlan:
        return RunPlan(self._ask(run_requests.plan_version(self._run_id, version)))

    def _hold(self, plan: RunPlan, from_iteration: int | None) -> bool:
        """Hold a plan, if it can be prepared; whether it can."""
        version = plan.version
        try:
            prepared = self._prepare(plan)
        except Exception as error:
            self._refused.add(version)
            log.warning("Run %s: version %d cannot be run: %s", self._run_id, version, error)
            return False
        self._plans.add(Held(plan, prepared, from_iteration))
        if plan.state in ("published", "scheduled"):
            self._to_acknowledge.add(version)
        return True

    def _acknowledge(self) -> None:
        for version in sorted(self._to_acknowledge):
            call = run_requests.acknowledge(
                self._run_id, version, self._rank, self.newest_iteration
            )
            try:
                answer = self._ask(call)
            except ApiError as error:
                if error.status not in (*GONE, *TOO_MUCH_OR_WRONG):
                    raise
                # A newer version is there; whether the run still is shows the next time.
                answer = {}
                if error.status in TOO_MUCH_OR_WRONG:
                    log.warning("Run %s: %s", self._run_id, error)
            self._to_acknowledge.discard(version)
            self._plans.schedule(version, answer.get("apply_at_iteration"))


def _is_final(error: ClientError) -> bool:
    if isinstance(error, ApiError):
        return error.status in GONE
    return isinstance(error, IncompatibleServer | InputError)
