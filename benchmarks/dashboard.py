"""How fast the dashboard draws a schedule of 10,000 boxes, in a headless Chromium.

    python -m benchmarks.dashboard

Builds the page of `dashboard/tests/gantt/measure` (`scripts/test --browser` installs what that
needs), measures the time from the data to the first painted frame and the frames per second while
the chart is panned at three zooms, and writes `results/dashboard.md`.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.common import FOLDER, parser_for
from benchmarks.environment import environment_lines, environment_now

DASHBOARD = FOLDER.parent / "dashboard"
NODE_FOLDER = FOLDER.parent / ".venv" / "bin"
DEVICES, MICRO_BATCHES, RUNS = 16, 128, 5
MOST_RENDER_MS, LEAST_FRAMES_PER_S = 1000, 30
VIEWS = {"whole": "1.25 times", "half": "twice", "close": "8 times"}
Run = dict[str, Any]


def main() -> None:
    """Measure, print and keep the figures."""
    environment = environment_now()
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        with serving(Path(folder)) as port:
            runs, browser = measure(port)
    lines = [
        "# How fast the dashboard draws",
        "",
        *environment_lines(environment),
        f"- browser: Chromium {browser}, headless, without a GPU, 1440 × 1200",
        "",
        *table(runs),
        "",
        f"A schedule of {DEVICES} devices × {MICRO_BATCHES} micro-batches with F, B, W, O and R of "
        f"each: {runs[0]['operations']:,} boxes, with memory below. *First render* begins with the "
        "timeline's data and ends when the first frame with it was painted. A pan moves by the "
        f"pointer's steps for two seconds. Medians of {RUNS} pages, each opened anew.",
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    (FOLDER / "results" / "dashboard.md").write_text(text, encoding="utf-8")


def table(runs: Sequence[Run]) -> list[str]:
    """The figures with the bars that they are held to."""
    renders = [run["firstRenderMs"] for run in runs]
    render_ms = statistics.median(renders)
    rows = [
        "| what | median | worst | bar |",
        "| --- | --- | --- | --- |",
        f"| first render | {render_ms:.0f} ms | {max(renders):.0f} ms | "
        f"< {MOST_RENDER_MS} ms: {_verdict(render_ms < MOST_RENDER_MS)} |",
    ]
    for view, zoom in VIEWS.items():
        rates = [run[view]["medianFramesPerS"] for run in runs]
        rate = statistics.median(rates)
        slowest_ms = max(run[view]["worstFrameMs"] for run in runs)
        rows.append(
            f"| pan, zoomed {zoom} | {rate:.0f} frames/s | {min(rates):.0f} frames/s, one frame "
            f"{slowest_ms:.0f} ms | ≥ {LEAST_FRAMES_PER_S} frames/s: "
            f"{_verdict(rate >= LEAST_FRAMES_PER_S)} |"
        )
    return rows


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
            page = browser.new_page(viewport={"width": 1440, "height": 1200})
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


def _verdict(met: bool) -> str:
    return "met" if met else "MISSED"


if __name__ == "__main__":
    parser_for(__doc__).parse_args()
    main()
