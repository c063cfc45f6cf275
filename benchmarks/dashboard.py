"""How fast the dashboard draws a schedule of 10,000 boxes, in a headless Chromium.

    python -m benchmarks.dashboard

Builds the page of `dashboard/tests/gantt/measure` (`scripts/test --browser` installs what that
needs), measures the time from the data to the first painted frame and the frames per second while
the chart is panned at three zooms, and writes `results/dashboard.md` and `.json`; 1 if a bar is
missed.
"""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import statistics
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.common import FOLDER, parser_for
from benchmarks.environment import environment_now
from benchmarks.recording import Figure, Record, Table, keep, show

DASHBOARD = FOLDER.parent / "dashboard"
NODE_FOLDER = FOLDER.parent / ".venv" / "bin"
DEVICES, MICRO_BATCHES, RUNS = 16, 128, 5
WIDTH, HEIGHT = 1440, 1200
MOST_RENDER_MS, LEAST_FRAMES_PER_S = 1000, 30
VIEWS = {"whole": "1.25 times", "half": "twice", "close": "8 times"}
MISSED = "MISSED"
Run = dict[str, Any]


def main() -> int:
    """Measure, print and keep the figures; 1 if a bar is missed."""
    environment = environment_now()
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        with serving(Path(folder)) as port:
            runs, browser = measure(port)
    chromium = f"Chromium {browser}, headless, without a GPU, {WIDTH} × {HEIGHT}"
    record = record_of(runs, {**environment, "browser": chromium})
    show(record)
    keep("dashboard", record)
    return int(any(MISSED in row[-1] for row in record.tables[0].rows))


def record_of(runs: Sequence[Run], environment: Mapping[str, str]) -> Record:
    """The figures as they are kept."""
    render = Figure(
        "first render, median", _median_render_ms(runs), "ms", "less", noise=0.25, least=50
    )
    pans = [
        Figure(f"pan, zoomed {zoom}", _median_rate(runs, view), "frames/s", "more", noise=0.1)
        for view, zoom in VIEWS.items()
    ]
    return Record(
        title="How fast the dashboard draws",
        command="python -m benchmarks.dashboard",
        note=f"A schedule of {DEVICES} devices × {MICRO_BATCHES} micro-batches with F, B, W, O and "
        f"R of each: {runs[0]['operations']:,} boxes, with memory below. *First render* begins "
        "with the timeline's data and ends when the first frame with it was painted. A pan moves "
        f"by the pointer's steps for two seconds. Medians of {RUNS} pages, each opened anew.",
        tables=[Table("", ("what", "median", "worst", "bar"), list(table(runs)))],
        figures=[render, *pans],
        environment=environment,
    )


def table(runs: Sequence[Run]) -> Iterator[tuple[str, str, str, str]]:
    """The figures with the bars that they are held to."""
    render_ms = _median_render_ms(runs)
    slowest_ms = max(run["firstRenderMs"] for run in runs)
    bar = f"< {MOST_RENDER_MS} ms: {_verdict(render_ms < MOST_RENDER_MS)}"
    yield "first render", f"{render_ms:.0f} ms", f"{slowest_ms:.0f} ms", bar
    for view, zoom in VIEWS.items():
        rate = _median_rate(runs, view)
        worst_rate = min(run[view]["medianFramesPerS"] for run in runs)
        slowest_ms = max(run[view]["worstFrameMs"] for run in runs)
        yield (
            f"pan, zoomed {zoom}",
            f"{rate:.0f} frames/s",
            f"{worst_rate:.0f} frames/s, one frame {slowest_ms:.0f} ms",
            f"≥ {LEAST_FRAMES_PER_S} frames/s: {_verdict(rate >= LEAST_FRAMES_PER_S)}",
        )


def _median_render_ms(runs: Sequence[Run]) -> float:
    return float(statistics.median(run["firstRenderMs"] for run in runs))


def _median_rate(runs: Sequence[Run], view: str) -> float:
    return float(statistics.median(run[view]["medianFramesPerS"] for run in runs))


def _verdict(met: bool) -> str:
    return "met" if met else MISSED


def build(folder: Path) -> None:
    """Build the page that measures itself."""
    npx = NODE_FOLDER / "npx"
    if not npx.exists() or not (DASHBOARD / "node_modules").exists():
        raise SystemExit("Node.js and its packages are missing: run scripts/dashboard check first")
    path = f"{NODE_FOLDER}{os.pathsep}{os.environ['PATH']}"
    options = ["--outDir", str(folder), "--emptyOutDir", "--logLevel", "warn"]
    subprocess.run(
        [str(npx), "vite", "build", "tests/gantt/measure", *options],
        cwd=DASHBOARD,
        check=True,
        env={**os.environ, "PATH": path},
    )


def measure(port: int) -> tuple[list[Run], str]:
    """What the page measures, each time in a page opened anew, and the browser's version."""
    # Only whoever measures has it.
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("no Chromium is installed: apt-get install chromium")
    runs = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        for _ in range(RUNS):
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            page.goto(f"http://127.0.0.1:{port}/index.html?empty")
            page.wait_for_function("window.measureGantt !== undefined")
            runs.append(
                page.evaluate(
                    "([devices, batches]) => window.measureGantt(devices, batches)",
                    [DEVICES, MICRO_BATCHES],
                )
            )
            page.close()
        version = browser.version
        browser.close()
    return runs, version


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves the page without a line for each request."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """The port at which the folder is served."""
    handler = functools.partial(_QuietHandler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()


if __name__ == "__main__":
    parser_for(__doc__).parse_args()
    raise SystemExit(main())
