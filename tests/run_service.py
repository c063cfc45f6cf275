"""A service that follows one run by a script: without solving, over HTTP or without a network."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from client.library.versions import VERSION_HEADER
from planner.version import __version__

RUN_ID = "run-1"
PREFIX = f"/v1/runs/{RUN_ID}"
Answer = tuple[int, dict[str, Any], dict[str, str]]


class ScriptedRuns:
    """Tests publish plans; ranks acknowledge, and a plan applies `swap_lead` iterations later.

    `fault` is a status to answer everything with, or an exception to raise, and `delay_s` how long
    every answer takes.
    """

    def __init__(self, *, ranks: int = 1, swap_lead: int = 3) -> None:
        self.ranks, self.swap_lead = ranks, swap_lead
        self.fault: int | Exception | None = None
        self.delay_s = 0.0
        self.lock = threading.RLock()
        self.plans: dict[int, dict[str, Any]] = {}
        self.acknowledged: dict[int, dict[int, int]] = {}
        self.samples: list[dict[str, Any]] = []
        self.requests: list[tuple[str, str, Any]] = []
        self.created: list[dict[str, Any]] = []
        self.is_stopped = False

    @property
    def newest_iteration(self) -> int:
        return max((sample["iteration"] for sample in self.samples), default=0)

    @property
    def running_version(self) -> int | None:
        newest = self.newest_iteration
        due = [
            version
            for version, plan in self.plans.items()
            if plan["apply_at_iteration"] is not None and plan["apply_at_iteration"] <= newest
        ]
        return max(due, default=None)

    def publish(self, apply_at: int | None = None, **fields: Any) -> int:
        """A new version, by default one that waits for acknowledgements."""
        with self.lock:
            version = len(self.plans) + 1
            self.plans[version] = {
                "version": version,
                "apply_at_iteration": apply_at,
                "needs_restart": False,
                "problem": {},
                "schedule": {"ops": []},
                "reason": "interval",
                **fields,
            }
            return version

    def answer(self, method: str, path: str, headers: Any, body: Any) -> Answer:
        """What the service says."""
        time.sleep(self.delay_s)
        with self.lock:
            self.requests.append((method, path, body))
            if isinstance(self.fault, Exception):
                raise self.fault
            if self.fault is not None:
                return _refusal(self.fault, "by the script")
            if self.is_stopped:
                return _refusal(409, "the run is stopped")
            return self._answer(method, path, headers, body)

    def _answer(self, method: str, path: str, headers: Any, body: Any) -> Answer:
        if (method, path) == ("POST", "/v1/runs"):
            self.created.append(body)
            return 201, {"id": RUN_ID, "state": "active"}, {}
        if (method, path) == ("POST", f"{PREFIX}/telemetry"):
            return self._telemetry(body)
        if (method, path) == ("GET", f"{PREFIX}/plan"):
            return self._newest(headers)
        number = path.removeprefix(f"{PREFIX}/plan/").removesuffix("/ack")
        version = int(number) if number.isdecimal() else None
        if version not in self.plans:
            return _refusal(404, "there is no such run or plan")
        if method == "POST":
            return self._acknowledge(version, body)
        return 200, self.plans[version] | self._news(version), {}

    def _telemetry(self, body: Any) -> Answer:
        for sample in body["iterations"]:
            for stage in sample["stages"]:
                times = [v for k, v in stage.items() if k.endswith("_ns")]
                if any(isinstance(own, int | float) and own < 0 for own in times):
                    return _refusal(422, "cannot be negative")
        self.samples += body["iterations"]
        return 200, {"plan": self._news(max(self.plans, default=None))}, {}

    def _news(self, version: int | None) -> dict[str, Any]:
        if version is None:
            return {"version": None, "state": None, "apply_at_iteration": None}
        apply_at = self.plans[version]["apply_at_iteration"]
        return {
            "version": version,
            "state": "published" if apply_at is None else "scheduled",
            "apply_at_iteration": apply_at,
            "running_version": self.running_version,
        }

    def _newest(self, headers: Any) -> Answer:
        if not self.plans:
            return 202, {"state": "active"}, {"Retry-After": "1"}
        content = self._news(max(self.plans))
        etag = f'"{hash(json.dumps(content, default=str))}"'
        if headers.get("if-none-match") == etag:
            return 304, {}, {"ETag": etag}
        return 200, content, {"ETag": etag}

    def _acknowledge(self, version: int, body: Any) -> Answer:
        if body["rank"] >= self.ranks:
            return _refusal(422, "there is no such rank")
        own = self.acknowledged.setdefault(version, {})
        own.setdefault(body["rank"], body["iteration"])
        plan = self.plans[version]
        if len(own) == self.ranks and plan["apply_at_iteration"] is None:
            newest = max(self.newest_iteration, *own.values())
            plan["apply_at_iteration"] = newest + self.swap_lead
        return 200, self._news(version) | {"acknowledged": len(own), "of": self.ranks}, {}

    @property
    def transport(self) -> httpx.MockTransport:
        """To reach it without a network."""

        def handle(request: httpx.Request) -> httpx.Response:
            body = json.loads(request.content) if request.content else None
            status, content, more = self.answer(
                request.method, request.url.path, request.headers, body
            )
            headers = {VERSION_HEADER: __version__, **more}
            return httpx.Response(status, headers=headers, json=None if status == 304 else content)

        return httpx.MockTransport(handle)

    @contextmanager
    def served(self, port: int = 0) -> Iterator[str]:
        """Its address on the loopback network, until the end of the block."""
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                """Not on the terminal."""

            def handle_any(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                headers = {name.lower(): value for name, value in self.headers.items()}
                path = self.path.partition("?")[0]
                status, content, more = script.answer(self.command, path, headers, body)
                text = b"" if status == 304 else json.dumps(content).encode()
                self.send_response(status)
                own = {"Content-Type": "application/json", "Content-Length": str(len(text))}
                for name, value in {VERSION_HEADER: __version__, **own, **more}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

        for method in ("GET", "POST", "PATCH", "DELETE"):
            setattr(Handler, f"do_{method}", Handler.handle_any)
        with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
            server.daemon_threads = True
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_address[1]}"
            finally:
                server.shutdown()
                thread.join()


def _refusal(status: int, detail: str) -> Answer:
    content = {"title": "Refused", "status": status, "detail": detail, "code": "x", "errors": []}
    return status, content, {}
