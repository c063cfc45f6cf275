"""The metrics as Prometheus reads them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.multiprocess import MultiProcessCollector

from app.observability.metrics import REGISTRY
from app.observability.process_files import locked, merge_ended, metrics_folder
from app.observability.rows import RowsCollector

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4
MERGE_EVERY_S = 60.0
# The client library has no types here.
_FolderCollector: Any = MultiProcessCollector


class CountsCollector:
    """What this process counted, and every other that shares its folder of metrics."""

    def __init__(self) -> None:
        self._folder = metrics_folder()
        self._lock = threading.Lock()
        self._merge_at = 0.0

    def collect(self) -> Iterable[Metric]:
        """All counters, histograms and gauges of what is open."""
        folder = self._folder
        if folder is None:
            return REGISTRY.collect()
        if self._merge_is_due():
            merge_ended(folder)
        with locked(folder, exclusive=False):
            return list(_FolderCollector(None, str(folder)).collect())

    def _merge_is_due(self) -> bool:
        with self._lock:
            if time.monotonic() < self._merge_at:
                return False
            self._merge_at = time.monotonic() + MERGE_EVERY_S
            return True


class Exposition:
    """Everything that can be read at one address."""

    def __init__(self, rows: RowsCollector | None = None) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(CountsCollector())
        if rows is not None:
            self.registry.register(rows)

    def render(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self.registry)


def serve_counts(host: str, port: int) -> None:
    """Answer on a port of a process that has no other; for the counts alone, since every API
    process reads the rows."""
    start_http_server(port, addr=host, registry=Exposition().registry)
