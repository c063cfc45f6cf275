"""`loadmaster report` writes one file that shows the plan without service or network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import Service
from tests.browser.looking import Look

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
NAME = "</script><script>window.taken=1</script><img src=x onerror=window.taken=1>"


@pytest.fixture
def opened(service: Service, browser: Browser, tmp_path: Path) -> Look:
    body = service.example("pipeline", 0, time_limit_s=10)
    job_id = service.solved("/v1/pipeline-schedules", {**body, "name": NAME})
    written = tmp_path / "report.html"
    command = [sys.executable, "-m", "client", "report", job_id, "-o", str(written)]
    subprocess.run([*command, "--server", service.url], check=True, capture_output=True, timeout=60)
    context = browser.new_context(offline=True)
    look = Look(context.new_page(), written.as_uri())
    look.go()
    return look


def test_shows_the_plan_by_itself(opened: Look) -> None:
    page = opened.page
    page.get_by_role("heading", level=1).wait_for()
    assert page.get_by_role("heading", level=1).inner_text() == NAME
    page.locator(".chart canvas").first.wait_for()
    opened.picture("report")
    opened.check_accessibility()
    assert page.evaluate("window.taken") is None
    assert opened.faults == []
