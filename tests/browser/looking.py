"""A page under test: what it asks for and complains about, its pictures, its accessibility."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Page, Request

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
SERIOUS = ("serious", "critical")
LOCAL_SCHEMES = ("blob", "data", "file")


class Look:
    """One visitor's page."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.faults: list[str] = []
        self._host = urlsplit(address).netloc
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.faults.append(f"uncaught: {error}"))
        page.on("request", self._on_request)

    def go(self, route: str = "") -> Page:
        """Open a page of the dashboard (`/jobs/…`)."""
        self.page.goto(f"{self.address}#{route}")
        return self.page

    def picture(self, name: str) -> None:
        """Keep what the page looks like as part of the tests' output."""
        folder = Path(os.environ.get("SCREENSHOTS") or ROOT / "build" / "screenshots")
        folder.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=folder / f"{name}.png", full_page=True)

    def check_accessibility(self) -> None:
        """Fail on what axe finds serious."""
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found: dict[str, Any] = self.page.evaluate("axe.run({resultTypes: ['violations']})")
        serious = [one for one in found["violations"] if one["impact"] in SERIOUS]
        told = [
            (one["id"], one["help"], [node["html"][:200] for node in one["nodes"][:3]])
            for one in serious
        ]
        assert not told, json.dumps(told, indent=1)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"console {message.type}: {message.text}")

    def _on_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in LOCAL_SCHEMES and parts.netloc != self._host:
            self.faults.append(f"request to another host: {request.url}")
