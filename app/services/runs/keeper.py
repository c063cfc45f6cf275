"""The background thread that looks after runs."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid

from app.database import UNREACHABLE, Database
from app.errors import ServiceError
from app.models import PIPELINE
from app.observability import metrics
from app.repositories.run_looks import DueRun, RunLooks
from app.services.calibrations.use import CalibrationsInUse
from app.services.limits import PipelineLimits
from app.services.plan_requests import PlanRequests
from app.services.runs.looking import Looker
from app.services.runs.solving import Solves
from app.services.submission import Submission
from app.services.webhooks.targets import WebhookTargets
from app.settings import Settings
from planner.errors import SpecError
from planner.pipeline.request import resolve_request

logger = logging.getLogger(__name__)

POLL_S, AFTER_FAILURE_S = 0.5, 5.0
RUNS_AT_ONCE = 20
MOST_OF_THE_TIME = 0.1
"""The part of the time that looks may take: they run beside solves."""
LONGEST_PAUSE_S = 2.0
LEASE_MS = 30_000
"""How long a look has; then whoever is next makes it, and of two the first one counts."""
AFTER_REFUSAL_MS, AFTER_FAULT_MS = 10_000, 60_000


class RunKeeper:
    """Runs in each worker's main process, beside the dispatcher: a look is many milliseconds of
    Python, which in an API would hold up its requests, and what it asks for needs a worker anyway.

    A run is looked at by one process at a time, mostly by the one that looked last. What a look
    does is one transaction, so that a process may die at any moment.
    """

    def __init__(self, database: Database, settings: Settings, submission: Submission) -> None:
        self._database = database
        self.name = f"{socket.gethostname()[:20]}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        pipelines = PlanRequests(
            PIPELINE,
            submission,
            resolve_request,
            PipelineLimits(settings),
            WebhookTargets(settings),
            CalibrationsInUse(database),
        )
        solves = Solves(database, submission, pipelines, settings.max_time_limit_s)
        self._looker = Looker(database, submission, solves, self.name)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="run-keeper", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """End the thread; a look that takes longer is left behind, and made again by whoever is
        next."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            pause_s = POLL_S
            try:
                self.round()
            except UNREACHABLE as error:
                # The thread outlives a database that is down: the next round tries again.
                pause_s = AFTER_FAILURE_S
                metrics.database_failed()
                logger.error("runs are not looked at: %s", error)
            except Exception:
                # It outlives a fault of its own too: another round may not meet it.
                pause_s = AFTER_FAILURE_S
                logger.exception("runs are not looked at")
            self._stopping.wait(pause_s)

    def round(self) -> int:
        """Look at the runs that are due; how many there were."""
        with self._database.reading() as session:
            due = RunLooks(session).due(self.name, RUNS_AT_ONCE)
        for run in due:
            began = time.monotonic()
            self._look(run)
            taken_s = time.monotonic() - began
            pause_s = taken_s * (1 / MOST_OF_THE_TIME - 1)
            if self._stopping.wait(min(pause_s, LONGEST_PAUSE_S)):
                break
        return len(due)

    def _look(self, run: DueRun) -> None:
        with self._database.writing() as session:
            if not RunLooks(session).claim(run, LEASE_MS):
                return
        try:
            if self._looker.look(run.id):
                metrics.run_looked_at("done")
            else:
                metrics.run_looked_at("overtaken")
                self._put_off(run.id, 0)
        except UNREACHABLE:
            raise
        except (ServiceError, SpecError) as error:
            # A full queue for one, which may have room again soon.
            metrics.run_looked_at("refused")
            logger.warning("the run %s is looked at later: %s", run.id, error)
            self._put_off(run.id, AFTER_REFUSAL_MS)
        except Exception:
            # What one run is at fault with must not hold up the others.
            metrics.run_looked_at("failed")
            logger.exception("the run %s cannot be looked at", run.id)
            self._put_off(run.id, AFTER_FAULT_MS)

    def _put_off(self, run_id: str, by_ms: int) -> None:
        with self._database.writing() as session:
            RunLooks(session).put_off(run_id, by_ms)
