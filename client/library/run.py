"""`Run`: what a trainer calls, each iteration, for its plan to follow what it measures."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self, Unpack

from client.library.connection import api_key_for, server_from
from client.library.requests import PipelineParts
from client.library.retries import NO_RETRIES
from client.library.run_follower import MOST_PER_POST, Follower, Prepare
from client.library.run_plans import AT_ONCE, Held, HeldPlans
from client.library.run_samples import Samples, sample_of
from client.library.runs import Runs
from client.library.service import Service

log = logging.getLogger("loadmaster.run")

MOST_SAMPLES = 1000
REQUEST_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 5.0


class Run:
    """A training run that reports what it measures and fetches the plans made of that.

    One rank begins it (`Run.create`), the others join it by its id (`Run.join`). Use as a context
    manager, or call `close`. Making one may raise what `client.errors` draws; after that nothing
    raises, waits for the service or takes 1 ms: a thread sends and fetches, and while the service
    is away the newest 1,000 iterations wait for it. Every method may be called from any thread. In
    a forked child it does nothing and keeps the plans that it had.
    """

    def __init__(self, service: Service, run_id: str, *, rank: int, prepare: Prepare) -> None:
        """Use `Run.create` or `Run.join`."""
        self.id = run_id
        self.rank = rank
        self._process = os.getpid()
        self._has_left_out = False
        self._plans = HeldPlans()
        self._samples = Samples(MOST_SAMPLES)
        self._follower = Follower(service, run_id, rank, self._samples, self._plans, prepare)
        self._follower.start()

    @classmethod
    def create(
        cls,
        body: Mapping[str, Any] | None = None,
        *,
        plan: Mapping[str, Any] | None = None,
        follow: Mapping[str, Any] | None = None,
        rank: int = 0,
        prepare: Prepare = lambda plan: plan,
        server: str | None = None,
        api_key: str | None = None,
        **parts: Unpack[PipelineParts],
    ) -> Run:
        """Begin a run: the body of a pipeline schedule, as a whole or in parts.

        `plan` is the schedule that is running already, if any, and `follow` how it is followed:
        `ranks` if there are more than devices, `resolve_every`, `min_gain` and so on. `prepare`
        makes of each plan what the trainer needs to switch to it, in a thread of its own; a rank
        acknowledges what was prepared. `server` and `api_key` are as those of `Planner`.
        """
        with _service(server, api_key, is_patient=True) as service:
            view = Runs(service.ask).create(body, plan=plan, follow=follow, **parts)
        return cls.join(view.id, rank=rank, prepare=prepare, server=server, api_key=api_key)

    @classmethod
    def join(
        cls,
        run_id: str,
        *,
        rank: int,
        prepare: Prepare = lambda plan: plan,
        server: str | None = None,
        api_key: str | None = None,
    ) -> Run:
        """Be one of its ranks, for the first time or again: a rank that restarts gets the plan that
        is running. Asks the service nothing before it returns."""
        service = _service(server, api_key, is_patient=False)
        return cls(service, run_id, rank=rank, prepare=prepare)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Run {self.id} rank {self.rank}>"

    @property
    def is_followed(self) -> bool:
        """Whether telemetry goes out and plans come in; False once it is stopped or closed."""
        return not self._follower.is_over and os.getpid() == self._process

    @property
    def plans(self) -> tuple[Held, ...]:
        """What this rank is able to switch to, by ascending version."""
        return self._plans.all

    def iteration(
        self,
        number: int,
        stages: Iterable[Mapping[str, Any]] = (),
        iteration_ns: int | None = None,
        *,
        plan_version: int | None = None,
    ) -> None:
        """Say that an iteration is over and what was measured in it.

        `stages` are those of this rank, each `{"stage": 3, "forward_ns": …, …}` with what was
        measured of it, per micro-batch: a number, or `{"mean": …, "median": …, "p95": …}`; where
        there are none, nothing is sent. `plan_version` is what was run, unless that is what
        `plan_at` says. Values that cannot have been measured (NaN, texts, times below 0) are left
        out; the log says so once.
        """
        try:
            sample, wrong = sample_of(number, stages, iteration_ns, plan_version)
            if wrong:
                self._leave_out(f"of iteration {number!r:.40} {', '.join(wrong)}")
            follower = self._follower
            if "iteration" in sample:
                follower.newest_iteration = max(follower.newest_iteration, number)
            if not self.is_followed or not sample["stages"]:
                return
            if plan_version is None:
                held = self._plans.at(number)
                if held is not None:
                    sample["plan_version"] = held.version
            self._samples.add(sample)
            if len(self._samples) == MOST_PER_POST:
                follower.wake()
        except Exception as error:
            # Whatever is wrong with what was measured, training is not to suffer from it.
            self._leave_out(f"an iteration: {error}")

    def _leave_out(self, words: str) -> None:
        """Say once that something which was measured is not sent."""
        if not self._has_left_out:
            self._has_left_out = True
            log.warning(
                "Run %s: what cannot have been measured is left out: %.200s", self.id, words
            )

    def plan_at(self, iteration: int) -> Any:
        """What `prepare` made of the plan for an iteration (the `RunPlan` itself otherwise).

        It changes exactly at the iteration that the service has set for all ranks; None before
        there is a plan for this one. A rank that has not heard in time stays with the one before,
        so ranks have to agree before they switch: see `due`.
        """
        held = self._plans.at(iteration)
        return None if held is None else held.prepared

    def due(self, iteration: int) -> tuple[Held, ...]:
        """All versions that this rank may run in an iteration, by ascending number. The newest one
        that every rank has in here is the one to run."""
        return self._plans.due(iteration)

    def wait_for_plan(self, timeout_s: float) -> tuple[Held, ...]:
        """Before training begins: the versions to begin with, the last being the best; empty where
        there is none in time."""
        self._plans.arrived.wait(timeout_s)
        return self._plans.to_start_with()

    def begin_with(self, version: int) -> None:
        """Run this version from the first iteration on, whenever it was due."""
        self._plans.schedule(version, AT_ONCE)

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Send what is left, within the time limit, and end. The run itself goes on: other ranks
        may report, and this one may join again."""
        if os.getpid() == self._process:
            self._follower.close(timeout_s)


def _service(server: str | None, api_key: str | None, *, is_patient: bool) -> Service:
    server = server or server_from()
    key = api_key or api_key_for(server)
    if is_patient:
        return Service(server, api_key=key)
    return Service(server, api_key=key, timeout_s=REQUEST_TIMEOUT_S, retries=NO_RETRIES)
