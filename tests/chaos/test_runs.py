"""Runs are followed whatever is killed: no plan is published twice, half or by nobody."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from tests.chaos.asking import Asker
from tests.chaos.deployments import asking, deployed
from tests.chaos.form import LONG_S, by_form, record
from tests.integration.topology import Topology

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.timeout(by_form(300, LONG_S))]

RUNS, KILLS = by_form(3, 12), by_form(4, 40)
KILL_EVERY_S, SOLVE_S = 3.0, 0.3
ITERATION_S, LEVEL_LASTS = 0.05, 30
"""Iterations after which the stage takes another time, so that there is something to plan for."""
FORWARD_NS, LEVELS = 10_000, (1.0, 1.6)
FOLLOW = {"warm_up": 0, "window": 40, "resolve_every": 10, "cool_down": 5, "swap_lead": 3}
SWAPS, SETTLED_S = 2, 150.0
"""Versions that every run comes to have, and how long after the last kill it may take."""


class Trainer:
    """A rank that reports, fetches and acknowledges, and counts what was taken of it."""

    def __init__(self, asker: Asker, number: int) -> None:
        self._asker = asker
        # Another time for every run: plans of other runs answer nothing of it.
        self._forward_ns = FORWARD_NS + number
        stage = {"device": 0, "forward_ns": self._forward_ns, "backward_input_ns": 2 * FORWARD_NS}
        problem = {"micro_batches": 1, "devices": [{}], "stages": [stage]}
        body = {"problem": problem, "follow": FOLLOW, "name": f"run {number}"}
        headers = {"Idempotency-Key": f"run {number}"}
        self.run_id = asker.ask("POST", "/v1/runs", number, json=body, headers=headers).json()["id"]
        self.iteration = 0
        self.held: set[int] = set()
        self.accepted = 0

    @property
    def path(self) -> str:
        return f"/v1/runs/{self.run_id}"

    def train(self, is_over: Callable[[], bool]) -> None:
        """Iterations until that is so."""
        while not is_over():
            level = LEVELS[self.iteration // LEVEL_LASTS % len(LEVELS)]
            stage = {
                "stage": 0,
                "forward_ns": round(self._forward_ns * level),
                "backward_input_ns": 2 * FORWARD_NS,
            }
            body = {"iteration": self.iteration, "stages": [stage]}
            answer = self._post("/telemetry", body)
            self.accepted += answer["accepted"] + answer["known"]
            plan = answer["plan"]
            if plan is not None and plan["version"] not in self.held:
                self._fetch(plan["version"])
            self.iteration += 1
            time.sleep(ITERATION_S)

    def _fetch(self, version: int) -> None:
        plan = self._asker.ask("GET", f"{self.path}/plan/{version}").json()
        assert plan["schedule"]["ops"]
        body = {"rank": 0, "iteration": self.iteration}
        answer = self._asker.ask("POST", f"{self.path}/plan/{version}/ack", json=body)
        # A newer one may have been published in between.
        assert answer.status_code in (200, 409), answer.text
        self.held.add(version)

    def _post(self, part: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = self._asker.ask("POST", self.path + part, self.iteration, json=body)
        assert answer.status_code == 200, answer.text
        taken: dict[str, Any] = answer.json()
        return taken


def kill_and_start(topology: Topology) -> None:
    """kill -9 of an API or of a worker, in turn; each of them looks after runs."""
    members = cycle(name for name in topology.members if name.startswith(("api-", "worker-")))
    for name, _ in zip(members, range(KILLS), strict=False):
        time.sleep(KILL_EVERY_S)
        topology.members[name].kill()
        topology.members[name].start()


def check(trainer: Trainer, asker: Asker, database_url: str) -> int:
    """What has to be so whenever everything has come to rest; how many versions there are."""
    view = asker.ask("GET", trainer.path).json()
    versions = view["versions"]
    numbers = [version["version"] for version in versions]
    assert numbers == list(range(len(versions), 0, -1))
    waiting = [one for one in versions if one["state"] in ("published", "scheduled")]
    assert len(waiting) <= 1
    made_by = Counter(one["job_id"] for one in versions if one["copy_of"] is None)
    assert set(made_by.values()) <= {1}
    applied = [one["apply_at_iteration"] for one in reversed(versions) if one["apply_at_iteration"]]
    assert applied == sorted(applied)
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        stored = connection.execute(
            text("SELECT count(*) FROM run_telemetry WHERE run_id = :id"), {"id": trainer.run_id}
        ).scalar_one()
        in_flight = connection.execute(
            text(
                "SELECT count(*) FROM job_tags JOIN jobs ON jobs.id = job_id "
                "JOIN solves ON solves.id = solve_id WHERE tag = :tag AND cancelled_at IS NULL "
                "AND solves.state IN ('queued', 'running')"
            ),
            {"tag": f"run:{trainer.run_id}"},
        ).scalar_one()
    engine.dispose()
    assert in_flight <= 1
    # Every iteration was taken once, and those of the window are there.
    assert trainer.accepted == trainer.iteration == view["newest_iteration"] + 1
    assert stored >= min(trainer.iteration, FOLLOW["window"])
    return len(versions)


def test_apis_and_workers_are_killed_while_runs_are_followed() -> None:
    with (
        deployed(apis=2, workers=1, seconds=SOLVE_S) as topology,
        asking(topology) as asker,
    ):
        trainers = [Trainer(asker, number) for number in range(RUNS)]
        done = threading.Event()
        threads = [
            threading.Thread(target=trainer.train, args=(done.is_set,)) for trainer in trainers
        ]
        for thread in threads:
            thread.start()
        kill_and_start(topology)
        # Whoever was killed last need not be there to have its runs looked after.
        known = {trainer.run_id: newest(asker, trainer) for trainer in trainers}
        deadline = time.monotonic() + SETTLED_S
        while any(
            newest(asker, one) <= known[one.run_id] or len(one.held) < SWAPS for one in trainers
        ):
            assert time.monotonic() < deadline, "runs are not looked after any more"
            time.sleep(0.5)
        done.set()
        for thread in threads:
            thread.join()
        versions = sum(check(trainer, asker, topology.database_url) for trainer in trainers)
        iterations = sum(trainer.iteration for trainer in trainers)
        record(
            "the services of the compose file as processes, kill -9 of APIs and workers while runs "
            "are followed",
            runs=RUNS,
            kills=KILLS,
            iterations=iterations,
            versions=versions,
            unanswered=asker.unanswered,
        )


def newest(asker: Asker, trainer: Trainer) -> int:
    """The number of the newest event of a run: it grows as long as somebody looks after it."""
    events = asker.ask("GET", trainer.path).json()["events"]
    return max((event["seq"] for event in events), default=-1)
