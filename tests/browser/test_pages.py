"""Every page in both schemes: a clean console, nothing that axe finds serious, a picture."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Service
from tests.browser.looking import Look

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=window.taken=1>" + "long " * 30


@pytest.fixture(scope="session")
def jobs(service: Service) -> Mapping[str, str]:
    """A job that is over of each kind, and one for which nothing fits."""
    problem = service.example("pipeline", 0, time_limit_s=10)
    tight = {**problem["problem"], "devices": [{"activation_memory_bytes": 1}] * 4}
    training = service.example("training", 2, time_limit_s=5)
    return {
        "pipeline": service.solved("/v1/pipeline-schedules", problem),
        "other": service.solved(
            "/v1/pipeline-schedules",
            {**problem, "problem": {**problem["problem"], "micro_batches": 6}},
        ),
        "sharding": service.solved("/v1/sharding-plans", service.example("sharding", 0)),
        "training": service.solved("/v1/training-plans", training),
        "infeasible": service.solved("/v1/pipeline-schedules", {"problem": tight, "name": HOSTILE}),
    }


def addresses(jobs: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Of each page its route and words that are there once it is whole."""
    return {
        "jobs": ("", "GPT|Four equal|Mixtral"),
        "new": ("/new", "Start from"),
        "pipeline": (f"/jobs/{jobs['pipeline']}", "Why it is no better"),
        "sharding": (f"/jobs/{jobs['sharding']}", "Operators|operator"),
        "training": (f"/jobs/{jobs['training']}", "[Dd]ropped"),
        "infeasible": (f"/jobs/{jobs['infeasible']}", "[Ii]nfeasible"),
        "compare": (f"/compare?a={jobs['pipeline']}&b={jobs['other']}", "shorter than"),
        "missing": ("/nothing", "no such page"),
    }


@pytest.mark.parametrize(
    "name",
    ["jobs", "new", "pipeline", "sharding", "training", "infeasible", "compare", "missing"],
)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page(look: Look, jobs: Mapping[str, str], name: str, scheme: str) -> None:
    expect.set_options(timeout=60_000)
    route, words = addresses(jobs)[name]
    look.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page = look.go(route)
    expect(page.get_by_text(re.compile(words)).first).to_be_visible()
    page.wait_for_load_state("networkidle") if name != "jobs" else page.wait_for_timeout(500)
    look.picture(f"{name}-{scheme}")
    look.check_accessibility()
    assert page.evaluate("window.taken") is None


@pytest.mark.parametrize("name", ["jobs", "new", "pipeline", "sharding", "training", "compare"])
@pytest.mark.parametrize("width", [1440, 720])  # The second is what the first shows at 200 %.
def test_the_page_is_no_wider_than_its_window(
    look: Look, jobs: Mapping[str, str], name: str, width: int
) -> None:
    expect.set_options(timeout=60_000)
    look.page.set_viewport_size({"width": width, "height": width * 5 // 8})
    route, words = addresses(jobs)[name]
    page = look.go(route)
    expect(page.get_by_text(re.compile(words)).first).to_be_visible()
    page.wait_for_timeout(500)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_contents_of_a_long_page_are_reached_by_keys(
    look: Look, jobs: Mapping[str, str]
) -> None:
    expect.set_options(timeout=60_000)
    page = look.go(f"/jobs/{jobs['training']}")
    contents = page.get_by_role("navigation", name="On this page").first
    contents.get_by_role("button", name="What was dropped, and why").press("Enter")
    heading = page.get_by_role("heading", name="What was dropped, and why")
    expect(heading).to_be_focused()
    expect(heading).to_be_in_viewport()
