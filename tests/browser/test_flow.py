"""What people do in the dashboard, from the form to the plan, with mouse and with keys alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Service
from tests.browser.looking import Look

pytestmark = pytest.mark.browser

SMALL = "Four equal stages, eight micro-batches"
PATIENCE_MS = 60_000
# Proves nothing within its time, so that it is still there to be cancelled.
LONG = {"example": 2, "time_limit_s": 300}


@pytest.fixture(autouse=True)
def patience() -> None:
    expect.set_options(timeout=PATIENCE_MS)


def submit_example(page: Page) -> None:
    page.get_by_role("link", name="New plan").click()
    page.get_by_label("An example").select_option(SMALL)
    submit = page.get_by_role("button", name=re.compile("^(Submit|Plan|Make)", re.IGNORECASE))
    expect(submit).to_be_enabled()
    submit.click()
    expect(page).to_have_url(re.compile("#/jobs/.+"))


def gantt(page: Page, title: str = "") -> Page:
    chart = page.get_by_role("application").first
    expect(chart).to_be_visible()
    chart.locator("canvas").first.wait_for()
    return page


def test_from_the_form_to_the_gantt(look: Look) -> None:
    page = look.go()
    submit_example(page)
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(SMALL))
    expect(page.get_by_role("heading", name="Schedule", exact=True)).to_be_visible()
    gantt(page)
    expect(page.get_by_text("453.000 ms").first).to_be_visible()

    canvas = page.get_by_role("application").locator("canvas").first
    canvas.scroll_into_view_if_needed()
    before = canvas.screenshot()
    page.get_by_role("button", name="Zoom in").first.click()
    page.wait_for_timeout(300)
    assert canvas.screenshot() != before

    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 60)
    page.mouse.move(box["x"] + box["width"] * 0.42, box["y"] + 62)
    expect(page.locator(".gantt-tooltip").first).to_contain_text("ns")

    page.mouse.click(box["x"] + box["width"] * 0.42, box["y"] + 62)
    expect(page.get_by_label(re.compile("^Selected operation")).first).to_contain_text("ns")
    page.get_by_role("checkbox", name="Critical path").check()
    look.picture("pipeline-schedule")


def test_a_classic_schedule_and_the_downloads(look: Look, service: Service, tmp_path: Path) -> None:
    body = service.example("pipeline", 0, time_limit_s=10)
    job_id = service.solved("/v1/pipeline-schedules", body)
    page = look.go(f"/jobs/{job_id}")
    gantt(page)
    choice = page.get_by_role("combobox", name="Show").first
    other = choice.locator("option").filter(has_text="GPipe").first.get_attribute("value")
    choice.select_option(other)
    expect(page.get_by_role("region", name=re.compile("^GPipe")).first).to_be_visible()
    expect(page.get_by_role("application").first).to_be_visible()
    for name, ending, opening in (
        (re.compile("^Result"), ".json", b"{"),
        (re.compile("table"), ".csv", b"op"),
        (re.compile("Perfetto"), ".json", b"{"),
    ):
        with page.expect_download() as started:
            page.get_by_role("button", name=name).first.click()
        saved = tmp_path / f"saved{ending}"
        started.value.save_as(saved)
        assert started.value.suggested_filename.endswith(ending)
        assert opening in saved.read_bytes()[:100]
        if ending == ".json":
            json.loads(saved.read_text(encoding="utf-8"))
    with page.expect_download() as started:
        page.get_by_role("button", name="SVG").first.click()
    saved = tmp_path / "chart.svg"
    started.value.save_as(saved)
    assert "<svg" in saved.read_text(encoding="utf-8")[:500]


def test_progress_and_cancelling(look: Look, service: Service) -> None:
    body = service.example("pipeline", LONG["example"], time_limit_s=LONG["time_limit_s"])
    body["name"] = "to be cancelled"
    job_id = service.ask("POST", "/v1/pipeline-schedules", body, **{"Cache-Control": "no-cache"})[
        "id"
    ]
    try:
        watch_and_cancel(look, job_id)
    finally:
        service.ask("DELETE", f"/v1/jobs/{job_id}")
    assert service.ask("GET", f"/v1/jobs/{job_id}")["state"] == "cancelled"


def watch_and_cancel(look: Look, job_id: str) -> None:
    page = look.go()
    row = page.get_by_role("row").filter(has_text="to be cancelled").first
    expect(row).to_contain_text("running")
    look.picture("jobs")
    look.check_accessibility()

    page.goto(f"{look.address}#/jobs/{job_id}")
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("to be cancelled"))
    expect(page.get_by_text("running").first).to_be_visible()
    # The classic schedules give the first plan within seconds.
    expect(page.locator(".chart canvas").first).to_be_visible()
    expect(page.get_by_text(re.compile(r"\d m?s$")).first).to_be_visible()
    look.picture("job-running")
    look.check_accessibility()

    page.get_by_role("button", name=re.compile("^Cancel")).first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name=re.compile("cancel|stop", re.IGNORECASE)).first.click()
    expect(page.get_by_text("cancelled").first).to_be_visible()
    expect(page.get_by_role("heading", name="Schedule", exact=True)).to_be_visible()


def test_the_language_can_be_switched(look: Look) -> None:
    page = look.go()
    page.get_by_label("Language").select_option("zh")
    expect(page.get_by_role("heading", level=1)).to_have_text("作业")
    assert page.evaluate("document.documentElement.lang") == "zh-Hans"
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("作业")
    look.picture("jobs-zh")


def test_by_keys_alone(look: Look, service: Service) -> None:
    body = service.example("pipeline", 0, time_limit_s=10)
    job_id = service.solved("/v1/pipeline-schedules", {**body, "name": "by keys"})
    page = look.go()
    link = page.get_by_role("link", name="by keys").first
    expect(link).to_be_visible()
    tab_to(page, "by keys")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(job_id))
    chart = page.get_by_role("application").first
    expect(chart).to_be_visible()
    for _ in range(60):
        if chart.evaluate("element => element === document.activeElement"):
            break
        page.keyboard.press("Tab")
    else:
        pytest.fail("the chart cannot be reached with the Tab key")
    page.keyboard.press("ArrowRight")
    selected = page.get_by_label(re.compile("^Selected operation")).first
    expect(selected).to_contain_text("ns")
    before = selected.inner_text()
    page.keyboard.press("ArrowRight")
    expect(selected).not_to_have_text(before)
    page.keyboard.press("+")
    page.keyboard.press("Escape")


def tab_to(page: Page, words: str) -> None:
    for _ in range(80):
        page.keyboard.press("Tab")
        text = page.evaluate("document.activeElement?.textContent ?? ''")
        if words in text and page.evaluate("document.activeElement?.tagName") == "A":
            return
    pytest.fail(f"{words!r} cannot be reached with the Tab key")
