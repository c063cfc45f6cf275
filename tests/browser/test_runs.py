"""A training run in the dashboard: from its list to its page, its diagnosis and its end."""

from __future__ import annotations

import time
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Service
from tests.browser.looking import Look

pytestmark = pytest.mark.browser
ITERATIONS, WARM_UP = 30, 3
STAGE_NS, SLOW_NS = 10_000_000, 22_000_000


def stage(index: int) -> dict[str, int]:
    """What a rank reports: the third one is slow."""
    time_ns = SLOW_NS if index == 2 else STAGE_NS
    names = ("forward_ns", "backward_input_ns", "backward_weight_ns")
    return {"stage": index, **dict.fromkeys(names, time_ns)}


@pytest.fixture(scope="module")
def run_id(service: Service) -> str:
    """A run whose first plan is there, with telemetry of a straggler."""
    body: dict[str, Any] = service.example("pipeline", 0, time_limit_s=20)
    body = {"problem": body["problem"], "solver": body["solver"], "name": "A slow stage"}
    run: dict[str, Any] = service.ask(
        "POST", "/v1/runs", {**body, "follow": {"warm_up": WARM_UP, "solve_time_limit_s": 20}}
    )
    address = f"/v1/runs/{run['id']}"
    iterations = [
        {"iteration": i, "stages": [stage(s) for s in range(4)]} for i in range(ITERATIONS)
    ]
    service.ask("POST", f"{address}/telemetry", {"iterations": iterations})
    ends = time.monotonic() + 120
    while not (view := service.ask("GET", address))["versions"] or not view["stages"]:
        assert time.monotonic() < ends, view
        time.sleep(0.5)
    identity: str = run["id"]
    return identity


def test_a_run_is_found_looked_at_diagnosed_and_stopped(look: Look, run_id: str) -> None:
    expect.set_options(timeout=60_000)
    page = look.go("/runs")
    page.get_by_role("link", name="A slow stage").click()
    expect(page.get_by_role("heading", name="Versions")).to_be_visible()
    expect(page.get_by_text("22.0000").first).to_be_visible()
    expect(page.get_by_role("heading", name="The running plan")).to_be_visible()
    page.get_by_role("button", name="Diagnose now").press("Enter")
    expect(page.get_by_role("heading", name="A slow GPU")).to_be_visible()
    look.picture("run")
    look.check_accessibility()
    page.get_by_role("button", name="Stop the run").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Stop the run").press("Enter")
    expect(page.get_by_text("stopped").first).to_be_visible()


def test_symptoms_are_diagnosed_without_a_run(look: Look) -> None:
    expect.set_options(timeout=60_000)
    look.page.set_viewport_size({"width": 720, "height": 450})
    look.page.emulate_media(color_scheme="dark")
    page = look.go("/diagnose")
    page.get_by_label("NaN loss").press("Space")
    page.get_by_role("button", name="Diagnose", exact=True).press("Enter")
    expect(page.get_by_role("heading", name="Overflow of fp16")).to_be_visible()
    look.check_accessibility()
    assert page.evaluate("document.documentElement.scrollWidth") <= 720
