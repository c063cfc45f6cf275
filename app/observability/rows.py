"""What the rows say about the load, read when Prometheus asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric
from sqlalchemy.exc import SQLAlchemyError

from app.database import Database
from app.models import LONG, SHORT
from app.repositories.load import Load, LoadRepository

KEPT_S = 1.0


@dataclass(frozen=True)
class _Reading:
    at: float
    load: Load | None


class RowsCollector:
    """A collector for the Prometheus client. However many ask, the rows are read once a second."""

    def __init__(self, database: Database, version: str) -> None:
        self._database = database
        self._version = version
        self._lock = threading.Lock()
        self._reading: _Reading | None = None

    def collect(self) -> Iterable[Metric]:
        """The gauges; without the database only that it is away."""
        load = self._load()
        build = GaugeMetricFamily(
            "loadmaster_build_info", "Always 1, with the version.", labels=["version"]
        )
        build.add_metric([self._version], 1)
        up = GaugeMetricFamily("loadmaster_database_up", "1 while the database answers, else 0.")
        up.add_metric([], 0 if load is None else 1)
        return [build, up, *([] if load is None else _gauges(load))]

    def _load(self) -> Load | None:
        with self._lock:
            now = time.monotonic()
            if self._reading is None or now - self._reading.at > KEPT_S:
                self._reading = _Reading(now, self._read())
            return self._reading.load

    def _read(self) -> Load | None:
        try:
            with self._database.reading() as session:
                return LoadRepository(session).load()
        except SQLAlchemyError:
            return None


def _gauges(load: Load) -> list[Metric]:
    depth = GaugeMetricFamily("loadmaster_queue_depth", "Solves that wait.", labels=["queue"])
    oldest = GaugeMetricFamily(
        "loadmaster_queue_oldest_age_seconds",
        "Age of the solve that waits longest; 0 if none waits.",
        labels=["queue"],
    )
    running = GaugeMetricFamily(
        "loadmaster_solves_running", "Solves that a worker has.", labels=["queue"]
    )
    for queue in (SHORT, LONG):
        depth.add_metric([queue], load.waiting.get(queue, 0))
        oldest.add_metric([queue], load.oldest_age_ms.get(queue, 0) / 1000)
        running.add_metric([queue], load.running.get(queue, 0))
    busy = GaugeMetricFamily(
        "loadmaster_workers_busy", "Pool processes that have a solve and renewed its lease."
    )
    busy.add_metric([], load.busy_workers)
    runs = GaugeMetricFamily("loadmaster_runs_active", "Training runs that are followed.")
    runs.add_metric([], load.active_runs)
    return [depth, oldest, running, busy, runs]
