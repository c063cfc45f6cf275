"""A service with the dashboard as it is committed, and Debian's Chromium to look at it with."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.looking import Look

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# `scripts/test --browser` installs it, and says that these tests are left out otherwise.
collect_ignore_glob = ["test_*.py"] if importlib.util.find_spec("playwright") is None else []

START_TIMEOUT_S = 90
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Service:
    """A service that runs, and a way to ask it without a browser."""

    url: str
    environment: dict[str, str]

    @property
    def dashboard(self) -> str:
        """Where people look."""
        return f"{self.url}/dashboard/"

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The JSON of an answer."""
        data = None if body is None else json.dumps(body).encode()
        own = {"Content-Type": "application/json", **headers}
        request = urllib.request.Request(f"{self.url}{path}", data, own, method=method)
        with urllib.request.urlopen(request, timeout=90) as answer:
            return json.load(answer)

    def example(self, kind: str, index: int, **solver: Any) -> dict[str, Any]:
        """A shipped body with other options for the solver."""
        body: dict[str, Any] = self.ask("GET", f"/v1/examples?kind={kind}")[index]
        body["solver"] = {**body.get("solver", {}), **solver}
        return body

    def solved(self, path: str, body: Any) -> str:
        """The id of a job that is over by now."""
        answer = self.ask("POST", path, body, Prefer="wait=60")
        job_id: str = answer["id"]
        while not self.ask("GET", f"/v1/jobs/{job_id}", Prefer="wait=30")["finished_at"]:
            pass
        return job_id


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The embedded default on a free port."""
    folder = tmp_path_factory.mktemp("service")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("LOADMASTER_")
    }
    environment["LOADMASTER_DATA_DIR"] = str(folder / "data")
    command = [str(Path(sys.executable).with_name("loadmaster")), "serve", "--port", "0"]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, cwd=folder
        )
        try:
            yield Service(_address(process, log), environment)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    ends = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < ends and process.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())
        if found:
            try:
                urllib.request.urlopen(f"{found[0]}/readyz", timeout=5)
            except OSError:
                pass
            else:
                return found[0]
        time.sleep(0.2)
    raise AssertionError(f"the service did not start: {log.read_text()}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, headless. It ends with the file: while it is open an event loop runs in
    this thread, and no other test could start one."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if path is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    with sync_playwright() as playwright:
        # Root, as in a container, cannot use Chromium's own sandbox.
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def look(browser: Browser, service: Service) -> Iterator[Look]:
    """A page of a new visitor; the test fails on an error in its console or a foreign request."""
    context = browser.new_context(
        viewport={"width": 1440, "height": 900}, locale="en-GB", accept_downloads=True
    )
    seen = Look(context.new_page(), service.dashboard)
    yield seen
    context.close()
    assert seen.faults == []
