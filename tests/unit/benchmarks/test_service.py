"""The service benchmark's own arithmetic, and the process that makes its load."""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks import dashboard, faults
from benchmarks.dashboard import VIEWS
from benchmarks.recording import as_document, as_markdown, worsened
from benchmarks.service.load import Load, measure, summary
from benchmarks.service.report import record_of, with_ratios


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/known" else 404)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"yes")

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_the_load_counts_and_times_every_answer(port: int) -> None:
    for path, status in (("/known", "200"), ("/unknown", "404")):
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        figures = measure(Load(os.getpid(), port, request, concurrency=3, seconds=1))
        assert figures["statuses"] == {status: figures["count"]}
        assert figures["count"] >= 3
        assert figures["cpu_ms"] > 0
        assert 0 < figures["p50_ms"] <= figures["p99_ms"] <= figures["max_ms"]


def test_percentiles() -> None:
    figures = summary([seconds / 1000 for seconds in range(100, 0, -1)])
    assert figures == {"count": 100, "p50_ms": 51, "p95_ms": 96, "p99_ms": 100, "max_ms": 100}


def row(what: str, at_once: int, p50_ms: float, **more: Any) -> dict[str, Any]:
    times = dict.fromkeys(("p95_ms", "p99_ms", "max_ms"), 2 * p50_ms)
    return {
        "database": "SQLite",
        "what": what,
        "server": "keys",
        "at_once": at_once,
        "p50_ms": p50_ms,
        **times,
        **more,
    }


def test_rows_are_compared_with_the_bare_read_and_held_to_the_bars() -> None:
    rows = [
        row("bare read", 1, 2.0, per_s=500),
        row("bare read", 32, 20.0, per_s=1000),
        row("status poll", 1, 3.0, per_s=300),
        row("status poll", 32, 80.0, per_s=599),
        row("submit to solver start", 1, 61.0),
    ]
    found = with_ratios(rows)
    assert [entry["p50_ratio"] for entry in found] == [1, 1, 1.5, 4, 30.5]
    assert found[2]["per_s_ratio"] == 0.6
    missed = [entry["missed"] for entry in found]
    assert missed == [[], [], [], ["≥ 600 per s", "p99 ≤ 150 ms"], ["p50 ≤ 60 ms"]]
    record = record_of(found, "again", {"machine": "this"})
    text = "\n".join(as_markdown(as_document(record), "#"))
    assert "- machine: this" in text
    assert "| status poll | SQLite | keys | 1 | 3.0 |" in text
    assert text.count("MISSED") == 3
    # The bare read is what the others are compared with, and no figure of its own.
    assert [(figure.name, figure.value, figure.better) for figure in record.figures] == [
        ("status poll, SQLite, keys: p50", 3.0, "less"),
        ("status poll, SQLite, keys, 32 at once", 599, "more"),
        ("submit to solver start, SQLite, keys: p50", 61.0, "less"),
    ]


def test_faults_are_listed_with_their_figures() -> None:
    seen = [{"what": "kill -9", "form": "long", "jobs": 5, "killed": {"api": 1, "worker": 2}}]
    record = faults.record_of(seen, False, {})
    assert record.tables[0].rows == [("kill -9", "jobs 5, killed api 1 worker 2")]
    assert "NOT ALL" in record.note
    after = faults.record_of(seen, True, {})
    assert "NOT ALL" not in after.note
    before = as_document(after)["figures"]
    assert list(worsened(before, record.figures)) == ["runs in which something failed: was 0, is 1"]


def test_the_dashboard_is_held_to_its_bars() -> None:
    def run(render_ms: float, rate: float) -> dict[str, Any]:
        view = {"medianFramesPerS": rate, "worstFrameMs": 2000 / rate}
        return {"operations": 10_240, "firstRenderMs": render_ms, **dict.fromkeys(VIEWS, view)}

    record = dashboard.record_of([run(200, 60), run(999, 50), run(1200, 20)], {"browser": "one"})
    first, *pans = record.tables[0].rows
    assert first == ("first render", "999 ms", "1200 ms", "< 1000 ms: met")
    assert pans[2] == (
        "pan, zoomed 8 times",
        "50 frames/s",
        "20 frames/s, one frame 100 ms",
        "≥ 30 frames/s: met",
    )
    missed = dashboard.record_of([run(1001, 29)], {})
    assert [row[-1].endswith("MISSED") for row in missed.tables[0].rows] == [True] * 4
    assert [figure.value for figure in missed.figures] == [1001, 29, 29, 29]
